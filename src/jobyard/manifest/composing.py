"""One YAML document from its parser events: the value, and where each part of it stands.

What the events mean is decided here as go-yaml v2 decides it, since kubectl reads with
that: anchors may be set again, `<<` is merged where it stands, aliases may expand a file
only so far. PyYAML's composer does otherwise, and recurses; this one keeps a stack, so
that depth has a limit and no text can exhaust Python's. `reading` calls `compose` for
each document.
"""

from typing import Any, Final

import msgspec
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from jobyard.manifest.parsing import events, offset_of
from jobyard.manifest.places import JSON, Composed, Path, Place, Repeated, Text, still_there
from jobyard.manifest.scalars import (
    COLLECTION_TAGS,
    MERGE_TAG,
    ScalarError,
    key_text,
    number,
    resolve,
    unknown_tag,
)

DEPTH_LIMIT: Final = 200

# go-yaml's bounds on what aliases may make of a file: see `allowedAliasRatio` in decode.go.
_ALIASED_AT_LEAST: Final = 100
_DECODED_AT_LEAST: Final = 1_000
_RATIO_LOW: Final = 400_000
_RATIO_HIGH: Final = 4_000_000


class _Node(msgspec.Struct):
    """A node with what is known of it; a map or list is open until its end event came."""

    value: Any
    offset: int
    inside: Any = None
    # Nodes in it, itself included, with aliases expanded; and levels below it.
    size: int = 1
    height: int = 0
    is_open: bool = False
    is_alias: bool = False
    is_merge: bool = False


class _Open(msgspec.Struct):
    """A map or list that is being filled, and for a map the key whose value comes next."""

    node: _Node
    key: str | None = None
    key_offset: int = 0
    merging: bool = False
    # Keys that are there by a merge only: writing them again is not a repetition.
    merged: set[str] = msgspec.field(default_factory=set)


def compose(text: Text, start: int, end: int) -> Composed | None:
    """The document in that part of the text; None when there is nothing in it but comments."""
    composer = _Composer(text, start)
    for event in events(text, start, end):
        composer.take(event)
    root = composer.root
    if root is None:
        return None
    return Composed(
        composer.json_value(root), Place(root.offset, root.inside), still_there(composer.repeated)
    )


class _Composer:
    """The state between events: the open maps and lists, the anchors and the counts."""

    def __init__(self, text: Text, start: int) -> None:
        self.text = text
        self.start = start
        self.root: _Node | None = None
        self.repeated: list[Repeated] = []
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Node] = {}
        self.decoded = 1
        self.aliased = 0

    def take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self.decoded += 1
            self._finish(self._scalar(event))
        elif isinstance(event, CollectionEndEvent):
            node = self.stack.pop().node
            node.is_open = False
            self._finish(node)
        elif isinstance(event, MappingStartEvent):
            self._open(event, _Node({}, offset_of(event, self.start), {}, is_open=True))
        elif isinstance(event, SequenceStartEvent):
            self._open(event, _Node([], offset_of(event, self.start), [], is_open=True))
        elif isinstance(event, AliasEvent):
            self._finish(self._alias(event))
        elif isinstance(event, DocumentStartEvent) and self.root is not None:
            # kubectl would drop it without a word.
            raise self.text.unreadable(
                offset_of(event, self.start), "found a second document; put a line '---' before it"
            )

    def json_value(self, node: _Node) -> JSON:
        value: JSON = node.value
        if isinstance(value, float):
            try:
                return number(value)
            except ScalarError as bad:
                raise self.text.unreadable(node.offset, str(bad)) from None
        return value

    def _scalar(self, event: ScalarEvent) -> _Node:
        offset = offset_of(event, self.start)
        plain = event.implicit[0]
        try:
            node = _Node(resolve(event.value, event.tag, plain), offset)
        except ScalarError as bad:
            raise self.text.unreadable(offset, str(bad)) from None
        node.is_merge = event.value == "<<" and (plain or event.tag == MERGE_TAG)
        self._remember(event, node)
        return node

    def _open(self, event: MappingStartEvent | SequenceStartEvent, node: _Node) -> None:
        self.decoded += 1
        self._check_depth(node, 0)
        if event.tag is not None and event.tag not in COLLECTION_TAGS:
            raise self.text.unreadable(node.offset, str(unknown_tag(event.tag)))
        self._remember(event, node)
        self.stack.append(_Open(node))

    def _remember(self, event: NodeEvent, node: _Node) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = node

    def _alias(self, event: AliasEvent) -> _Node:
        offset = offset_of(event, self.start)
        name = event.anchor
        target = self.anchors.get(name or "")
        if target is None:
            raise self.text.unreadable(
                offset, f"found *{name}, but no &{name} before it; quote it if it's text"
            )
        if target.is_open:
            raise self.text.unreadable(
                offset, f"found *{name} inside &{name} itself; a value can't contain itself"
            )
        self.decoded += 1 + target.size
        self.aliased += target.size
        if self._expands_too_far():
            raise self.text.unreadable(
                offset,
                f"found *{name}, with which the file expands too far ({self.decoded} nodes, "
                f"{self.aliased} of them by aliases); write the values out, as kubectl has "
                "this limit too",
            )
        node = _Node(_copy(target.value), offset, target.inside, target.size + 1, target.height)
        node.is_alias = True
        self._check_depth(node, target.height)
        return node

    def _expands_too_far(self) -> bool:
        if self.aliased <= _ALIASED_AT_LEAST or self.decoded <= _DECODED_AT_LEAST:
            return False
        above = min(max(self.decoded - _RATIO_LOW, 0), _RATIO_HIGH - _RATIO_LOW)
        return self.aliased / self.decoded > 0.99 - 0.89 * above / (_RATIO_HIGH - _RATIO_LOW)

    def _check_depth(self, node: _Node, height: int) -> None:
        if len(self.stack) + height >= DEPTH_LIMIT:
            raise self.text.unreadable(
                node.offset,
                f"found more than {DEPTH_LIMIT} maps and lists in one another; "
                "no Kubernetes object is that deep",
            )

    def _finish(self, node: _Node) -> None:
        """Put a finished node where it belongs: in the list or map around it, or at the root."""
        if not self.stack:
            self.root = node
            return
        around = self.stack[-1]
        around.node.size += node.size
        around.node.height = max(around.node.height, node.height + 1)
        if isinstance(around.node.value, list):
            around.node.value.append(self.json_value(node))
            around.node.inside.append(Place(node.offset, node.inside))
        elif around.merging:
            self._merge(around, node)
            around.merging = False
        elif around.key is None:
            self._set_key(around, node)
        else:
            around.node.value[around.key] = self.json_value(node)
            around.node.inside[around.key] = Place(around.key_offset, node.inside)
            around.key = None

    def _set_key(self, around: _Open, node: _Node) -> None:
        if node.is_merge:
            around.merging = True
            return
        if isinstance(node.value, dict | list):
            raise self.text.unreadable(node.offset, self._not_a_name(node))
        try:
            key = key_text(node.value)
        except ScalarError as bad:
            raise self.text.unreadable(node.offset, str(bad)) from None
        around.key = key
        around.key_offset = node.offset
        if key in around.merged:
            around.merged.discard(key)
        elif key in around.node.value:
            self._repeat(around, key)

    def _not_a_name(self, node: _Node) -> str:
        if self.text.content.startswith("{{", node.offset - 1):
            return "found '{{', which is a template's; render the template first"
        kind = "a map" if isinstance(node.value, dict) else "a list"
        return f"found {kind} as a field name; field names are text"

    def _repeat(self, around: _Open, key: str) -> None:
        path: Path = tuple(_step(opened) for opened in self.stack)
        first: Place = around.node.inside[key]
        lines = self.text.line(first.offset), self.text.line(around.key_offset)
        self.repeated.append(Repeated(path, *lines))

    def _merge(self, around: _Open, node: _Node) -> None:
        """Take over the fields of other maps; of several in a list the first has precedence."""
        if isinstance(node.value, list) and not node.is_alias:
            maps = list(zip(node.value, (place.inside for place in node.inside), strict=True))
        else:
            maps = [(node.value, node.inside)]
        for value, inside in reversed(maps):
            if not isinstance(value, dict):
                raise self.text.unreadable(
                    node.offset, "found '<<' without a map; it takes a map or a list of maps"
                )
            around.merged.update(value.keys() - around.node.value.keys())
            around.node.value.update(value)
            around.node.inside.update(inside)


def _step(opened: _Open) -> str | int:
    if isinstance(opened.node.value, list):
        return len(opened.node.value)
    return "<<" if opened.key is None else opened.key


def _copy(value: Any) -> Any:
    """A copy for each alias, so that whoever changes one value does not change another."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value
