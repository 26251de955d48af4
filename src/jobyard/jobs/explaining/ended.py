"""How a job ended, and what it was that failed first. Called by `why`."""

from __future__ import annotations

from collections.abc import Sequence

from jobyard.jobs.explaining.answer import Verdict, counted, sentences
from jobyard.jobs.explaining.moments import day_text, span
from jobyard.jobs.explaining.reading import Holds, count, part, seconds, text
from jobyard.jobs.explaining.reasons import Reason
from jobyard.jobs.explaining.replicas import end_text
from jobyard.jobs.explaining.seen import Failure, Replica, Seen


def ended(seen: Seen, replicas: Sequence[Replica]) -> Verdict | None:
    """For a job that is over."""
    if seen.phase == "Succeeded":
        return Verdict(Reason.SUCCEEDED, sentences(f"it has succeeded{_when(seen)}"))
    if seen.phase != "Failed":
        return None
    rule = _message(seen)
    first = first_failure(seen, replicas)
    if first is None:
        return Verdict(Reason.FAILED, sentences(f"it has failed{_when(seen)}", rule))
    name, words = first
    return Verdict(Reason.FAILED, sentences(f"it has failed{_when(seen)}", rule, words), (name,))


def first_failure(seen: Seen, replicas: Sequence[Replica]) -> tuple[str, str] | None:
    """The replica that failed first and how; what the status itself names wins."""
    told = part(seen.job, "status", "failure")
    if text(told, "replica"):
        return _told(told)
    failed = [
        (each.name, each.failure)
        for each in replicas
        if each.failure is not None and each.phase in ("Failed", "Deleted")
    ]
    if not failed:
        return None
    name, failure = min(failed, key=_order)
    others = len(failed) - 1
    followed = f"; {counted(others, 'other')} failed too" if others else ""
    return name, f"{name} failed first: {end_text(failure)}{followed}" if others else (
        f"{name} failed: {end_text(failure)}"
    )


def _told(failure: object) -> tuple[str, str]:
    name = text(failure, "replica")
    code = count(failure, "exitCode")
    word = text(failure, "class") or "Error"
    ended_with = f" (exit code {code})" if code is not None else ""
    said = f": {text(failure, 'message')}" if text(failure, "message") else ""
    others = count(failure, "followers") or 0
    followed = f"; {counted(others, 'other')} followed" if others else ""
    return name, f"{name} failed first: {word}{ended_with}{said}{followed}"


def _order(pair: tuple[str, Failure]) -> tuple[bool, float]:
    failure = pair[1]
    return bool(failure.follows), seconds(failure.time) or 0.0


def _message(seen: Seen) -> str:
    """The rule that decided, in the controller's words."""
    if seen.is_taskset:
        return text(seen.job, "status", "stateMessage")
    for type_ in ("Failed", "JobRunning", "ClusterRunning", "Completed"):
        holds = seen.conditions.get(type_, Holds())
        if holds.message and (holds.is_true or holds.reason == "Failed" or type_ != "Failed"):
            return holds.message
    return ""


def _when(seen: Seen) -> str:
    names = ("startAt", "finishAt") if seen.is_taskset else ("startTime", "completionTime")
    begun, done = (text(seen.job, "status", name) for name in names)
    start, end = seconds(begun), seconds(done)
    if end is None:
        return ""
    length = f", after {span(end - start)}" if start is not None else ", and never ran"
    return f" at {day_text(done)}{length}"
