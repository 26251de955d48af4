"""Where the objects of a kind are found on an API server.

Decides paths and nothing else; `request` builds on it, and callers name the constants.
The kinds of Jobyard come from the one table in `api.kinds`; of Kubernetes' own kinds only
those are here that Jobyard makes, reads or writes. Refuses to know about HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final
from urllib.parse import quote

import msgspec

from jobyard.api.kinds import KINDS, Kind, kind_of


class Resource(msgspec.Struct, frozen=True):
    """One kind of object as an API server serves it; `group` is empty for core/v1."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The collection of all namespaces, or of a kind that has none."""
        return f"{self._root}/{self.plural}"

    def collection(self, namespace: str = "") -> str:
        """The path of the objects in `namespace`; of all namespaces when it is empty."""
        if not namespace:
            return self.path
        assert self.namespaced, f"{self.kind} has no namespace; {namespace!r} was given"
        return f"{self._root}/namespaces/{_segment(namespace)}/{self.plural}"

    def item(self, namespace: str, name: str, subresource: str = "") -> str:
        """The path of one object, or of a part of it such as `status`."""
        assert name, f"a request for one {self.kind} needs its name"
        assert not self.namespaced or namespace, f"{self.kind} {name}: a namespace is missing"
        path = f"{self.collection(namespace)}/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    @property
    def _root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


def may_name(text: str) -> bool:
    """Whether a path with this in it leads to the object that it seems to."""
    return text not in ("", ".", "..") and "/" not in text


@lru_cache(maxsize=1024)
def _segment(text: str) -> str:
    assert text not in (".", ".."), f"{text!r} is not the name of an object"
    return quote(text, safe="")


PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
EVENTS: Final = Resource("", "v1", "events", "Event")
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")

_KUBERNETES: Final[Mapping[tuple[str, str], Resource]] = {
    (resource.api_version, resource.kind): resource
    for resource in (PODS, SERVICES, CONFIG_MAPS, SECRETS, EVENTS, NODES, LEASES)
}


@cache
def resource_of(kind: Kind) -> Resource:
    """Where the objects of a row of the table are."""
    return Resource(kind.group.value, kind.version, kind.plural, kind.name, kind.namespaced)


@cache
def resource_named(api_version: str, kind: str) -> Resource:
    """Where an object with this apiVersion and kind belongs; the aliases of a kind count too."""
    found = _KUBERNETES.get((api_version, kind))
    if found is not None:
        return found
    row = kind_of(api_version, kind)
    if row is not None:
        return resource_of(row)
    known = sorted(
        f"{name} of {version}"
        for version, name in (*_KUBERNETES, *((row.api_version, row.name) for row in KINDS))
    )
    raise LookupError(
        f"{kind} of {api_version} is not a kind that Jobyard works with;"
        f" it knows {', '.join(known)}"
    )
