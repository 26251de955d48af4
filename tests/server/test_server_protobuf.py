"""Objects that come as protobuf: the bytes are a real server's, the verdict is that on JSON."""

from __future__ import annotations

import asyncio
import json
import secrets
import struct
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from rig.kube.plane import ControlPlane
from rig.tls import client_context

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.server.built_in_kinds import builtin_resources
from jobyard.server.call import Call, Reply
from jobyard.server.messages import json_text, protobuf
from jobyard.server.opening import open_server
from jobyard.server.server import ApiServer

JSON = dict[str, Any]
PROTOBUF = "application/vnd.kubernetes.protobuf"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    opened = open_server(None)
    yield opened
    opened.store.journal.close()


def everything(group: str) -> JSON:
    """A definition with every field that a real server takes in one."""
    text = {"type": "string", "title": "t", "description": "d", "format": "date", "maxLength": 40}
    number = {"type": "number", "minimum": -1.5, "maximum": 1e21, "exclusiveMinimum": True}
    several = {
        "oneOf": [{"required": ["text"]}, {"required": ["list"]}],
        "not": {"required": ["x"]},
    }
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True}
    item = {
        "type": "object",
        "required": ["key"],
        "properties": {"key": {"type": "string", "default": "k"}},
    }
    properties = {
        "text": {**text, "minLength": 1, "enum": ["2026-01-01", "2026-01-02"]},
        "name": {"type": "string", "pattern": "^[a-z]+$", "default": "a", "example": {"a": None}},
        "number": {**number, "multipleOf": 0.25, "exclusiveMaximum": True, "default": 2.5},
        "whole": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
        "huge": {"type": "integer", "format": "int64", "maximum": 9007199254740992},
        "flag": {"type": "boolean", "default": False},
        "list": {"type": "array", "items": {"type": "string"}, "minItems": 0, "maxItems": 9},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
        "open": {"type": "object", "additionalProperties": True, "minProperties": 0},
        "keyed": {
            "type": "array",
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
        },
        "atomic": {"type": "object", "properties": {"a": text}, "x-kubernetes-map-type": "atomic"},
        "free": {**free, "default": {"deep": [1, 2.5, None, "x", {"y": True}]}},
        "inner": {"type": "object", "x-kubernetes-embedded-resource": True}
        | {"x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True, "default": 80},
    }
    rule = {"rule": "self.whole < 10", "message": "m", "reason": "FieldValueForbidden"}
    spec = {
        "type": "object",
        "properties": properties,
        "externalDocs": {"description": "d", "url": "https://example.com"},
        "x-kubernetes-validations": [
            {**rule, "fieldPath": ".whole"},
            {"rule": "self.flag || true", "messageExpression": "'no'"},
        ],
        **several,
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    scale = {"specReplicasPath": ".spec.whole", "statusReplicasPath": ".status.n"}
    column = {"name": "N", "type": "integer", "jsonPath": ".spec.whole", "format": "int32"}
    version = {
        "name": "v2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {**scale, "labelSelectorPath": ".status.s"}},
        "additionalPrinterColumns": [{**column, "description": "d", "priority": 1}],
        "selectableFields": [{"jsonPath": ".spec.name"}],
    }
    first = {"name": "v1", "served": False, "storage": False, "deprecated": True}
    first |= {"deprecationWarning": "old", "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}", "labels": {"a": "b"}, "annotations": {"c": ""}},
        "spec": {
            "group": group,
            "names": {
                "plural": "things",
                "singular": "thing",
                "kind": "Thing",
                "listKind": "Things",
                "shortNames": ["th"],
                "categories": ["all"],
            },
            "scope": "Cluster",
            "versions": [version, first],
        },
    }


async def asked(
    plane: ControlPlane, method: str, path: str, body: JSON | None
) -> tuple[JSON, bytes]:
    """One answer of a real server in both forms."""
    tls = client_context(plane.ca, plane.cert, plane.key)
    connector = aiohttp.TCPConnector(ssl=tls)
    found: list[bytes] = []
    async with aiohttp.ClientSession(base_url=plane.url, connector=connector) as session:
        for accept in ("application/json", PROTOBUF):
            async with session.request(
                method, path, json=body, headers={"Accept": accept}
            ) as response:
                assert response.status in (200, 201), await response.text()
                assert response.content_type == accept
                found.append(await response.read())
    return json.loads(found[0]), found[1]


def made(server: ApiServer, body: bytes, content_type: str, path: str = CRDS) -> JSON:
    dry = (("dryRun", "All"),)
    call = Call(method="POST", path=path, query=dry, body=body, content_type=content_type)
    reply = server.handle(call)
    assert isinstance(reply, Reply)
    assert reply.status == 201, reply.body
    answer: JSON = json.loads(reply.body)
    return answer


def sent(value: JSON) -> bytes:
    """What a client sends to make the same object elsewhere."""
    metadata = value["metadata"]
    kept = {name: metadata[name] for name in ("name", "labels", "annotations") if name in metadata}
    return json.dumps({**value, "metadata": kept}).encode()


def test_every_kind_that_can_be_created_can_be_sent_as_protobuf() -> None:
    rows = [row for row in builtin_resources(None) if "create" in row.verbs]
    assert len(rows) > 15
    for row in rows:
        assert protobuf.message_of(row.api_version, row.kind)


@pytest.mark.parametrize("kind", [*(kind.name for kind in KINDS), "everything"])
def test_a_definition_in_protobuf_is_the_one_in_json(
    server: ApiServer, control_plane: ControlPlane, crds: None, kind: str
) -> None:
    if kind == "everything":
        wanted = everything(f"{secrets.token_hex(4)}.example.com")
        answer = asked(control_plane, "POST", f"{CRDS}?dryRun=All", wanted)
    else:
        row = next(each for each in KINDS if each.name == kind)
        name = crd(row)["metadata"]["name"]
        answer = asked(control_plane, "GET", f"{CRDS}/{name}", None)
    told, raw = asyncio.run(answer)
    decoded = protobuf.decoded_protobuf(raw)
    by_protobuf = made(server, sent(decoded), "application/json")
    by_json = made(server, sent(told), "application/json")
    assert by_protobuf["spec"] == by_json["spec"] == told["spec"]
    assert decoded["metadata"]["name"] == told["metadata"]["name"]
    # What is on the wire itself, with everything that a server writes into an object.
    whole = server.handle(Call(method="POST", path=CRDS, body=raw, content_type=PROTOBUF))
    assert isinstance(whole, Reply)
    assert b"resourceVersion should not be set" in whole.body or whole.status == 201, whole.body


def test_a_definition_in_protobuf_has_bounds(server: ApiServer) -> None:
    def field(number: int, content: bytes) -> bytes:
        return varint(number << 3 | 2) + varint(len(content)) + content

    def varint(number: int) -> bytes:
        out = b""
        while number > 0x7F:
            out += bytes((number & 0x7F | 0x80,))
            number >>= 7
        return out + bytes((number,))

    def answer(schema: bytes) -> tuple[int, bytes]:
        version = field(1, b"v1") + field(4, field(1, schema))
        spec = field(1, b"g.example.com") + field(7, version)
        header = field(1, b"apiextensions.k8s.io/v1") + field(2, b"CustomResourceDefinition")
        body = b"k8s\x00" + field(1, header) + field(2, field(1, field(1, b"n")) + field(2, spec))
        reply = server.handle(Call(method="POST", path=CRDS, body=body, content_type=PROTOBUF))
        assert isinstance(reply, Reply)
        return reply.status, reply.body

    assert answer(field(5, b"object"))[0] == 422
    for levels in (150, 300, 5_000):
        deep = field(5, b"object")
        for _ in range(levels):
            deep = field(28, deep)
        assert answer(deep)[0] == (422 if levels < json_text.DEPTH_MAX else 400)
    for number in (float("nan"), float("inf")):
        endless = varint(9 << 3 | 1) + struct.pack("<d", number)
        assert answer(endless)[0] == 400
    for raw in (b"{", b"\xff", b'{"a":' * 300 + b"1" + b"}" * 300):
        assert answer(field(8, field(1, raw)))[0] == 400
    # Wires that are not the field's: a number for a schema, a text for a number.
    assert answer(varint(24 << 3) + b"\x01")[0] == 400
    assert answer(field(9, b"x"))[0] == 400
