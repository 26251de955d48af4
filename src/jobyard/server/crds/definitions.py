"""CustomResourceDefinitions: their own strategy, and the rows that one gives rise to.

A CRD that is taken is established at once: there is one server, and nobody to wait for. Our
own CRDs are known to be right, so their schemas aren't looked into when they are installed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from jobyard.api.kinds import KINDS
from jobyard.server.crds.custom_objects import CustomStrategy
from jobyard.server.crds.faults import change_faults, crd_faults
from jobyard.server.groups import age
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.kubernetes_schemas import EXTENSIONS, OBJECT_META, reference
from jobyard.server.resource import (
    Column,
    JSONSchema,
    Object,
    Scale,
    ServedResource,
    Subresource,
)

_DEFINITION: Final = EXTENSIONS + "CustomResourceDefinition"
_OURS: Final = frozenset(f"{kind.plural}.{kind.group}" for kind in KINDS)
_AGE: Final = Column(name="Age", json_path=".metadata.creationTimestamp", type="date")
_DOORS: Final = ("get", "patch", "update")


def crd_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=_DEFINITION,
            kind="CustomResourceDefinition",
            has_status=True,
            defaults={
                EXTENSIONS + "CustomResourceDefinitionSpec": _complete_spec,
                EXTENSIONS + "CustomResourceColumnDefinition": _complete_column,
            },
            prepare=lambda crd: _establish(crd, {}),
            prepare_change=lambda crd, old: _establish(crd, old.get("status", {})),
            check=lambda crd, faults: crd_faults(crd, faults, is_known=_is_ours(crd)),
            check_change=lambda crd, old, faults: change_faults(
                crd, old, faults, is_known=_is_ours(crd)
            ),
            checks_change_alone=True,
            checks_words=False,
        )
    )


def _is_ours(crd: Object) -> bool:
    return crd["metadata"].get("name") in _OURS


def _complete_spec(spec: dict[str, Any]) -> None:
    names = spec["names"]
    if names["kind"]:
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _complete_column(column: dict[str, Any]) -> None:
    column.setdefault("jsonPath", "")


def _establish(crd: Object, before: dict[str, Any]) -> None:
    """The status of a CRD whose names nobody else has."""
    spec = crd["spec"]
    stored = list(before.get("storedVersions") or ())
    storage = [v["name"] for v in spec.get("versions") or () if v["storage"]][:1]
    stored += [name for name in storage if name not in stored]
    moment = crd["metadata"].get("creationTimestamp")
    conditions = before.get("conditions") or [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", moment),
        _condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
            moment,
        ),
    ]
    crd["status"] = {
        "conditions": conditions,
        "acceptedNames": spec["names"],
        "storedVersions": stored or None,
    }


def _condition(kind: str, reason: str, message: str, moment: str | None) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def custom_resources(crd: Object) -> tuple[ServedResource, ...]:
    """A row for each version that is served."""
    return tuple(
        _row(crd["spec"], version) for version in crd["spec"]["versions"] if version["served"]
    )


def _row(spec: dict[str, Any], version: dict[str, Any]) -> ServedResource:
    names, doors = spec["names"], version.get("subresources", {})
    schema = version["schema"]["openAPIV3Schema"]
    strategy = partial(
        CustomStrategy, schema, names["kind"], version["name"], has_status="status" in doors
    )
    return ServedResource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        strategy=strategy(),
        null_strategy=strategy(keeps_nulls=True),
        schema=_published(schema, spec["group"], version["name"], names["kind"]),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=_subresources(doors),
        columns=_columns(version),
        scale=_scale(doors),
        is_custom=True,
        selectable_fields=tuple(field["jsonPath"] for field in version.get("selectableFields", ())),
        list_kind=names.get("listKind", ""),
        deprecation=_deprecation(spec, version),
    )


def _deprecation(spec: dict[str, Any], version: dict[str, Any]) -> str:
    """The author's words, or those of a real server, which name the best of the newer versions."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning") is not None:
        return str(version["deprecationWarning"])
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    better = [
        each["name"]
        for each in spec["versions"]
        if each["served"] and not each.get("deprecated") and age(each["name"]) < age(name)
    ]
    advice = f"; use {group}/{min(better, key=age)} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{advice}"


def _published(schema: JSONSchema, group: str, version: str, kind: str) -> JSONSchema:
    """The schema with what every object has, and with its name."""
    header = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": reference(OBJECT_META),
    }
    return {
        **schema,
        "properties": schema.get("properties", {}) | header,
        "x-kubernetes-group-version-kind": [{"group": group, "kind": kind, "version": version}],
    }


def _subresources(doors: dict[str, Any]) -> tuple[Subresource, ...]:
    found = [Subresource(name="status", verbs=_DOORS)] if "status" in doors else []
    if "scale" in doors:
        found.append(
            Subresource(name="scale", verbs=_DOORS, group="autoscaling", version="v1", kind="Scale")
        )
    return tuple(found)


def _columns(version: dict[str, Any]) -> tuple[Column, ...]:
    columns = version.get("additionalPrinterColumns")
    if not columns:
        return (_AGE,)
    return tuple(
        Column(
            name=column["name"],
            json_path=column["jsonPath"],
            type=column["type"],
            format=column.get("format", ""),
            description=column.get("description", ""),
            priority=column.get("priority", 0),
        )
        for column in columns
    )


def _scale(doors: dict[str, Any]) -> Scale | None:
    scale = doors.get("scale")
    if scale is None:
        return None
    return Scale(
        spec_replicas_path=scale["specReplicasPath"],
        status_replicas_path=scale["statusReplicasPath"],
        label_selector_path=scale.get("labelSelectorPath", ""),
    )
