"""The scale subresource of custom resources: one number, in a shape that every tool knows.

Where the figures are is said by the CRD. A change of the number is a change of the object, with
all that belongs to it.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.numerals import INT32_MAX
from jobyard.server.call import Call, Reply
from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.messages.bodies import object_in
from jobyard.server.messages.conversion import told
from jobyard.server.messages.options import WriteOptions, write_options
from jobyard.server.messages.rendering import negotiated, value_body
from jobyard.server.messages.routing import Route, Verb
from jobyard.server.patching import patched
from jobyard.server.printing.json_path import found as found_at
from jobyard.server.problem import Cause, Details, ProblemError, bad_request
from jobyard.server.resource import Object, Scale, ServedResource
from jobyard.server.site import Site
from jobyard.server.store.watch_cache import Stored
from jobyard.server.verbs.claiming import tracking
from jobyard.server.verbs.reading import found
from jobyard.server.verbs.writing import Edit, Track, patch_fault, replace

# A name that no client can have.
_NOBODY: Final = "\0"
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scaled(site: Site, route: Route, call: Call) -> Reply:
    """GET, PUT or PATCH of a scale."""
    view = negotiated(call)
    scale = route.resource.scale
    assert scale is not None, "the row has the subresource because it has a scale"
    item = found(site, route)
    if route.verb is not Verb.GET:
        item = _rescaled(site, route, call, item, scale)
    body = scale_of(told(item.value, route.resource), scale)
    return Reply(
        status=200,
        body=value_body(view, body),
        content_type=view.content_type,
        version=item.version,
    )


def scale_of(value: Object, scale: Scale, default: int | None = None) -> Object:
    """An autoscaling/v1 Scale; `default` is the number of an object that says none."""
    replicas = _number(value, scale.spec_replicas_path)
    if replicas is None:
        replicas = default
    if replicas is None:
        text = f'the spec replicas field "{scale.spec_replicas_path}" does not exist'
        details = Details(causes=(Cause(message=text),))
        raise ProblemError(500, "InternalError", f"Internal error occurred: {text}", details)
    status: Object = {"replicas": _number(value, scale.status_replicas_path) or 0}
    if scale.label_selector_path:
        selector = next(iter(found_at(scale.label_selector_path, value)), "")
        if isinstance(selector, str) and selector:
            status["selector"] = selector
    metadata = value["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _number(value: Object, path: str) -> int | None:
    number = next(iter(found_at(path, value)), None)
    return number if isinstance(number, int) else None


def _rescaled(site: Site, route: Route, call: Call, item: Stored, scale: Scale) -> Stored:
    resource = route.resource
    value = told(item.value, resource)
    is_patch = route.verb is Verb.PATCH
    options = write_options(call, "PatchOptions" if is_patch else "UpdateOptions")
    if is_patch:
        before = scale_of(value, scale, default=0)
        resolve = site.catalogue.resolved
        sent = patched(before, call.body, call.content_type, resource, resolve)
    else:
        sent = _body(call)
    path = scale.spec_replicas_path
    replicas = _replicas(sent, is_patch=is_patch)
    metadata = dict(value["metadata"])
    version = _metadata(sent, is_patch=is_patch).get("resourceVersion")
    if version:
        metadata["resourceVersion"] = version
    after = _with_number({**value, "metadata": metadata}, path, replicas)
    edit = Edit(options=options, track=_tracking(site, resource, options))
    return replace(site, route, item, after, edit).item


def _replicas(sent: Object, *, is_patch: bool) -> int:
    spec = sent.get("spec") or {}
    if not isinstance(spec, dict):
        raise _mismatch(sent, "spec", spec, "object", is_patch=is_patch)
    replicas = spec.get("replicas", 0)
    is_number = isinstance(replicas, int) and not isinstance(replicas, bool)
    if is_number and -INT32_MAX <= replicas <= INT32_MAX:
        number: int = replicas
        return number
    raise _mismatch(sent, "spec.replicas", replicas, "integer", is_patch=is_patch)


def _metadata(sent: Object, *, is_patch: bool) -> Object:
    metadata = sent.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise _mismatch(sent, "metadata", metadata, "object", is_patch=is_patch)
    return metadata


def _mismatch(sent: Object, where: str, found: Any, wanted: str, *, is_patch: bool) -> ProblemError:
    text = misfit(where, found, wanted)
    if is_patch:
        return patch_fault(sent, text)
    return bad_request(f'Scale in version "v1" cannot be handled as a Scale: {text}')


def _tracking(site: Site, resource: ServedResource, options: WriteOptions) -> Track:
    """Who scales manages the number through a door of its own, and at no time."""
    unlike_any = WriteOptions(_NOBODY, options.dry_run, options.validation)
    track = tracking(site, resource, unlike_any)

    def renamed(old: Object | None, new: Object) -> Object:
        tracked = track(old, new)
        entries = tracked["metadata"].get("managedFields") or []
        mine = [
            {**_timeless(entry), "manager": options.manager, "subresource": "scale"}
            for entry in entries
            if entry.get("manager") == _NOBODY
        ]
        others = [entry for entry in entries if entry.get("manager") != _NOBODY]
        if not mine:
            return tracked
        return {**tracked, "metadata": {**tracked["metadata"], "managedFields": [*mine, *others]}}

    return renamed


def _timeless(entry: Object) -> Object:
    return {name: item for name, item in entry.items() if name != "time"}


def _body(call: Call) -> Object:
    return object_in(call, "the body must be an autoscaling/v1 Scale")


def _with_number(value: Object, path: str, number: int) -> Object:
    """The object with a number at a path such as `.spec.replicas`."""
    steps = [step for step in path.split(".") if step]
    changed: Any = number
    for depth in reversed(range(len(steps))):
        inner: Any = value
        for step in steps[:depth]:
            inner = inner.get(step) if isinstance(inner, dict) else None
        changed = {**(inner if isinstance(inner, dict) else {}), steps[depth]: changed}
    made: Object = changed
    return made
