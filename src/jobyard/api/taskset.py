"""TaskSet: roles with replicas, what ends a role, and what a role's end means."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.parts.taskset_status import (
    ROW_BYTES,
    ROWS_BYTES_MAX,
    TASKSET_REPLICAS_MAX,
    TaskSetStatus,
)
from jobyard.api.parts.value import (
    JSON,
    TYPES_MAX,
    Count,
    Name,
    Resource,
    Value,
    pod_template,
)
from jobyard.api.rules import digits
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule, formatted, unique_by

# So many are made; the original takes any number, and so does the schema.
RETRIES_MAX = 9999
# Kubernetes' bound for the names of most objects, pods among them.
POD_NAME_LENGTH_MAX = 253
QUEUE_LENGTH_MAX = 253
EVENTS_MAX = 64


class Retry(Value):
    """Whether, how often and after how long something is tried again."""

    retry: Annotated[bool, described("Whether there is a retry at all.")] = False
    delay: Annotated[Count, described("Seconds to wait before the next attempt.")] = 0
    max_retry_count: Annotated[
        Count, described(f"How often it is tried again; at most {RETRIES_MAX} times.")
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
        Annotated[int, described(ge=0, le=2**31 - 1)],
        described(
            "The role fails once this many replicas have failed for good; 0: with the first, as 1."
        ),
    ] = 1


class Role(Value):
    """One role of the TaskSet."""

    name: Annotated[Name, described("The role's name, part of its pods' names.")]
    replicas: Annotated[
        int,
        described(
            f"How many replicas the role has. A TaskSet has at most {TASKSET_REPLICAS_MAX} in all,"
            " fewer with long names: its status has to fit into what an API server stores.",
            ge=1,
            le=TASKSET_REPLICAS_MAX,
        ),
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
            "What the role's end means; absent: its failure fails the TaskSet. Of entries for the"
            " same event the first counts.",
            max_length=EVENTS_MAX,
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

    queue: Annotated[
        Annotated[str, described(max_length=QUEUE_LENGTH_MAX)] | None,
        described(
            "Has no effect, as with Octopus' own controller; a scheduler is named in the template."
        ),
    ] = None
    priority: Annotated[
        int | None,
        described(
            "Has no effect, as with Octopus' own controller; use priorityClassName in the template."
        ),
    ] = None
    retry_policy: Annotated[
        Retry | None, described("Retries of the whole TaskSet; absent: none.")
    ] = None
    roles: Annotated[
        tuple[Role, ...],
        described(
            "The roles.",
            min_length=1,
            max_length=TYPES_MAX,
            rules=(unique_by("name", "role"),),
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
    f"pod %s-%s-%s-%s-%s would have a name of %s characters; at most {POD_NAME_LENGTH_MAX} are"
    " possible: shorten the name",
    "self.metadata.name",
    "r.name",
    _ATTEMPT,
    _REPLICA_ATTEMPT,
    "r.replicas - 1",
    _POD_NAME_LENGTH,
)
_REPLICAS = "self.spec.roles.map(r, r.replicas).sum()"
_ROWS_BYTES = (
    f"self.spec.roles.map(r, r.replicas * ({ROW_BYTES} + size(r.name) + {_POD_NAME_LENGTH})).sum()"
)


class TaskSet(Resource):
    """Roles with replicas; what ends a role, and what a role's end means for the whole."""

    spec: Annotated[TaskSetSpec, described("The roles and the retries.")]
    status: Annotated[TaskSetStatus | None, described("What is observed of the TaskSet.")] = None
    username: Annotated[
        str | None,
        described("Has no effect: who has made the TaskSet, as the Octopus platform notes it."),
    ] = None
    min_member: Annotated[
        int | None,
        described(
            "Has no effect: what the Octopus platform writes into a PodGroup of kube-batch, which"
            " is an object of its own."
        ),
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"self.spec.roles.all(r, {_POD_NAME_LENGTH} <= {POD_NAME_LENGTH_MAX})",
            message=f"a pod's name would have more than {POD_NAME_LENGTH_MAX} characters:"
            " shorten the name",
            message_cel=f"self.spec.roles.filter(r, {_POD_NAME_LENGTH} > {POD_NAME_LENGTH_MAX})"
            f".map(r, {_TOLD})[0]",
            field=".metadata.name",
        ),
        Rule(
            cel=f"{_ROWS_BYTES} <= {ROWS_BYTES_MAX}",
            message=f"the status of so many replicas would be too large: at most"
            f" {TASKSET_REPLICAS_MAX} are possible, and fewer the longer the names are",
            message_cel=formatted(
                f"the status of %s replicas with names of this length would need %s bytes; at most"
                f" {ROWS_BYTES_MAX} are possible, which is about %s replicas: use fewer, or"
                " shorter names",
                _REPLICAS,
                _ROWS_BYTES,
                f"{ROWS_BYTES_MAX} * {_REPLICAS} / {_ROWS_BYTES}",
            ),
            field=".spec.roles",
        ),
    )
