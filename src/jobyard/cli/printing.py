"""Objects on standard output, as YAML or JSON."""

from __future__ import annotations

import json
from typing import Any

import click
import yaml

from jobyard.manifest.scalars import ScalarError, resolve


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """No anchors: every object stands for itself; long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text as a block if it has lines; quoted where kubectl would not take it for a text."""
    style = "|" if "\n" in text else None if _is_text(text) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_text(text: str) -> bool:
    try:
        return isinstance(resolve(text, None, True), str)
    except ScalarError:
        return False


_Dumper.add_representer(str, _text)


def as_yaml(obj: Any) -> str:
    return yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def print_objects(objects: list[dict[str, Any]], output: str) -> None:
    if output == "json":
        items = {"apiVersion": "v1", "kind": "List", "items": objects}
        click.echo(json.dumps(items if len(objects) != 1 else objects[0], indent=2))
    else:
        click.echo("---\n".join(as_yaml(obj) for obj in objects), nl=False)
