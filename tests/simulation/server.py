"""A model API server: objects in memory, versions, preconditions, deletion with grace, a log.

Only what the controller relies on is modelled, as a real server does it: one counter for the
versions of all objects, a create that finds its name taken, a delete and a patch that look at uid
and resourceVersion, pods that stay until their node has let go of them. Whoever wants to know of
a write is told by `audit`. It knows nothing of jobs, faults or who is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from jobyard.client.request import Answer, Request
from jobyard.plan.lowering.names import MANAGED_BY
from jobyard.plan.moments import text_of

JSON = dict[str, Any]
ObjectKey = tuple[str, str]
GRACE_SECONDS = 30
# Watched by label, as the controller does; jobs are watched all.
LABELLED = frozenset({"pods", "services", "configmaps", "podgroups"})
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Event:
    """One entry of a resource's log; its decoded value is shared by all who follow the log."""

    __slots__ = ("key", "raw", "type", "value", "version")

    def __init__(self, version: int, type_: str, key: ObjectKey, raw: bytes) -> None:
        self.version = version
        self.type = type_
        self.key = key
        self.raw = raw
        self.value: Any = None


class Place(NamedTuple):
    """What a path names."""

    plural: str
    namespace: str
    name: str
    subresource: str


class Write(NamedTuple):
    """A write that took effect, for those who audit: who did it and what was there before."""

    by: Any
    verb: str
    plural: str
    old: JSON | None
    new: JSON | None


class RefusedError(Exception):
    """An answer other than success."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.answer = Answer(
            status,
            _encode({"kind": "Status", "code": status, "reason": reason, "message": message}),
        )


class Server:
    """The objects and the log of each resource."""

    def __init__(self, dice: random.Random, now: Callable[[], float]) -> None:
        self._dice = dice
        self._now = now
        self.version = 1000
        self.objects: dict[str, dict[ObjectKey, JSON]] = {}
        self.logs: dict[str, list[Event]] = {}
        self.audit: Callable[[Write], None] = lambda _: None
        # By uid: what is there, and what belongs to it.
        self.by_uid: dict[str, tuple[str, ObjectKey]] = {}
        self.owned: dict[str, set[str]] = {}
        # More pods than a quota allows are refused; None: there is none.
        self.pods_max: int | None = None
        # Owners that are gone while something of theirs may still be there.
        self.orphaned: dict[str, None] = {}

    # What a controller may ask for.

    def handle(self, request: Request, by: Any) -> Answer:
        place = _place(request.path)
        try:
            match request.method:
                case "POST":
                    body = _decode(request.body or b"{}")
                    return self._post(place, body, by, dry_run=bool(request.query))
                case "GET":
                    return Answer(200, _encode(self._found(place)))
                case "PATCH":
                    return self._patch(place, _decode(request.body or b"{}"), by)
                case "DELETE":
                    return self._delete(place, _decode(request.body or b"{}"), by)
        except RefusedError as refused:
            return refused.answer
        raise AssertionError(f"unexpected {request}")

    def _found(self, place: Place) -> JSON:
        if place.plural == "events":
            return {"items": []}
        found = self.objects.get(place.plural, {}).get((place.namespace, place.name))
        if found is None:
            raise RefusedError(404, "NotFound", f"{place.plural} {place.name!r} not found")
        return found

    def _post(self, place: Place, body: JSON, by: Any, *, dry_run: bool) -> Answer:
        if place.plural == "events":
            return Answer(201, b"{}")
        name = body["metadata"]["name"]
        if (place.namespace, name) in self.objects.get(place.plural, {}):
            raise RefusedError(409, "AlreadyExists", f"{place.plural} {name!r} already exists")
        if place.plural == "pods":
            for container in body["spec"]["containers"]:
                if not container.get("image"):
                    raise RefusedError(422, "Invalid", "spec.containers[0].image: Required value")
            if self.pods_max is not None and len(self.objects.get("pods", {})) >= self.pods_max:
                said = f"pods {name!r} is forbidden: exceeded quota: small, requested: pods=1"
                raise RefusedError(403, "Forbidden", said)
        if dry_run:
            return Answer(201, _encode(body))
        return Answer(201, self.create(place.plural, place.namespace, body, by))

    def _patch(self, place: Place, patch: JSON, by: Any) -> Answer:
        old = self._found(place)
        whole: JSON | None = None
        if isinstance(patch, list):
            # Steps that write a whole status, on a version.
            values = {step["path"]: step["value"] for step in patch}
            version, whole = values["/metadata/resourceVersion"], values["/status"]
            patch = {"metadata": {"uid": values["/metadata/uid"], "resourceVersion": version}}
        wanted = patch.get("metadata", {})
        meta = old["metadata"]
        if wanted.get("uid", meta["uid"]) != meta["uid"]:
            raise RefusedError(409, "Conflict", "the uid in the precondition is another one")
        version = meta["resourceVersion"]
        if wanted.get("resourceVersion", version) != version:
            raise RefusedError(409, "Conflict", "the object has been modified")
        assert place.subresource == "status", place
        status = merged(old.get("status", {}), patch["status"]) if whole is None else whole
        if status == old.get("status", {}):
            verb = "nothing" if whole is None and patch["status"] else "question"
            self.audit(Write(by, verb, place.plural, old, old))
            return Answer(200, _encode(old))
        return Answer(200, self.update(place.plural, old, {**old, "status": status}, by))

    def _delete(self, place: Place, options: JSON, by: Any) -> Answer:
        old = self._found(place)
        wanted = options.get("preconditions", {}).get("uid")
        if wanted is not None and wanted != old["metadata"]["uid"]:
            raise RefusedError(409, "Conflict", "the uid in the precondition is another one")
        raw = self.delete(place.plural, old, by, options.get("gracePeriodSeconds"))
        return Answer(200, raw if place.plural == "pods" else b'{"kind":"Status"}')

    # Writes, also by those who don't use requests: users, the kubelet, the garbage collector.

    def create(self, plural: str, namespace: str, body: JSON, by: Any) -> bytes:
        uid = f"{self._dice.getrandbits(48):012x}"
        meta = {
            **body["metadata"],
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": text_of(self._now()),
            "generation": 1,
        }
        obj = {**body, "metadata": meta}
        if plural == "pods":
            obj["spec"] = _slim(body["spec"])
            obj["status"] = {"phase": "Pending"}
        elif plural in ("secrets", "configmaps", "services", "podgroups"):
            obj = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": meta}
        self.by_uid[uid] = plural, (namespace, meta["name"])
        for owner in meta.get("ownerReferences", ()):
            self.owned.setdefault(owner["uid"], set()).add(uid)
            if owner["uid"] not in self.by_uid:
                self.orphaned[owner["uid"]] = None
        raw = self._commit(plural, obj, "ADDED")
        self.audit(Write(by, "create", plural, None, obj))
        return raw

    def update(self, plural: str, old: JSON, new: JSON, by: Any) -> bytes:
        """Stores `new`, whose metadata may be shared with `old`."""
        meta = {**new["metadata"]}
        if new.get("spec") != old.get("spec") and plural != "pods":
            meta["generation"] = meta["generation"] + 1
        obj = {**new, "metadata": meta}
        raw = self._commit(plural, obj, "MODIFIED")
        self.audit(Write(by, "update", plural, old, obj))
        return raw

    def delete(self, plural: str, old: JSON, by: Any, grace: int | None = None) -> bytes:
        """Pods that run somewhere get their grace; all else goes at once."""
        meta = old["metadata"]
        if plural == "pods":
            is_over = old["status"]["phase"] in ("Succeeded", "Failed")
            if not old["spec"].get("nodeName") or is_over:
                grace = 0
            grace = GRACE_SECONDS if grace is None else grace
            asked = meta.get("deletionTimestamp")
            if grace > 0:
                if asked is not None:
                    return _encode(old)
                return self.update(plural, old, _marked(old, self._now(), grace), by)
            if asked is None:
                self.update(plural, old, _marked(old, self._now(), 0), by)
                old = self.objects[plural][meta["namespace"], meta["name"]]
        return self.remove(plural, old, by)

    def remove(self, plural: str, old: JSON, by: Any) -> bytes:
        """The object is gone; its log entry and answer have the version of the removal."""
        meta = old["metadata"]
        key = meta["namespace"], meta["name"]
        del self.objects[plural][key]
        del self.by_uid[meta["uid"]]
        if self.owned.get(meta["uid"]):
            self.orphaned[meta["uid"]] = None
        for owner in meta.get("ownerReferences", ()):
            self.owned[owner["uid"]].discard(meta["uid"])
        self.version += 1
        obj = {**old, "metadata": {**meta, "resourceVersion": str(self.version)}}
        raw = _encode(obj)
        self._log(plural, obj, "DELETED", raw)
        self.audit(Write(by, "delete", plural, old, None))
        return raw

    def _commit(self, plural: str, obj: JSON, type_: str) -> bytes:
        self.version += 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(self.version)
        raw = _encode(obj)
        self.objects.setdefault(plural, {})[meta["namespace"], meta["name"]] = obj
        self._log(plural, obj, type_, raw)
        return raw

    def _log(self, plural: str, obj: JSON, type_: str, raw: bytes) -> None:
        meta = obj["metadata"]
        if plural in LABELLED and meta.get("labels", {}).get(MANAGED_BY) != "jobyard":
            return
        event = Event(self.version, type_, (meta["namespace"], meta["name"]), raw)
        self.logs.setdefault(plural, []).append(event)


def _marked(old: JSON, now: float, grace: int) -> JSON:
    mark = {
        "deletionTimestamp": text_of(now + grace),
        "deletionGracePeriodSeconds": grace,
    }
    return {**old, "metadata": {**old["metadata"], **mark}}


def _slim(spec: JSON) -> JSON:
    """What anybody here reads of a pod's spec."""
    out: JSON = {
        "containers": [{"name": c["name"]} for c in spec["containers"]],
        "initContainers": [{"name": c["name"]} for c in spec.get("initContainers", ())],
        "restartPolicy": spec.get("restartPolicy", "Always"),
    }
    if "schedulerName" in spec:
        out["schedulerName"] = spec["schedulerName"]
    return out


_places: dict[str, Place] = {}


def _place(path: str) -> Place:
    found = _places.get(path)
    if found is None:
        parts = path.split("/")
        below = parts[3 if parts[1] == "api" else 4 :]
        namespace = ""
        if below[0] == "namespaces":
            namespace, below = below[1], below[2:]
        below += [""] * (3 - len(below))
        found = _places[path] = Place(below[0], namespace, below[1], below[2])
    return found


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch, applied."""
    if not isinstance(patch, dict):
        return patch
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out
