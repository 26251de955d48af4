"""`jobyard explain`: a kind or a field of it, from the same schema as its CRD."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from jobyard.api.crd import schema_node
from jobyard.api.kinds import KINDS, Kind
from jobyard.cli.arguments.kind_names import kind_or_error
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette
from jobyard.manifest.fields import Field, fields_of, type_name
from jobyard.schema.node import Node
from jobyard.schema.wording import suggestion

_PALETTE: Final = Palette()
_INDEX: Final = re.compile(r"\[([0-9]+|\*)?\]$")


@click.command("explain")
@click.argument("what", required=False, metavar="[KIND[.PATH]]")
@click.option("--recursive", is_flag=True, help="Show the fields below as well.")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json")), default="text", help="Output format."
)
def command(what: str | None, recursive: bool, output: str) -> None:
    """Describe a kind, or a field of it, such as ptj.spec.elastic.

    Without KIND, the kinds are listed.
    """
    if what is None:
        _list_kinds(output)
        return
    word, *steps = what.split(".")
    kind = kind_or_error(word)
    node = _descend(kind, steps)
    fields = list(fields_of(node, recursive=recursive))
    if output == "json":
        say_json(_as_json(kind, steps, node, fields), indent=2)
    else:
        _print(kind, steps, node, fields)


def _list_kinds(output: str) -> None:
    rows = [(kind.name, kind.short_name, kind.summary) for kind in KINDS]
    if output == "json":
        keys = ("kind", "shortName", "description")
        say_json([dict(zip(keys, row, strict=True)) for row in rows], indent=2)
        return
    width = max(len(name) for name, _, _ in rows)
    for name, short, text in rows:
        say(f"{_PALETTE.bold(name.ljust(width))}  {short:<4}  {text}")


def _descend(kind: Kind, steps: list[str]) -> Node:
    node = schema_node(kind)
    for n, given in enumerate(steps):
        # A finding names one item of a list; all of them have the same fields.
        step = _INDEX.sub("", given)
        inner = node.items or node
        if step not in inner.properties:
            place = ".".join([kind.singular, *steps[:n]])
            raise click.UsageError(
                f"{place} has no field {step}{suggestion(step, inner.properties)}"
            )
        node = inner.properties[step]
        if step != given and node.items is None:
            place = ".".join([kind.singular, *steps[:n], step])
            raise click.UsageError(
                f"{place} is no list; write it without {given.removeprefix(step)}"
            )
    return node


def _print(kind: Kind, steps: list[str], node: Node, fields: list[Field]) -> None:
    say(f"{_PALETTE.faint('KIND')}     {kind.name}  ({', '.join(kind.short_names)})")
    say(f"{_PALETTE.faint('VERSION')}  {kind.api_version}")
    if steps:
        path = ".".join(steps)
        say(f"{_PALETTE.faint('FIELD')}    {path} <{type_name(node)}>")
    description = node.description or kind.summary if not steps else node.description
    if description:
        say(f"\n{description}")
    if fields:
        say(f"\n{_PALETTE.faint('FIELDS')}")
    for field in fields:
        _print_field(field)


def _print_field(field: Field) -> None:
    indent = "  " * (field.depth + 1)
    head = f"{indent}{_PALETTE.bold(field.name)} <{field.type}>"
    notes = []
    if field.required:
        notes.append(_PALETTE.failure("required"))
    notes += list(field.notes)
    say(head + (f"  {', '.join(notes)}" if notes else ""))
    if field.description:
        say(f"{indent}  {field.description}")


def _as_json(kind: Kind, steps: list[str], node: Node, fields: list[Field]) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "apiVersion": kind.api_version,
        "path": ".".join(steps),
        "type": type_name(node),
        "description": node.description,
        "fields": [
            {
                "name": field.name,
                "depth": field.depth,
                "type": field.type,
                "required": field.required,
                "notes": list(field.notes),
                "description": field.description,
            }
            for field in fields
        ],
    }
