"""TaskSet: roles with replicas, what ends a role, and what a role's end means.

The status is that of the four Go structs of the Octopus documentation, with the same
JSON names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from jobyard.api.rules import JOB_NAME, digits
from jobyard.api.value import (
    DNS_LABEL_LENGTH_MAX,
    JSON,
    TYPES_MAX,
    Count,
    Name,
    ObjectMeta,
    Timestamp,
    Value,
    pod_template,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule, formatted

TASKSET_REPLICAS_MAX = 2000
RETRIES_MAX = 9999


class Retry(Value, kw_only=True):
    """Whether, how often and after how long something is tried again."""

    retry: Annotated[bool, described("Whether there is a retry at all.")] = False
    delay: Annotated[Count, described("Seconds to wait before the next attempt.")] = 0
    max_retry_count: Annotated[
        int, described("How often it is tried again.", ge=0, le=RETRIES_MAX)
    ] = 0


class RoleEvent(StrEnum):
    """What can happen to a role."""

    FAILED = "RoleFailed"
    SUCCEEDED = "RoleSucceeded"
    COMPLETED = "RoleCompleted"


class TaskSetAction(StrEnum):
    """What a role's end means for the whole."""

    FAILED = "TaskSetFailed"
    SUCCEEDED = "TaskSetSucceeded"
    COMPLETED = "TaskSetCompleted"
    NO_ACTION = "NoAction"


class EventPolicy(Value, kw_only=True):
    """What one event of a role means for the TaskSet."""

    event: Annotated[RoleEvent, described("What happens to the role.")]
    action: Annotated[TaskSetAction, described("What it means for the TaskSet.")]


ReplicaThreshold = Annotated[int, described(ge=1, le=TASKSET_REPLICAS_MAX)]


class CompletionPolicy(Value, kw_only=True):
    """When a role has succeeded or failed; success is looked at first."""

    min_succeeded: Annotated[
        ReplicaThreshold | None,
        described("The role succeeds once this many replicas have; absent: all."),
    ] = None
    max_failed: Annotated[
        Annotated[int, described(ge=1, le=2**31 - 1)],
        described("The role fails once this many replicas have failed for good."),
    ] = 1


class Role(Value, kw_only=True):
    """One role of the TaskSet."""

    name: Annotated[Name, described("The role's name, part of its pods' names.")]
    replicas: Annotated[
        int, described("How many replicas the role has.", ge=1, le=TASKSET_REPLICAS_MAX)
    ] = 1
    completion_policy: Annotated[
        CompletionPolicy | None, described("When the role has succeeded or failed.")
    ] = None
    retry_policy: Annotated[
        Retry | None, described("Retries of each replica of the role, not of the role.")
    ] = None
    event_policy: Annotated[
        tuple[EventPolicy, ...],
        described(
            "What the role's end means; absent: its failure fails the TaskSet.",
            max_length=3,
            rules=(
                Rule(
                    cel="self.all(a, self.exists_one(b, b.event == a.event))",
                    message="each event may stand once",
                ),
            ),
        ),
    ] = ()
    template: Annotated[
        dict[str, JSON],
        pod_template(
            rules=(
                (
                    "spec",
                    Rule(
                        cel="!has(self.restartPolicy) || self.restartPolicy != 'Always'",
                        message="a replica with restartPolicy Always never ends:"
                        " use Never or OnFailure",
                        field=".restartPolicy",
                    ),
                ),
            )
        ),
        described("The pod each replica runs in; its first container decides."),
    ]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.completionPolicy) || !has(self.completionPolicy.minSucceeded)"
            " || self.completionPolicy.minSucceeded <= self.replicas",
            message="minSucceeded must not be above replicas",
            message_cel=formatted(
                "minSucceeded is %s; must be at most %s, the number of replicas",
                "self.completionPolicy.minSucceeded",
                "self.replicas",
            ),
            field=".completionPolicy.minSucceeded",
        ),
    )


class TaskSetSpec(Value, kw_only=True):
    """The roles, and how often the whole is tried again."""

    retry_policy: Annotated[
        Retry | None, described("Retries of the whole TaskSet; absent: none.")
    ] = None
    roles: Annotated[
        tuple[Role, ...],
        described(
            "The roles.",
            min_length=1,
            max_length=TYPES_MAX,
            rules=(
                Rule(
                    cel="self.all(a, self.exists_one(b, b.name == a.name))",
                    message="each role needs a name of its own",
                    message_cel=formatted(
                        "role %s is listed more than once; each needs a name of its own",
                        "self.filter(a, !self.exists_one(b, b.name == a.name))[0].name",
                    ),
                ),
                Rule(
                    cel=f"self.map(r, r.replicas).sum() <= {TASKSET_REPLICAS_MAX}",
                    message=f"a TaskSet has at most {TASKSET_REPLICAS_MAX} replicas in all",
                    message_cel=formatted(
                        "the TaskSet has %s replicas in all;"
                        f" at most {TASKSET_REPLICAS_MAX} are possible",
                        "self.map(r, r.replicas).sum()",
                    ),
                ),
            ),
        ),
    ]

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.roles == oldSelf.roles",
            message="the roles of a TaskSet can't be changed once it exists; make a new one",
            field=".roles",
        ),
    )


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


class TerminatedInfo(Value, kw_only=True):
    """How the main container ended."""

    exit_code: Annotated[int, described("Its exit code.")]
    exit_message: Annotated[str, described("What it said at the end.")] = ""
    signal: Annotated[int, described("The signal that ended it, or 0.")] = 0
    reason: Annotated[str, described("One word for how it ended.")] = ""


class RoleReplicaStatus(Value, kw_only=True):
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


class RoleStatus(Value, kw_only=True):
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


class TaskSetStatus(Value, kw_only=True):
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
    total_retried_count: Annotated[
        Count | None, described("How often the whole was retried.")
    ] = None
    preempt_count: Annotated[
        Count | None, described("How many pods were lost to the cluster and made again.")
    ] = None
    role_status: Annotated[
        tuple[RoleStatus, ...], described("The roles, in order.", max_length=TYPES_MAX)
    ] = ()


# The highest attempt's number, of the whole and of a replica of role `r`.
_ATTEMPT = "(has(self.spec.retryPolicy) ? self.spec.retryPolicy.maxRetryCount : 0)"
_REPLICA_ATTEMPT = "(has(r.retryPolicy) ? r.retryPolicy.maxRetryCount : 0)"
_POD_NAME_LENGTH = (
    "size(self.metadata.name) + size(r.name) + 4"
    f" + {digits(f'{_ATTEMPT} + 1')} + {digits(f'{_REPLICA_ATTEMPT} + 1')}"
    f" + {digits('r.replicas')}"
)
_TOLD = formatted(
    f"pod %s-%s-%s-%s-%s would have a name of %s characters; at most {DNS_LABEL_LENGTH_MAX} are"
    " possible: shorten the name",
    "self.metadata.name",
    "r.name",
    _ATTEMPT,
    _REPLICA_ATTEMPT,
    "r.replicas - 1",
    _POD_NAME_LENGTH,
)


class TaskSet(Value, kw_only=True):
    """Roles with replicas; what ends a role, and what a role's end means for the whole."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[TaskSetSpec, described("The roles and the retries.")]
    status: Annotated[
        TaskSetStatus | None, described("What is observed of the TaskSet.")
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        Rule(
            cel=f"self.spec.roles.all(r, {_POD_NAME_LENGTH} <= {DNS_LABEL_LENGTH_MAX})",
            message=f"a pod's name would have more than {DNS_LABEL_LENGTH_MAX} characters:"
            " shorten the name",
            message_cel=f"self.spec.roles.filter(r, {_POD_NAME_LENGTH} > {DNS_LABEL_LENGTH_MAX})"
            f".map(r, {_TOLD})[0]",
            field=".metadata",
        ),
    )
