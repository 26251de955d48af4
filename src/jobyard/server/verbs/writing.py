"""What happens to an object on its way to the store: create and replace, whoever asks for it.

The order is that of a real server: which version it is of, what its strategy makes of it, whether
its place is open, its generation, who manages its fields, and whether it changes anything at all.
What a client sent and how it is answered is for `requesting`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from jobyard.server.kinds.types.go_numbers import NotANumberError, parsed_uint
from jobyard.server.messages.bodies import cannot_handle
from jobyard.server.messages.conversion import is_renamed, kept, shelf_of, told
from jobyard.server.messages.options import Validation, WriteOptions
from jobyard.server.messages.routing import Route, key_of
from jobyard.server.problem import (
    Cause,
    ProblemError,
    already_exists,
    bad_request,
    conflict,
    invalid,
)
from jobyard.server.resource import Admitted, Object, Part, ServedResource
from jobyard.server.site import Site
from jobyard.server.store.watch_cache import Stored, tail_of
from jobyard.server.verbs.namespaces import (
    NAMESPACES,
    check_account,
    check_crd_open,
    check_open,
    equip,
)
from jobyard.server.verbs.scale_faults import scale_faults

_STALE: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_GENERATED_TRIES: Final = 8
_GENERATED_BASE_LENGTH: Final = 58
# Those of Kubernetes' own kinds whose generation is counted; every custom resource's is.
_COUNTED: Final = frozenset(
    {
        *("pods", "customresourcedefinitions.apiextensions.k8s.io", "priorityclasses"),
        *("priorityclasses.scheduling.k8s.io", "endpointslices.discovery.k8s.io"),
        *("jobs.batch", "cronjobs.batch", "deployments.apps", "statefulsets.apps"),
        *("daemonsets.apps", "replicasets.apps"),
    }
)
# Kinds of which an update must say its version.
_CONDITIONAL: Final = frozenset(
    {"leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"}
)
_FROM_SERVER: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")
_NOT_BORN_WITH: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_PODS: Final = "pods"

# From the object before, if any, and the new one to the new one with its managed fields.
Track = Callable[[Object | None, Object], Object]


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """A write and the circumstances that it has in common with others."""

    options: WriteOptions
    track: Track
    part: Part = Part.WHOLE
    # Complaints about what the client's text had twice.
    repeated: tuple[str, ...] = ()
    is_patch: bool = False


class Written(msgspec.Struct, frozen=True):
    """The object as it is now (or would be), and what the client should know."""

    item: Stored
    warnings: tuple[str, ...] = ()


def create(site: Site, route: Route, value: Object, edit: Edit) -> Written:
    """Store a new object; raises ProblemError."""
    resource = route.resource
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        resource.strategy.created(value)
        raise bad_request(f"{resource.kind}.metadata must be an object")
    base = metadata.get("generateName")
    tries = _GENERATED_TRIES if base and not metadata.get("name") else 1
    while True:
        tries -= 1
        try:
            return _create(site, route, _born(site, route, value, metadata), edit)
        except ProblemError as problem:
            if problem.reason != "AlreadyExists" or not tries:
                raise


def _born(site: Site, route: Route, value: Object, metadata: dict[str, Any]) -> Object:
    """The object with what a server adds to it."""
    sent = {name: item for name, item in metadata.items() if name not in _NOT_BORN_WITH}
    namespace = sent.pop("namespace", "")
    if route.namespace:
        if namespace and namespace != route.namespace:
            raise foreign_namespace()
        sent["namespace"] = route.namespace
    base = sent.get("generateName")
    if not sent.get("name") and base and isinstance(base, str):
        sent["name"] = base[:_GENERATED_BASE_LENGTH] + site.new_suffix()
    made = {"uid": site.new_uid(), "creationTimestamp": site.timestamp()}
    return {**value, "metadata": {**sent, **made}}


def foreign_namespace() -> ProblemError:
    return bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def _create(site: Site, route: Route, value: Object, edit: Edit) -> Written:
    resource = route.resource
    admitted = resource.strategy.created(value)
    warnings = _judged(value, admitted, resource, edit)
    try:
        item = _stored_new(site, route, admitted, edit)
    except ProblemError as problem:
        problem.warnings = warnings
        raise
    return Written(item, warnings)


def _stored_new(site: Site, route: Route, admitted: Admitted, edit: Edit) -> Stored:
    resource, value = route.resource, admitted.value
    name = value["metadata"].get("name", "")
    if route.namespace:
        check_open(site, resource, route.namespace, name)
    if resource.is_custom:
        check_crd_open(site, resource, name)
    _refuse_faults(admitted, resource, name)
    if value["metadata"].get("resourceVersion"):
        text = "resourceVersion should not be set on objects to be created"
        raise ProblemError(500, "", text)
    shelf, key = shelf_of(resource), key_of(route.namespace, name)
    if "get" not in resource.verbs:
        # A question and its answer, such as an access review; the client wrote the question.
        asked = {name: item for name, item in value.items() if name != "status"}
        return _unstored(key, 0, {**value, **edit.track(None, asked)})
    _check_free(site, resource, shelf, key)
    if shelf == _PODS:
        check_account(site, value)
    if counts_generations(resource):
        value = {**value, "metadata": {**value["metadata"], "generation": 1}}
    value = kept(edit.track(None, value), resource)
    if edit.options.dry_run:
        return _unstored(key, 0, value)
    item = site.store.put(shelf, key, value)
    if shelf == NAMESPACES:
        equip(site, name)
    return item


def _check_free(site: Site, resource: ServedResource, shelf: str, key: str) -> None:
    there = site.store.get(shelf, key)
    if there is None:
        return
    problem = already_exists(resource.group, resource.plural, there.metadata["name"])
    if there.metadata.get("deletionTimestamp") is not None:
        text = f"object is being deleted: {problem.message}"
        problem = ProblemError(problem.code, problem.reason, text, problem.details)
    raise problem


def _unstored(key: str, version: int, value: Object) -> Stored:
    return Stored(key, version, value, tail_of(value))


def replace(site: Site, route: Route, old: Stored, value: Object, edit: Edit) -> Written:
    """Put an object in the place of another; raises ProblemError."""
    resource = route.resource
    before = told(old.value, resource)
    _check_version(resource, old, value.get("metadata") or {})
    admitted = _updated(resource, value, before, edit)
    warnings = _judged(value, admitted, resource, edit)
    try:
        _refuse_faults(admitted, resource, route.name)
    except ProblemError as problem:
        problem.warnings = warnings
        raise
    after = _carried(admitted.value, before, resource, edit.part)
    after = edit.track(before, after)
    if is_same(after, before):
        return Written(old, warnings)
    after = kept(after, resource)
    shelf = shelf_of(resource)
    if is_released(after, shelf):
        # Gone without one more version: whoever watches sees what it was before.
        if not edit.options.dry_run:
            version = site.store.remove(shelf, old.key).version
            return Written(_unstored(old.key, version, after), warnings)
        return Written(_unstored(old.key, old.version, after), warnings)
    if edit.options.dry_run:
        return Written(_unstored(old.key, old.version, after), warnings)
    return Written(site.store.put(shelf, old.key, after), warnings)


def _updated(resource: ServedResource, value: Object, before: Object, edit: Edit) -> Admitted:
    try:
        return resource.strategy.updated(value, before, edit.part)
    except ProblemError as problem:
        # What can't be read is no fault of the client's text, if it is a patch that made it.
        unreadable = str(cannot_handle(resource.kind, resource.version, resource, ""))
        if edit.is_patch and problem.message.startswith(unreadable):
            raise patch_fault(value, problem.message.removeprefix(unreadable)) from None
        raise


def _check_version(resource: ServedResource, old: Stored, metadata: dict[str, Any]) -> None:
    version = metadata.get("resourceVersion") or ""
    name = old.metadata["name"]
    if not version or version == "0":
        if resource.is_custom or resource.storage_key in _CONDITIONAL:
            text = "Invalid value: 0: must be specified for an update"
            cause = Cause("FieldValueInvalid", text, "metadata.resourceVersion")
            raise invalid(resource.group, resource.plural, name, (cause,))
        return
    if not isinstance(version, str):
        # What is no text is refused when the object is read.
        return
    try:
        wanted = parsed_uint(version)
    except NotANumberError as fault:
        raise ProblemError(500, "", str(fault)) from None
    if wanted != old.version:
        raise conflict(resource.group, resource.plural, name, _STALE)


def _judged(
    sent: Object, admitted: Admitted, resource: ServedResource, edit: Edit
) -> tuple[str, ...]:
    """Warnings about fields that aren't known or come twice, unless they are a reason to refuse."""
    if not admitted.unknown and not edit.repeated:
        return admitted.warnings
    if edit.options.validation is Validation.IGNORE:
        return admitted.warnings
    paths = sorted(admitted.unknown) if resource.is_custom else admitted.unknown
    unknown = tuple(f'unknown field "{path}"' for path in paths)
    told_first = resource.is_custom or edit.is_patch
    texts = (*edit.repeated, *unknown) if told_first else (*unknown, *edit.repeated)
    if edit.options.validation is Validation.WARN:
        return (*texts, *admitted.warnings)
    if edit.repeated and edit.repeated[0].startswith("line "):
        # The YAML reader's own words, which it begins on a line of their own.
        lines = "".join(f"\n  {line}" for line in edit.repeated)
        texts = (f"yaml: unmarshal errors:{lines}", *unknown)
    text = f"strict decoding error: {', '.join(texts)}"
    if edit.is_patch:
        raise patch_fault(sent, text)
    raise cannot_handle(resource.kind, resource.version, resource, text)


def patch_fault(value: Object, text: str) -> ProblemError:
    """How a real server tells that what a patch makes of an object can't be read."""
    sorted_value = {name: value[name] for name in sorted(value)}
    shown = msgspec.json.encode(msgspec.json.encode(sorted_value).decode()).decode()
    cause = Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", "patch")
    return invalid("", "", "", (cause,))


def _refuse_faults(admitted: Admitted, resource: ServedResource, name: str) -> None:
    causes = (*admitted.causes, *scale_faults(admitted.value, resource.scale))
    if causes:
        # An Event is one of the core group's, whatever it is called.
        group = "" if is_renamed(resource) else resource.group
        raise invalid(group, resource.kind, name, causes)


def _carried(value: Object, before: Object, resource: ServedResource, part: Part) -> Object:
    """The object with the metadata that only a server writes."""
    old = before["metadata"]
    metadata = {name: item for name, item in value["metadata"].items() if name not in _FROM_SERVER}
    metadata |= {name: old[name] for name in _FROM_SERVER if name in old}
    for name in ("uid", "creationTimestamp", "resourceVersion", "namespace", "name"):
        if name in old:
            metadata[name] = old[name]
    if counts_generations(resource) and part is Part.WHOLE and _differs(value, before, resource):
        metadata["generation"] = old.get("generation", 0) + 1
    return {**value, "metadata": metadata}


def _differs(value: Object, before: Object, resource: ServedResource) -> bool:
    """Whether more than metadata and status is new."""
    ignored = {"apiVersion", "kind", "metadata"}
    if not resource.is_custom or resource.subresource("status") is not None:
        ignored.add("status")
    names = (value.keys() | before.keys()) - ignored
    return any(value.get(name) != before.get(name) for name in names)


def counts_generations(resource: ServedResource) -> bool:
    return resource.is_custom or resource.storage_key in _COUNTED


def is_same(after: Object, before: Object) -> bool:
    """Whether a write changes nothing; the times in managed fields alone don't count."""
    if after is before:
        return True
    if _timeless(after) != _timeless(before):
        return False
    # In Python 1 is True; in JSON it isn't.
    sorted_json = msgspec.json.Encoder(order="sorted").encode
    return sorted_json(_timeless(after)) == sorted_json(_timeless(before))


def _timeless(value: Object) -> Object:
    metadata = value["metadata"]
    entries = metadata.get("managedFields")
    if not entries:
        return value
    plain = [{name: item for name, item in e.items() if name != "time"} for e in entries]
    return {**value, "metadata": {**metadata, "managedFields": plain}}


def is_released(value: Object, shelf: str) -> bool:
    """Whether nothing holds back an object that was deleted."""
    metadata = value["metadata"]
    if metadata.get("deletionTimestamp") is None or metadata.get("finalizers"):
        return False
    if shelf == NAMESPACES and (value.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
