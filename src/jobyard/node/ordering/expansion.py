"""`$(NAME)` in commands, arguments and variables, as Kubernetes expands it.

`$$` is a dollar sign, so `$$(NAME)` is left as the text `$(NAME)`. A name that isn't known
stays as it was written, and so does anything that is no complete reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# Kubernetes takes anything up to the first closing bracket as the name.
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)


def expanded(text: str, values: Mapping[str, str]) -> str:
    """The text with every known reference replaced; what was put in isn't looked at again."""

    def replacement(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            return "$"
        return values.get(name, found.group(0))

    return _REFERENCE.sub(replacement, text)


def unknown_names(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The references that would stay as they are."""
    return tuple(
        name
        for found in _REFERENCE.finditer(text)
        if (name := found.group(1)) is not None and name not in values
    )
