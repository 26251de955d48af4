"""The CRD files are those of the types, small enough to apply, described and consistent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import make_docs
import msgspec
import pytest
from rig.manifests import ROOT

from api.own_fields import own_fields
from jobyard.api.crd import crd, open_api_schema, schema_node
from jobyard.api.kinds import KINDS, Kind
from jobyard.manifest.reading import read
from jobyard.schema.node import Node
from jobyard.schema.settling import settled
from jobyard.schema.validation import faults

# `kubectl apply` keeps the whole object in an annotation, and all annotations of an object
# together may have this size. A quarter of it is left for fields to come.
ANNOTATIONS_SIZE_MAX = 262_144
CRD_SIZE_MAX = ANNOTATIONS_SIZE_MAX * 3 // 4

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def test_the_files_are_those_of_the_types() -> None:
    wanted = make_docs.crd_files()
    found = {f"crds/{file.name}": file.read_text() for file in (ROOT / "crds").iterdir()}
    stale = [name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)]
    assert not stale, f"run: {make_docs.COMMAND}"


@every_kind
def test_a_file_says_how_it_is_made_and_holds_the_crd(kind: Kind) -> None:
    text = (ROOT / "crds" / f"{kind.plural}.{kind.group}.yaml").read_text()
    first_line = text.partition("\n")[0]
    assert first_line.startswith("# Generated")
    assert make_docs.COMMAND in first_line
    (document,) = read(text, "crd")
    assert document.value == json.loads(json.dumps(crd(kind)))


@every_kind
def test_kubectl_apply_can_store_it(kind: Kind) -> None:
    size = len(json.dumps(crd(kind), separators=(",", ":")).encode())
    assert size < CRD_SIZE_MAX


@every_kind
def test_every_field_of_ours_is_described(kind: Kind) -> None:
    bare = [field.path for field in own_fields(kind.type) if not described_at(kind, field.path)]
    assert not bare


@every_kind
def test_a_field_says_what_its_own_annotation_says(kind: Kind) -> None:
    """Two fields of one type mean different things; the type's docstring must not hide that."""
    hidden = [
        field.path
        for field in own_fields(kind.type)
        if field.description and field.description != described_at(kind, field.path)
    ]
    assert not hidden


@every_kind
def test_a_description_is_a_sentence(kind: Kind) -> None:
    texts = {described_at(kind, field.path) for field in own_fields(kind.type)}
    unfinished = [text for text in texts if not text.endswith(".") or text != text.strip()]
    assert not unfinished


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("BeamJob", "spec.elastic"),
        ("BeamJob", "spec.flinkClusterTemplate.metadata"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.batchSchedulerName"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.jobManager.ingress"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.logConfig"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.recreateOnUpdate"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.revisionHistoryLimit"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.taskManager.memoryOffHeapMin"),
        ("BeamJob", "spec.flinkClusterTemplate.spec.taskManager.memoryOffHeapRatio"),
        ("BeamJob", "spec.runMode"),
        ("ColossalAIJob", "spec.replicaSpecs[].restartPolicy"),
        ("ColossalAIJob", "spec.replicaSpecs[].template"),
        ("GenericJob", "spec.elastic"),
        ("GenericJob", "spec.runMode.debug.enable"),
        ("GenericJob", "spec.runMode.debug.replicaSpecs[].type"),
        ("GenericJob", "spec.runMode.pause.resumeSpecs[].type"),
        ("MPIJob", "spec.replicaSpecs[].restartPolicy.limit"),
        ("PodGroup", "spec.topologyPolicy"),
        ("PyTorchTrainingJob", "spec.elastic"),
        ("PyTorchTrainingJob", "spec.tensorboardSpec.logDir.http"),
        ("PyTorchTrainingJob", "spec.tensorboardSpec.logDir.s3"),
        ("PyTorchTrainingJob", "spec.tensorboardSpec.scheduler"),
        ("PyTorchTrainingJob", "spec.torchrunConfig"),
        ("Queue", "spec.resourceShapeProfile"),
        ("TaskSet", "minMember"),
        ("TaskSet", "spec.priority"),
        ("TaskSet", "spec.queue"),
        ("TaskSet", "username"),
    ],
)
def test_a_field_without_effect_says_so(name: str, path: str) -> None:
    (kind,) = (kind for kind in KINDS if kind.name == name)
    assert re.search(r"(?i)\b(no|without) effect\b", described_at(kind, path))


@every_kind
def test_every_default_is_valid(kind: Kind) -> None:
    found = [
        f"{path}: {fault.text}"
        for path, node in defaulted(schema_node(kind), "")
        for fault in faults(settled(node.default, node, (), []), node, ())
    ]
    assert not found


def test_a_default_that_is_not_valid_would_be_found() -> None:
    node = Node(types=("integer",), default=0, minimum=1)
    around = Node(types=("object",), properties={"replicas": node}, defaulted=("replicas",))
    ((path, found),) = defaulted(around, "")
    assert path == ".replicas"
    assert faults(settled(found.default, found, (), []), found, ())


def described_at(kind: Kind, path: str) -> str:
    """The description in the CRD; steps of a path go through lists and maps."""
    schema: dict[str, Any] = open_api_schema(kind)
    for step in path.replace("[]", ".[]").split("."):
        match step:
            case "[]":
                schema = schema["items"]
            case "*":
                schema = schema["additionalProperties"]
            case _:
                schema = schema["properties"][step]
    return str(schema.get("description", ""))


def defaulted(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    if node.default is not msgspec.UNSET:
        yield path, node
    for name, sub in node.properties.items():
        yield from defaulted(sub, f"{path}.{name}")
    for inner in (node.items, node.additional):
        if inner is not None:
            yield from defaulted(inner, f"{path}[]")
