"""Deletion: at once, gracefully, or after the finalizers; of one object or of a collection.

The steps are those of a real server: preconditions, the grace of pods, the finalizers that the
propagation policy puts in or takes out, and only then the removal. What happens to dependents
afterwards is `collecting`'s business, the end of namespaces and CRDs `sweeping`'s.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.server.call import Call, Reply
from jobyard.server.messages.conversion import shelf_of
from jobyard.server.messages.options import DeleteOptions, Propagation, delete_options
from jobyard.server.messages.rendering import list_body, negotiated, status_value, value_body
from jobyard.server.messages.routing import Route
from jobyard.server.problem import conflict, forbidden
from jobyard.server.resource import Object, ServedResource
from jobyard.server.site import Site, moment_of, stamp
from jobyard.server.store.catalogue import CRDS
from jobyard.server.store.watch_cache import Stored, tail_of
from jobyard.server.verbs.reading import candidates, found, selected, shown

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
CRD_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
NAMESPACES: Final = "namespaces"
_PODS: Final = "pods"
_PERMANENT_NAMESPACES: Final = ("default", "kube-system", "kube-public")
# Kinds whose deletion answers with the object, not with a Status.
_SHOWN_WHEN_GONE: Final = frozenset(
    {_PODS, "services", "serviceaccounts", "persistentvolumeclaims", "persistentvolumes"}
    | {"podtemplates", "resourcequotas", NAMESPACES}
)
_GRACE_SECONDS: Final = 30


class Deletion(msgspec.Struct, frozen=True):
    """What a deletion came to: the object, and whether it is gone."""

    item: Stored
    is_gone: bool


def deleted(site: Site, route: Route, call: Call) -> Reply:
    view = negotiated(call)
    options = delete_options(call)
    resource = route.resource
    done = delete_item(site, resource, found(site, route), options)
    if not done.is_gone or shelf_of(resource) in _SHOWN_WHEN_GONE:
        status = 202 if options.must_cascade and not done.is_gone else 200
        return shown(site, view, resource, done.item, status)
    details = {
        "name": route.name,
        "group": resource.group,
        "kind": resource.plural,
        "uid": done.item.metadata["uid"],
    }
    return Reply(
        status=200,
        body=value_body(view, status_value(**details)),
        content_type=view.content_type,
        version=done.item.version,
    )


def deleted_collection(site: Site, route: Route, call: Call) -> Reply:
    """Every object that the selectors choose; the answer lists them."""
    view = negotiated(call)
    options = delete_options(call)
    shelf = site.store.shelf(shelf_of(route.resource))
    chosen = candidates(shelf, route, selected(call, route), site.store.version)
    for item in chosen:
        delete_item(site, route.resource, item, options)
    metadata = {"resourceVersion": str(site.store.version)}
    return Reply(
        status=200,
        body=list_body(view, route.resource, chosen, metadata, site.now()),
        content_type=view.content_type,
        version=shelf.version,
    )


def delete_item(
    site: Site, resource: ServedResource, item: Stored, options: DeleteOptions
) -> Deletion:
    """Delete one object, or begin to."""
    _check_preconditions(resource, item, options)
    shelf = shelf_of(resource)
    if shelf == NAMESPACES:
        return _terminate_namespace(site, resource, item, options)
    if shelf == CRDS:
        return _terminate_crd(site, item, options)
    graceful, pending = _graced(site, shelf, item.value, options)
    if pending:
        return Deletion(item, False)
    marked = item.value if graceful is None else graceful
    finalizers = _finalizers(marked["metadata"], options)
    if finalizers != (marked["metadata"].get("finalizers") or []):
        marked = with_metadata(marked, finalizers=finalizers)
    if finalizers:
        if graceful is None:
            marked = _marked(site, marked)
        return Deletion(_written(site, shelf, item, marked, options), False)
    if graceful is not None:
        item = _written(site, shelf, item, marked, options)
        if marked["metadata"]["deletionGracePeriodSeconds"] > 0:
            return Deletion(item, False)
    if options.dry_run:
        return Deletion(item, True)
    return Deletion(site.store.remove(shelf, item.key), True)


def _written(site: Site, shelf: str, item: Stored, value: Object, options: DeleteOptions) -> Stored:
    if value is item.value or value == item.value:
        return item
    if options.dry_run:
        return Stored(item.key, item.version, value, tail_of(value))
    return site.store.put(shelf, item.key, value)


def with_metadata(value: Object, **fields: Any) -> Object:
    """The object with other metadata; None and nothing mean that a field goes."""
    metadata = {**value["metadata"], **fields}
    kept = {name: item for name, item in metadata.items() if item is not None and item != []}
    return {**value, "metadata": kept}


def _check_preconditions(resource: ServedResource, item: Stored, options: DeleteOptions) -> None:
    uid, version, name = item.metadata["uid"], str(item.version), item.metadata["name"]
    if options.uid is not None and options.uid != uid:
        text = f"the UID in the precondition ({options.uid}) does not match the UID in record"
        text += f" ({uid}). The object might have been deleted and then recreated"
        raise conflict(resource.group, resource.kind, name, text)
    if options.version is not None and options.version != version:
        text = f"the ResourceVersion in the precondition ({options.version}) does not match the"
        text += f" ResourceVersion in record ({version}). The object might have been modified"
        raise conflict(resource.group, resource.kind, name, text)


def _graced(
    site: Site, shelf: str, value: Object, options: DeleteOptions
) -> tuple[Object | None, bool]:
    """A pod with its deletion's time, if grace has a say; and whether all is under way already."""
    if shelf != _PODS:
        return None, False
    metadata = value["metadata"]
    seconds = options.grace_seconds
    until, period = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if until is not None:
        if not period:
            return None, False
        if seconds is None or seconds >= period:
            return None, True
        sooner = stamp(moment_of(until) - period + max(seconds, 0))
        return _timed(value, sooner, max(seconds, 0)), False
    seconds = _grace_seconds(value) if seconds is None else seconds
    phase = (value.get("status") or {}).get("phase")
    if not value["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
        seconds = 0
    elif seconds < 0:
        seconds = 1
    return _timed(_next_generation(value), site.timestamp(seconds), seconds), False


def _grace_seconds(pod: Object) -> int:
    seconds: int | None = pod["spec"].get("terminationGracePeriodSeconds")
    return _GRACE_SECONDS if seconds is None else seconds


def _timed(value: Object, until: str, seconds: int) -> Object:
    return with_metadata(value, deletionTimestamp=until, deletionGracePeriodSeconds=seconds)


def _next_generation(value: Object) -> Object:
    generation = value["metadata"].get("generation")
    return with_metadata(value, generation=generation + 1) if generation else value


def _marked(site: Site, value: Object) -> Object:
    """An object that waits for its finalizers."""
    now = site.timestamp()
    until = value["metadata"].get("deletionTimestamp")
    if until is None:
        value = _next_generation(value)
    if until is None or until > now:
        until = now
    return _timed(value, until, 0)


def _finalizers(metadata: dict[str, Any], options: DeleteOptions) -> list[str]:
    """The finalizers with the one that stands for the policy, and without the others."""
    present = list(metadata.get("finalizers") or [])
    policy = options.propagation
    if policy is None:
        # The object's own finalizers say it.
        wanted = ORPHAN if ORPHAN in present else FOREGROUND if FOREGROUND in present else None
    else:
        wanted = {Propagation.ORPHAN: ORPHAN, Propagation.FOREGROUND: FOREGROUND}.get(policy)
    if wanted is not None and wanted in present and len({ORPHAN, FOREGROUND} & set(present)) == 1:
        return present
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    return kept if wanted is None else [*kept, wanted]


def _terminate_namespace(
    site: Site, resource: ServedResource, item: Stored, options: DeleteOptions
) -> Deletion:
    name = item.metadata["name"]
    if name in _PERMANENT_NAMESPACES:
        text = "this namespace may not be deleted"
        raise forbidden(resource.group, resource.plural, name, text)
    value = item.value
    if item.metadata.get("deletionTimestamp") is None:
        value = with_metadata(value, deletionTimestamp=site.timestamp())
        value = {**value, "status": {**(value.get("status") or {}), "phase": "Terminating"}}
    return Deletion(_written(site, NAMESPACES, item, value, options), False)


def _terminate_crd(site: Site, item: Stored, options: DeleteOptions) -> Deletion:
    value = item.value
    if item.metadata.get("deletionTimestamp") is None:
        finalizers = list(item.metadata.get("finalizers") or [])
        if CRD_FINALIZER not in finalizers:
            finalizers.append(CRD_FINALIZER)
        now = site.timestamp()
        value = with_metadata(value, deletionTimestamp=now, finalizers=finalizers)
        status = value.get("status") or {}
        condition = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion"
            " will begin soon",
        }
        conditions = [c for c in status.get("conditions") or () if c.get("type") != "Terminating"]
        value = {**value, "status": {**status, "conditions": [*conditions, condition]}}
    return Deletion(_written(site, CRDS, item, value, options), False)
