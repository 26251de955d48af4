"""Where in a manifest's text a value stands, and the error that points there.

Everything that reads a manifest works with offsets into one text; offsets become lines
and columns only when somebody asks, because most files are right and nobody does. The
modules that parse (`composing`, `json_stream`) make `Place` trees, `reading` hands them
out inside documents. Nothing here knows YAML, JSON or Kubernetes.
"""

from bisect import bisect_right
from itertools import accumulate
from typing import TypeAlias

import msgspec

Path: TypeAlias = tuple[str | int, ...]
JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None

_SHOWN_CHARACTERS = 40


class Position(msgspec.Struct, frozen=True):
    """A character's place in a file, counted from 1 as editors do."""

    line: int
    column: int


class Repeated(msgspec.Struct, frozen=True):
    """A field written twice in one object; the last one counts, as with kubectl."""

    path: Path
    first_line: int
    line: int


def still_there(repeated: list[Repeated]) -> tuple[Repeated, ...]:
    """Those that are not inside a value which was itself replaced later; given as they came."""
    replaced: set[Path] = set()
    kept: list[Repeated] = []
    for each in reversed(repeated):
        if not any(each.path[:depth] in replaced for depth in range(len(each.path))):
            kept.append(each)
            replaced.add(each.path)
    return tuple(reversed(kept))


class UnreadableManifest(Exception):  # noqa: N818 - it names what the file is
    """The text is not a manifest: not YAML or JSON, or YAML that has no JSON counterpart."""

    def __init__(self, source: str, line: int, column: int, what: str) -> None:
        super().__init__(source, line, column, what)
        self.source = source
        self.line = line
        self.column = column
        self.what = what

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.what}"


class Place(msgspec.Struct, frozen=True):
    """Where a value begins (for a field: its key), and the places of what is inside it."""

    offset: int
    inside: "dict[str, Place] | list[Place] | None" = None

    def nearest(self, path: Path) -> "Place":
        """The place of the path, or of the deepest ancestor of it that exists."""
        place = self
        for step in path:
            match place.inside, step:
                case dict() as fields, str() if step in fields:
                    place = fields[step]
                case list() as items, int() if 0 <= step < len(items):
                    place = items[step]
                case _:
                    break
        return place


class Composed(msgspec.Struct, frozen=True):
    """One document of a file: its value and where the parts of it stand."""

    value: JSON
    place: Place
    repeated: tuple[Repeated, ...]


class Text(msgspec.Struct, frozen=True):
    """The text of one file, in which lines end with a newline, and the offsets of its lines."""

    source: str
    content: str
    line_starts: tuple[int, ...]

    @classmethod
    def of(cls, content: str, source: str) -> "Text":
        # YAML 1.1 would also end lines at U+0085, U+2028 and U+2029; editors don't count those.
        ends = accumulate(len(line) + 1 for line in content.split("\n")[:-1])
        return cls(source, content, (0, *ends))

    def position(self, offset: int) -> Position:
        line = bisect_right(self.line_starts, offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def line(self, offset: int) -> int:
        return self.position(offset).line

    def line_text(self, line: int) -> str:
        """The line with that number, without its end; empty when there is no such line."""
        if not 1 <= line <= len(self.line_starts):
            return ""
        start = self.line_starts[line - 1]
        end = self.content.find("\n", start)
        return self.content[start : end if end >= 0 else len(self.content)]

    def shown(self, offset: int) -> str:
        """The rest of the line from an offset, quoted and shortened, to name it in a message."""
        position = self.position(offset)
        rest = self.line_text(position.line)[position.column - 1 :].strip()
        if not rest:
            return "the end of the line" if offset < len(self.content.rstrip()) else "the end"
        if len(rest) > _SHOWN_CHARACTERS:
            rest = rest[: _SHOWN_CHARACTERS - 1] + "…"
        return f"'{rest}'"

    def unreadable(self, offset: int, what: str) -> UnreadableManifest:
        position = self.position(min(offset, len(self.content)))
        return UnreadableManifest(self.source, position.line, position.column, what)

    def __repr__(self) -> str:
        return f"Text({self.source!r}, {len(self.line_starts)} lines)"
