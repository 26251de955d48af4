"""`--set PATH=VALUE`: one field of a manifest changed on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click
import msgspec
import yaml

from jobyard.manifest.reading import Document
from jobyard.numerals import INT32_MAX, whole_number

# Path and value.
Assignment = tuple[tuple[str | int, ...], Any]
_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


def assignment(text: str) -> Assignment:
    """`spec.replicaSpecs[0].replicas=2` as path and value; the value is read as YAML is."""
    path, separator, value = text.partition("=")
    found = [name or whole_number(index, INT32_MAX) for name, index in _STEP.findall(path)]
    steps = tuple(step for step in found if step is not None)
    if not separator or not steps or len(steps) < len(found) or _STEP.sub("", path).strip("."):
        raise click.BadParameter(
            f"{text!r} is not PATH=VALUE, such as spec.replicaSpecs[0].replicas=2"
        )
    try:
        return steps, yaml.safe_load(value)
    except yaml.YAMLError:
        raise click.BadParameter(f"{text!r}: {value!r} can't be read as YAML") from None


def assigned(document: Document, assignments: Sequence[Assignment]) -> Document:
    """The document with those fields changed; it knows that these aren't the file's."""
    value = with_assignments(document.value, tuple(assignments))
    paths = tuple(steps for steps, _ in assignments)
    return msgspec.structs.replace(document, value=value, assigned=paths)


def with_assignments(obj: dict[str, Any], assignments: tuple[Assignment, ...]) -> dict[str, Any]:
    """The object with those fields changed; a mapping on the way there is made, a list is not."""
    for steps, value in assignments:
        obj = _assigned(obj, steps, value, ())
    return obj


def _assigned(
    node: Any, steps: tuple[str | int, ...], value: Any, done: tuple[str | int, ...]
) -> Any:
    if not steps:
        return value
    step, *rest = steps
    here = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in (*done, step)).lstrip(".")
    if isinstance(step, int):
        if not isinstance(node, list) or step >= len(node):
            size = f"a list of {len(node)}" if isinstance(node, list) else "not a list"
            raise click.BadParameter(f"--set {here}: what stands there is {size}")
        changed = _assigned(node[step], tuple(rest), value, (*done, step))
        return [*node[:step], changed, *node[step + 1 :]]
    if node is not None and not isinstance(node, dict):
        raise click.BadParameter(f"--set {here}: what stands before it is not a mapping")
    node = node or {}
    return {**node, step: _assigned(node.get(step), tuple(rest), value, (*done, step))}
