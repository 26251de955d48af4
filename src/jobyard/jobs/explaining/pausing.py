"""Whether a job is paused, and by whom. Called by `why`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jobyard.api.parts.run_mode import is_on
from jobyard.jobs.explaining.answer import Verdict, counted, sentences
from jobyard.jobs.explaining.moments import day_text, span
from jobyard.jobs.explaining.reading import Holds, count, part, parts, seconds, text
from jobyard.jobs.explaining.reasons import Reason
from jobyard.jobs.explaining.seen import Replica, Seen, latest

MAX_DURATION: Final = "MaxDurationExceeded"
_RESUMED: Final = "Resuming"


def paused(seen: Seen, replicas: Sequence[Replica]) -> Verdict | None:
    wanted = is_to_pause(seen)
    is_paused = seen.phase == "Paused"
    if not wanted and not is_paused:
        return None
    left = [each for each in replicas if each.pod is not None]
    if not wanted:
        words = f"it resumes, once {counted(len(left), 'pod')} of before the pause are gone"
        return Verdict(Reason.STOPPING, sentences(words))
    who = _by_whom(seen)
    if not is_paused:
        words = f"it is to pause, and {counted(len(left), 'pod')} still end"
        return Verdict(Reason.PAUSING, sentences(words, who))
    since = seen.conditions.get("Paused", Holds()).since
    moment = seconds(since)
    how_long = f", for {span(seen.now - moment)}" if moment is not None else ""
    return Verdict(Reason.PAUSED, sentences(f"it is paused{how_long}", who))


def is_to_pause(seen: Seen) -> bool:
    return is_on(part(seen.job, "spec", "runMode", "pause") or None)


def _by_whom(seen: Seen) -> str:
    """A queue's `maxDuration`, or whoever wrote the field last."""
    told = latest(seen.events, MAX_DURATION, _RESUMED)
    if told is not None and told.reason == MAX_DURATION:
        return f"its queue's maxDuration has done so: {told.message}"
    for entry in sorted(
        parts(seen.job, "metadata", "managedFields"),
        key=lambda each: text(each, "time"),
        reverse=True,
    ):
        switch = part(entry, "fieldsV1", "f:spec", "f:runMode", "f:pause")
        if _has_switch(switch):
            created = text(seen.job, "metadata", "creationTimestamp")
            when = text(entry, "time")
            # Moments are whole seconds; a spec that was changed has another generation.
            if when == created and count(seen.job, "metadata", "generation") == 1:
                return f'it was created so, by "{text(entry, "manager")}"'
            return f'that was asked for by "{text(entry, "manager")}" at {day_text(when)}'
    return ""


def _has_switch(switch: Mapping[str, Any]) -> bool:
    return "f:enabled" in switch or "f:enable" in switch
