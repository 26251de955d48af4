"""How an answer looks: JSON or YAML; whole objects, their metadata alone, or a Table.

The Accept header decides. What is stored as JSON is sent as it is; everything else is made for
the client that asks for it. No rules about objects are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from jobyard.server.call import JSON_TYPE, YAML_TYPE, Call, Reply
from jobyard.server.messages.acceptance import wishes
from jobyard.server.messages.conversion import is_renamed, told
from jobyard.server.problem import Details, ProblemError, bad_request
from jobyard.server.resource import Object, ServedResource
from jobyard.server.store.watch_cache import Stored, header_of, tail_of

META_GROUP: Final = "meta.k8s.io"
META: Final = f"{META_GROUP}/v1"
PARTIAL: Final = "PartialObjectMetadata"
_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAM_TYPES: Final = (
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
)
_YAML_TYPES: Final = (YAML_TYPE, "application/x-yaml", "text/yaml")

encode: Final = msgspec.json.Encoder().encode


class Shape(StrEnum):
    """What of an object is told."""

    WHOLE = ""
    METADATA = "PartialObjectMetadata"
    TABLE = "Table"


class View(msgspec.Struct, frozen=True):
    """What a client wants to see."""

    shape: Shape = Shape.WHOLE
    is_yaml: bool = False
    # Of the objects in a Table: all, their metadata, or nothing.
    include_object: str = ""
    pretty: bool = False
    # The version of the group that Tables and metadata alone are in.
    meta_version: str = "v1"

    @property
    def content_type(self) -> str:
        return YAML_TYPE if self.is_yaml else JSON_TYPE


_PLAIN: Final = View()


def negotiated(
    call: Call,
    resource: ServedResource | None = None,
    *,
    is_list: bool = False,
    is_stream: bool = False,
) -> View:
    """The first wish of the client that can be granted; raises 406 if there is none."""
    pretty = bool(call.query) and call.flag("pretty")
    if call.accept == JSON_TYPE:
        return View(pretty=True) if pretty else _PLAIN
    is_custom = resource is not None and resource.is_custom
    understood = False
    for wish in wishes(call.accept):
        is_yaml = wish.type in _YAML_TYPES
        # The router in front of Kubernetes' own kinds doesn't know this one.
        is_vague = wish.type == "application/*" and not is_custom
        if is_vague or (not is_yaml and not wish.is_json):
            continue
        understood = True
        if is_yaml and is_stream:
            continue
        shape = _shape(wish.parameters)
        if shape is not None:
            if not is_stream:
                _check_number(wish.parameters.get("as", ""), resource, is_list=is_list)
            include = _include_object(call) if shape is Shape.TABLE else ""
            version = wish.parameters.get("v", "v1")
            return View(shape, is_yaml, include, pretty, version)
    if understood or is_custom:
        types = _STREAM_TYPES if is_stream else _TYPES
        raise ProblemError(406, "NotAcceptable", _accepted(types))
    types = f"{_TYPES}, {_STREAM_TYPES}" if is_list or is_stream else _TYPES
    text = f"406: Not Acceptable\n\nAvailable representations: {types}"
    raise ProblemError(406, "NotAcceptable", text, Details())


def _accepted(types: str) -> str:
    return f"only the following media types are accepted: {types}"


def _shape(parameters: dict[str, str]) -> Shape | None:
    wanted = parameters.get("as")
    if wanted is None:
        return Shape.WHOLE
    if parameters.get("g") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
        return None
    if wanted in (PARTIAL, f"{PARTIAL}List"):
        return Shape.METADATA
    return Shape.TABLE if wanted == "Table" else None


def _check_number(wanted: str, resource: ServedResource | None, *, is_list: bool) -> None:
    """Metadata of one object and of a list are asked for by different names."""
    if resource is None or wanted not in (PARTIAL, f"{PARTIAL}List"):
        return
    if is_list == (wanted != PARTIAL):
        return
    package = "unstructured.Unstructured" if resource.is_custom else f"core.{resource.kind}"
    what = f"is a list (*{package}List)" if is_list else f"is not a list (*{package})"
    text = f"you requested {wanted}, but the requested object {what}"
    raise ProblemError(406, "NotAcceptable", text)


def _include_object(call: Call) -> str:
    text = call.option("includeObject")
    if text not in ("", "Metadata", "Object", "None"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{text}":'
            " must be 'Metadata', 'Object', 'None', or empty"
        )
    return text


@lru_cache(maxsize=1024)
def _header(kind: str, api_version: str) -> bytes:
    return header_of(kind, api_version)


def header(resource: ServedResource) -> bytes:
    return _header(resource.kind, resource.api_version)


def tail(item: Stored, resource: ServedResource) -> bytes:
    return tail_of(told(item.value, resource)) if is_renamed(resource) else item.tail


def partial(value: Object, version: str = "v1") -> Object:
    api_version = f"{META_GROUP}/{version}"
    return {"kind": PARTIAL, "apiVersion": api_version, "metadata": value["metadata"]}


def _table(
    view: View, resource: ServedResource, values: Sequence[Object], **details: Any
) -> Object:
    # Imported here: only people look at tables, and few programs are for people.
    from jobyard.server.printing.table import table_of

    table = table_of(resource, values, include_object=view.include_object, **details)
    return {**table, "apiVersion": f"{META_GROUP}/{view.meta_version}"}


def object_body(view: View, resource: ServedResource, item: Stored, now: float) -> bytes:
    """One object."""
    if view.shape is Shape.WHOLE and not view.is_yaml and not view.pretty:
        return header(resource) + tail(item, resource)
    return value_body(view, object_value(view, resource, item, now))


def object_value(
    view: View, resource: ServedResource, item: Stored, now: float, *, headers: bool = True
) -> Object:
    value = told(item.value, resource)
    match view.shape:
        case Shape.METADATA:
            return partial(value, view.meta_version)
        case Shape.TABLE:
            version = {"resourceVersion": value["metadata"].get("resourceVersion", "")}
            return _table(view, resource, (value,), now=now, list_meta=version, headers=headers)
        case Shape.WHOLE:
            return value


def list_body(
    view: View,
    resource: ServedResource,
    items: Sequence[Stored],
    metadata: dict[str, Any],
    now: float,
) -> bytes:
    """A list of objects."""
    kind = resource.list_kind or f"{resource.kind}List"
    if view.shape is Shape.WHOLE and not view.is_yaml and not view.pretty:
        opening = header(resource) if resource.is_custom else b"{"
        parts = b",".join([opening + tail(item, resource) for item in items])
        if resource.is_custom:
            # The dynamic kinds always tell it.
            metadata = {"continue": "", **metadata}
        return b'%b"metadata":%b,"items":[%b]}' % (
            _header(kind, resource.api_version),
            encode(metadata),
            parts,
        )
    values = [told(item.value, resource) for item in items]
    document: dict[str, Any]
    match view.shape:
        case Shape.METADATA:
            document = {
                "kind": f"{PARTIAL}List",
                "apiVersion": f"{META_GROUP}/{view.meta_version}",
                "metadata": metadata,
                "items": [partial(value, view.meta_version) for value in values],
            }
        case Shape.TABLE:
            document = _table(view, resource, values, now=now, list_meta=metadata)
        case Shape.WHOLE:
            document = {
                "kind": kind,
                "apiVersion": resource.api_version,
                "metadata": metadata,
                "items": values,
            }
    return value_body(view, document)


def value_body(view: View, value: Any) -> bytes:
    """Any document."""
    if view.is_yaml:
        text: str = yaml.dump(value, Dumper=_dumper(), default_flow_style=False, allow_unicode=True)
        return text.encode()
    body = encode(value)
    return msgspec.json.format(body, indent=2) if view.pretty else body


@lru_cache(maxsize=1)
def _dumper() -> Any:
    class Dumper(yaml.CSafeDumper):
        """Writes shared values twice: anchors are nothing that a client expects."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    return Dumper


def problem_reply(problem: ProblemError, accept: str) -> Reply:
    """A refusal, in YAML if that is what the client wants first."""
    first = next(iter(wishes(accept)), None)
    view = View(is_yaml=first is not None and first.type in _YAML_TYPES)
    return Reply(
        status=problem.code,
        body=value_body(view, problem.status),
        content_type=view.content_type,
        warnings=problem.warnings,
    )


def status_value(code: int | None = None, **details: Any) -> Object:
    """The Status of a success."""
    body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = {name: value for name, value in details.items() if value}
    return body if code is None else {**body, "code": code}
