"""Objects that are served under two names: events of two groups, kinds in several versions.

Events have one shelf, in the words of the core group; `events.k8s.io` has others for the same
fields. Versions of a custom resource differ in nothing but their name. And what TaskSet's
documentation calls its group is an alias of the real one. Pure renaming, no rules.
"""

from __future__ import annotations

from typing import Final

from jobyard.server.kinds.events import NAMES
from jobyard.server.resource import Object, ServedResource

EVENTS: Final = "events"
EVENTS_GROUP: Final = "events.k8s.io"
ALIASES: Final = {"tasksets.octopus.openi.pcl.cn": "octopus.openi.pcl.cn"}

_CORE_NAMES: Final = {new: core for core, new in NAMES.items()}
# Always told by the core group, by the other one only when there is something to tell.
_TOLD_EMPTY: Final = ("reportingComponent", "reportingInstance")


def shelf_of(resource: ServedResource) -> str:
    """The shelf that holds a resource's objects."""
    return EVENTS if is_event(resource) else resource.storage_key


def is_event(resource: ServedResource) -> bool:
    return resource.plural == EVENTS and resource.group in ("", EVENTS_GROUP)


def is_renamed(resource: ServedResource) -> bool:
    """Whether its objects have other fields on the shelf than on the wire."""
    return resource.group == EVENTS_GROUP and resource.plural == EVENTS


def told(value: Object, resource: ServedResource) -> Object:
    """A stored object in the words of the resource."""
    if is_renamed(resource):
        renamed = {NAMES.get(name, name): item for name, item in value.items()}
        renamed = {
            name: item
            for name, item in renamed.items()
            if item or name not in ("reportingController", "reportingInstance")
        }
        renamed.setdefault("eventTime", None)
        return {**renamed, "apiVersion": resource.api_version}
    if value.get("apiVersion") == resource.api_version:
        return value
    return {**value, "apiVersion": resource.api_version}


def kept(value: Object, resource: ServedResource) -> Object:
    """An object in the words of the resource as it goes on the shelf."""
    if not is_renamed(resource):
        return value
    renamed = {_CORE_NAMES.get(name, name): item for name, item in value.items()}
    for name in _TOLD_EMPTY:
        renamed.setdefault(name, "")
    for name, empty in (("source", {}), ("firstTimestamp", None), ("lastTimestamp", None)):
        renamed.setdefault(name, empty)
    return {**renamed, "apiVersion": "v1"}


def real_group(group: str) -> str:
    return ALIASES.get(group, group)


def unaliased(value: Object) -> Object:
    """A client's object with the real name of its group."""
    api_version = value.get("apiVersion")
    if not isinstance(api_version, str):
        return value
    group, slash, version = api_version.partition("/")
    if not slash or group not in ALIASES:
        return value
    return {**value, "apiVersion": f"{ALIASES[group]}/{version}"}
