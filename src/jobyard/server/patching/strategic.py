"""Strategic merge patch: a merge patch that knows lists, for Kubernetes' own kinds.

Lists merge by the key that the schema names (`x-kubernetes-patch-merge-key`) or, of plain
values, as sets; `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…` and `$setElementOrder/…`
steer it. Results share what the patch didn't touch. What the schema doesn't know is merged like
a plain value; whether it may be there is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jobyard.server.apply.go_text import type_name
from jobyard.server.patching.merge_patch import without_nulls
from jobyard.server.patching.ordering import (
    check_order,
    declared_key,
    interleaved,
    items_type,
    matching,
    partitioned,
    remembered,
    same_plain,
)
from jobyard.server.patching.strategic_faults import (
    bad_format,
    plain_fault,
    unknown_directive,
    wrong_type,
)
from jobyard.server.resource import JSONSchema, Object, ServedResource

Resolve = Callable[[JSONSchema], JSONSchema]
Map = dict[str, Any]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"
_SET_ORDER: Final = "$setElementOrder"


def strategic_patched(
    old: Object, patch: Map, resource: ServedResource, resolve: Resolve
) -> Object:
    """The object that the patch makes of `old`; raises ProblemError."""
    return _Merge(resolve).maps(old, patch, resolve(resource.schema))


def _field_of(key: str, prefix: str) -> str:
    first, slash, rest = key.partition("/")
    if first != prefix or not slash:
        raise bad_format("primitive list" if prefix == _DELETE_FROM else "setElementOrder list")
    return rest


def _retained(live: Map, patch: Map) -> tuple[Map, Map]:
    """Both without the directive, and the live one without what it doesn't retain."""
    keys = patch[_RETAIN_KEYS]
    patch = {name: value for name, value in patch.items() if name != _RETAIN_KEYS}
    if not isinstance(keys, list):
        raise bad_format("retainKeys")
    for name, value in patch.items():
        steering = name.startswith((_DELETE_FROM, _SET_ORDER))
        if value is not None and not steering and name not in keys:
            raise bad_format("retainKeys")
    return {name: value for name, value in live.items() if name in keys}, patch


def _fresh(value: Any) -> tuple[Any, bool]:
    """A value that takes a free place, without directives; whether it is to be kept at all."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        parts = {name: _fresh(child) for name, child in value.items()}
        return {name: child for name, (child, keep) in parts.items() if keep}, True
    if isinstance(value, list):
        return [child for child, keep in map(_fresh, value) if keep], True
    return value, True


class _Merge:
    """One merging; all it knows is how to follow references of schemas."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    def _resolved(self, schema: JSONSchema) -> JSONSchema:
        parts = schema.get("allOf")
        if "$ref" not in schema and isinstance(parts, list) and len(parts) == 1:
            schema = parts[0]
        return self._resolve(schema)

    def _field(self, schema: JSONSchema, name: str) -> tuple[JSONSchema, str, str]:
        """The schema of a field, how it merges, and by which key."""
        member = (schema.get("properties") or {}).get(name)
        if member is None:
            extra = schema.get("additionalProperties")
            member = extra if isinstance(extra, dict) else {}
        strategies = str(member.get("x-kubernetes-patch-strategy", "")).split(",")
        strategy = next((each for each in strategies if each != "retainKeys"), "")
        key = member.get("x-kubernetes-patch-merge-key", "")
        return self._resolved(member), strategy, key

    def maps(self, live: Map, patch: Map, schema: JSONSchema) -> Map:
        """The live map with the patch over it."""
        if _DIRECTIVE in patch:
            return self._directed(patch)
        out = live
        if _RETAIN_KEYS in patch:
            out, patch = _retained(live, patch)
        out, patch = self._ordered(dict(out), patch, schema)
        for key, value in patch.items():
            is_deletion = key.startswith(_DELETE_FROM)
            name = _field_of(key, _DELETE_FROM) if is_deletion else key
            if value is None:
                out.pop(name, None)
                continue
            before: Any = out.get(name)
            if name not in out or type_name(before) != type_name(value):
                if not is_deletion:
                    self._put(out, name, *_fresh(without_nulls(value)))
            elif isinstance(value, dict):
                below, strategy, _ = self._field(schema, name)
                replaced = strategy == "replace"
                out[name] = value if replaced else self.maps(before, value, below)
            elif isinstance(value, list):
                below, strategy, by = self._field(schema, name)
                if strategy == "merge" or is_deletion:
                    out[name] = self._lists(before, value, below, by, is_deletion)
                else:
                    out[name] = value
            else:
                out[name] = value
        return live if _untouched(live, out) else out

    @staticmethod
    def _put(out: Map, name: str, value: Any, keep: bool) -> None:
        if keep:
            out[name] = value
        else:
            out.pop(name, None)

    @staticmethod
    def _directed(patch: Map) -> Map:
        match patch[_DIRECTIVE]:
            case "replace":
                return {name: value for name, value in patch.items() if name != _DIRECTIVE}
            case "delete":
                return {}
        raise unknown_directive(patch[_DIRECTIVE], patch)

    def _ordered(self, out: Map, patch: Map, schema: JSONSchema) -> tuple[Map, Map]:
        """Merges the lists whose order the patch sets; both without them."""
        left = dict(patch)
        for key in [key for key in patch if key.startswith(_SET_ORDER)]:
            order = left.pop(key)
            name = _field_of(key, _SET_ORDER)
            if not isinstance(order, list):
                raise wrong_type("[]interface {}", type_name(order))
            for value in (out.get(name, []), left.get(name, [])):
                if not isinstance(value, list):
                    raise wrong_type("[]interface {}", type_name(value))
            had, wanted = out.get(name), left.get(name)
            below, strategy, by = self._field(schema, name)
            check_order(wanted or [], order, by)
            if had is None and wanted is None:
                continue
            if wanted is None:
                merged = had
            elif had is None:
                merged = _fresh(wanted)[0]
            elif strategy == "merge":
                merged = self._lists(had, wanted, below, by, is_deletion=False)
                had = remembered(had, wanted, by) if by else had
            else:
                merged = wanted
            assert merged is not None
            mine, others = partitioned(merged, order, by)
            items_type(had or [], wanted or [])
            out[name] = interleaved(mine, others, order, had or [], by)
            left.pop(name, None)
        return out, left

    def _lists(
        self, live: list[Any], patch: list[Any], schema: JSONSchema, by: str, is_deletion: bool
    ) -> list[Any]:
        if not live and not patch:
            return live
        if items_type(live, patch) != "map[string]interface {}":
            if is_deletion:
                return [item for item in live if not matching(patch, item)]
            merged: list[Any] = []
            for item in (*live, *patch):
                if not matching(merged, item):
                    merged.append(item)
            mine, others = partitioned(merged, patch, "")
            return interleaved(mine, others, patch, live, "")
        if not by:
            raise plain_fault("cannot merge lists without merge key for struct")
        live, patch = self._steered(live, patch, by)
        items = self._resolved(schema.get("items") or {})
        merged = list(live)
        for item in patch:
            value = declared_key(item, by)
            at = next((n for n, had in enumerate(merged) if _has_key(had, by, value)), None)
            if at is None:
                merged.append(item)
            else:
                merged[at] = self.maps(merged[at], item, items)
        mine, others = partitioned(merged, patch, by)
        return interleaved(mine, others, patch, live, by)

    @staticmethod
    def _steered(live: list[Any], patch: list[Any], by: str) -> tuple[list[Any], list[Any]]:
        """Both lists after the items of the patch that are directives."""
        left = [item for item in patch if _DIRECTIVE not in item]
        is_replaced = False
        for item in patch:
            match item.get(_DIRECTIVE, ""):
                case "":
                    if _DIRECTIVE in item:
                        raise unknown_directive("", item)
                case "delete":
                    value = declared_key(item, by)
                    live = [had for had in live if not _has_key(had, by, value)]
                case "replace":
                    is_replaced = True
                case "merge":
                    raise plain_fault("merging lists cannot yet be specified in the patch")
                case other:
                    raise unknown_directive(other, item)
        return (left, []) if is_replaced else (live, left)


def _has_key(item: Map, by: str, value: Any) -> bool:
    return by in item and same_plain(item[by], value)


def _untouched(live: Map, out: Map) -> bool:
    return len(live) == len(out) and all(
        name in out and out[name] is value for name, value in live.items()
    )
