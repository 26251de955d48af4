"""The schemas of Kubernetes' own kinds, as its API server publishes them.

`kubernetes.json` beside this module is cut from a real server by `tools/core_schema.py`:
definitions by their published name, a `$ref` is the bare name of another. Read at the first
question and never changed. Knows nothing of custom resources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jobyard.server.resource import JSONSchema

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
OBJECT_META = META + "ObjectMeta"
TIME = META + "Time"
MICRO_TIME = META + "MicroTime"
FIELDS = META + "FieldsV1"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


@cache
def definitions() -> Mapping[str, JSONSchema]:
    """All definitions by name. Callers must not change them."""
    text = files("jobyard.server.kinds.types").joinpath("kubernetes.json").read_text()
    published: dict[str, JSONSchema] = json.loads(text)
    return published


def reference(name: str) -> JSONSchema:
    """A schema that is nothing but the definition of that name."""
    return {"$ref": name}


def resolved(schema: JSONSchema) -> JSONSchema:
    """The schema itself, or the definition its `$ref` names with what stands beside the `$ref`."""
    name = schema.get("$ref")
    if name is None:
        return schema
    definition = definitions()[name]
    if len(schema) == 1:
        return definition
    return {**definition, **{key: value for key, value in schema.items() if key != "$ref"}}
