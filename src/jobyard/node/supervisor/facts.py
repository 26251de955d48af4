"""What a supervisor knows of its pod, and how each thing that happens changes it.

Pure: every function takes the facts and gives new ones. Two times are told apart. `now` is a
monotonic clock and decides; `at` is seconds since the epoch and is only ever shown.
What follows from the facts is `progress`; how they look from outside is `reporting`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from jobyard.node.shared.order import ContainerOrder, PodOrder
from jobyard.node.shared.state import TAKEN_AWAY_MESSAGE, TAKEN_AWAY_REASON, End, Note, Stage
from jobyard.node.supervisor.probing import Count, ProbeKind, counts_of, judged

# As kubelet: a container that ran this long starts over with the shortest delay.
STEADY_SECONDS: Final = 600
DELAY_SECONDS_MAX: Final = 300
# Between two tries to start a container for which the machine has no process.
PUT_OFF_SECONDS: Final = 0.5
PUT_OFF_SECONDS_MAX: Final = 30.0
# As kubelet: what is left for SIGTERM when a preStop hook took the whole grace period.
LAST_WORDS_SECONDS: Final = 2
NOTES_MAX: Final = 20


class HookKind(StrEnum):
    """The two moments at which a container may have something of its own run."""

    POST_START = "postStart"
    PRE_STOP = "preStop"


class HookStage(StrEnum):
    """How far a hook is. Without a hook it is over from the beginning."""

    AHEAD = "ahead"
    RUNNING = "running"
    OVER = "over"
    FAILED = "failed"


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """A container on its way out: hook, SIGTERM, SIGKILL."""

    kill_by: float
    # What SIGTERM gets at least; 0 means that there is no time for anything but SIGKILL.
    last_words_seconds: float
    pre_stop: HookStage
    asked_at: float | None = None
    is_killed: bool = False


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """The pod ends; what has not run will not run."""

    kill_by: float
    last_words_seconds: float


class ContainerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One container: its newest run, and what is remembered of those before."""

    stage: Stage = Stage.WAITING
    run: int = 0
    pid: int = 0
    started: float = 0
    started_at: float = 0
    ended: float = 0
    end: End | None = None
    # Of the run before this one.
    last_end: End | None = None
    # How long it waits before it runs again; grows with each restart.
    delay_seconds: float = 0
    post_start: HookStage = HookStage.OVER
    counts: tuple[Count, ...] = ()
    leaving: Leaving | None = None
    # Of an init container: those after it need not wait for it (any more).
    is_passed: bool = False
    # Before that it isn't tried to be started again: the machine had no room for a process.
    put_off_until: float = 0
    put_off_seconds: float = 0


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    started: float
    started_at: float
    containers: dict[str, ContainerFacts]
    # All init containers are passed; stays so.
    is_initialized: bool = False
    stop: Stop | None = None
    reason: str = ""
    message: str = ""
    notes: tuple[Note, ...] = ()
    notes_count: int = 0


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended, before it is known when it had started."""

    exit_code: int
    signal: int = 0
    reason: str
    message: str = ""


def first_facts(order: PodOrder, now: float, at: float) -> Facts:
    """A pod of which nothing has run."""
    every = (*order.init_containers, *order.containers)
    return Facts(started=now, started_at=at, containers={c.name: ContainerFacts() for c in every})


def changed(facts: Facts, name: str, container: ContainerFacts) -> Facts:
    return replace(facts, containers={**facts.containers, name: container})


def with_note(facts: Facts, note: Note) -> Facts:
    """Adds a note; one that only says again what the container's last one said is dropped."""
    for old in reversed(facts.notes):
        if old.container == note.container:
            if (old.reason, old.message) == (note.reason, note.message):
                return facts
            break
    number = facts.notes_count + 1
    notes = (*facts.notes, replace(note, number=number))[-NOTES_MAX:]
    return replace(facts, notes=notes, notes_count=number)


def begun(
    facts: Facts, order: PodOrder, container: ContainerOrder, pid: int, *, now: float, at: float
) -> Facts:
    """A container's command was started, or was tried to be (then `ended` follows at once)."""
    before = facts.containers[container.name]
    again = before.end is not None
    delay = 0.0
    if again:
        delay = min(before.delay_seconds * 2, DELAY_SECONDS_MAX) or order.restart_delay_seconds
    fresh = ContainerFacts(
        stage=Stage.RUNNING,
        run=before.run + 1 if again else before.run,
        pid=pid,
        started=now,
        started_at=at,
        last_end=before.end or before.last_end,
        delay_seconds=delay,
        post_start=HookStage.AHEAD if container.post_start else HookStage.OVER,
        counts=counts_of(container.probes, now),
        is_passed=before.is_passed,
    )
    return changed(facts, container.name, fresh)


def put_off(facts: Facts, name: str, problem: str, *, now: float, at: float) -> Facts:
    """A container couldn't be started, for a reason that passes; nothing of it has begun."""
    before = facts.containers[name]
    seconds = min(before.put_off_seconds * 2, PUT_OFF_SECONDS_MAX) or PUT_OFF_SECONDS
    after = replace(before, put_off_until=now + seconds, put_off_seconds=seconds)
    note = Note(number=0, at=at, container=name, reason="Failed", message=f"Error: {problem}")
    return with_note(changed(facts, name, after), note)


def ended(facts: Facts, name: str, ending: Ending, *, now: float, at: float) -> Facts:
    """A container's command ended, and all that it wrote is in its log."""
    before = facts.containers[name]
    end = End(
        exit_code=ending.exit_code,
        signal=ending.signal,
        reason=ending.reason,
        message=ending.message,
        started_at=before.started_at,
        finished_at=at,
    )
    is_steady = now - before.started > STEADY_SECONDS
    after = replace(
        before,
        stage=Stage.ENDED,
        pid=0,
        ended=now,
        end=end,
        delay_seconds=0 if is_steady else before.delay_seconds,
        post_start=HookStage.OVER,
        counts=(),
        leaving=None,
    )
    return changed(facts, name, after)


def within(grace_seconds: float, now: float) -> Stop:
    """The times that follow from a grace period which begins now."""
    last_words_seconds = min(LAST_WORDS_SECONDS, grace_seconds)
    return Stop(kill_by=now + grace_seconds, last_words_seconds=last_words_seconds)


def sent_away(container: ContainerOrder, before: ContainerFacts, stop: Stop) -> ContainerFacts:
    """A running container is to end; one that is on its way out already only goes sooner."""
    leaving = before.leaving
    if leaving is None:
        hook = HookStage.AHEAD if container.pre_stop else HookStage.OVER
        leaving = Leaving(
            kill_by=stop.kill_by, last_words_seconds=stop.last_words_seconds, pre_stop=hook
        )
    else:
        leaving = replace(
            leaving,
            kill_by=min(leaving.kill_by, stop.kill_by),
            last_words_seconds=min(leaving.last_words_seconds, stop.last_words_seconds),
        )
    return replace(before, leaving=leaving)


def stop_asked(facts: Facts, grace_seconds: float, now: float) -> Facts:
    """The pod is to end; asked again, only ever sooner."""
    stop = within(grace_seconds, now)
    if facts.stop is not None:
        stop = Stop(
            kill_by=min(stop.kill_by, facts.stop.kill_by),
            last_words_seconds=min(stop.last_words_seconds, facts.stop.last_words_seconds),
        )
    return replace(facts, stop=stop)


def taken_away(facts: Facts) -> Facts:
    """It ends because its machine does, which says nothing about it."""
    return replace(facts, reason=TAKEN_AWAY_REASON, message=TAKEN_AWAY_MESSAGE)


def hook_ended(facts: Facts, name: str, kind: HookKind, problem: str, at: float) -> Facts:
    """A hook came to its end; `problem` is empty if it went well."""
    before = facts.containers[name]
    stage = HookStage.FAILED if problem else HookStage.OVER
    if kind is HookKind.POST_START:
        after = changed(facts, name, replace(before, post_start=stage))
        reason = "FailedPostStartHook"
    elif before.leaving is not None:
        # What it failed with changes nothing: the container ends.
        leaving = replace(before.leaving, pre_stop=HookStage.OVER)
        after = changed(facts, name, replace(before, leaving=leaving))
        reason = "FailedPreStopHook"
    else:
        return facts
    if not problem:
        return after
    note = Note(number=0, at=at, container=name, reason=reason, message=problem)
    return with_note(after, note)


def probed(
    facts: Facts, container: ContainerOrder, kind: ProbeKind, problem: str, at: float
) -> Facts:
    """A probe of a running container gave its result; `problem` is empty if it is good."""
    before = facts.containers[container.name]
    counts = tuple(
        judged(count, container.probes, is_good=not problem) if count.kind is kind else count
        for count in before.counts
    )
    after = changed(facts, container.name, replace(before, counts=counts))
    if not problem:
        return after
    text = f"{kind.capitalize()} probe failed: {problem}"
    note = Note(number=0, at=at, container=container.name, reason="Unhealthy", message=text)
    return with_note(after, note)
