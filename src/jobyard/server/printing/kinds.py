"""The rows of Kubernetes' own kinds but pods, and the table of all of them.

Cells and columns as in Kubernetes 1.36, the wide ones too; the descriptions are ours. Objects
are as stored, so what a schema requires or defaults is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from jobyard.server.kinds.events import NAMES
from jobyard.server.printing.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Layout,
    Row,
    column,
    condition_of,
    labels_text,
)
from jobyard.server.printing.durations import UNKNOWN, age, moment, since
from jobyard.server.printing.pods import PODS
from jobyard.server.resource import Object

_ENDPOINTS_MAX: Final = 3
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE_LABEL: Final = "kubernetes.io/role"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _service(obj: Object, now: float) -> Row:
    spec = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or (NONE,)
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return Row(
        (
            *(_name(obj), spec.get("type", ""), addresses[0], _external(obj), ports),
            *(age(obj, now), labels_text(spec.get("selector"))),
        )
    )


def _port(port: dict[str, Any]) -> str:
    node_port = port.get("nodePort", 0)
    outside = f":{node_port}" if node_port else ""
    return f"{port['port']}{outside}/{port.get('protocol', '')}"


def _external(service: Object) -> str:
    spec = service.get("spec") or {}
    own = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            balancer = (service.get("status") or {}).get("loadBalancer") or {}
            given = {i.get("ip") or i.get("hostname") for i in balancer.get("ingress") or ()}
            return ",".join([*sorted(address for address in given if address), *own]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _endpoints(obj: Object, now: float) -> Row:
    subsets = obj.get("subsets") or ()
    places = [place for subset in subsets for place in _places(subset)]
    return Row((_name(obj), _first_few(places) if subsets else NONE, age(obj, now)))


def _slice(obj: Object, now: float) -> Row:
    addresses = [a for point in obj.get("endpoints") or () for a in point.get("addresses") or ()]
    ports = [str(p.get("port", p.get("name", "*"))) for p in obj.get("ports") or ()]
    return Row(
        (
            *(_name(obj), obj.get("addressType", ""), _first_few(ports) or UNSET),
            *(_first_few(addresses) or UNSET, age(obj, now)),
        )
    )


def _first_few(places: list[str]) -> str:
    told = ",".join(places[:_ENDPOINTS_MAX])
    more = len(places) - _ENDPOINTS_MAX
    return f"{told} + {more} more..." if more > 0 else told


def _places(subset: dict[str, Any]) -> list[str]:
    addresses = [address["ip"] for address in subset.get("addresses") or ()]
    ports = [port["port"] for port in subset.get("ports") or ()]
    if not ports:
        return addresses
    return [
        f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        for port in ports
        for address in addresses
    ]


def _node(obj: Object, now: float) -> Row:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    ready = condition_of(status, "Ready")
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if (obj.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or UNKNOWN
    if architecture := info.get("architecture"):
        kernel += f" ({architecture})"
    return Row(
        (
            *(_name(obj), ",".join(words), _roles(obj), age(obj, now)),
            info.get("kubeletVersion", ""),
            *(_address(status, "InternalIP"), _address(status, "ExternalIP")),
            *(info.get("osImage") or UNKNOWN, kernel),
            info.get("containerRuntimeVersion") or UNKNOWN,
        )
    )


def _roles(node: Object) -> str:
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(status: Object, type_: str) -> str:
    addresses = status.get("addresses") or ()
    return next((str(a["address"]) for a in addresses if a["type"] == type_), NONE)


def _claim(obj: Object, now: float) -> Row:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    phase = "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", "")
    capacity = modes = ""
    if volume := spec.get("volumeName", ""):
        granted = status.get("accessModes") or ()
        modes = ",".join(short for mode, short in _ACCESS_MODES.items() if mode in granted)
        capacity = str((status.get("capacity") or {}).get("storage", "0"))
    class_ = (metadata.get("annotations") or {}).get(_CLASS_ANNOTATION)
    return Row(
        (
            *(_name(obj), phase, volume, capacity, modes),
            spec.get("storageClassName", "") if class_ is None else class_,
            spec.get("volumeAttributesClassName", UNSET),
            *(age(obj, now), spec.get("volumeMode", UNSET)),
        )
    )


def _new_event(obj: Object, now: float) -> Row:
    """The same event, in the words of events.k8s.io."""
    return _event({**obj, **{core: obj.get(new) for core, new in NAMES.items()}}, now)


def _event(obj: Object, now: float) -> Row:
    about, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    first = obj.get("firstTimestamp")
    first = first if moment(first) is not None else obj.get("eventTime")
    last = obj.get("lastTimestamp")
    last = last if moment(last) is not None else first
    count = obj.get("count") or 1
    if series := obj.get("series"):
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    origin = (
        source.get("component") or obj.get("reportingComponent") or "",
        source.get("host") or obj.get("reportingInstance") or "",
    )
    target = (about.get("kind", "").lower(), about.get("name", ""))
    return Row(
        (
            *(since(last, now), obj.get("type", ""), obj.get("reason", "")),
            "/".join(target) if target[1] else target[0],
            about.get("fieldPath", ""),
            ", ".join(origin) if origin[1] else origin[0],
            (obj.get("message") or "").strip(),
            *(since(first, now), count, _name(obj)),
        )
    )


def _plain(obj: Object, _now: float) -> Row:
    """Kinds without a layout of their own tell the moment itself; kubectl makes an age of it."""
    then = moment(obj["metadata"].get("creationTimestamp"))
    if then is None:
        return Row((_name(obj), "0001-01-01T00:00:00Z"))
    return Row((_name(obj), datetime.fromtimestamp(then, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))


def _config_map(obj: Object, now: float) -> Row:
    count = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return Row((_name(obj), count, age(obj, now)))


def _priority_class(obj: Object, now: float) -> Row:
    default = obj.get("globalDefault", False)
    policy = obj.get("preemptionPolicy", "")
    return Row((_name(obj), obj.get("value", 0), default, age(obj, now), policy))


_EVENT_COLUMNS: Final = (
    column("Last Seen", "How long ago it last happened."),
    column("Type", "Normal or Warning."),
    column("Reason", "Why, in one word."),
    column("Object", "What it is about."),
    column("Subobject", "Which part of the object, if only one is meant.", wide=True),
    column("Source", "Who tells it.", wide=True),
    column("Message", "What happened."),
    column("First Seen", "How long ago it first happened.", wide=True),
    column("Count", "How often it happened.", wide=True),
    column("Name", "The name of the event itself.", format_="name", wide=True),
)

# By group and plural.
LAYOUTS: Final[Mapping[tuple[str, str], Layout]] = {
    ("", "pods"): PODS,
    ("", "services"): Layout(
        (
            NAME,
            column("Type", "How the service is reached."),
            column("Cluster-IP", "Its address inside the cluster."),
            column("External-IP", "Its addresses outside of the cluster."),
            column("Port(s)", "Its ports."),
            AGE,
            column("Selector", "The labels of the pods behind it.", wide=True),
        ),
        _service,
    ),
    ("", "endpoints"): Layout(
        (NAME, column("Endpoints", "The addresses behind a service."), AGE), _endpoints
    ),
    ("", "nodes"): Layout(
        (
            NAME,
            column("Status", "Whether the node takes pods."),
            column("Roles", "What the node is for."),
            AGE,
            column("Version", "The version of what runs the pods."),
            column("Internal-IP", "Its address among the nodes.", wide=True),
            column("External-IP", "Its address for everybody.", wide=True),
            column("OS-Image", "Its operating system.", wide=True),
            column("Kernel-Version", "Its kernel.", wide=True),
            column("Container-Runtime", "What runs the containers.", wide=True),
        ),
        _node,
    ),
    ("", "persistentvolumeclaims"): Layout(
        (
            NAME,
            column("Status", "Whether the claim has got a volume."),
            column("Volume", "The volume it got."),
            column("Capacity", "How much it holds."),
            column("Access Modes", "Who may mount it how."),
            column("StorageClass", "The class it asks for."),
            column("VolumeAttributesClass", "The attributes it asks for."),
            AGE,
            column("VolumeMode", "A file system or a block device.", wide=True),
        ),
        _claim,
    ),
    ("", "events"): Layout(_EVENT_COLUMNS, _event),
    ("events.k8s.io", "events"): Layout(_EVENT_COLUMNS, _new_event),
    ("", "namespaces"): Layout(
        (NAME, column("Status", "Active, or on its way out."), AGE),
        lambda obj, now: Row(
            (_name(obj), (obj.get("status") or {}).get("phase", ""), age(obj, now))
        ),
    ),
    ("", "configmaps"): Layout(
        (NAME, column("Data", "How many entries it has."), AGE), _config_map
    ),
    ("", "secrets"): Layout(
        (NAME, column("Type", "What the secret is for."), column("Data", "How many entries."), AGE),
        lambda obj, now: Row(
            (_name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now))
        ),
    ),
    ("", "serviceaccounts"): Layout((NAME, AGE), lambda obj, now: Row((_name(obj), age(obj, now)))),
    ("discovery.k8s.io", "endpointslices"): Layout(
        (
            NAME,
            column("AddressType", "Which kind of addresses it has."),
            column("Ports", "The ports of each endpoint."),
            column("Endpoints", "The addresses behind a service."),
            AGE,
        ),
        _slice,
    ),
    ("coordination.k8s.io", "leases"): Layout(
        (NAME, column("Holder", "Who has the lease."), AGE),
        lambda obj, now: Row(
            (_name(obj), (obj.get("spec") or {}).get("holderIdentity", ""), age(obj, now))
        ),
    ),
    ("scheduling.k8s.io", "priorityclasses"): Layout(
        (
            NAME,
            column("Value", "The priority of its pods.", type_="integer"),
            column("Global-Default", "Whether pods without a class get it.", type_="boolean"),
            AGE,
            column("PreemptionPolicy", "Whether its pods push others out."),
        ),
        _priority_class,
    ),
}

# For any other kind, CRDs among them.
PLAIN: Final = Layout(
    (NAME, column("Created At", "When the object was created.", type_="date")), _plain
)
