"""The suite's own custom resource: a user's CRD with everything a CRD can say."""

from __future__ import annotations

from typing import Any

from conformance.script import WIDGETS_GROUP, Json

SPEC: Json = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 0, "maximum": 100, "default": 1},
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "ratio": {"type": "number"},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "never changes"}],
        },
        "when": {"type": "string", "format": "date-time"},
        "maybe": {"type": "string", "nullable": True},
        "either": {"x-kubernetes-int-or-string": True},
        "options": {
            "type": "object",
            "default": {},
            "properties": {
                "fast": {"type": "boolean", "default": True},
                "level": {"type": "string", "default": "low"},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {
            "type": "array",
            "maxItems": 5,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "count": {"type": "integer"},
                    "kind": {"type": "string", "default": "plain"},
                },
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "words": {"type": "array", "items": {"type": "string"}},
        "whole": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "x-kubernetes-map-type": "atomic",
        },
        "low": {"type": "integer"},
        "high": {"type": "integer"},
    },
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.low) || !has(self.high) || self.low <= self.high",
            "messageExpression": "self.low > 10 ? 'low is far above high' : 'low is above high'",
            "reason": "FieldValueForbidden",
            "fieldPath": ".low",
        },
        {
            "rule": "!has(oldSelf.size) || self.size >= oldSelf.size || self.size == 0",
            "message": "size only grows",
        },
    ],
}

STATUS: Json = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}

COLUMNS: list[Any] = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large."},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Tag", "type": "string", "jsonPath": ".spec.tags[0]", "priority": 1},
    {"name": "Fast", "type": "boolean", "jsonPath": ".spec.options.fast"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{WIDGETS_GROUP}"},
    "spec": {
        "group": WIDGETS_GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "Widget",
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wd"],
            "categories": ["conformance"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": SPEC, "status": STATUS},
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "selectableFields": [{"jsonPath": ".spec.colour"}],
                "additionalPrinterColumns": COLUMNS,
            }
        ],
    },
}


def widget(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": f"{WIDGETS_GROUP}/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }
