"""A CustomResourceDefinition from a row of the table of kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

from jobyard.api.kinds import Kind
from jobyard.schema.core import JSONSchema
from jobyard.schema.derive import derived
from jobyard.schema.node import Node, compiled_once

_META = {
    "apiVersion": {
        "description": "The group and version of this object's schema.",
        "type": "string",
    },
    "kind": {"description": "The kind of this object.", "type": "string"},
    # The name is spelled out so that rules can report at it.
    "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
}


@cache
def open_api_schema(kind: Kind) -> JSONSchema:
    """The whole schema of a kind, as it stands in its CRD. Callers must not change it."""
    schema = derived(kind.type)
    properties = _META | schema["properties"] | _META
    return {**schema, "properties": properties | {"status": _observed(properties["status"])}}


def _observed(schema: JSONSchema) -> JSONSchema:
    """The schema of a status, or of a part of one.

    What isn't known of a job stays absent: defaults would only make its status larger. And fields
    that aren't known are no fault: objects that were read from another platform have a status
    with fields of its own. It is dropped in whole, but a strict kubectl would refuse the file.
    """
    out = {key: value for key, value in schema.items() if key != "default"}
    if "items" in out:
        out["items"] = _observed(out["items"])
    if "properties" in out:
        out["properties"] = {name: _observed(sub) for name, sub in out["properties"].items()}
        out["x-kubernetes-preserve-unknown-fields"] = True
    return out


@cache
def schema_node(kind: Kind) -> Node:
    """The same schema, ready to check objects with."""
    return compiled_once(open_api_schema(kind))


def crd(kind: Kind) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "labels": {"app.kubernetes.io/managed-by": "jobyard"},
        },
        "spec": {
            "group": str(kind.group),
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.singular,
                "shortNames": list(kind.short_names),
                "categories": ["jobyard"],
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": open_api_schema(kind)},
                    "subresources": _subresources(kind),
                    "additionalPrinterColumns": [
                        {"name": column.name, "jsonPath": column.path, "type": column.type}
                        for column in kind.columns
                    ],
                }
            ],
        },
    }


def _subresources(kind: Kind) -> dict[str, Any]:
    if kind.scale is None:
        return {"status": {}}
    return {
        "status": {},
        "scale": {
            "specReplicasPath": kind.scale.spec_path,
            "statusReplicasPath": kind.scale.status_path,
            "labelSelectorPath": kind.scale.selector_path,
        },
    }
