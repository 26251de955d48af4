"""Why a job isn't running, or isn't finished: one cause, in a sentence with numbers.

A pure function from observed objects to an answer. `why` is the table of contents: the first
verdict that holds is the answer, and what the replicas say is added to all of them. Refuses to know
how objects were got, and how an answer is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobyard.api.parts.run_mode import is_on
from jobyard.jobs.explaining.answer import Answer, Together, Verdict, counted, idle, sentences
from jobyard.jobs.explaining.ended import ended
from jobyard.jobs.explaining.moments import day_text, span
from jobyard.jobs.explaining.pausing import is_to_pause, paused
from jobyard.jobs.explaining.reading import Holds, count, part, seconds, text
from jobyard.jobs.explaining.reasons import OF_GANGS, Reason, urgency
from jobyard.jobs.explaining.remedies import remedies
from jobyard.jobs.explaining.replicas import Why, why_of
from jobyard.jobs.explaining.seen import Event, Replica, Seen, replicas_of
from jobyard.jobs.explaining.waiting import gang_verdict, group_reason
from jobyard.jobs.view import OVER

# A controller that hasn't written a status after so long isn't there.
UNTOUCHED_SECONDS: Final = 5
EVENTS_MAX: Final = 6
_EXPLAINED: Final = {
    Reason.IMAGE_UNAVAILABLE: "an image can't be had",
    Reason.VOLUME_MISSING: "a volume can't be had",
    Reason.CONTAINER_CONFIG: "a container can't be started",
    Reason.NODE_UNREACHABLE: "it isn't known how it is",
    Reason.NAMESPACE_QUOTA: "the namespace's quota is used up",
    Reason.NAME_TAKEN: "a name is taken by an object that isn't the job's",
    Reason.INVALID_TEMPLATE: "the API server refuses the pod",
    Reason.SCHEDULING_GATED: "scheduling gates hold the pod back",
    Reason.UNSCHEDULABLE: "the scheduler finds no node for it",
    Reason.NODE_SELECTOR_MISMATCH: "no node is one that it wants",
    Reason.NEVER_FITS: "it will never fit as it is",
    Reason.WAITING_FOR_ROOM: "it waits for room",
    Reason.WAITING_FOR_PREEMPTION: "it waits until those that make room have ended",
    Reason.QUOTA_EXCEEDED: "it waits for a part of its queue's quota",
}
_INITIALIZED: Final = {
    "BadVariable": (Reason.BAD_VARIABLE, "a variable can't be replaced"),
    "NameTaken": (Reason.NAME_TAKEN, "a name is taken by an object that isn't the job's"),
    "InvalidTemplate": (Reason.INVALID_TEMPLATE, "the API server refuses what the job is made of"),
    "QuotaExceeded": (Reason.NAMESPACE_QUOTA, "the namespace's quota is used up"),
    "NotUnderstood": (Reason.NOT_UNDERSTOOD, "the controller can't make sense of it"),
}
# Nobody has said more of a pod than that it has no node; its group may know why.
_UNPLACED: Final = (Reason.UNSCHEDULABLE, Reason.NO_SCHEDULER, Reason.STARTING, Reason.PREPARING)
_Pairs = Sequence[tuple[Replica, Why]]


def why(seen: Seen) -> Answer:
    """The answer for a job in any state."""
    replicas = replicas_of(seen)
    pairs = [(replica, _why(seen, replica)) for replica in replicas]
    verdict = (
        _deleting(seen)
        or _untouched(seen)
        or ended(seen, replicas)
        or _hindered(seen)
        or paused(seen, replicas)
        or _stuck(seen, pairs)
        or _stalled(seen)
        or _at_work(seen, pairs)
    )
    return Answer(
        kind=seen.kind,
        namespace=seen.namespace,
        name=seen.name,
        phase=seen.phase,
        reason=verdict.reason,
        cause=verdict.cause,
        queue=seen.queue_name,
        remedies=remedies(seen, verdict),
        replicas=_together(pairs),
        events=_relevant(seen.events),
    )


def _why(seen: Seen, replica: Replica) -> Why:
    """Nothing keeps a replica from running that isn't wanted any more, or not now."""
    is_wanted = seen.phase not in OVER and not is_to_pause(seen)
    found = why_of(seen, replica)
    is_end = found.reason in (Reason.REPLICA_FAILED, Reason.STOPPING)
    return found if is_wanted or is_end else Why()


def _deleting(seen: Seen) -> Verdict | None:
    since = text(seen.job, "metadata", "deletionTimestamp")
    if not since:
        return None
    left = f"{counted(len(seen.pods), 'pod')} of it left" if seen.pods else "no pod of it left"
    held = part(seen.job, "metadata").get("finalizers") or ()
    keep = (
        f"it stays until {', '.join(map(str, held))} is taken from its finalizers" if held else ""
    )
    return Verdict(
        Reason.DELETING, sentences(f"it is being deleted since {day_text(since)}, {left}", keep)
    )


def _untouched(seen: Seen) -> Verdict | None:
    if part(seen.job, "status"):
        return None
    created = seconds(text(seen.job, "metadata", "creationTimestamp"))
    age = seen.now - created if created is not None else 0.0
    if age < UNTOUCHED_SECONDS:
        return Verdict(
            Reason.PREPARING,
            sentences(f"it was created {span(age)} ago, and has no status yet"),
        )
    words = f"no controller has taken it up: it has no status {span(age)} after it was created"
    return Verdict(Reason.NO_CONTROLLER, sentences(words))


def _hindered(seen: Seen) -> Verdict | None:
    """What the controller says that keeps the whole job from its pods."""
    if seen.is_taskset:
        said = text(seen.job, "status", "phaseMessage")
        if said.startswith("Nothing can be decided about this job"):
            return Verdict(Reason.NOT_UNDERSTOOD, sentences(said))
        return None
    told = seen.conditions
    holds = told.get("Initialized", Holds())
    if holds.status == "False" and holds.reason in _INITIALIZED:
        reason, words = _INITIALIZED[holds.reason]
        return Verdict(reason, sentences(f"it has no pods, since {words}: {holds.message}"))
    for type_ in ("Running", "ClusterRunning"):
        holds = told.get(type_, Holds())
        if holds.reason == "NotUnderstood":
            return Verdict(Reason.NOT_UNDERSTOOD, sentences(holds.message))
    return None


def _stuck(seen: Seen, pairs: _Pairs) -> Verdict | None:
    """The most pressing of what keeps replicas from running."""
    hindered = [(replica, found) for replica, found in pairs if found.reason is not None]
    if not hindered:
        return _pods_refused(seen)
    first = min(hindered, key=lambda pair: urgency(pair[1].reason or Reason.RUNNING))[1]
    assert first.reason is not None
    alike = [replica.name for replica, found in hindered if found.reason is first.reason]
    running = sum(replica.phase == "Running" and found.reason is None for replica, found in pairs)
    who = idle(alike, len(pairs), running)
    is_told = first.reason in OF_GANGS and (seen.group is not None or seen.queue_name)
    if is_told or (first.reason in _UNPLACED and group_reason(seen) is not None):
        return gang_verdict(seen, first, who if running else "", tuple(alike))
    explained = _EXPLAINED.get(first.reason, "")
    words = ": ".join(filter(None, (who, explained, first.message)))
    return Verdict(first.reason, sentences(words, _numbers_of_restarts(seen, first)), tuple(alike))


def _numbers_of_restarts(seen: Seen, found: Why) -> str:
    if found.reason not in (Reason.RESTART_DELAY, Reason.REPLICA_FAILED):
        return ""
    used = count(seen.job, "status", "restarts")
    limit = count(seen.job, "spec", "runPolicy", "backoffLimit")
    if used is None or limit is None:
        return ""
    return f"{used} of {counted(limit, 'restart')} are used up"


def _pods_refused(seen: Seen) -> Verdict | None:
    """Objects that can't be made while there is no row that would say so."""
    holds = seen.conditions.get("Running", Holds())
    if holds.reason in _INITIALIZED and not holds.is_true:
        reason, words = _INITIALIZED[holds.reason]
        return Verdict(
            reason, sentences(f"not all of it can be made, since {words}: {holds.message}")
        )
    return None


def _stalled(seen: Seen) -> Verdict | None:
    holds = seen.conditions.get("Stalled", Holds())
    if not holds.is_true:
        return None
    return Verdict(Reason.STALLED, sentences(f"it runs, and makes no progress: {holds.message}"))


def _at_work(seen: Seen, pairs: _Pairs) -> Verdict:
    """Nothing is wrong: what it does."""
    running = [replica for replica, _ in pairs if replica.phase == "Running"]
    done = sum(replica.phase == "Succeeded" for replica, _ in pairs)
    if not running and not done:
        return _preparing(seen)
    also = f", {done} have ended well" if done > 1 else ", 1 has ended well" if done else ""
    started = seconds(text(seen.job, "status", "startAt" if seen.is_taskset else "startTime"))
    how_long = f", for {span(seen.now - started)}" if started is not None else ""
    if len(running) == len(pairs):
        who = f"{running[0].name} runs" if len(pairs) == 1 else f"all {len(pairs)} replicas run"
    else:
        who = f"{len(running)} of {counted(len(pairs), 'replica')} run{also}"
    if is_on(part(seen.job, "spec", "runMode", "debug") or None):
        words = "it is in debug mode: its program isn't started, and it doesn't end by itself"
        return Verdict(Reason.DEBUG, sentences(words, f"{who}{how_long}"))
    return Verdict(Reason.RUNNING, sentences(f"{who}{how_long}", "Nothing is wrong", _limit(seen)))


def _limit(seen: Seen) -> str:
    """When it would be stopped at the latest, where that can be told."""
    limit = count(seen.job, "spec", "runPolicy", "activeDeadlineSeconds")
    begun = seconds(text(seen.job, "status", "startTime"))
    if limit is None or begun is None or count(seen.job, "status", "pauseCount"):
        return ""
    left = begun + limit - seen.now
    return f"its activeDeadlineSeconds of {limit} end it in {span(left)}" if left > 0 else ""


def _preparing(seen: Seen) -> Verdict:
    initialized = seen.conditions.get("Initialized", Holds())
    said = text(seen.job, "status", "phaseMessage") if seen.is_taskset else initialized.message
    for type_ in ("Running", "ClusterRunning", "JobRunning"):
        holds = seen.conditions.get(type_)
        said = said or (holds.message if holds is not None and not holds.is_true else "")
    return Verdict(Reason.PREPARING, sentences(said or "its pods are being made"))


def _together(pairs: _Pairs) -> tuple[Together, ...]:
    """Replicas of which the same is said, in order of the first of each."""
    found: dict[tuple[str, Why, int], list[str]] = {}
    for replica, said in pairs:
        found.setdefault((replica.phase, said, replica.restarts), []).append(replica.name)
    return tuple(
        Together(
            replicas=tuple(names),
            phase=phase,
            reason=said.reason,
            message=said.message,
            restarts=restarts,
        )
        for (phase, said, restarts), names in found.items()
    )


def _relevant(events: Sequence[Event]) -> tuple[Event, ...]:
    """The last few, each thing once: many pods say the same."""
    last: dict[tuple[str, str], Event] = {}
    for event in events:
        key = (event.reason, event.message)
        last.pop(key, None)
        last[key] = event
    return tuple(list(last.values())[-EVENTS_MAX:])
