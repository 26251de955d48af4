"""Objects on standard output, as YAML or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import yaml

from jobyard.cli.output.saying import as_json, escaped, has_unseen, say, say_json
from jobyard.manifest.scalars import ScalarError, resolve


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """No anchors: every object stands for itself; long texts as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text as a block if it has lines; quoted where kubectl would not take it for a text.

    In double quotes there is a number for what acts or can't be seen.
    """
    style = "|" if "\n" in text else None if _is_text(text) else "'"
    style = '"' if has_unseen(text) else style
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _is_text(text: str) -> bool:
    try:
        return isinstance(resolve(text, None, True), str)
    except ScalarError:
        return False


_Dumper.add_representer(str, _text)


def as_yaml(obj: Any) -> str:
    text: str = yaml.dump(obj, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return escaped(text)


def print_objects(objects: Iterable[Mapping[str, Any]], output: str) -> None:
    """One after the other: there may be more than fit into memory."""
    if output == "json":
        _print_json(iter(objects))
        return
    for n, obj in enumerate(objects):
        say(("---\n" if n else "") + as_yaml(obj), nl=False)


def _print_json(objects: Iterator[Mapping[str, Any]]) -> None:
    """A list, as `json.dumps` of all of it would write it; a single object as it is."""
    first, second = next(objects, None), next(objects, None)
    if first is not None and second is None:
        say_json(first, indent=2)
        return
    whole = {"apiVersion": "v1", "kind": "List", "items": []}
    head, tail = as_json(whole, indent=2).split("[]")
    say(f"{head}[", nl=False)
    pair = [each for each in (first, second) if each is not None]
    for n, obj in enumerate(chain(pair, objects)):
        text = as_json(obj, indent=2).replace("\n", "\n    ")
        say(f"{',' if n else ''}\n    {text}", nl=False)
    say(("\n  ]" if pair else "]") + tail)
