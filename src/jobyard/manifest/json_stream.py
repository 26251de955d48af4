"""JSON text with positions, for the manifests that are JSON.

kubectl gives whatever begins with a brace to a JSON decoder before it tries YAML. That
matters: YAML does not know JSON's surrogate pairs, refuses some tabs and long keys. The
standard library's decoder tells no positions, hence this one. A file may hold several
values one after the other; `read_stream` takes as many as it can and says what stopped it.
"""

import re
from typing import Final

import msgspec

from jobyard.manifest.composing import DEPTH_LIMIT
from jobyard.manifest.places import (
    JSON,
    Composed,
    Path,
    Place,
    Repeated,
    Text,
    UnreadableManifest,
    still_there,
)
from jobyard.manifest.scalars import ScalarError, integer, number

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
)
_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final[dict[str, JSON]] = {"true": True, "false": False, "null": None}


class _NotJSON(Exception):  # noqa: N818 - it is what the text is, and may well be YAML
    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset = offset


class Stream(msgspec.Struct, frozen=True):
    """The values read, where reading ended, and why if that is not the end of the text."""

    values: tuple[Composed, ...]
    end: int
    error: UnreadableManifest | None


def read_stream(text: Text, start: int, end: int) -> Stream:
    """As many JSON values as there are from the start on."""
    values: list[Composed] = []
    offset = start
    try:
        while (begin := _skip(text, offset, end)) < end:
            decoder = _Decoder(text, end)
            value, inside, offset = decoder.value(begin, ())
            values.append(Composed(value, Place(begin, inside), still_there(decoder.repeated)))
    except _NotJSON as error:
        return Stream(tuple(values), offset, text.unreadable(error.offset, str(error)))
    return Stream(tuple(values), end, None)


def _skip(text: Text, offset: int, end: int) -> int:
    space = _SPACE.match(text.content, offset, end)
    assert space is not None
    return space.end()


_Inside = dict[str, Place] | list[Place] | None


class _Decoder:
    """A recursive descent over one value; each method returns the offset behind what it read."""

    def __init__(self, text: Text, end: int) -> None:
        self.text = text
        self.end = end
        self.repeated: list[Repeated] = []

    def value(self, offset: int, path: Path) -> tuple[JSON, _Inside, int]:
        content = self.text.content
        opening = content[offset] if offset < self.end else ""
        if opening in ("{", "[") and len(path) >= DEPTH_LIMIT:
            raise self.text.unreadable(
                offset,
                f"found more than {DEPTH_LIMIT} objects and arrays in one another; "
                "no Kubernetes object is that deep",
            )
        match opening:
            case "{":
                return self._object(offset, path)
            case "[":
                return self._array(offset, path)
            case '"':
                text, end = self._string(offset)
                return text, None, end
        if found := _NUMBER.match(content, offset, self.end):
            return self._number(found), None, found.end()
        if found := _WORD.match(content, offset, self.end):
            return _WORDS[found[0]], None, found.end()
        raise _NotJSON(offset, f"found {self._shown(offset)}; a JSON value goes here")

    def _object(self, start: int, path: Path) -> tuple[JSON, _Inside, int]:
        fields: dict[str, JSON] = {}
        places: dict[str, Place] = {}
        offset = self._skip(start + 1)
        if self._at(offset, "}"):
            return fields, places, offset + 1
        while True:
            if not self._at(offset, '"'):
                raise _NotJSON(
                    offset, f"found {self._shown(offset)}; a field name in double quotes goes here"
                )
            key_offset = offset
            key, offset = self._string(offset)
            offset = self._skip(offset)
            if not self._at(offset, ":"):
                raise _NotJSON(
                    offset, f"found {self._shown(offset)}; a ':' goes after a field name"
                )
            if key in places:
                self._repeat((*path, key), places[key], key_offset)
            fields[key], inside, offset = self.value(self._skip(offset + 1), (*path, key))
            places[key] = Place(key_offset, inside)
            offset = self._skip(offset)
            if self._at(offset, "}"):
                return fields, places, offset + 1
            offset = self._comma(offset, start, "}")

    def _array(self, start: int, path: Path) -> tuple[JSON, _Inside, int]:
        items: list[JSON] = []
        places: list[Place] = []
        offset = self._skip(start + 1)
        if self._at(offset, "]"):
            return items, places, offset + 1
        while True:
            begin = offset
            item, inside, offset = self.value(begin, (*path, len(items)))
            items.append(item)
            places.append(Place(begin, inside))
            offset = self._skip(offset)
            if self._at(offset, "]"):
                return items, places, offset + 1
            offset = self._comma(offset, start, "]")

    def _comma(self, offset: int, start: int, closing: str) -> int:
        if not self._at(offset, ","):
            raise _NotJSON(
                offset,
                f"found {self._shown(offset)}; a ',' goes here, or a '{closing}' to end what "
                f"begins in line {self.text.line(start)}",
            )
        return self._skip(offset + 1)

    def _string(self, start: int) -> tuple[str, int]:
        content = self.text.content
        found = _STRING.match(content, start, self.end)
        assert found is not None
        end = found.end()
        if self._at(end, '"'):
            inner = content[start + 1 : end]
            return (_unescape(inner) if "\\" in inner else inner), end + 1
        if self._at(end, "\\"):
            raise _NotJSON(
                end, f"found '{content[end : end + 2]}' in a string; write a backslash as '\\\\'"
            )
        if end >= self.end or content[end] in "\r\n":
            raise _NotJSON(
                start, "found a string that is not closed; end it with '\"' in the same line"
            )
        raise _NotJSON(
            end,
            f"found the control character U+{ord(content[end]):04X} in a string; "
            f"write it as '\\u{ord(content[end]):04x}'",
        )

    def _number(self, found: re.Match[str]) -> JSON:
        if not found[2]:
            whole = integer(found[1])
            if whole is not None:
                return whole
        try:
            return number(float(found[0]))
        except ScalarError:
            raise self.text.unreadable(
                found.start(), "found a number that is too large; quote it if it's text"
            ) from None

    def _repeat(self, path: Path, first: Place, offset: int) -> None:
        lines = self.text.line(first.offset), self.text.line(offset)
        self.repeated.append(Repeated(path, *lines))

    def _at(self, offset: int, character: str) -> bool:
        return offset < self.end and self.text.content[offset] == character

    def _skip(self, offset: int) -> int:
        return _skip(self.text, offset, self.end)

    def _shown(self, offset: int) -> str:
        return self.text.shown(offset) if offset < self.end else "the end of the document"


def _unescape(text: str) -> str:
    """The text with its escapes replaced; half of a surrogate pair becomes U+FFFD, as in Go."""
    plain = _ESCAPE.sub(
        lambda found: (
            chr(int(found[1], 16)) if found[1] else _SHORT_ESCAPES.get(found[2], found[2])
        ),
        text,
    )
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
