"""The status of a TaskSet: the four Go structs of the Octopus documentation.

The JSON names are those of the structs, and every field is always there, zero, empty or null, as Go
writes structs without `omitempty`: what reads them goes on working.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from jobyard.api.parts.value import TYPES_MAX, Count, Timestamp, Value
from jobyard.schema.derive import described

# What the rows of all replicas may take as JSON; the rest of a status is small beside them.
ROWS_BYTES_MAX = 1_150_000
# What a row takes at least, beside the names of its role and of its pod.
ROW_BYTES = 480
# With the shortest names there are, `a-b-0-0-2331`; longer ones leave room for fewer.
TASKSET_REPLICAS_MAX = ROWS_BYTES_MAX // (ROW_BYTES + len("b") + len("a-b-0-0-2331"))


class Documented(Value, omit_defaults=False):
    """A struct of the documentation, written with all its fields."""

    WRITES_NULLS: ClassVar[bool] = True


class TaskSetState(StrEnum):
    """How a TaskSet or a role stands."""

    WAITING = "Waiting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


class TaskSetPhase(StrEnum):
    """Where a TaskSet is in its attempt."""

    PENDING = "TaskSetAttemptPending"
    PREPARING = "TaskSetAttemptPreparing"
    RUNNING = "TaskSetAttemptRunning"
    DELETION_PENDING = "TaskSetAttemptDeletionPending"
    DELETION_REQUESTED = "TaskSetAttemptDeletionRequested"
    RETRY_PENDING = "TaskSetAttemptRetryPending"
    COMPLETED = "TaskSetCompleted"


class RolePhase(StrEnum):
    """Where a role is in its life."""

    WAITING = "TaskRoleWaiting"
    RUNNING = "TaskRoleRunning"
    CLEANING_PENDING = "TaskRoleCleaningPending"
    COMPLETED = "TaskRoleCompleted"


class RoleReplicaPhase(StrEnum):
    """Where a replica is in its attempt."""

    PENDING = "TaskRoleReplicaAttemptPending"
    CREATION_REQUESTED = "TaskRoleReplicaAttemptCreationRequested"
    PREPARING = "TaskRoleReplicaAttemptPreparing"
    ASSIGNED = "TaskRoleReplicaAttemptAssigned"
    RUNNING = "TaskRoleReplicaAttemptRunning"
    DELETION_PENDING = "TaskRoleReplicaAttemptDeletionPending"
    DELETION_REQUESTED = "TaskRoleReplicaAttemptDeletionRequested"
    RETRY_PENDING = "TaskRoleReplicaAttemptRetryPending"
    COMPLETED = "TaskRoleReplicaCompleted"


class TerminatedInfo(Documented):
    """How the main container ended."""

    exit_code: Annotated[int, described("Its exit code.")]
    exit_message: Annotated[
        str, described("If it failed, the line of its log that names the error.")
    ] = ""
    signal: Annotated[int, described("The signal that ended it, or 0.")] = 0
    reason: Annotated[str, described("One word for how it ended.")] = ""


class RoleReplicaStatus(Documented):
    """One replica of a role."""

    index: Annotated[Count, described("Its number within the role, from 0.")]
    name: Annotated[str, described("The role's name.")] = ""
    phase: Annotated[RoleReplicaPhase, described("Where it is in its attempt.")]
    phase_message: Annotated[str, described("Why, in a sentence.")] = ""
    stopped: Annotated[bool, described("Whether the controller ended it.")] = False
    transition_time: Annotated[Timestamp | None, described("When the phase changed.")] = None
    start_at: Annotated[Timestamp | None, described("When it started.")] = None
    finish_at: Annotated[Timestamp | None, described("When it ended.")] = None
    total_retried_count: Annotated[Count, described("How often it was retried.")] = 0
    pod_name: Annotated[str, described("Its pod's name.")] = ""
    pod_reason: Annotated[
        str, described("One word for why its pod stands as it does, such as Evicted.")
    ] = ""
    pod_uid: Annotated[str | None, described("Its pod's uid.")] = msgspec.field(
        name="podUID", default=None
    )
    pod_ip: Annotated[str, described("Its pod's address.")] = msgspec.field(
        name="podIP", default=""
    )
    pod_host_ip: Annotated[str, described("The address of its pod's node.")] = msgspec.field(
        name="podHostIP", default=""
    )
    container_name: Annotated[str, described("The main container's name.")] = ""
    container_id: Annotated[str, described("The main container's id.")] = msgspec.field(
        name="containerID", default=""
    )
    terminated_info: Annotated[
        TerminatedInfo | None, described("How the main container ended.")
    ] = None


class RoleStatus(Documented):
    """One role and its replicas."""

    name: Annotated[str, described("The role's name.")]
    phase: Annotated[RolePhase, described("Where the role is in its life.")]
    phase_message: Annotated[str, described("Why, in a sentence.")] = ""
    transition_time: Annotated[Timestamp | None, described("When the phase changed.")] = None
    state: Annotated[TaskSetState | None, described("How the role stands.")] = None
    state_message: Annotated[str, described("Why, with counts and policy.")] = ""
    replica_status: Annotated[
        tuple[RoleReplicaStatus, ...],
        described("The replicas, in order.", max_length=TASKSET_REPLICAS_MAX),
    ] = ()


class TaskSetStatus(Documented):
    """What is observed of a TaskSet."""

    phase: Annotated[TaskSetPhase | None, described("Where the attempt is.")] = None
    phase_message: Annotated[str, described("Why, in a sentence.")] = ""
    transition_time: Annotated[Timestamp | None, described("When the phase changed.")] = None
    state: Annotated[TaskSetState | None, described("How the TaskSet stands.")] = None
    state_message: Annotated[
        str, described("Why, with the role, counts and policy that decided.")
    ] = ""
    control_unit_uid: Annotated[
        str | None, described("The uid of the ConfigMap that owns this attempt's pods.")
    ] = msgspec.field(name="controlUnitUID", default=None)
    created_at: Annotated[
        Timestamp | None, described("When the controller took the TaskSet up.")
    ] = None
    start_at: Annotated[Timestamp | None, described("When it first ran.")] = None
    finish_at: Annotated[Timestamp | None, described("When it ended.")] = None
    total_retried_count: Annotated[Count | None, described("How often the whole was retried.")] = (
        None
    )
    preempt_count: Annotated[
        Count | None, described("How many pods were lost to the cluster and made again.")
    ] = None
    role_status: Annotated[
        tuple[RoleStatus, ...], described("The roles, in order.", max_length=TYPES_MAX)
    ] = ()
