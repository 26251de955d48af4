"""What a pod gets that its author left out: by type, from the server, and by admission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobyard.server.kinds.claims import CLAIM_DEFAULTS
from jobyard.server.kinds.surroundings import Surroundings
from jobyard.server.kinds.types.decoding import Default
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.kinds.types.quantities import amount_of, rounded_to_milli
from jobyard.server.resource import Object

GRACE_SECONDS: Final = 30
TOLERATION_SECONDS: Final = 300
FILE_MODE: Final = 0o644
TOKEN_SECONDS: Final = 3600
_SOURCES_WITH_MODE = ("ConfigMap", "Secret", "DownwardAPI", "Projected")
_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_QOS_RESOURCES = ("cpu", "memory")


def _container(container: dict[str, Any]) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")


def _pull_policy(image: str) -> str:
    return "Always" if _tag_of(image) == "latest" else "IfNotPresent"


def _tag_of(image: str) -> str:
    """The tag; `latest` where neither a tag nor a digest is given, nothing for no image."""
    if not image or image != image.strip():
        return ""
    name, at, _ = image.partition("@")
    _, colon, tag = name.rpartition(":")
    if colon and "/" not in tag:
        return tag
    return "" if at else "latest"


def _volume(volume: dict[str, Any]) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    if "image" in volume:
        reference = volume["image"].get("reference", "")
        volume["image"].setdefault("pullPolicy", _pull_policy(reference))


def _probe(probe: dict[str, Any]) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)


def _http_get(action: dict[str, Any]) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")
    action.setdefault("port", 0)


def _resources(resources: dict[str, Any]) -> None:
    for field in ("limits", "requests"):
        for name, text in resources.get(field, {}).items():
            resources[field][name] = rounded_to_milli(text)


def _spec(spec: dict[str, Any]) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS)
    spec.setdefault("schedulerName", "default-scheduler")
    # An old name of the same field, kept in step.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _pod(pod: dict[str, Any]) -> None:
    spec = pod["spec"]
    for container in containers_of(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = resources["limits"] | resources.get("requests", {})
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])
    spec.setdefault("enableServiceLinks", True)


def containers_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Init containers and containers; a spec whose list is missing has none."""
    return [*spec.get("initContainers", ()), *(spec.get("containers") or ())]


def _set(field: str, value: Any) -> Default:
    return lambda obj: obj.setdefault(field, value)


DEFAULTS: Final[Mapping[str, Default]] = {
    **{f"{CORE}{kind}VolumeSource": _set("defaultMode", FILE_MODE) for kind in _SOURCES_WITH_MODE},
    **CLAIM_DEFAULTS,
    CORE + "Container": _container,
    CORE + "ContainerPort": _set("protocol", "TCP"),
    CORE + "EphemeralContainer": _container,
    CORE + "HTTPGetAction": _http_get,
    CORE + "HostPathVolumeSource": _set("type", ""),
    CORE + "ObjectFieldSelector": _set("apiVersion", "v1"),
    CORE + "Pod": _pod,
    CORE + "PodSpec": _spec,
    CORE + "Probe": _probe,
    CORE + "ResourceRequirements": _resources,
    CORE + "ServiceAccountTokenProjection": _set("expirationSeconds", TOKEN_SECONDS),
    CORE + "TCPSocketAction": _set("port", 0),
    CORE + "Volume": _volume,
}


def admit(pod: Object, surroundings: Surroundings) -> None:
    """What admission plugins of a usual cluster add; a pod's token is not among it."""
    spec = pod["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    _prioritize(spec, surroundings)
    tolerate_troubles(spec)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _prioritize(spec: dict[str, Any], surroundings: Surroundings) -> None:
    name = spec.get("priorityClassName")
    found = surroundings.priority_class(name) if name else surroundings.default_priority_class()
    if found is None:
        spec.setdefault("priority", 0)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        return
    spec["priorityClassName"] = found["metadata"]["name"]
    spec.setdefault("priority", found.get("value", 0))
    spec.setdefault("preemptionPolicy", found.get("preemptionPolicy", "PreemptLowerPriority"))


def tolerate_troubles(spec: dict[str, Any]) -> None:
    """A node in trouble is borne for a while; also by a pod whose tolerations are replaced."""
    for key in _NODE_TROUBLES:
        _tolerate(spec, key)


def _tolerate(spec: dict[str, Any], key: str) -> None:
    tolerations = spec.setdefault("tolerations", [])
    if any(
        given.get("key", key) == key and given.get("effect", "NoExecute") == "NoExecute"
        for given in tolerations
    ):
        return
    tolerations.append(
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_SECONDS,
        }
    )


def qos_class(spec: Mapping[str, Any]) -> str:
    """How firmly a pod's resources are promised: it follows from requests and limits."""
    is_guaranteed, asks = True, False
    for container in containers_of(spec):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        for name in _QOS_RESOURCES:
            request = amount_of(requests.get(name, "0"))
            limit = amount_of(limits.get(name, "0"))
            asks = asks or request > 0 or limit > 0
            is_guaranteed = is_guaranteed and limit > 0 and request == limit
    if not asks:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"
