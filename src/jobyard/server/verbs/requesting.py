"""The writes that clients ask for: POST, PUT and PATCH of objects and of their status.

Reads the body, finds out what it is a write of, and hands it to `writing`; then it answers.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.server.apply import applied
from jobyard.server.call import Call, Reply
from jobyard.server.kinds.types.misfit import misfit
from jobyard.server.messages.bodies import BodyError, decoded, media_type, object_of
from jobyard.server.messages.conversion import shelf_of, told, unaliased
from jobyard.server.messages.json_text import TooDeepError, check_depth
from jobyard.server.messages.options import WriteOptions, write_options
from jobyard.server.messages.rendering import negotiated, object_body
from jobyard.server.messages.routing import Route
from jobyard.server.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    accepted_types,
    patched,
    unsupported_media_type,
)
from jobyard.server.problem import (
    Cause,
    Details,
    ProblemError,
    bad_request,
    invalid,
    not_found,
)
from jobyard.server.resource import Object, Part, ServedResource
from jobyard.server.site import Site
from jobyard.server.verbs.claiming import tracking
from jobyard.server.verbs.reading import found, other_than_meant
from jobyard.server.verbs.writing import (
    Edit,
    Written,
    create,
    foreign_namespace,
    patch_fault,
    replace,
)

_STATUS: Final = "status"
# Kinds that a PUT makes if they aren't there.
_CREATED_BY_UPDATE: Final = frozenset(
    {
        *("leases.coordination.k8s.io", "services", "endpoints", "limitranges"),
        *("events", "events.events.k8s.io"),
    }
)


def requested_create(site: Site, route: Route, call: Call) -> Reply:
    view = negotiated(call, route.resource)
    options = write_options(call, "CreateOptions")
    body = object_of(call, route.resource)
    edit = Edit(
        options=options,
        track=tracking(site, route.resource, options, sent=body.value),
        repeated=body.repeated,
    )
    return _answer(site, view, route, create(site, route, body.value, edit), 201)


def requested_update(site: Site, route: Route, call: Call) -> Reply:
    view = negotiated(call, route.resource)
    options = write_options(call, "UpdateOptions")
    resource = route.resource
    body = object_of(call, resource)
    metadata = _check_place(body.value, route, needs_name=True)
    part = Part.STATUS if route.subresource == _STATUS else Part.WHOLE
    edit = Edit(
        options=options,
        track=tracking(site, resource, options, part, body.value),
        part=part,
        repeated=body.repeated,
    )
    old = site.store.get(shelf_of(resource), route.key)
    if old is None:
        if resource.storage_key in _CREATED_BY_UPDATE and part is Part.WHOLE:
            sent = {name: item for name, item in metadata.items() if name != "uid"}
            made = create(site, route, {**body.value, "metadata": sent}, edit)
            return _answer(site, view, route, made, 201)
        raise not_found(resource.group, resource.plural, route.name)
    if metadata.get("uid") and metadata["uid"] != old.metadata["uid"]:
        raise other_than_meant(route, old, "UID", str(metadata["uid"]), old.metadata["uid"])
    return _answer(site, view, route, replace(site, route, old, body.value, edit), 200)


def requested_patch(site: Site, route: Route, call: Call) -> Reply:
    resource = route.resource
    view = negotiated(call, resource)
    sort = media_type(call.content_type)
    if sort not in accepted_types(resource):
        if resource.is_custom:
            raise unsupported_media_type(resource)
        text = "415: Unsupported Media Type"
        raise ProblemError(415, "UnsupportedMediaType", text, Details())
    if sort == APPLY_PATCH:
        options = write_options(call, "PatchOptions", is_apply=True)
        made, status = _apply(site, route, call.body, options)
        return _answer(site, view, route, made, status)
    options = write_options(call, "PatchOptions")
    old = found(site, route)
    part = Part.STATUS if route.subresource == _STATUS else Part.WHOLE
    resolve = site.catalogue.resolved
    value = patched(told(old.value, resource), call.body, sort, resource, resolve)
    if sort == JSON_PATCH:
        _check_depth(value)
    edit = Edit(
        options=options,
        track=tracking(site, resource, options, part),
        part=part,
        repeated=_repeated(call.body),
        is_patch=True,
    )
    value = unaliased(value)
    _check_header(value, resource)
    _check_place(value, route)
    return _answer(site, view, route, replace(site, route, old, value, edit), 200)


def _check_depth(value: Object) -> None:
    """Operations can put an object into itself, over and over."""
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        # Who manages a field is told by a step for each level and some more.
        metadata = {name: item for name, item in metadata.items() if name != "managedFields"}
    try:
        check_depth({**value, "metadata": metadata})
    except TooDeepError as problem:
        raise patch_fault({}, str(problem)) from None


def _repeated(body: bytes) -> tuple[str, ...]:
    try:
        return decoded(body).repeated
    except BodyError:
        return ()


def _check_header(value: Object, resource: ServedResource) -> None:
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if not kind:
        text = msgspec.json.encode(value).decode()
        raise patch_fault(value, f"Object 'Kind' is missing in '{text}'")
    if resource.is_custom:
        _check_custom_header(value, resource)
        return
    if api_version != resource.api_version:
        text = f'no kind "{kind}" is registered for version "{api_version}" in scheme'
        raise patch_fault(value, text + ' "pkg/runtime/scheme.go:111"')
    if kind != resource.kind:
        group = resource.group or "core"
        text = f"converting ({resource.version}.{kind}) to ({group}.{resource.kind}): unknown"
        raise patch_fault(value, f"{text} conversion")


def _check_custom_header(value: Object, resource: ServedResource) -> None:
    metadata = value.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        found_value = value.get(field)
        if found_value != wanted:
            text = f'Invalid value: "{found_value}": must be {wanted}'
            group = str(value.get("apiVersion", "")).rpartition("/")[0]
            cause = Cause("FieldValueInvalid", text, field)
            raise invalid(group, str(value["kind"]), name, (cause,))


def _check_place(value: Object, route: Route, *, needs_name: bool = False) -> dict[str, Any]:
    """The metadata of an object that must be the one on the path."""
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request(f"{route.resource.kind}.metadata must be an object")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name and needs_name:
        raise bad_request(
            f"the name of the object ({route.name} based on URL) was undeterminable: name must be"
            " provided"
        )
    if name and name != route.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({route.name})"
        )
    if namespace and route.namespace and namespace != route.namespace:
        raise foreign_namespace()
    return metadata


def _apply(site: Site, route: Route, body: bytes, options: WriteOptions) -> tuple[Written, int]:
    """Server-side apply: it makes what isn't there."""
    resource = route.resource
    try:
        intent = decoded(body, is_yaml=True)
    except BodyError as problem:
        text = f"error decoding YAML: error converting YAML to JSON: {problem}"
        raise bad_request(text) from None
    if not isinstance(intent.value, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            + misfit("", intent.value, "object")
        )
    part = Part.STATUS if route.subresource == _STATUS else Part.WHOLE
    old = site.store.get(shelf_of(resource), route.key)
    if old is None and part is Part.STATUS:
        raise not_found(resource.group, resource.plural, route.name)
    live = None if old is None else told(old.value, resource)
    value = applied(
        live,
        unaliased(intent.value),
        manager=options.manager,
        force=options.force,
        time=site.timestamp(),
        part=part,
        resource=resource,
        resolve=site.catalogue.resolved,
    )
    metadata = {"name": route.name, **_check_place(value, route, needs_name=old is None)}
    if resource.null_strategy is not None and _has_null(intent.value):
        strict = msgspec.structs.replace(resource, strategy=resource.null_strategy)
        route = msgspec.structs.replace(route, resource=strict)
    if old is None:
        metadata.pop("resourceVersion", None)
    value = {**value, "metadata": metadata} if metadata != value.get("metadata") else value
    edit = Edit(
        options=options, track=_as_it_is, part=part, repeated=intent.repeated, is_patch=True
    )
    if old is None:
        return create(site, route, value, edit), 201
    return replace(site, route, old, value, edit), 200


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None


def _as_it_is(_: Object | None, new: Object) -> Object:
    return new


def _answer(site: Site, view: Any, route: Route, made: Written, status: int) -> Reply:
    return Reply(
        status=status,
        body=object_body(view, route.resource, made.item, site.now()),
        content_type=view.content_type,
        warnings=made.warnings,
        version=made.item.version,
    )
