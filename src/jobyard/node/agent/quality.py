"""The quality-of-service class of a pod, from what its containers ask for. Pure."""

from __future__ import annotations

from jobyard.api.parts.quantity import Quantity
from jobyard.node.objects.pod_object import PodObject

_COUNTED = ("cpu", "memory")


def quality_of(pod: PodObject) -> str:
    """Guaranteed, Burstable or BestEffort, by Kubernetes' rules."""
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    is_guaranteed, has_any = True, False
    for container in containers:
        for name in _COUNTED:
            limit = container.resources.limits.get(name)
            request = container.resources.requests.get(name, limit)
            has_any = has_any or bool(limit or request)
            is_guaranteed = (
                is_guaranteed
                and limit is not None
                and request is not None
                and Quantity.of(str(limit)).amount == Quantity.of(str(request)).amount
            )
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"
