"""A job as the commands show it: one view for all kinds, read from its status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from jobyard.plan.lowering.names import is_octopus
from jobyard.plan.reporting.conditions import PODS_COMING
from jobyard.terminal.widths import telling_lines

OVER: Final = ("Succeeded", "Failed")
# Phases of a replica that are for good.
ENDED: Final = ("Succeeded", "Failed", "Stopped")
# A TaskSet's words for the phases that the other kinds have.
TASKSET_PHASES: Final = {
    "TaskRoleReplicaAttemptPending": "Creating",
    "TaskRoleReplicaAttemptCreationRequested": "Creating",
    "TaskRoleReplicaAttemptPreparing": "Pending",
    "TaskRoleReplicaAttemptAssigned": "Pending",
    "TaskRoleReplicaAttemptRunning": "Running",
    "TaskRoleReplicaAttemptDeletionPending": "Stopping",
    "TaskRoleReplicaAttemptDeletionRequested": "Stopping",
    "TaskRoleReplicaAttemptRetryPending": "Waiting",
}
# These say no more than the phase does.
_PLAIN_REASONS: Final = ("", "Error", "Completed")
# Words that not everybody knows.
_MEANINGS: Final = {"OOMKilled": "OOMKilled, out of memory"}
Status = dict[str, Any]


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One row of the table."""

    name: str
    phase: str
    pod: str = ""
    # Of the pod.
    uid: str = ""
    containers: tuple[str, ...] = ()
    exit_code: int | None = None
    restarts: int = 0
    # One word for how it ended, such as OOMKilled.
    reason: str = ""
    message: str = ""

    @property
    def remark(self) -> str:
        """What there is to say of it on one line: of a long message the end, where errors are."""
        lines = telling_lines(self.message)
        last = lines[-1] if lines else ""
        if self.reason in _PLAIN_REASONS or self.reason in last:
            return last
        word = _MEANINGS.get(self.reason, self.reason)
        return f"{word}: {last}" if last else word


class JobView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is shown of a job."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    phase: str = "Pending"
    # Why it stands as it does, in a sentence.
    message: str = ""
    # The replicas that failed, and how, if the job did.
    cause: str = ""
    started_at: str = ""
    ended_at: str = ""
    replicas: tuple[ReplicaView, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.phase in OVER

    @property
    def running_pods(self) -> list[str]:
        return [row.pod for row in self.replicas if row.phase == "Running"]

    @property
    def has_succeeded(self) -> bool:
        return self.phase == "Succeeded"

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def view_of(job: dict[str, Any], kind: str) -> JobView:
    """Reads any of our kinds; a job without a status is pending."""
    metadata, status = job["metadata"], job.get("status") or {}
    is_taskset = is_octopus(kind)
    base = JobView(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
    )
    if is_taskset:
        return msgspec.structs.replace(
            base,
            phase=str(status.get("state") or "Waiting"),
            message=str(status.get("stateMessage", "")),
            started_at=str(status.get("startAt") or ""),
            ended_at=str(status.get("finishAt") or ""),
            replicas=tuple(_taskset_rows(status)),
        )
    return msgspec.structs.replace(
        base,
        phase=str(status.get("phase") or "Pending"),
        message=_message(status),
        cause=_cause(status),
        started_at=str(status.get("startTime") or ""),
        ended_at=str(status.get("completionTime") or ""),
        replicas=tuple(_rows(status, str(metadata["name"]))),
    )


def _message(status: Status) -> str:
    """What the condition says that fits the phase, or the first that doesn't hold."""
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    phase = str(status.get("phase"))
    wanted = {"Failed": "Failed", "Succeeded": "Completed", "Paused": "Paused"}.get(phase)
    if wanted in conditions:
        return str(conditions[wanted].get("message", ""))
    for type_ in ("Initialized", "Running", "ClusterRunning", "JobRunning"):
        found = conditions.get(type_)
        # Of pods that come one by one, the next condition has more to say.
        is_coming = found is not None and found.get("reason") == PODS_COMING
        if found is not None and found.get("status") != "True" and not is_coming:
            return str(found.get("message", ""))
    return ""


def _cause(status: Status) -> str:
    found = [c for c in status.get("conditions") or () if c["type"] == "ReplicaFailure"]
    has_failed = status.get("phase") == "Failed" and found and found[0]["status"] == "True"
    return str(found[0].get("message", "")) if has_failed else ""


def _rows(status: Status, job: str) -> Iterator[ReplicaView]:
    for task in status.get("tasks") or ():
        for row in task.get("status") or ():
            failure = row.get("lastFailure") or {}
            containers = row.get("containers") or ()
            codes = [c["exitCode"] for c in containers if "exitCode" in c]
            yield ReplicaView(
                name=str(row["name"]).removeprefix(f"{job}-"),
                pod=str(row["name"]),
                uid=str(row.get("uid") or ""),
                containers=tuple(each["name"] for each in containers),
                phase=str(row["phase"]),
                exit_code=_exit_code(str(row["phase"]), codes, failure),
                restarts=row.get("restartCount") or 0,
                reason=str(failure.get("reason") or ""),
                message=str(failure.get("message") or ""),
            )


def _exit_code(phase: str, codes: list[int], failure: Status) -> int | None:
    if phase == "Failed" and "exitCode" in failure:
        code: int = failure["exitCode"]
        return code
    if phase == "Succeeded":
        return 0
    return next((code for code in codes if code), None)


def _taskset_rows(status: Status) -> Iterator[ReplicaView]:
    for role in status.get("roleStatus") or ():
        for row in role.get("replicaStatus") or ():
            info = row.get("terminatedInfo") or {}
            code = info.get("exitCode")
            phase = TASKSET_PHASES.get(str(row["phase"]))
            if phase is None:
                phase = "Stopped" if row.get("stopped") else "Failed" if code else "Succeeded"
            yield ReplicaView(
                name=f"{role['name']}-{row['index']}",
                pod=str(row.get("podName", "")),
                uid=str(row.get("podUID") or ""),
                containers=tuple(filter(None, [row.get("containerName")])),
                phase=phase,
                exit_code=code if isinstance(code, int) and not row.get("stopped") else None,
                restarts=row.get("totalRetriedCount") or 0,
                reason="" if row.get("stopped") else str(info.get("reason") or ""),
                message=_taskset_message(phase, row, info),
            )


def _taskset_message(phase: str, row: Status, info: Status) -> str:
    said = str(info.get("exitMessage") or row.get("phaseMessage") or "")
    # The phase once more, as a sentence.
    return "" if said == f"{phase}." else said


def stopped(view: JobView) -> JobView:
    """The job when all that still ran of it has been stopped."""
    rows = tuple(
        row if row.phase in ENDED else msgspec.structs.replace(row, phase="Stopped")
        for row in view.replicas
    )
    return msgspec.structs.replace(view, replicas=rows)
