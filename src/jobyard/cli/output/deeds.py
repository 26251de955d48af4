"""What a command has done to an object, as a line for people or as JSON for programs.

With JSON each object is a line of its own, told when it is done: who reads along need not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jobyard.cli.output.saying import say, say_json


class Deed(msgspec.Struct, frozen=True):
    """One object, and what was done to it."""

    kind: str
    namespace: str
    name: str
    # As a person is told, after `GenericJob/train`.
    done: str
    # As a program is told; `action` is always there.
    what: Mapping[str, Any]


def tell(output: str, deed: Deed) -> None:
    if output == "json":
        where = {"namespace": deed.namespace} if deed.namespace else {}
        say_json({"kind": deed.kind, **where, "name": deed.name, **deed.what})
    else:
        say(f"{deed.kind}/{deed.name} {deed.done}")
