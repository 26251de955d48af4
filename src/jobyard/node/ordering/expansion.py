"""`$(NAME)` in commands, arguments and variables, as Kubernetes expands it.

`$$` is a dollar sign, so `$$(NAME)` is left as the text `$(NAME)`. A name that isn't known
stays as it was written, and so does anything that is no complete reference.

A few variables that name one another can stand for any number of bytes. No text grows beyond
what Linux starts a program with: it would fail there in any case, and it is told before the
bytes are put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

# One argument or variable, with its name and the byte at its end.
TEXT_BYTES_MAX: Final = 131072
# All arguments, and all variables: a quarter of the stack that programs usually have.
ALL_BYTES_MAX: Final = 2 * 2**20

# Kubernetes takes anything up to the first closing bracket as the name.
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)


class TooLongError(Exception):
    """What was expanded is more than a program can be started with; the text says how much is."""

    def __init__(self, what: str, bytes_max: int) -> None:
        super().__init__(f"{what} would have more than {bytes_max} bytes: Linux takes no more")


class Room:
    """How much is left of all that a program can be started with."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._left = ALL_BYTES_MAX

    def take(self, text: str, what: str) -> str:
        """The text itself, which takes its place; TooLongError if there is none."""
        size = bytes_of(text) + 1
        if size > TEXT_BYTES_MAX:
            raise TooLongError(what, TEXT_BYTES_MAX)
        self._left -= size
        if self._left < 0:
            raise TooLongError(self._what, ALL_BYTES_MAX)
        return text


def expanded(text: str, values: Mapping[str, str], what: str) -> str:
    """The text with every known reference replaced; what was put in isn't looked at again.

    Raises TooLongError, which tells of it as `what`.
    """
    pieces: list[str] = []
    length = 0
    for piece in _pieces(text, values):
        pieces.append(piece)
        length += len(piece)
        if length >= TEXT_BYTES_MAX:
            raise TooLongError(what, TEXT_BYTES_MAX)
    return "".join(pieces)


def _pieces(text: str, values: Mapping[str, str]) -> Iterator[str]:
    at = 0
    for found in _REFERENCE.finditer(text):
        yield text[at : found.start()]
        name = found.group(1)
        yield "$" if name is None else values.get(name, found.group(0))
        at = found.end()
    yield text[at:]


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def unknown_names(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """The references that would stay as they are."""
    return tuple(
        name
        for found in _REFERENCE.finditer(text)
        if (name := found.group(1)) is not None and name not in values
    )
