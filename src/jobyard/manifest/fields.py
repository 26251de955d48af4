"""The fields of a schema as rows: for `explain` and for the reference in the docs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from jobyard.schema.node import Node

# Below these, the fields are Kubernetes' own.
CORE_FIELDS = {
    "template": "PodTemplateSpec",
    "jobTemplate": "JobTemplateSpec",
    "resources": "ResourceRequirements",
    "env": "EnvVar",
    "ports": "ServicePort",
    "metadata": "ObjectMeta",
    "namespaceSelector": "LabelSelector",
    "nodeSelector": "LabelSelector",
    "envVars": "EnvVar",
    "envFrom": "EnvFromSource",
    "volumes": "Volume",
    "volumeMounts": "VolumeMount",
    "initContainers": "Container",
    "sidecars": "Container",
    "extraPorts": "ContainerPort",
    "tolerations": "Toleration",
    "securityContext": "PodSecurityContext",
    "pullSecrets": "LocalObjectReference",
}


class Field(msgspec.Struct, frozen=True):
    """One row. `notes` are the default, the bounds and the like, in words."""

    name: str
    depth: int
    type: str
    required: bool
    notes: tuple[str, ...]
    description: str


def fields_of(node: Node, *, recursive: bool, depth: int = 0) -> Iterator[Field]:
    inner = node.items or node
    for name, sub in inner.properties.items():
        core = CORE_FIELDS.get(name) if _is_core(name, sub) else None
        yield Field(
            name,
            depth,
            _core_type(core, sub) if core else type_name(sub),
            name in inner.required,
            notes_of(sub),
            sub.description,
        )
        if recursive and core is None:
            yield from fields_of(sub, recursive=True, depth=depth + 1)


def _is_core(name: str, node: Node) -> bool:
    """Whether a field holds one of Kubernetes' own types: those carry no descriptions."""
    inner = node.items or node
    if name not in CORE_FIELDS or not inner.properties:
        return False
    return not any(sub.description for sub in inner.properties.values())


def _core_type(name: str, node: Node) -> str:
    return f"[]{name}" if node.items else name


def type_name(node: Node) -> str:
    if node.items is not None:
        return f"[]{type_name(node.items)}"
    if node.additional is not None:
        return f"map[string]{type_name(node.additional)}"
    if node.is_quantity:
        return "Quantity"
    return " or ".join(node.types) or "any"


def notes_of(node: Node) -> tuple[str, ...]:
    """What is said of a value beyond its type."""
    notes = []
    if node.enum:
        # An empty text only means absent.
        notes.append("one of " + ", ".join(str(value) for value in node.enum if value != ""))
    if node.default is not msgspec.UNSET and node.default != {}:
        shown = node.default if isinstance(node.default, str) else json.dumps(node.default)
        notes.append(f"default {shown}")
    if node.minimum is not None and node.maximum is not None:
        notes.append(f"{node.minimum:.0f} to {node.maximum:.0f}")
    elif node.minimum is not None:
        notes.append(f"at least {node.minimum:.0f}")
    elif node.maximum is not None:
        notes.append(f"at most {node.maximum:.0f}")
    if node.min_size is not None and node.max_size is not None:
        notes.append(f"{node.min_size} to {node.max_size} entries")
    elif node.max_size is not None:
        notes.append(f"at most {node.max_size} entries")
    if node.max_length is not None:
        notes.append(f"at most {node.max_length} characters")
    return tuple(notes)
