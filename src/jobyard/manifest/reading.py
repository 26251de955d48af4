"""The text of a manifest file as the documents that kubectl would see in it.

Whoever takes manifests from users calls `read`, and gets plain JSON values that know
their lines. How a file falls into documents is decided here, as kubectl's decoder does it
(`YAMLOrJSONDecoder` in k8s.io/apimachinery): lines that begin with `---` part the file,
what begins with a brace is JSON before it is YAML, documents without a value don't count,
and a `List` stands for its items. Nothing here knows kinds, fields or files.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from jobyard.manifest.composing import compose
from jobyard.manifest.places import (
    JSON,
    Composed,
    Path,
    Place,
    Position,
    Repeated,
    Text,
    UnreadableManifest,
)

__all__ = [
    "JSON",
    "Document",
    "Path",
    "Position",
    "Repeated",
    "UnreadableManifest",
    "decoded",
    "read",
]

_BYTE_ORDER_MARK: Final = "\ufeff"
# kubectl's line reader drops "\r\n", and YAML then takes any other "\r" for a line end.
_LINE_END: Final = re.compile(r"\r?\r\n|\r")
_SEPARATOR: Final = re.compile(r"^---(.*)\n?", re.MULTILINE)
# What decoding with errors="surrogateescape" leaves of bytes that are not UTF-8.
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# What kubectl skips between the last JSON value and the YAML that it expects then.
_BLANKS: Final = re.compile(r"[^\S\n]*\n?")
# kubectl goes on with YAML if it could read at most this many JSON values.
_UNDECIDED_VALUES: Final = 1


class Document(msgspec.Struct, frozen=True):
    """One object of a manifest file, and where in the file its fields are."""

    # The file's name as the user gave it, "-" for stdin.
    source: str
    # Which document of the file it is, from 0, counting the items of lists each.
    index: int
    value: Any
    repeated: tuple[Repeated, ...]
    text: Text
    place: Place
    # Fields that somebody has set since; what is in them stands nowhere in the file.
    assigned: tuple[Path, ...] = ()

    def is_assigned(self, path: Path) -> bool:
        return any(path[: len(each)] == each for each in self.assigned)

    def position_of(self, path: Path) -> Position:
        """Where the field's key or the list's item begins, or its deepest ancestor that exists."""
        return self.text.position(self.place.nearest(path).offset)

    def line_of(self, path: Path) -> int:
        """The line of `position_of`, for messages."""
        return self.position_of(path).line

    def __repr__(self) -> str:
        return f"Document({self.source!r}, {self.index}, {self.value!r}, {self.repeated!r})"


def decoded(content: bytes) -> str:
    """The text of a file, for `read`. It is UTF-8, or what the mark at its beginning says.

    Windows' shells write UTF-16 with such a mark, and kubectl takes it.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", errors="replace")
    return content.decode(errors="surrogateescape")


def read(text: str, source: str) -> tuple[Document, ...]:
    """The documents in the text of a file; raises UnreadableManifest for text that has none.

    1. A byte order mark, Windows and old Macintosh line ends make no difference.
    2. Documents that are empty or null are left out, as with kubectl.
    3. Values that are not objects are given as they are: what an object must be is for
       the caller to say, in terms of the kind.
    4. Of repeated fields the last counts; they are told in `repeated`, not refused.
    """
    whole = Text.of(_LINE_END.sub("\n", text.removeprefix(_BYTE_ORDER_MARK)), source)
    broken = _SURROGATE.search(whole.content)
    if broken:
        raise whole.unreadable(broken.start(), _not_utf8(broken[0]))
    found = [
        item
        for start, end in _parts(whole)
        for composed in _read_part(whole, start, end)
        if composed.value is not None
        for item in _items(composed, whole)
    ]
    return tuple(
        Document(source, index, item.value, item.repeated, whole, item.place)
        for index, item in enumerate(found)
    )


def _not_utf8(character: str) -> str:
    byte = ord(character) - 0xDC00
    if 0x80 <= byte <= 0xFF:
        return f"found the byte 0x{byte:02X}, which is not UTF-8; save the file as UTF-8"
    return "found half of a surrogate pair; save the file as UTF-8"


def _parts(text: Text) -> Iterator[tuple[int, int]]:
    """The stretches between lines that begin with `---`; block scalars can't hold such a line."""
    start = 0
    for separator in _SEPARATOR.finditer(text.content):
        rest = separator[1].strip()
        if rest and not rest.startswith("#"):
            raise text.unreadable(
                separator.start(),
                f"found {text.shown(separator.start())}; a line '---' parts documents and has "
                "nothing else in it, other text must be indented or quoted",
            )
        # A separator with nothing before it stays: it makes a document that says "..." legal.
        if start < separator.start():
            yield start, separator.start()
            start = separator.end()
    yield start, len(text.content)


def _read_part(text: Text, start: int, end: int) -> Iterator[Composed]:
    # In files put together from others each may begin with a mark of its own.
    if text.content.startswith(_BYTE_ORDER_MARK, start, end):
        start += len(_BYTE_ORDER_MARK)
    stopped: UnreadableManifest | None = None
    if text.content[start:end].lstrip().startswith("{"):
        # Few manifests are JSON; the others need not wait for its reader.
        from jobyard.manifest.json_stream import read_stream

        stream = read_stream(text, start, end)
        yield from stream.values
        start, stopped = stream.end, stream.error
        if stopped and len(stream.values) > _UNDECIDED_VALUES:
            raise stopped
        if not stopped:
            return
        blanks = _BLANKS.match(text.content, start, end)
        assert blanks is not None
        start = blanks.end()
    try:
        composed = compose(text, start, end)
    except UnreadableManifest as error:
        raise _further(stopped, error) from None
    if composed:
        yield composed


def _further(json: UnreadableManifest | None, yaml: UnreadableManifest) -> UnreadableManifest:
    """The error of the reader that got further: the text is more likely of its language."""
    if json is None:
        return yaml
    further = (json.line, json.column) > (yaml.line, yaml.column)
    return json if further or json.source.endswith(".json") else yaml


def _items(composed: Composed, text: Text) -> Iterator[Composed]:
    """The document, or what is in it if it is a list of documents.

    Items of lists in lists come after the others, which is kubectl's order.
    """
    queue = [composed]
    for document in queue:
        items = _listed(document.value)
        if items is None:
            yield document
            continue
        for repeated in document.repeated:
            if repeated.path == ("items",):
                raise UnreadableManifest(
                    text.source,
                    repeated.line,
                    1,
                    f"found 'items' again after line {repeated.first_line}; a List has one",
                )
        queue.extend(_item(document, index, item) for index, item in enumerate(items))


def _listed(value: JSON) -> list[JSON] | None:
    """The items if it is what `kubectl get -o yaml` writes for several objects, or a server.

    An item of a `GenericJobList` that says nothing of its kind is a GenericJob, as with kubectl.
    """
    match value:
        case {"apiVersion": "v1", "kind": "List", "items": list() as items}:
            return items
        case {"apiVersion": str() as api, "kind": str() as kind, "items": list() as items}:
            named = kind.removesuffix("List")
            if named not in ("", kind):
                return [_with_kind(item, {"apiVersion": api, "kind": named}) for item in items]
    return None


def _with_kind(item: JSON, said: dict[str, JSON]) -> JSON:
    if not isinstance(item, dict) or item.keys() & said.keys():
        return item
    return {**said, **item}


def _item(document: Composed, index: int, value: JSON) -> Composed:
    path: Path = ("items", index)
    return Composed(
        value,
        document.place.nearest(path),
        tuple(
            Repeated(repeated.path[len(path) :], repeated.first_line, repeated.line)
            for repeated in document.repeated
            if repeated.path[: len(path)] == path
        ),
    )
