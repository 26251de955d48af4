"""How each replica of a job stands: from its pods, and from what the status remembers.

The status is the only memory. A row says which attempt it speaks of, how often the replica
was restarted, and, once its pod is gone, how that attempt ended. A row `Deleted` with the
uid of a pod that is still there condemns that pod: it was decided that it goes, and the
decision survives a crash between writing it down and deleting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from jobyard.api.parts.status import (
    ContainerState,
    ContainerStatus,
    Failure,
    ReplicaPhase,
    TaskStatus,
)
from jobyard.plan.facts.ends import End, end_of, was_taken_away, was_told_to_go
from jobyard.plan.facts.pod_facts import Pod, PodPhase
from jobyard.plan.lowering.description import Description, Role
from jobyard.plan.lowering.modes import is_debugging, is_for, is_same_spec, revision
from jobyard.plan.lowering.names import pod_name
from jobyard.plan.moments import seconds_of

NODE_LOST = "NodeLost"
# The word in the row of a replica that somebody told to go, while something of it still ran.
TERMINATING = "Terminating"
ENDS = (ReplicaPhase.SUCCEEDED, ReplicaPhase.FAILED)


class State(StrEnum):
    """Where a replica is. In the first four its present pod may still do something."""

    CREATING = "creating"
    STARTING = "starting"
    RUNNING = "running"
    UNKNOWN = "unknown"
    # Ended, and nobody took it away.
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    # No pod, and no end that counts.
    MISSING = "missing"
    # The cluster took it away; what is left of its pod goes, uncounted.
    LOST = "lost"
    # Made for another wish than today's, such as debug mode.
    OUTDATED = "outdated"
    # On its way out, or condemned to be.
    LEAVING = "leaving"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What the status has of a replica."""

    restarts: int = 0
    attempt: int = 0
    pods_before: int = 0
    # The row had a pod; still true when its end no longer counts.
    had_pod: bool = False
    failures_in_a_row: int = 0
    phase: ReplicaPhase | None = None
    uid: str = ""
    # The pod was seen to run on after it was told to go.
    was_leaving: bool = False
    # When it starts again, if that was decided.
    restart_at: float | None = None
    failure: Failure | None = None
    containers: tuple[ContainerStatus, ...] = ()


NOTHING = Memory()


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as it stands."""

    role: Role
    rank: int
    name: str
    state: State
    pod: Pod | None = None
    memory: Memory = NOTHING
    restarts: int = 0
    # Which pod of the replica this is, or would be: pods of smaller numbers are gone.
    pods_before: int = 0
    # What is seen is a pod that the status knows to be gone: the view of pods is behind.
    is_stale_view: bool = False
    failures_in_a_row: int = 0
    end: End | None = None
    # It ended, and what follows was decided: it stays as it is.
    is_final: bool = False
    # When its next attempt may start.
    due_at: float | None = None
    # A restart was decided on in this very decision.
    is_newly_counted: bool = False
    # That restart is one of those that the job's limit is for.
    uses_limit: bool = False
    # What becomes of it is decided at `due_at`, when others have had the time to tell their ends.
    is_undecided: bool = False
    # The replica that failed or was lost first, if this one ended after it.
    follows: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in (State.SUCCEEDED, State.FAILED)

    @property
    def is_recorded(self) -> bool:
        """Its end stands in the status already."""
        is_same = self.pod is None or self.memory.uid == self.pod.uid
        return self.has_ended and is_same and self.memory.phase in ENDS

    @property
    def waits(self) -> bool:
        """It ended, and starts again at `due_at`."""
        return (
            self.has_ended
            and not self.is_final
            and not self.is_undecided
            and self.due_at is not None
        )

    @property
    def has_succeeded(self) -> bool:
        return self.is_final and self.state is State.SUCCEEDED

    @property
    def has_failed_for_good(self) -> bool:
        return self.is_final and self.state is State.FAILED

    @property
    def is_live(self) -> bool:
        """Its present pod may still do something."""
        return self.state in (State.CREATING, State.STARTING, State.RUNNING, State.UNKNOWN)

    @property
    def pods_before_next(self) -> int:
        """The number of the pod that is made next; known before the pod is, and written first."""
        return self.pods_before + (self.pod is not None or self.memory.had_pod)

    @property
    def has_had_pod(self) -> bool:
        return self.pods_before_next > 0 or self.restarts > 0

    @property
    def short_name(self) -> str:
        """As messages have it: `worker-3`."""
        return self.role.type if self.role.is_single else f"{self.role.type}-{self.rank}"


def memories_of(tasks: Sequence[TaskStatus]) -> Mapping[str, Sequence[Memory]]:
    """By role, in order of rank."""
    return {
        task.type: [
            Memory(
                restarts=row.restart_count,
                attempt=row.attempt,
                pods_before=row.pods_before,
                had_pod=bool(row.uid),
                failures_in_a_row=row.failures_in_a_row,
                phase=row.phase,
                uid=row.uid,
                was_leaving=row.reason == TERMINATING,
                restart_at=seconds_of(row.restart_time) if row.restart_time else None,
                failure=row.last_failure,
                containers=row.containers,
            )
            for row in task.status
        ]
        for task in tasks
    }


def without_ends(memory: Memory) -> Memory:
    """A memory in which nothing has ended: debug commands don't count, nor does a pause."""
    if memory.phase in ENDS:
        return msgspec.structs.replace(memory, phase=ReplicaPhase.DELETED, uid="")
    return memory


def pods_by_replica(pods: Sequence[Pod]) -> Mapping[tuple[str, int], list[Pod]]:
    out: dict[tuple[str, int], list[Pod]] = {}
    for pod in pods:
        out.setdefault((pod.role, pod.rank), []).append(pod)
    return out


def standing_of(role: Role, rank: int, name: str, pods: Sequence[Pod], memory: Memory) -> Standing:
    """How a replica stands, revisions aside. Of several pods the newest counts."""
    pod = max(pods, key=lambda each: (each.attempt, each.pods_before)) if pods else None
    restarts = max([memory.restarts, *(each.attempt for each in pods)])
    base = Standing(
        role=role,
        rank=rank,
        name=name,
        state=State.MISSING,
        pod=pod,
        memory=memory,
        restarts=restarts,
        pods_before=max([memory.pods_before, *(each.pods_before for each in pods)]),
        failures_in_a_row=memory.failures_in_a_row,
    )
    if pod is None:
        return _remembered(base)
    if pod.attempt >= memory.attempt and pod.pods_before < memory.pods_before:
        return msgspec.structs.replace(base, state=State.LEAVING, is_stale_view=True)
    end = end_of(pod, role)
    if memory.phase is ReplicaPhase.DELETED and memory.uid == pod.uid:
        return _with(base, State.LEAVING, end)
    if end is None:
        state = State.LEAVING if pod.is_terminating else _live_state(pod, role)
        return _with(base, state)
    is_recorded = memory.uid == pod.uid and memory.phase in ENDS
    # What was seen with one's own eyes doesn't depend on how the clock of its node goes.
    was_seen_leaving = memory.uid == pod.uid and memory.was_leaving
    if not is_recorded and (was_seen_leaving or was_told_to_go(pod, end)):
        # It ended because it was told to: that says nothing about the program.
        return _with(base, State.LEAVING)
    if not is_recorded and was_taken_away(pod, end):
        return _with(base, State.LOST, end)
    return _with(base, State.SUCCEEDED if end.succeeded else State.FAILED, end)


def _with(base: Standing, state: State, end: End | None = None) -> Standing:
    return msgspec.structs.replace(base, state=state, end=end)


def _remembered(base: Standing) -> Standing:
    """The pod is gone, but its end was written down."""
    memory = base.memory
    if memory.attempt != base.restarts:
        return base
    if memory.phase is ReplicaPhase.SUCCEEDED:
        return _with(base, State.SUCCEEDED, End(attempt=memory.attempt, succeeded=True))
    if memory.phase is ReplicaPhase.FAILED:
        failure = memory.failure or Failure(attempt=memory.attempt)
        end = End(
            attempt=memory.attempt,
            succeeded=False,
            exit_code=failure.exit_code,
            reason=failure.reason,
            message=failure.message,
            finished_at=seconds_of(failure.time) if failure.time else 0.0,
        )
        return _with(base, State.FAILED, end)
    return base


def _live_state(pod: Pod, role: Role) -> State:
    if pod.phase is PodPhase.UNKNOWN or pod.reason == NODE_LOST:
        return State.UNKNOWN
    main = pod.container(role.main_container)
    if pod.is_out_of_reach and pod.phase is PodPhase.RUNNING:
        return State.UNKNOWN
    if main is not None and main.state is ContainerState.RUNNING:
        return State.RUNNING
    return State.STARTING if pod.node else State.CREATING


def surplus_of(
    description: Description,
    pods: Mapping[tuple[str, int], list[Pod]],
    memories: Mapping[str, Sequence[Memory]],
) -> Iterator[Standing]:
    """Replicas that are no longer wanted and have pods, and those of the ranks below them.

    They keep their rows until the pods are gone: whoever is wanted again before that must be
    known to be on its way out, and its end to have been counted.
    """
    for role in description.roles:
        rows = memories.get(role.type, ())
        ranks = [rank for rank in range(role.replicas, len(rows)) if (role.type, rank) in pods]
        if role.is_numbered or not ranks:
            continue
        for rank in range(role.replicas, max(ranks) + 1):
            name = pod_name(description.identity.name, role, rank)
            yield standing_of(role, rank, name, pods.get((role.type, rank), ()), rows[rank])


def standings_of(
    description: Description,
    names: Iterator[tuple[Role, int, str]],
    pods: Mapping[tuple[str, int], list[Pod]],
    memories: Mapping[str, Sequence[Memory]],
) -> Iterator[Standing]:
    """All replicas in order; pods made for another wish are outdated."""
    wanted = {
        (role.type, is_first): revision(description, role, 0 if is_first else 1)
        for role in description.roles
        for is_first in (True, False)
    }
    is_debug = is_debugging(description.run_mode)
    for role, rank, name in names:
        rows = memories.get(role.type, ())
        memory = rows[rank] if rank < len(rows) else NOTHING
        standing = standing_of(role, rank, name, pods.get((role.type, rank), ()), memory)
        pod = standing.pod
        if pod is not None and not is_for(pod.revision, wanted[role.type, rank == 0]):
            # An end that counts still does, although other hosts are wanted by now.
            is_same = is_same_spec(pod.revision, description)
            counts = standing.has_ended and not is_debug and is_same
            if standing.state is not State.LEAVING and not counts:
                standing = _with(standing, State.OUTDATED)
        if role.is_numbered:
            numbered = pod_name(description.identity.name, role, rank, (0, standing.restarts))
            standing = msgspec.structs.replace(standing, name=numbered)
        yield standing
