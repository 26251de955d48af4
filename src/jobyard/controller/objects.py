"""Objects as they are sent: owned by their job, with keys filled in, and events about it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from jobyard.controller.records import JobRecord
from jobyard.plan.facts.decision import Event
from jobyard.plan.lowering.description import JSON
from jobyard.plan.moments import text_of

COMPONENT = "jobyard"
_HASH_LENGTH = 16
_NAME_LENGTH_MAX = 200
_MESSAGE_LENGTH_MAX = 1000

# Fresh contents for the files of a job's ssh Secret.
MakeKeys = Callable[[], Mapping[str, str]]


def owned(record: JobRecord, manifest: JSON) -> dict[str, Any]:
    """The object with its job as owner, unless it has one: then it is the owner's child."""
    metadata = manifest["metadata"]
    if metadata.get("ownerReferences"):
        return dict(manifest)
    owner = {
        "apiVersion": record.kind.api_version,
        "kind": record.kind.name,
        "name": record.name,
        "uid": record.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {**manifest, "metadata": {**metadata, "ownerReferences": [owner]}}


class Keyed(Sequence[JSON]):
    """Objects of which a Secret gets its contents here, at the last moment."""

    def __init__(self, manifests: Sequence[JSON], make_keys: MakeKeys) -> None:
        self._manifests = manifests
        self._make_keys = make_keys

    def __len__(self) -> int:
        return len(self._manifests)

    @overload
    def __getitem__(self, place: int) -> JSON: ...
    @overload
    def __getitem__(self, place: slice) -> Keyed: ...
    def __getitem__(self, place: int | slice) -> JSON | Keyed:
        if isinstance(place, slice):
            return Keyed(self._manifests[place], self._make_keys)
        manifest = self._manifests[place]
        if manifest["kind"] != "Secret":
            return manifest
        return {**manifest, "stringData": dict(self._make_keys())}


def event_object(record: JobRecord, event: Event, now: float) -> dict[str, Any]:
    """An event about the job."""
    about = {
        "apiVersion": record.kind.api_version,
        "kind": record.kind.name,
        "namespace": record.namespace,
        "name": record.name,
        "uid": record.uid,
        "resourceVersion": record.version,
    }
    return event_about(about, event, now)


def event_about(about: Mapping[str, str], event: Event, now: float) -> dict[str, Any]:
    """An event about any object; the same words in the same second are the same event."""
    words = f"{about['uid']}/{event.reason}/{event.message}/{math.trunc(now)}"
    digest = hashlib.sha256(words.encode()).hexdigest()[:_HASH_LENGTH]
    moment = text_of(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about['name'][:_NAME_LENGTH_MAX].rstrip('-.')}.{digest}",
            "namespace": about["namespace"],
        },
        "involvedObject": dict(about),
        "reason": event.reason,
        "message": event.message[:_MESSAGE_LENGTH_MAX],
        "type": event.type.value,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }


def whole_status_patch(record: JobRecord, status: Any) -> list[dict[str, Any]]:
    """All of a status that has nulls: in a merge patch they would mean that something goes."""
    values = {
        "/metadata/uid": record.uid,
        "/metadata/resourceVersion": record.version,
        "/status": status,
    }
    return [{"op": "add", "path": path, "value": value} for path, value in values.items()]


def status_patch(record: JobRecord, old: Any, new: Any) -> dict[str, Any]:
    """What differs, on the version that was observed: a stale write is refused."""
    return {
        "metadata": {"uid": record.uid, "resourceVersion": record.version},
        "status": merge_difference(old or {}, new),
    }


def merge_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON merge patch from `old` to `new`: absent means as it is, null means away."""
    out: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            difference = merge_difference(before, value)
            if difference:
                out[key] = difference
        elif key not in old or before != value:
            out[key] = value
    return out
