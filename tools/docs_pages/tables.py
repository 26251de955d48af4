"""The fields and rules of a kind as rows, from the same schema as its CRD.

The pages are made of these. What stands below Kubernetes' own types (a pod template) is
Kubernetes' to document: such a field is one row, but the rules we add inside are told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from jobyard.manifest.fields import CORE_FIELDS, fields_of, type_name
from jobyard.schema.node import CompiledRule, Node
from jobyard.schema.wording import advised, mismatch

# A bound that only says "what the machine can hold" is no news to a reader.
_INT32_MAX = 2**31 - 1


class Row(msgspec.Struct, frozen=True):
    """One field. `section` is the path of the section with the fields inside it, if any."""

    name: str
    type: str
    section: str | None
    is_required: bool
    notes: tuple[str, ...]
    description: str


class Section(msgspec.Struct, frozen=True):
    """An object of the schema; list items are written `spec.replicaSpecs[]`."""

    path: str
    description: str
    rows: tuple[Row, ...]


class Requirement(msgspec.Struct, frozen=True):
    """A rule in words. `is_transition`: it compares with the object as it was."""

    path: str
    text: str
    is_transition: bool


def sections(path: str, node: Node) -> Iterator[Section]:
    """The section of an object and those of all objects of ours below it, in order."""
    suffix, inner = _inside(node)
    place = path + suffix
    rows = []
    below = []
    for field in fields_of(inner, recursive=False):
        sub = inner.properties[field.name]
        is_core = field.type.removeprefix("[]") in CORE_FIELDS.values()
        sub_path = f"{place}.{field.name}"
        sub_suffix, sub_inner = _inside(sub)
        has_section = not is_core and bool(sub_inner.properties)
        rows.append(
            Row(
                name=field.name,
                type=field.type,
                section=sub_path + sub_suffix if has_section else None,
                is_required=field.required,
                notes=notes(sub, is_core=is_core),
                description=field.description,
            )
        )
        if has_section:
            below.append((sub_path, sub))
    yield Section(place, node.description, tuple(rows))
    for sub_path, sub in below:
        yield from sections(sub_path, sub)


def _inside(node: Node) -> tuple[str, Node]:
    """The node that holds the fields, and how the path to it goes on."""
    suffix = ""
    while (inner := node.items or node.additional) is not None:
        suffix += "[]" if node.items else ".*"
        node = inner
    return suffix, node


def notes(node: Node, *, is_core: bool = False) -> tuple[str, ...]:
    """Default and bounds, in words; of a core type only what we add to it."""
    out = []
    if node.default not in (msgspec.UNSET, {}):
        out.append(f"default `{_literal(node.default)}`")
    if node.enum:
        out.append("one of " + ", ".join(f"`{value}`" for value in advised(node.enum)))
    out += _numbers(node)
    out += _sizes(node)
    if node.list_keys:
        out.append(f"each `{', '.join(node.list_keys)}` once")
    if node.format == "date-time":
        out.append("a time such as `2026-01-31T12:00:00Z`")
    if node.pattern is not None and not node.is_quantity:
        out.append(mismatch("", node).partition("; ")[2])
    inner = node.items or node.additional
    if inner is not None and not inner.properties and not is_core:
        # Notes of what is deeper inside say already what they speak of.
        out += [
            note if note.startswith("each ") else f"each {_noun(inner)}: {note}"
            for note in notes(inner)
        ]
    return tuple(out)


def _literal(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _noun(node: Node) -> str:
    if node.items is not None:
        return "list"
    return "map" if node.additional is not None else type_name(node)


def _numbers(node: Node) -> list[str]:
    least, most = node.minimum, node.maximum
    if most == _INT32_MAX:
        most = None
    if least is not None and most is not None:
        return [f"{least:.0f} to {most:.0f}" if least != most else f"always {least:.0f}"]
    if least is not None:
        return [f"at least {least:.0f}"]
    return [f"at most {most:.0f}"] if most is not None else []


def _sizes(node: Node) -> list[str]:
    measured = (
        (node.min_size, node.max_size, "entries"),
        (node.min_length, node.max_length, "characters"),
    )
    out = []
    for least, most, unit in measured:
        if least and most:
            out.append(f"{least} to {most} {unit}")
        elif least:
            out.append("not empty" if least == 1 else f"at least {least} {unit}")
        elif most:
            out.append(f"at most {most} {unit}")
    return out


def requirements(node: Node, path: str = "") -> Iterator[Requirement]:
    """Every rule of a schema, also inside core types, outermost first."""
    for rule in node.rules:
        yield _requirement(rule, path)
    for name, sub in node.properties.items():
        yield from requirements(sub, f"{path}.{name}" if path else name)
    if node.items is not None:
        yield from requirements(node.items, f"{path}[]")
    if node.additional is not None:
        yield from requirements(node.additional, f"{path}.*")


def _requirement(rule: CompiledRule, path: str) -> Requirement:
    place = ".".join(step for step in (path, *rule.field) if step)
    return Requirement(place, rule.message, rule.is_transition)
