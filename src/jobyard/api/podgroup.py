"""PodGroup: pods that start together or not at all."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from jobyard.api.parts.scheduling import DEFAULT_QUEUE, Priority, QueueName
from jobyard.api.parts.status import Observation
from jobyard.api.parts.value import (
    DNS_LABEL_LENGTH_MAX,
    REPLICAS_MAX,
    Count,
    Name,
    Quantities,
    Resource,
    Value,
)
from jobyard.schema.derive import described
from jobyard.schema.rule import unique_by

ROLES_MAX = 17
# A job's replicas, and its launcher. Programs write 0 for what isn't said.
Members = Annotated[int, described(ge=0, le=REPLICAS_MAX + 1)]


class GroupRole(Value):
    """How many pods of one role a gang needs."""

    name: Annotated[Name, described("The role's name, as the pods' role label has it.")]
    min_member: Annotated[
        Members, described("How many pods of the role must fit at once; 0: any number.")
    ] = 0


class PodGroupSpec(Value):
    """The gang's size and its place in a queue."""

    queue: Annotated[QueueName, described("The queue the pods wait in; empty: default.")] = (
        DEFAULT_QUEUE
    )
    priority: Annotated[
        Priority, described("The gang's priority within its queue; higher goes first.")
    ] = 0
    min_member: Annotated[
        Members | None,
        described(
            "How many pods must fit at once; absent, 0, or fewer than the roles need together:"
            " what the roles need, at least 1."
        ),
    ] = None
    roles: Annotated[
        tuple[GroupRole, ...],
        described(
            "How many pods of each role must fit at once.",
            max_length=ROLES_MAX,
            rules=(unique_by("name", "role"),),
        ),
    ] = ()
    topology_policy: Annotated[
        Annotated[str, described(max_length=DNS_LABEL_LENGTH_MAX)] | None,
        described(
            "How near to one another the platform placed the pods; has no effect: whoever places"
            " them decides."
        ),
    ] = None

    @property
    def needed(self) -> int:
        """How many pods must fit at once, whichever field says it."""
        return max(1, self.min_member or 0, sum(role.min_member for role in self.roles))


class GroupConditionType(StrEnum):
    """The two conditions of a gang."""

    SUFFICIENT_MEMBER = "SufficientGroupMember"
    SCHEDULED = "GroupScheduled"


class GroupCondition(Observation):
    """One observation about the gang."""

    type: Annotated[GroupConditionType, described("What is observed.")]
    transition_id: Annotated[str, described("Which scheduling cycle saw it.")] = msgspec.field(
        name="transitionID", default=""
    )


class PodGroupStatus(Value):
    """What is observed of a gang."""

    conditions: Annotated[
        tuple[GroupCondition, ...],
        described("The two conditions.", max_length=2, listed_by="type"),
    ] = ()
    allocated: Annotated[
        Quantities | None, described("What its running pods request together.")
    ] = None
    pending: Annotated[Count, described("Pending pods.")] = 0
    running: Annotated[Count, described("Running pods.")] = 0
    succeeded: Annotated[Count, described("Pods that succeeded.")] = 0
    failed: Annotated[Count, described("Pods that failed.")] = 0
    unknown: Annotated[Count, described("Pods that can't be reached.")] = 0


class PodGroup(Resource):
    """Pods that start together or not at all."""

    spec: Annotated[PodGroupSpec, described("The gang's size and place.")]
    status: Annotated[PodGroupStatus | None, described("What is observed of the gang.")] = None
