"""Rows for tests of what the server tells about itself: ours from the CRDs, Kubernetes' own from
the discovery of a real server. No strategies: nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.server.kinds.types.kubernetes_schemas import definitions, resolved
from jobyard.server.resource import (
    Column,
    JSONSchema,
    Scale,
    ServedResource,
    Strategy,
    Subresource,
)

NO_STRATEGY = cast(Strategy, None)
_SCALED = {"group": "autoscaling", "version": "v1", "kind": "Scale"}


class Rows:
    """A catalogue that never changes."""

    def __init__(self, rows: Iterable[ServedResource]) -> None:
        self._rows = tuple(rows)

    def resources(self) -> Sequence[ServedResource]:
        return self._rows

    def find(self, group: str, version: str, plural: str) -> ServedResource | None:
        wanted = (group, version, plural)
        return next((r for r in self._rows if (r.group, r.version, r.plural) == wanted), None)

    def resolved(self, schema: JSONSchema) -> JSONSchema:
        return resolved(schema)


def custom_row(definition: dict[str, Any]) -> ServedResource:
    """The row of the first version of a CRD."""
    spec = definition["spec"]
    names, version = spec["names"], spec["versions"][0]
    doors = version.get("subresources", {})
    scale = doors.get("scale")
    verbs = ("get", "patch", "update")
    return ServedResource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names["singular"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        strategy=NO_STRATEGY,
        schema=version["schema"]["openAPIV3Schema"],
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=(
            *([Subresource(name="status", verbs=verbs)] if "status" in doors else []),
            *([Subresource(name="scale", verbs=verbs, **_SCALED)] if scale else []),
        ),
        columns=tuple(
            Column(
                name=column["name"],
                json_path=column["jsonPath"],
                type=column["type"],
                format=column.get("format", ""),
                description=column.get("description", ""),
                priority=column.get("priority", 0),
            )
            for column in version.get("additionalPrinterColumns", ())
        ),
        scale=Scale(
            spec_replicas_path=scale["specReplicasPath"],
            status_replicas_path=scale["statusReplicasPath"],
        )
        if scale
        else None,
        is_custom=True,
    )


def our_rows() -> list[ServedResource]:
    return [custom_row(crd(kind)) for kind in KINDS]


def native_rows(resource_list: dict[str, Any]) -> list[ServedResource]:
    """Rows that say the same as an APIResourceList of a real server."""
    group, _, version = resource_list["groupVersion"].rpartition("/")
    entries = resource_list["resources"]
    rows = []
    for entry in entries:
        if "/" in entry["name"]:
            continue
        prefix = f"{entry['name']}/"
        rows.append(
            ServedResource(
                group=group,
                version=version,
                plural=entry["name"],
                singular=entry["singularName"],
                kind=entry["kind"],
                namespaced=entry["namespaced"],
                strategy=NO_STRATEGY,
                schema={"$ref": _definition(group, version, entry["kind"])},
                short_names=tuple(entry.get("shortNames", ())),
                categories=tuple(entry.get("categories", ())),
                verbs=tuple(entry["verbs"]),
                subresources=tuple(
                    Subresource(
                        name=sub["name"].removeprefix(prefix),
                        verbs=tuple(sub["verbs"]),
                        group=sub.get("group", ""),
                        version=sub.get("version", ""),
                        kind=sub["kind"],
                    )
                    for sub in entries
                    if sub["name"].startswith(prefix)
                ),
            )
        )
    return rows


def _definition(group: str, version: str, kind: str) -> str:
    """The name of a kind's schema; `nowhere.` if the embedded server doesn't have it."""
    package = group.split(".", maxsplit=1)[0] or "core"
    names = (
        f"io.k8s.api.{package}.{version}.{kind}",
        f"io.k8s.apiextensions-apiserver.pkg.apis.{package}.{version}.{kind}",
    )
    return next((name for name in names if name in definitions()), f"nowhere.{kind}")
