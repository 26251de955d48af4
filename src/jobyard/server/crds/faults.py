"""What is wrong with a CustomResourceDefinition, but for its schemas, or with a change of one."""

from __future__ import annotations

from typing import Any

from jobyard.server.crds.schema_faults import schema_faults
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_1035_label, dns_subdomain
from jobyard.server.resource import Object

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SIMPLE_PATH = "must be a simple json path starting with ."


def crd_faults(crd: Object, faults: Faults, *, is_known: bool, is_change: bool = False) -> None:
    """`is_known`: its schemas and rules are known to be right, and not looked into."""
    spec = crd["spec"]
    _identity_faults(crd, faults, is_change=is_change)
    _names_faults(spec["names"], faults)
    versions = spec.get("versions") or []
    _versions_faults(versions, crd["status"], faults)
    is_alone = len(versions) == 1
    for n, version in enumerate(versions):
        where = "spec" if is_alone else f"spec.versions[{n}]"
        schema = version.get("schema", {}).get("openAPIV3Schema")
        if schema is None:
            faults.required(f"spec.versions[{n}].schema.openAPIV3Schema")
        elif not is_known:
            inner = "spec.validation" if is_alone else f"{where}.schema"
            schema_faults(schema, faults, f"{inner}.openAPIV3Schema")
        _scale_faults(version, faults, where)
        _column_faults(version, faults, where)
        _selectable_faults(version, schema or {}, faults, where)
    _conversion_faults(spec, faults)
    if spec.get("preserveUnknownFields"):
        faults.invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead",
        )


def _identity_faults(crd: Object, faults: Faults, *, is_change: bool) -> None:
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    group = spec["group"]
    # Of a change another check tells that neither part of the name may be other than before.
    if not is_change and name != f"{spec['names']['plural']}.{group}":
        faults.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    wrong = dns_subdomain(group)
    if not group:
        faults.required("spec.group")
    elif wrong:
        faults.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        faults.invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec["scope"]:
        faults.required("spec.scope")
    else:
        faults.one_of("spec.scope", spec["scope"], ("Cluster", "Namespaced"))


def _names_faults(names: dict[str, Any], faults: Faults) -> None:
    for field in ("plural", "singular"):
        name = names.get(field, "")
        faults.named(f"spec.names.{field}", name, dns_1035_label(name))
    for field in ("kind", "listKind"):
        name = names.get(field, "")
        wrong = dns_1035_label(name.lower())
        told = ("may have mixed case, but should otherwise match: " + ",".join(wrong),)
        faults.named(f"spec.names.{field}", name, told if wrong else ())
    for field in ("shortNames", "categories"):
        for n, name in enumerate(names.get(field, ())):
            faults.invalid(f"spec.names.{field}[{n}]", name, *dns_1035_label(name))
    if names.get("kind") and names["kind"] == names.get("listKind"):
        text = "kind and listKind may not be the same"
        faults.invalid("spec.names.listKind", names["listKind"], text)


def _versions_faults(
    versions: list[dict[str, Any]], status: dict[str, Any], faults: Faults
) -> None:
    for n, version in enumerate(versions):
        wrong = dns_1035_label(version["name"])
        faults.invalid(f"spec.versions[{n}].name", version["name"], *wrong)
        if n == 0:
            faults.invalid("spec.version", version["name"], *wrong)
    shown = [_as_shown(version) for version in versions]
    names = [version["name"] for version in versions]
    if len(set(names)) < len(names):
        faults.invalid("spec.versions", shown, "must contain unique version names")
    stored = [version["name"] for version in versions if version["storage"]]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        faults.invalid("spec.versions", shown, text)
    if not status["storedVersions"]:
        text = "must have at least one stored version"
        faults.invalid("status.storedVersions", None, text)
    elif stored and stored[-1] not in status["storedVersions"]:
        text = f"must have the storage version {stored[-1]}"
        faults.invalid("status.storedVersions", status["storedVersions"], text)
    for n, name in enumerate(status["storedVersions"] or ()):
        if name not in names:
            text = "missing from spec.versions; must be in spec.versions to be removed"
            faults.invalid(f"status.storedVersions[{n}]", name, text)


def _as_shown(version: dict[str, Any]) -> dict[str, Any]:
    """A version as the server tells of it, with the names that its fields have inside."""
    return {
        "Name": version["name"],
        "Served": version["served"],
        "Storage": version["storage"],
        "Deprecated": version.get("deprecated", False),
        "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": None,
        "Subresources": None,
        "AdditionalPrinterColumns": None,
        "SelectableFields": None,
    }


def _scale_faults(version: dict[str, Any], faults: Faults, where: str) -> None:
    scale = version.get("subresources", {}).get("scale")
    if scale is None:
        return
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        path, value = f"{where}.subresources.scale.{field}", scale[field]
        if not value:
            faults.required(path)
        elif not value.startswith("."):
            faults.invalid(path, value, _SIMPLE_PATH)
        elif not value.startswith(f"{root}."):
            faults.invalid(path, value, f"should be a json path under {root}")
    selector = scale.get("labelSelectorPath")
    if selector:
        path = f"{where}.subresources.scale.labelSelectorPath"
        if not selector.startswith("."):
            faults.invalid(path, selector, _SIMPLE_PATH)
        elif not selector.startswith((".spec.", ".status.")):
            text = "should be a json path under either .spec or .status"
            faults.invalid(path, selector, text)


def _column_faults(version: dict[str, Any], faults: Faults, where: str) -> None:
    for n, column in enumerate(version.get("additionalPrinterColumns", ())):
        path = f"{where}.additionalPrinterColumns[{n}]"
        if not column["name"]:
            faults.required(f"{path}.name")
        if not column["type"]:
            faults.required(f"{path}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column["type"] not in _COLUMN_TYPES:
            text = f"must be one of {','.join(_COLUMN_TYPES)}"
            faults.invalid(f"{path}.type", column["type"], text)
        if not column["jsonPath"]:
            faults.required(f"{path}.JSONPath")
        elif not column["jsonPath"].startswith("."):
            faults.invalid(f"{path}.JSONPath", column["jsonPath"], _SIMPLE_PATH)


def _selectable_faults(
    version: dict[str, Any], schema: dict[str, Any], faults: Faults, where: str
) -> None:
    for n, field in enumerate(version.get("selectableFields", ())):
        path, value = f"{where}.selectableFields[{n}].jsonPath", field["jsonPath"]
        if not value:
            faults.required(path)
        elif not value.startswith("."):
            text = f"is an invalid path: expected [ or . but got: {value}"
            faults.invalid(path, value, text)
        elif not _is_field(schema, value.split(".")[1:]):
            text = "is an invalid path: does not refer to a valid field"
            faults.invalid(path, value, text)


def _is_field(schema: dict[str, Any], steps: list[str]) -> bool:
    for step in steps:
        if step not in schema.get("properties", {}):
            return False
        schema = schema["properties"][step]
    return schema.get("type") in ("string", "integer", "boolean")


def _conversion_faults(spec: dict[str, Any], faults: Faults) -> None:
    strategy = spec["conversion"]["strategy"]
    if strategy == "Webhook":
        # There is nobody here who would call one.
        text = "webhooks for conversion are not supported here; versions are served as stored"
        faults.invalid("spec.conversion.strategy", strategy, text)
    else:
        faults.one_of("spec.conversion.strategy", strategy, ("None", "Webhook"))


def change_faults(crd: Object, old: Object, faults: Faults, *, is_known: bool) -> None:
    """What a new one is checked for, and: an established CRD keeps its group, scope and kind."""
    crd_faults(crd, faults, is_known=is_known, is_change=True)
    spec, before = crd["spec"], old["spec"]
    faults.immutable("spec.group", spec["group"], before.get("group"))
    faults.immutable("spec.scope", spec["scope"], before.get("scope"))
    for field in ("kind", "plural"):
        faults.immutable(
            f"spec.names.{field}", spec["names"][field], before.get("names", {}).get(field)
        )
