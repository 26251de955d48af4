"""Queue: who may use how much of a cluster, and who goes first."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from jobyard.api.parts.status import Observation
from jobyard.api.parts.value import DNS_LABEL, Count, LabelSelector, Quantities, Resource, Value
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

DNS_SUBDOMAIN_LENGTH_MAX = 253
_DURATION = (
    "^(0|" + "".join(f"([0-9]+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")) + ")$"
)


class Quota(Value):
    """What the pods of a queue may request together."""

    requests: Annotated[
        Quantities | None,
        described("The most that the queue's running pods may request, by resource."),
    ] = None


class QueueSpec(Value):
    """The queue's share and rank."""

    quota: Annotated[Quota | None, described("The queue's quota; absent: no limit.")] = None
    priority: Annotated[
        int,
        described("Queues of higher priority go first and may preempt lower ones.", ge=0, le=100),
    ] = 0
    preemptible: Annotated[
        bool, described("Whether queues of higher priority may take this one's room.")
    ] = True
    closed: Annotated[
        bool, described("Refuses what hasn't started; what has goes on, restarts included.")
    ] = False
    max_duration: Annotated[
        Annotated[str, described(pattern=_DURATION, max_length=64)] | None,
        described(
            "Pauses jobs with pods older than this, such as 3w or 2h45m (units y w d h m s ms, in"
            " this order), and deletes pods that no job can be paused for; absent, empty or 0: no"
            " limit."
        ),
    ] = None
    resource_shape_profile: Annotated[
        Annotated[str, described(max_length=DNS_SUBDOMAIN_LENGTH_MAX)] | None,
        described(
            "The platform's template for the largest workload of the queue; has no effect:"
            " Jobyard has no such templates."
        ),
    ] = None
    namespace_selector: Annotated[
        LabelSelector | None, described("Which namespaces may use the queue; absent: all.")
    ] = None
    node_selector: Annotated[
        LabelSelector | None, described("Which nodes its pods may run on; absent: all.")
    ] = None


class QueuePods(Value):
    """How many pods of the queue are in each phase."""

    pending: Annotated[Count, described("Pending pods.")] = 0
    running: Annotated[Count, described("Running pods.")] = 0
    succeeded: Annotated[Count, described("Pods that succeeded.")] = 0
    failed: Annotated[Count, described("Pods that failed.")] = 0
    unknown: Annotated[Count, described("Pods that can't be reached.")] = 0


class QueuePodGroups(Value):
    """The gangs of the queue."""

    total: Annotated[Count, described("How many there are.")] = 0


class QueueConditionType(StrEnum):
    """The two conditions of a queue."""

    CLOSED = "QueueClosed"
    PRESSURE = "ResourcePressure"


class QueueCondition(Observation):
    """One observation about the queue."""

    type: Annotated[QueueConditionType, described("What is observed.")]


class QueueStatus(Value):
    """What is observed of a queue."""

    conditions: Annotated[
        tuple[QueueCondition, ...],
        described("The two conditions.", max_length=2, listed_by="type"),
    ] = ()
    allocated: Annotated[
        Quantities | None, described("What its running pods request together.")
    ] = None
    pod_groups: Annotated[QueuePodGroups | None, described("Its gangs.")] = None
    pods: Annotated[QueuePods | None, described("Its pods by phase.")] = None


class Queue(Resource):
    """Who may use how much of the cluster, and who goes first."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"self.metadata.name.matches('{DNS_LABEL}')",
            message="the name must hold only lower-case letters, digits and '-', such as team-a:"
            " jobs name their queue so",
            field=".metadata.name",
        ),
    )

    spec: Annotated[QueueSpec, described("The queue's share and rank.")]
    status: Annotated[QueueStatus | None, described("What is observed of the queue.")] = None
