"""The types of Kubernetes itself that our kinds embed, as structural schemas.

`core_v1.json` holds them as Kubernetes publishes them (see `tools/core_schema.py`).
What is changed here, and why:

* lists are plain values: no list-type map. Pods allow some of those lists to repeat a
  key (env, ports), and a job's template is replaced as a whole, never merged;
* bounds, which CEL's cost estimate needs, and what every pod's container names must be;
* a template's metadata is cut down to what a template can set;
* an empty text where Kubernetes takes it for absent: templates of charts are full of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

JSONSchema = dict[str, Any]

POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
JOB_TEMPLATE = "io.k8s.api.batch.v1.JobTemplateSpec"
ENV_VAR = "io.k8s.api.core.v1.EnvVar"
RESOURCES = "io.k8s.api.core.v1.ResourceRequirements"
SERVICE_PORT = "io.k8s.api.core.v1.ServicePort"
ENV_FROM = "io.k8s.api.core.v1.EnvFromSource"
VOLUME = "io.k8s.api.core.v1.Volume"
VOLUME_MOUNT = "io.k8s.api.core.v1.VolumeMount"
CONTAINER = "io.k8s.api.core.v1.Container"
CONTAINER_PORT = "io.k8s.api.core.v1.ContainerPort"
TOLERATION = "io.k8s.api.core.v1.Toleration"
POD_SECURITY = "io.k8s.api.core.v1.PodSecurityContext"
LOCAL_REFERENCE = "io.k8s.api.core.v1.LocalObjectReference"
LABEL_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
QUANTITY_NAME = "io.k8s.apimachinery.pkg.api.resource.Quantity"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

QUANTITY: JSONSchema = {
    "x-kubernetes-int-or-string": True,
    # Kubernetes' quantity grammar: sign, digits, and a binary, decimal or exponent suffix.
    "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
}

CONTAINERS_MAX = 32
VOLUME_MOUNTS_MAX = 64
CONTAINER_PORTS_MAX = 256
DNS_LABEL_LENGTH_MAX = 63
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
MOUNT_PATH_LENGTH_MAX = 4096

# `creationTimestamp: null` stands in every template that Go has written.
_TEMPLATE_METADATA = (
    "annotations",
    "creationTimestamp",
    "finalizers",
    "generateName",
    "labels",
    "name",
    "namespace",
)
# What a pod has that was read from a cluster and became a template. A Deployment takes it, too,
# and nothing comes of it.
_POD_METADATA = (
    *_TEMPLATE_METADATA,
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
# Words of a closed set that a pod's own API defaults when they are empty. Those that Go has as
# pointers aren't among them: an empty one is refused there, too.
_EMPTY_IS_ABSENT = frozenset(
    {
        "dnsPolicy",
        "effect",
        "imagePullPolicy",
        "operator",
        "protocol",
        "pullPolicy",
        "restartPolicy",
        "scheme",
        "terminationMessagePolicy",
    }
)


@cache
def _published() -> Mapping[str, JSONSchema]:
    text = files("jobyard.schema").joinpath("core_v1.json").read_text()
    published: dict[str, JSONSchema] = json.loads(text)
    return published


@cache
def core_schema(name: str) -> JSONSchema:
    """The structural schema of one published type. Callers must not change it."""
    schema = _inlined(_published()[name])
    return _adjusted(name, schema)


def _inlined(schema: JSONSchema) -> JSONSchema:
    if "$ref" in schema:
        return core_schema(schema["$ref"])
    out = dict(schema)
    if "properties" in schema:
        spared = _EMPTY_IS_ABSENT - {*schema.get("required", ())}
        out["properties"] = {
            name: _with_empty(_inlined(sub)) if name in spared else _inlined(sub)
            for name, sub in schema["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if key in schema:
            out[key] = _inlined(schema[key])
    return out


def _with_empty(schema: JSONSchema) -> JSONSchema:
    return {**schema, "enum": [*schema["enum"], ""]} if "enum" in schema else schema


def _adjusted(name: str, schema: JSONSchema) -> JSONSchema:
    match name.rpartition(".")[2]:
        case "Quantity":
            return QUANTITY
        case "FieldsV1":
            # Any fields, of which only server-side apply makes sense.
            return {**schema, "x-kubernetes-preserve-unknown-fields": True}
        case "VolumeMount":
            return _with(schema, "mountPath", maxLength=MOUNT_PATH_LENGTH_MAX)
        case "ServicePort":
            return _with(schema, "name", maxLength=DNS_LABEL_LENGTH_MAX)
        case "Container":
            schema = _with(schema, "name", maxLength=DNS_LABEL_LENGTH_MAX, pattern=DNS_LABEL)
            schema = _with(schema, "ports", maxItems=CONTAINER_PORTS_MAX)
            return _with(schema, "volumeMounts", maxItems=VOLUME_MOUNTS_MAX)
        case "PodSpec":
            schema = _with(schema, "initContainers", maxItems=CONTAINERS_MAX)
            return _with(schema, "containers", minItems=1, maxItems=CONTAINERS_MAX)
        case "PodTemplateSpec":
            metadata = _metadata(_POD_METADATA)
            return {**schema, "properties": schema["properties"] | {"metadata": metadata}}
        case "JobTemplateSpec" | "PersistentVolumeClaimTemplate":
            metadata = _metadata(_TEMPLATE_METADATA)
            return {**schema, "properties": schema["properties"] | {"metadata": metadata}}
        case _:
            return schema


def _with(schema: JSONSchema, field: str, **keywords: object) -> JSONSchema:
    changed = schema["properties"][field] | keywords
    return {**schema, "properties": schema["properties"] | {field: changed}}


def _metadata(fields: tuple[str, ...]) -> JSONSchema:
    whole = core_schema(OBJECT_META)
    return {"type": "object", "properties": {name: whole["properties"][name] for name in fields}}
