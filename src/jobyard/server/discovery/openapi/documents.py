"""The OpenAPI documents: one per group and version in v3 with an index, one for all in v2.

A document is made when a client first asks for it and kept as bytes under a fingerprint of the
rows it comes from, so a CRD that comes or goes costs only the documents it is in. The index has
those fingerprints: kubectl keeps a document for as long as its fingerprint stays.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from jobyard import __version__
from jobyard.server.call import Call, Reply
from jobyard.server.discovery.openapi.dialect import Dialect
from jobyard.server.discovery.openapi.operations import paths_of
from jobyard.server.discovery.openapi.schemas import Schemas
from jobyard.server.discovery.openapi.wire import WIRE_TYPES, on_the_wire
from jobyard.server.groups import groups_of
from jobyard.server.messages.acceptance import require_json, tagged, wishes
from jobyard.server.resource import Catalogue, JSONSchema, ServedResource

OPENAPI_PREFIX: Final = "/openapi/"

_INFO: Final = {"title": "Jobyard", "version": __version__}
# A document under its fingerprint never changes.
_FOREVER: Final = ("Cache-Control", "public, immutable, max-age=31536000")
_KEPT_MAX: Final = 128

Value = TypeVar("Value")


class _Kept(Generic[Value]):
    """The values that were last made, by key; a bound, because CRDs come and go."""

    def __init__(self) -> None:
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = self._values[key] = make()
        if len(self._values) > _KEPT_MAX:
            self._values.popitem(last=False)
        return value


_documents: Final[_Kept[bytes]] = _Kept()
# By identity, which is safe because the schema is kept beside its digest.
_digests: Final[_Kept[tuple[JSONSchema, str]]] = _Kept()


def openapi_reply(call: Call, catalogue: Catalogue) -> Reply | None:
    """The answer below `/openapi/`; None for what isn't there."""
    what = call.path.removeprefix(OPENAPI_PREFIX).rstrip("/")
    if what == "v2":
        is_on_the_wire = any(wish.type in WIRE_TYPES for wish in wishes(call.accept))
        if not is_on_the_wire:
            require_json(call.accept)
        return _v2(call, catalogue, is_on_the_wire=is_on_the_wire)
    if what == "v3":
        return Reply(status=200, body=msgspec.json.encode({"paths": _index(catalogue)}))
    rows = dict(_served(catalogue)).get(what.removeprefix("v3/"), ())
    if not rows:
        return None
    require_json(call.accept)
    fingerprint = _fingerprint(rows)
    reply = tagged(call, _v3(rows, catalogue, fingerprint), fingerprint=fingerprint)
    if call.option("hash") != fingerprint:
        return reply
    kept = [header for header in reply.headers if header[0] != _FOREVER[0]]
    return msgspec.structs.replace(reply, headers=(*kept, _FOREVER))


def _served(catalogue: Catalogue) -> Iterator[tuple[str, Sequence[ServedResource]]]:
    """The rows of each group and version, under the name of their document."""
    for group in (*groups_of(catalogue, core=True), *groups_of(catalogue)):
        for version in group.versions:
            path = f"apis/{group.name}/{version.name}" if group.name else f"api/{version.name}"
            yield path, version.rows


def _index(catalogue: Catalogue) -> dict[str, Any]:
    return {
        path: {"serverRelativeURL": f"{OPENAPI_PREFIX}v3/{path}?hash={_fingerprint(rows)}"}
        for path, rows in _served(catalogue)
    }


def _fingerprint(rows: Sequence[ServedResource]) -> str:
    """The same for rows that give the same document, also in another run of the server."""
    facts = [
        (
            *(row.group, row.version, row.plural, row.kind, row.namespaced),
            *(row.list_kind, row.selectable_fields, row.verbs, row.subresources),
            *(row.is_custom, _digest(row.schema)),
        )
        for row in rows
    ]
    text = msgspec.json.encode((__version__, facts))
    return hashlib.sha512(text).hexdigest().upper()


def _digest(schema: JSONSchema) -> str:
    def make() -> tuple[JSONSchema, str]:
        return schema, hashlib.sha256(msgspec.json.encode(schema)).hexdigest()

    return _digests.get(id(schema), make)[1]


def _v3(rows: Sequence[ServedResource], catalogue: Catalogue, fingerprint: str) -> bytes:
    def make() -> bytes:
        schemas = Schemas(catalogue, Dialect.V3)
        return msgspec.json.encode(
            {
                "openapi": "3.0.0",
                "info": _INFO,
                "paths": _paths(rows, schemas, Dialect.V3),
                "components": {"schemas": _sorted(schemas.published)},
            }
        )

    return _documents.get((Dialect.V3, fingerprint), make)


def _v2(call: Call, catalogue: Catalogue, *, is_on_the_wire: bool) -> Reply:
    rows = [row for _, rows in _served(catalogue) for row in rows]
    fingerprint = _fingerprint(rows)

    def make() -> bytes:
        schemas = Schemas(catalogue, Dialect.V2)
        document = {
            "swagger": "2.0",
            "info": _INFO,
            "paths": _paths(rows, schemas, Dialect.V2),
            "definitions": _sorted(schemas.published),
        }
        return on_the_wire(document) if is_on_the_wire else msgspec.json.encode(document)

    body = _documents.get((Dialect.V2, is_on_the_wire, fingerprint), make)
    if is_on_the_wire:
        # Another tag than that of the same document as JSON.
        return tagged(call, body, content_type=WIRE_TYPES[-1])
    return tagged(call, body, fingerprint=fingerprint)


def _paths(rows: Sequence[ServedResource], schemas: Schemas, dialect: Dialect) -> dict[str, Any]:
    paths = {path: told for row in rows for path, told in paths_of(row, schemas, dialect).items()}
    return _sorted(paths)


def _sorted(document: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(document.items()))
