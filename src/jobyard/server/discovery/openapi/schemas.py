"""Schemas as OpenAPI publishes them, from the rows and from Kubernetes' own definitions.

Inside the server a `$ref` is a bare name; here it becomes a reference in one of two dialects,
and every definition that is reached goes along. Custom kinds are named as a real server does,
with their group turned around. v2 can't say all that v3 can; what kubectl would misread is left
out there, as a real server does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobyard.server.discovery.openapi.dialect import Dialect
from jobyard.server.resource import Catalogue, JSONSchema, ServedResource

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
PATCH: Final = f"{META}Patch"
STATUS: Final = f"{META}Status"
DELETE_OPTIONS: Final = f"{META}DeleteOptions"
SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_KINDS_KEY: Final = "x-kubernetes-group-version-kind"
_SELECTABLE_KEY: Final = "x-kubernetes-selectable-fields"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"

_JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")
_TYPE_META: Final[Mapping[str, str]] = {
    "apiVersion": "The group and version of this object's schema.",
    "kind": "The kind of this object.",
}
_METADATA: Final = "The object's name, labels, owners and the like."
_LIST_METADATA: Final = "The version of the list, and where its next part begins."
# What a patch looks like depends on its content type.
_OWN: Final[Mapping[str, JSONSchema]] = {PATCH: {"type": "object"}}


def model_name(row: ServedResource) -> str:
    """The name under which the schema of a row is published."""
    name = row.schema.get("$ref")
    if isinstance(name, str):
        return name
    reversed_group = ".".join(reversed(row.group.split(".")))
    return ".".join(part for part in (reversed_group, row.version, row.kind) if part)


class Schemas:
    """Collects what a document refers to, each schema once, in one dialect."""

    def __init__(self, catalogue: Catalogue, dialect: Dialect) -> None:
        self._catalogue = catalogue
        self._dialect = dialect
        self.published: dict[str, JSONSchema] = {}

    def reference(self, name: str) -> JSONSchema:
        """A reference to one of Kubernetes' own definitions, which is published with it."""
        if name not in self.published:
            self.published[name] = {}
            self.published[name] = self._native(self._definition(name))
        return {"$ref": f"{self._dialect}{name}"}

    def has(self, name: str) -> bool:
        try:
            self._definition(name)
        except KeyError:
            return False
        return True

    def kind(self, row: ServedResource) -> JSONSchema:
        """A reference to the schema of a row."""
        name = model_name(row)
        if row.schema.get("$ref") == name:
            reference = self.reference(name)
            # How clients find the schema of a kind; not every definition says it.
            self.published[name].setdefault(_KINDS_KEY, [_kind_of(row)])
            return reference
        if name not in self.published:
            self.published[name] = {**self._custom_kind(row), **_labels(row, row.kind)}
        return {"$ref": f"{self._dialect}{name}"}

    def list_kind(self, row: ServedResource) -> JSONSchema:
        """A reference to the schema of a list of such objects."""
        list_kind = row.list_kind or f"{row.kind}List"
        name = f"{model_name(row).removesuffix(row.kind)}{list_kind}"
        if name not in self.published:
            self.published[name] = {
                "type": "object",
                "required": ["items"],
                "properties": {
                    **_type_meta({}),
                    "items": {"type": "array", "items": self.kind(row)},
                    "metadata": self._described(f"{META}ListMeta", _LIST_METADATA),
                },
                **_labels(row, list_kind),
            }
        return {"$ref": f"{self._dialect}{name}"}

    def _definition(self, name: str) -> JSONSchema:
        return _OWN.get(name) or self._catalogue.resolved({"$ref": name})

    def _described(self, name: str, description: str) -> JSONSchema:
        return self._beside(self.reference(name), {"description": description})

    def _beside(self, reference: JSONSchema, others: JSONSchema) -> JSONSchema:
        """A reference with more to say: v3 ignores what stands beside a `$ref`."""
        if not others:
            return reference
        if self._dialect is Dialect.V2:
            return {**reference, **others}
        return {**others, "allOf": [reference]}

    def _native(self, schema: Any) -> Any:
        """The schema with its references in the dialect's form."""
        if isinstance(schema, list):
            return [self._native(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        name = schema.get("$ref")
        if not isinstance(name, str):
            return {
                key: self._part(key, value)
                for key, value in schema.items()
                if self._dialect is Dialect.V3 or key not in ("oneOf", "anyOf", "not", "nullable")
            }
        others = {key: self._native(value) for key, value in schema.items() if key != "$ref"}
        return self._beside(self.reference(name), others)

    def _part(self, key: str, value: Any) -> Any:
        match key:
            case "default" | "enum":
                # They hold values, in which nothing is a reference.
                return value
            case "properties":
                # Fields may be named like the words of a schema, such as `default`.
                return {name: self._native(field) for name, field in value.items()}
        return self._native(value)

    def _custom_kind(self, row: ServedResource) -> JSONSchema:
        schema = row.schema
        if not schema or (self._dialect is Dialect.V2 and schema.get(_PRESERVE)):
            # With any field named, kubectl would take all others for mistakes.
            return {"type": "object"}
        published = self._custom(schema)
        fields = published.get("properties", {})
        metadata = self._described(f"{META}ObjectMeta", _METADATA)
        return {**published, "properties": {**fields, **_type_meta(fields), "metadata": metadata}}

    def _custom(self, schema: JSONSchema) -> JSONSchema:
        """One level of a structural schema, and those below it."""
        if self._dialect is Dialect.V2:
            schema = _for_v2(schema)
        result = dict(schema)
        if fields := schema.get("properties"):
            result["properties"] = {name: self._custom(field) for name, field in fields.items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                result[key] = self._custom(schema[key])
        if self._dialect is Dialect.V3 and schema.get(_INT_OR_STRING) and "anyOf" not in schema:
            result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if schema.get(_EMBEDDED) and not (self._dialect is Dialect.V2 and schema.get(_PRESERVE)):
            self._embed(result)
        return result

    def _embed(self, result: JSONSchema) -> None:
        """Whole objects inside of others have the fields that any object has."""
        fields = result.get("properties", {})
        metadata = self._described(f"{META}ObjectMeta", _METADATA)
        result["properties"] = {**fields, **_type_meta(fields), "metadata": metadata}
        required = result.get("required", [])
        result["required"] = [*required, *(n for n in ("kind", "apiVersion") if n not in required)]


def _kind_of(row: ServedResource) -> dict[str, str]:
    return {"group": row.group, "kind": row.kind, "version": row.version}


def _labels(row: ServedResource, kind: str) -> JSONSchema:
    """What a published schema says of itself: its kind, and the fields that select objects."""
    labels: JSONSchema = {_KINDS_KEY: [{**_kind_of(row), "kind": kind}]}
    if row.is_custom and row.selectable_fields:
        paths = [path.removeprefix(".") for path in row.selectable_fields]
        labels[_SELECTABLE_KEY] = [{"fieldPath": path} for path in paths]
    return labels


def _type_meta(fields: JSONSchema) -> JSONSchema:
    return {
        name: {"description": fields.get(name, {}).get("description", text), "type": "string"}
        for name, text in _TYPE_META.items()
    }


def _for_v2(schema: JSONSchema) -> JSONSchema:
    """What of one level kubectl understands in v2: no alternatives, no nulls, no open lists."""
    result = {key: value for key, value in schema.items() if key not in _JUNCTORS}
    is_nullable, is_open = result.pop("nullable", False), result.get(_PRESERVE, False)
    if is_nullable or is_open:
        result.pop("items", None)
        result.pop("properties", None)
    type_ = result.get("type")
    has_no_items = type_ == "array" and "items" not in result
    if is_nullable or has_no_items or (is_open and type_ == "object"):
        result.pop("type", None)
    fields = result.get("properties", {})
    if required := result.get("required"):
        result["required"] = [n for n in required if not fields.get(n, {}).get("nullable")]
    return result
