"""The parser events of one YAML document, from a scanner as strict as kubectl's.

The scanner is libyaml's, or PyYAML's own where PyYAML was built without it. go-yaml v2
has an older relative of it, which refuses a few texts that libyaml 0.2.5 takes; these are
refused here too, because a manifest that only we can read is no manifest. `composing`
makes values of the events; errors are put in words by `complaints`.
"""

import re
from collections.abc import Iterator
from typing import Final

from yaml.error import MarkedYAMLError
from yaml.events import CollectionEndEvent, CollectionStartEvent, Event, ScalarEvent

from jobyard.manifest.places import Text

try:
    from yaml._yaml import CParser as _Parser
except ImportError:  # The same events, some ten times slower.
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]

# What go-yaml refuses as "control characters are not allowed".
_NOT_YAML: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def events(text: Text, start: int, end: int) -> Iterator[Event]:
    """The events of that part of the text; their marks count from its start."""
    odd = _NOT_YAML.search(text.content, start, end)
    if odd:
        raise text.unreadable(odd.start(), _control_character(odd[0]))
    has_escape = text.content.find("\\", start, end) >= 0
    flow_depth = 0
    for event in _parsed(text, start, end):
        if isinstance(event, ScalarEvent):
            if flow_depth and not event.style and "?" in event.value:
                raise text.unreadable(
                    offset_of(event, start),
                    f"found a '?' in {event.value!r} inside brackets; put the text in quotes",
                )
            if event.style == '"' and has_escape:
                _check_escapes(text, event, start)
        elif isinstance(event, CollectionStartEvent):
            # Inside brackets there are only brackets.
            flow_depth += bool(flow_depth or event.flow_style)
        elif isinstance(event, CollectionEndEvent):
            flow_depth -= bool(flow_depth)
        yield event


def offset_of(event: Event, start: int) -> int:
    """Where in the text an event's node begins; `start` as for `events`."""
    assert event.start_mark is not None
    return start + event.start_mark.index


def _parsed(text: Text, start: int, end: int) -> Iterator[Event]:
    # kubectl ends every line, also the last: in a block scalar that line end is data.
    content = text.content[start:end]
    try:
        parser = _Parser(content if content.endswith("\n") else content + "\n")
        while (event := parser.get_event()) is not None:
            yield event
    except MarkedYAMLError as error:
        # Most texts give no reason to complain.
        from jobyard.manifest.complaints import explain

        raise explain(text, start, error) from None
    except (ValueError, OverflowError):
        # libyaml leaves percent escapes in tags to Python, PyYAML's scanner those in quotes.
        raise text.unreadable(
            start, "found an escape that is not a character; write the character itself"
        ) from None


def _check_escapes(text: Text, event: ScalarEvent, start: int) -> None:
    assert event.end_mark is not None
    begin, end = offset_of(event, start), start + event.end_mark.index
    for escape in _ESCAPE.finditer(text.content, begin, end):
        if escape[1] == "/":
            raise text.unreadable(
                escape.start(), "found '\\/' in double quotes; write '/' without the backslash"
            )
    if _SURROGATE.search(event.value):  # libyaml refuses them, PyYAML's own scanner does not.
        raise text.unreadable(
            begin, "found half of a surrogate pair; YAML has none, write the character itself"
        )


def _control_character(character: str) -> str:
    if character == "\0":
        return "found a NUL character; if the file is UTF-16, save it as UTF-8"
    return (
        f"found the control character U+{ord(character):04X}; remove it, or write it in "
        f'double quotes as "\\u{ord(character):04X}"'
    )
