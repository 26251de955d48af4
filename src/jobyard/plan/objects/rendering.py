"""All the children of a job at its first start, as far as they are known without a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from jobyard.plan.lowering.description import JSON, Description
from jobyard.plan.lowering.modes import wants_pause
from jobyard.plan.lowering.names import pod_names
from jobyard.plan.objects.pods import Replica, replica_pod
from jobyard.plan.objects.supporting import supporting_objects
from jobyard.plan.objects.taskset_pods import TaskReplica, taskset_pod


def children(description: Description) -> Iterator[JSON]:
    """Supporting objects first, then the pods; a paused job has none."""
    yield from supporting_objects(description)
    if wants_pause(description.run_mode):
        return
    for role, rank, _ in pod_names(description):
        if description.control_unit:
            yield taskset_pod(description, TaskReplica(role=role, index=rank))
        else:
            yield replica_pod(description, Replica(role=role, rank=rank))
