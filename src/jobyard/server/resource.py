"""One row of the table of what is served: a resource, its schema, its columns, its strategy.

The rows of Kubernetes' own kinds are fixed; those of CRDs, ours and users', are made from the
CRD objects. Routing, discovery, OpenAPI, tables and writing all go by the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from jobyard.server.problem import Cause

JSONSchema = dict[str, Any]
Object = dict[str, Any]


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table, as a CRD says it."""

    name: str
    json_path: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scale subresource of a custom resource finds its figures."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


class Subresource(msgspec.Struct, frozen=True, kw_only=True):
    """`status`, `scale`, `log` …; kind and version only where they differ from the resource's."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


class Part(StrEnum):
    """Which door a write comes through: it may change only what is behind it."""

    WHOLE = ""
    STATUS = "status"


class Admitted(msgspec.Struct, frozen=True):
    """What a strategy makes of an object; it is stored if there are no causes."""

    value: Object
    causes: tuple[Cause, ...] = ()
    # Dotted paths of fields that the schema doesn't know and that were dropped.
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Strategy(Protocol):
    """What is particular to a kind when it is written; pure, and never changes what it is given."""

    def created(self, obj: Object) -> Admitted:
        """Pruned, defaulted, validated; the status is dropped where it has a door of its own."""
        ...

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        """The same for what takes the place of `old`; what `part` may not change stays as in `old`.

        Compares only content: generation, versions and managed fields are the store's business.
        """
        ...


class ServedResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    strategy: Strategy
    # Judges what an apply with nulls in it makes; None: whoever judges everything else.
    null_strategy: Strategy | None = None
    # The whole object's schema in OpenAPI v3 words; `$ref` as in `kubernetes_schemas`.
    schema: JSONSchema
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = (
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    )
    subresources: tuple[Subresource, ...] = ()
    # None: one of Kubernetes' own kinds, whose columns `printing` knows.
    columns: tuple[Column, ...] | None = None
    scale: Scale | None = None
    # Strategic merge patches are for Kubernetes' own kinds alone.
    is_custom: bool = False
    # What a CRD lets field selectors look at, as it says it: `.spec.color`.
    selectable_fields: tuple[str, ...] = ()
    # Where it isn't simply the kind with `List` behind it.
    list_kind: str = ""
    # The warning that goes with every answer about it; empty for what is not deprecated.
    deprecation: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_key(self) -> str:
        """What its objects are stored under; versions of a kind share them."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class Catalogue(Protocol):
    """Everything that is served now; it changes as CRDs come and go."""

    def resources(self) -> Sequence[ServedResource]:
        """All rows, in the order in which discovery tells them."""
        ...

    def find(self, group: str, version: str, plural: str) -> ServedResource | None: ...

    def resolved(self, schema: JSONSchema) -> JSONSchema:
        """The schema itself, or the definition that its `$ref` names."""
        ...
