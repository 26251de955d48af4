"""What a pod asks for, as Kubernetes adds it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jobyard.schedule.amounts import CPU, MEMORY, PODS, Amounts, kept, total

_ONE_POD: Final = Amounts.of({PODS: 1})


def requested(pod_spec: Mapping[str, Any]) -> Amounts:
    """The requests of a pod.

    1. Containers and sidecars run together; init containers one after the other, each beside
       the sidecars that came before it. The larger of the two sums counts.
    2. A limit without a request is a request.
    3. What is asked for the pod as a whole stands for what its containers ask of that resource.
    4. Overhead comes on top.
    """
    of_pod = _asked(pod_spec.get("resources"))
    asked = Amounts({**_of_containers(pod_spec).by_name, **of_pod.by_name})
    return kept(total((asked, Amounts.of(pod_spec.get("overhead")), _ONE_POD)))


def without_requests(pod_spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Of cpu and memory what some container doesn't ask for, each with the first that doesn't."""
    found = ((resource, _without(pod_spec, resource)) for resource in (CPU, MEMORY))
    return tuple((resource, name) for resource, name in found if name is not None)


def _without(pod_spec: Mapping[str, Any], resource: str) -> str | None:
    """None where the pod as a whole asks for it."""
    if resource in _asked(pod_spec.get("resources")).by_name:
        return None
    for field in ("initContainers", "containers"):
        for container in pod_spec.get(field) or ():
            if resource not in _asked(container.get("resources")).by_name:
                return str(container.get("name", ""))
    return None


def _of_containers(pod_spec: Mapping[str, Any]) -> Amounts:
    sidecars = Amounts()
    peak = Amounts()
    for container in pod_spec.get("initContainers") or ():
        asked = _asked(container.get("resources"))
        if container.get("restartPolicy") == "Always":
            sidecars = sidecars + asked
            peak = peak.at_least(sidecars)
        else:
            peak = peak.at_least(sidecars + asked)
    together = total(_of_each(pod_spec.get("containers") or ()))
    return (together + sidecars).at_least(peak)


def _of_each(containers: Iterable[Mapping[str, Any]]) -> Iterable[Amounts]:
    return (_asked(container.get("resources")) for container in containers)


def _asked(resources: Mapping[str, Any] | None) -> Amounts:
    resources = resources or {}
    return Amounts.of({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
