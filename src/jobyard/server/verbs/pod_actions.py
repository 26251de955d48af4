"""The two things that are asked of a pod by POST: to run on a node, and to go.

`binding` is for schedulers, `eviction` for whoever needs the room. Both answer with a Status.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.server.call import Call, Reply
from jobyard.server.kinds.types.decoding import Decoder
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.messages.bodies import object_in
from jobyard.server.messages.options import (
    DeleteOptions,
    delete_options,
    delete_options_value,
    write_options,
)
from jobyard.server.messages.rendering import negotiated, status_value
from jobyard.server.messages.routing import Route, Verb
from jobyard.server.problem import ProblemError, bad_request, conflict
from jobyard.server.resource import Object, ServedResource
from jobyard.server.site import Site
from jobyard.server.store.watch_cache import Stored
from jobyard.server.verbs.deleting import delete_item
from jobyard.server.verbs.reading import found, other_than_meant

_PODS: Final = "pods"
# By kind and published name.
_BINDING: Final = ("Binding", f"{CORE}Binding")
_EVICTION: Final = ("Eviction", "io.k8s.api.policy.v1.Eviction")


def bound(site: Site, route: Route, call: Call, *, heeds_uid: bool = True) -> Reply:
    """Give a pod its node."""
    negotiated(call)
    options = write_options(call, "CreateOptions")
    binding = _body(call, _BINDING)
    metadata = binding.get("metadata") or {}
    if metadata.get("name") != route.name:
        raise bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    node, kind = target.get("name"), target.get("kind", "")
    if kind not in ("", "Node"):
        text = f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"'
        raise ProblemError(500, "", text)
    if not node:
        raise ProblemError(500, "", "target.name: Required value")
    item = found(site, route)
    pod = item.value
    uid, version = metadata.get("uid"), metadata.get("resourceVersion")
    if heeds_uid and uid and uid != item.metadata["uid"]:
        raise other_than_meant(route, item, "UID", uid, item.metadata["uid"])
    if version and version != str(item.version):
        raise other_than_meant(route, item, "ResourceVersion", version, str(item.version))
    if item.metadata.get("deletionTimestamp") is not None:
        why = f"pod {route.name} is being deleted, cannot be assigned to a host"
        raise conflict("", "pods/binding", route.name, why)
    if pod["spec"].get("nodeName"):
        why = f'pod {route.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict("", "pods/binding", route.name, why)
    if not options.dry_run:
        item = site.store.put(_PODS, item.key, _on_node(site, pod, node, metadata))
    return _done(item.version)


def bound_by_collection(site: Site, pods: ServedResource, namespace: str, call: Call) -> Reply:
    """The same by the path that older schedulers use; the object says which pod."""
    name = str((_body(call, _BINDING).get("metadata") or {}).get("name", ""))
    route = Route(resource=pods, verb=Verb.CREATE, namespace=namespace, name=name)
    # A real server wipes the uid from whatever is created by the path of a collection.
    return bound(site, route, call, heeds_uid=False)


def _on_node(site: Site, pod: Object, node: str, binding: dict[str, Any]) -> Object:
    status = pod.get("status") or {}
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": site.timestamp(),
    }
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    metadata = dict(pod["metadata"])
    for name in ("annotations", "labels"):
        if binding.get(name):
            metadata[name] = {**(metadata.get(name) or {}), **binding[name]}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }


def evicted(site: Site, route: Route, call: Call) -> Reply:
    """Delete a pod, as its options say. There are no disruption budgets here to ask."""
    negotiated(call)
    dry_run = write_options(call, "CreateOptions").dry_run
    eviction = _body(call, _EVICTION)
    if (eviction.get("metadata") or {}).get("name") != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wishes = eviction.get("deleteOptions")
    options = DeleteOptions()
    if isinstance(wishes, dict):
        body = msgspec.json.encode(delete_options_value(wishes))
        options = delete_options(Call(method="DELETE", path=call.path, body=body))
    if dry_run:
        options = msgspec.structs.replace(options, dry_run=True)
    item = found(site, route)
    if not options.dry_run:
        item = _disrupted(site, item)
    return _done(delete_item(site, route.resource, item, options).item.version)


def _disrupted(site: Site, item: Stored) -> Stored:
    """The pod with the condition that tells why it goes."""
    status = item.value.get("status") or {}
    conditions = status.get("conditions") or []
    if any(condition.get("type") == "DisruptionTarget" for condition in conditions):
        return item
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": site.timestamp(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    value = {**item.value, "status": {**status, "conditions": [*conditions, told]}}
    return site.store.put(_PODS, item.key, value)


def _body(call: Call, sort: tuple[str, str]) -> Object:
    kind, definition = sort
    unrecognized = f"the object provided is unrecognized (must be of type {kind})"
    value = object_in(call, unrecognized)
    if value.get("kind", kind) != kind:
        raise bad_request(unrecognized)
    return Decoder(definition, kind, "v1", {}).decoded(value, [])


def _done(version: int) -> Reply:
    return Reply(
        status=201,
        body=msgspec.json.encode(status_value(201)),
        version=version,
    )
