"""TaskSet: roles with replicas, what ends a role, and what a role's end means."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.rules import JOB_NAME, digits
from jobyard.api.taskset_status import TASKSET_REPLICAS_MAX, TaskSetStatus
from jobyard.api.value import (
    DNS_LABEL_LENGTH_MAX,
    JSON,
    TYPES_MAX,
    Count,
    Name,
    Resource,
    Value,
    pod_template,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule, formatted, unique_by

RETRIES_MAX = 9999


class Retry(Value):
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


class EventPolicy(Value):
    """What one event of a role means for the TaskSet."""

    event: Annotated[RoleEvent, described("What happens to the role.")]
    action: Annotated[TaskSetAction, described("What it means for the TaskSet.")]


ReplicaThreshold = Annotated[int, described(ge=1, le=TASKSET_REPLICAS_MAX)]


class CompletionPolicy(Value):
    """When a role has succeeded or failed; success is looked at first."""

    min_succeeded: Annotated[
        ReplicaThreshold | None,
        described("The role succeeds once this many replicas have; absent: all."),
    ] = None
    max_failed: Annotated[
        Annotated[int, described(ge=1, le=2**31 - 1)],
        described("The role fails once this many replicas have failed for good."),
    ] = 1


class Role(Value):
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
            rules=(unique_by("event", "event"),),
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
                "is %s; must be at most %s, the number of replicas",
                "self.completionPolicy.minSucceeded",
                "self.replicas",
            ),
            field=".completionPolicy.minSucceeded",
        ),
    )


class TaskSetSpec(Value):
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
                unique_by("name", "role"),
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


class TaskSet(Resource):
    """Roles with replicas; what ends a role, and what a role's end means for the whole."""

    spec: Annotated[TaskSetSpec, described("The roles and the retries.")]
    status: Annotated[TaskSetStatus | None, described("What is observed of the TaskSet.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        Rule(
            cel=f"self.spec.roles.all(r, {_POD_NAME_LENGTH} <= {DNS_LABEL_LENGTH_MAX})",
            message=f"a pod's name would have more than {DNS_LABEL_LENGTH_MAX} characters:"
            " shorten the name",
            message_cel=f"self.spec.roles.filter(r, {_POD_NAME_LENGTH} > {DNS_LABEL_LENGTH_MAX})"
            f".map(r, {_TOLD})[0]",
            field=".metadata.name",
        ),
    )
