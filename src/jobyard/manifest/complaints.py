"""libyaml's complaints in plain words: what was found, and what would be right.

libyaml says what its scanner expected ("did not find expected key"), which is seldom what
the author did wrong: a tab, a colon without a space, a quote not closed. Each function
here takes one complaint, looks at the text around it and names the likely slip. `composing`
calls `explain`; texts that no function knows are passed on as libyaml put them.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from yaml.error import MarkedYAMLError

from jobyard.manifest.places import Text, UnreadableManifest

_DIRECTIVE: Final = re.compile(r"^%", re.MULTILINE)
# "name:value"; not "http://host", nor a line in which a good colon comes first.
_NO_SPACE: Final = re.compile(r"""[ ]*(?:-[ ]+)*([^\s:#'"{}\[\],&*!|>%@`-][^\s:#]*):(?!//)[^\s]""")


class _Complaint(msgspec.Struct, frozen=True):
    """What libyaml said; `begin` is where the thing it was reading at that point begins."""

    text: Text
    problem: str
    context: str
    offset: int
    begin: int

    @property
    def character(self) -> str:
        return self.text.content[self.offset : self.offset + 1]

    @property
    def found(self) -> str:
        return self.text.shown(self.offset)

    @property
    def before(self) -> str:
        """The text of the line in front of the complaint."""
        position = self.text.position(self.offset)
        return self.text.line_text(position.line)[: position.column - 1]

    def at(self, offset: int, what: str) -> UnreadableManifest:
        return self.text.unreadable(offset, what)

    def here(self, what: str) -> UnreadableManifest:
        return self.text.unreadable(self.offset, what)


def explain(text: Text, start: int, error: MarkedYAMLError) -> UnreadableManifest:
    """The error for the user; `start` is where in the text the parser was set to work."""
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark or mark
    complaint = _Complaint(
        text=text,
        problem=error.problem or "",
        context=error.context or "",
        offset=min(start + (mark.index if mark else 0), len(text.content)),
        begin=start + (begin.index if begin else 0),
    )
    directive = _DIRECTIVE.search(text.content, start, complaint.offset + 1)
    if directive:
        return text.unreadable(
            directive.start(),
            f"found the directive {text.shown(directive.start())}; kubectl takes none, remove it",
        )
    for part, words in _WORDS.items():
        if part in complaint.problem:
            if isinstance(words, str):
                return complaint.here(words.format(found=complaint.found))
            return words(complaint)
    reading = f" {complaint.context}" if complaint.context else ""
    return complaint.here(f"found text that is not YAML{reading}; {complaint.problem}")


def _no_token(complaint: _Complaint) -> UnreadableManifest:
    if complaint.character == "\t":
        return _tab(complaint)
    return complaint.here(
        f"found '{complaint.character}' at the start of a value; put the value in quotes"
    )


def _tab(complaint: _Complaint) -> UnreadableManifest:
    """libyaml may point behind the tab, or to the line's start."""
    position = complaint.text.position(complaint.offset)
    for line in (position.line, position.line + 1):
        column = complaint.text.line_text(line).find("\t")
        if column >= 0:
            offset = complaint.text.line_starts[line - 1] + column
            return complaint.at(offset, "found a tab for indentation; indent with spaces")
    return complaint.here("found a tab for indentation; indent with spaces")


def _second_colon(complaint: _Complaint) -> UnreadableManifest:
    """`a: b: c`, or a field below a line that is complete already."""
    if re.search(r":\s", complaint.before):
        return complaint.here(
            "found a second ': ' in one line; put the value in quotes, or the field in a "
            "line of its own"
        )
    line = complaint.text.line(complaint.offset)
    above = line - 1
    while above > 0 and not _says_something(complaint.text.line_text(above)):
        above -= 1
    missing = _missing_space(complaint.text, above)
    if missing:
        return missing
    if above > 0 and ":" not in complaint.text.line_text(above):
        return _nameless(complaint.text, complaint.text.line_starts[above - 1])
    if above > 0 and _indentation(complaint.text, line) > _indentation(complaint.text, above):
        return complaint.here(
            f"found a field below line {above}, which has a value already; align the two, "
            "or end that line with its colon"
        )
    return complaint.here(
        "found a ':' where no field can be; check the indentation, or put the text in quotes"
    )


def _no_colon(complaint: _Complaint) -> UnreadableManifest:
    missing = _missing_space(complaint.text, complaint.text.line(complaint.begin))
    if missing:
        return missing
    return _nameless(complaint.text, complaint.begin)


def _nameless(text: Text, offset: int) -> UnreadableManifest:
    return text.unreadable(
        offset, f"found {text.shown(offset)} without a colon; a field is written 'name: value'"
    )


def _missing_space(text: Text, line: int) -> UnreadableManifest | None:
    slip = _NO_SPACE.match(text.line_text(line))
    if slip is None:
        return None
    return text.unreadable(
        text.line_starts[line - 1] + slip.end() - 1,
        f"found '{slip[1]}:' without a space after it; write '{slip[1]}: …'",
    )


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indentation(text: Text, line: int) -> int:
    content = text.line_text(line)
    return len(content) - len(content.lstrip(" "))


def _not_in_block(complaint: _Complaint) -> UnreadableManifest:
    before = complaint.before.rstrip()
    if before[-1:] in ('"', "'", "}", "]"):
        return complaint.here(
            f"found {complaint.found} after the closing {before[-1]}; put all of the value "
            "in one pair of quotes"
        )
    what = "an item '- …' of the list" if "'-'" in complaint.problem else "a field of the map"
    return complaint.here(
        f"found {complaint.found} instead of {what} that begins in line "
        f"{complaint.text.line(complaint.begin)}; align it with that, or indent it deeper"
    )


def _not_closed(complaint: _Complaint) -> UnreadableManifest:
    quote = complaint.text.content[complaint.begin : complaint.begin + 1]
    return complaint.at(
        complaint.begin, f"found a quote that is not closed; end the value with {quote}"
    )


def _flow(complaint: _Complaint) -> UnreadableManifest:
    opening, closing = ("[", "]") if "']'" in complaint.problem else ("{", "}")
    return complaint.here(
        f"found {complaint.found}; a ',' goes here, or a '{closing}' to end the '{opening}' "
        f"of line {complaint.text.line(complaint.begin)}"
    )


def _alias(complaint: _Complaint) -> UnreadableManifest:
    sign = "*" if "alias" in complaint.context else "&"
    return complaint.at(
        complaint.begin,
        f"found '{sign}' at the start of a value, which makes it "
        f"{'a reference' if sign == '*' else 'an anchor'}; put the value in quotes",
    )


def _escape(complaint: _Complaint) -> UnreadableManifest:
    backslash = complaint.text.content.rfind("\\", 0, complaint.offset + 1)
    shown = complaint.text.content[backslash : backslash + 2]
    return complaint.at(
        max(backslash, 0),
        f"found '{shown}' in double quotes; write a backslash as '\\\\', or use single quotes",
    )


def _no_value(complaint: _Complaint) -> UnreadableManifest:
    if not complaint.text.content[complaint.offset :].strip():
        return complaint.here("found the end inside brackets; close them")
    return complaint.here(
        f"found {complaint.found} where a value goes; put it in quotes if it's text"
    )


_COLON_IN_FLOW: Final = "found a ':' inside brackets without a space after it; write ': '"
_SURROGATE: Final = (
    "found an escape that is not a character; YAML has no surrogate pairs, write the "
    "character itself"
)
_DOCUMENT_END: Final = (
    "found {found} after the end of the document; check the indentation, or put '---' before it"
)
_DASH: Final = (
    "found a list item '-' where no list can be; begin the list in the next line, or put "
    "the text in quotes"
)
_HEADER: Final = "found {found} after '|' or '>'; the text begins in the next line"
_KEY: Final = "found '?' where no field can be; put the text in quotes"


def _tag(complaint: _Complaint) -> UnreadableManifest:
    return complaint.at(
        complaint.begin, "found '!' at the start of a value, which makes it a tag; put it in quotes"
    )


# The first part that occurs in libyaml's text decides, or in that of PyYAML's own scanner.
_WORDS: Final[dict[str, str | Callable[[_Complaint], UnreadableManifest]]] = {
    "that cannot start any token": _no_token,
    "a tab character": _tab,
    "mapping values are not allowed": _second_colon,
    "could not find expected ':'": _no_colon,
    "found unexpected ':'": _COLON_IN_FLOW,
    "did not find expected key": _not_in_block,
    "did not find expected '-' indicator": _not_in_block,
    "expected <block end>": _not_in_block,
    "found unexpected end of stream": _not_closed,
    "found unexpected document indicator": _not_closed,
    "expected ',' or": _flow,
    "expected alphabetic or numeric character": _alias,
    "found unknown escape character": _escape,
    "expected hexdecimal number": _escape,
    "expected escape sequence": _escape,
    "invalid Unicode character escape code": _SURROGATE,
    "<document start>": _DOCUMENT_END,
    "sequence entries are not allowed": _DASH,
    "expected comment or line break": _HEADER,
    "a comment or a line break": _HEADER,
    "indentation indicator": _HEADER,
    "expected node content": _no_value,
    "expected the node content": _no_value,
    "mapping keys are not allowed": _KEY,
    "tag": _tag,
    "expected whitespace or line break": _tag,
    "URI": _tag,
    "UTF-8 octet": _tag,
    "expected '>'": _tag,
    "expected '!'": _tag,
}
