"""What in a text would act on a terminal, and the text without it.

Whatever objects, files, servers and programs say passes through here on its way to a person; see
`saying`. The states are those in which terminals read escape sequences (ECMA-48, and xterm where
it says less): a control character inside of a sequence doesn't end it, a new one does, and so do
CAN, SUB and the end of a line. They only decide how much goes along with an ESC. That none stays
doesn't rest on them.

A colour is a mark until the last moment: two characters that no text has around the numbers of
"select graphic rendition". So `finished` takes away every sequence there is, and ours come after.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# Unicode's for programs' own use ("noncharacters"). Whoever writes them nevertheless gets a colour.
_BEGIN: Final = "\ufdd0"
_END: Final = "\ufdd1"
MARK: Final = re.compile(f"({_BEGIN}[0-9;:]*{_END})")

# A terminal carries these out, or passes over them, in the middle of a sequence.
_INSIDE: Final = r"\x00-\x09\x0b-\x17\x19\x1c-\x1f\x7f"
_ESC: Final = rf"\x1b[{_INSIDE}]*+"
_END_OF_STRING: Final = rf"(?:\x9c|{_ESC}\\)?"
# Embeddings, overrides and isolates: they turn round what stands beside them, ours too. Letters
# that are read from right to left know it by themselves.
_TURNS: Final = "\u202a-\u202e\u2066-\u2069"
_ALONE: Final = rf"\x00-\x08\x0b-\x1f\x7f-\x9f{_TURNS}{_BEGIN}{_END}"
_ACTING: Final = re.compile(
    # A mark: ours, until somebody says otherwise.
    rf"(?P<mark>{_BEGIN}[0-9;:]*+{_END})"
    # CSI: cursor, screen, modes, questions, and colours.
    rf"|(?:{_ESC}\[|\x9b)"
    rf"(?P<numbers>[{_INSIDE}0-?]*+)(?P<between>[{_INSIDE} -/]*+)(?P<final>[@-~]?)"
    # OSC: titles, links, the clipboard; xterm takes BEL for its end.
    rf"|(?:{_ESC}\]|\x9d)[^\n\x07\x18\x1a\x1b\x9c]*+(?:\x07|{_END_OF_STRING})"
    # DCS, SOS, PM, APC: keys, pictures, what a multiplexer hands on.
    rf"|(?:{_ESC}[PX^_]|[\x90\x98\x9e\x9f])[^\n\x18\x1a\x1b\x9c]*+{_END_OF_STRING}"
    # The rest: character sets, save and restore, reset.
    rf"|\x1b[{_INSIDE} -/]*+[0-~]?"
    # Halves of pairs: bytes that are no text, which some streams would write as they are.
    r"|(?P<half>[\ud800-\udfff])"
    rf"|[{_ALONE}]"
)
_ANY: Final = re.compile(rf"[{_ALONE}\ud800-\udfff]")
_CARRIED_OUT: Final = re.compile(rf"[{_INSIDE}]")
# Weight, slant, lines and colours; not what hides text, nor what asks a terminal.
_COLOUR: Final = (
    r"(?:0*[0-79]|4:[0-5]|2[1-9]|[349][0-7]|[345]9|10[0-7]"
    r"|[345]8(?:;5;[0-9]{1,3}|;2(?:;[0-9]{1,3}){3}|:5:[0-9]{1,3}|:2:[0-9]{0,3}(?::[0-9]{1,3}){3}"
    r"|:2(?::[0-9]{1,3}){3}))?"
)
_COLOURS: Final = re.compile(rf"{_COLOUR}(?:;{_COLOUR}){{0,15}}")
# Sixteen of them are shorter, with control characters among them.
_COLOUR_LENGTH_MAX: Final = 400
_ROW_BREAKS: Final = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")


def marked(numbers: str) -> str:
    """Where a colour begins: the numbers as SGR has them."""
    return f"{_BEGIN}{numbers}{_END}"


RESET: Final = marked("0")


def harmless(text: str, *, keeps_colours: bool = False) -> str:
    """A text from outside as it may be shown: nothing in it acts; its colours may become ours."""
    return _without(text, keeps_marks=False, keeps_colours=keeps_colours)


def in_a_row(text: str) -> str:
    """A text for a row of a table, marks included: it has no second line and no tabs."""
    if text.isprintable():
        return text
    return _ROW_BREAKS.sub(" ", _without(text, keeps_marks=True, keeps_colours=False))


def finished(text: str, *, is_coloured: bool) -> str:
    """A text as a stream gets it: no sequence but for the colours that are marked."""
    if text.isprintable():
        return text
    plain = _without(text, keeps_marks=True, keeps_colours=False)
    return MARK.sub(_sequence if is_coloured else "", plain)


def _sequence(mark: re.Match[str]) -> str:
    return f"\x1b[{mark[0][1:-1]}m"


def _without(text: str, *, keeps_marks: bool, keeps_colours: bool) -> str:
    left: list[str] = []
    at = 0
    # From one that acts to the next: most characters don't, and a class of them is quick to pass.
    while (next_one := _ANY.search(text, at)) is not None:
        left.append(text[at : next_one.start()])
        found = _ACTING.match(text, next_one.start())
        assert found is not None, "each by itself is the last of the forms"
        at = found.end()
        if found["mark"]:
            left.append(found[0] if keeps_marks else "")
        elif found["half"]:
            left.append("\ufffd")
        elif keeps_colours and found["final"] == "m" and len(found[0]) <= _COLOUR_LENGTH_MAX:
            left.append(_as_mark(found["numbers"], found["between"]))
    return "".join((*left, text[at:])) if at else text


@lru_cache(256)
def _as_mark(numbers: str, between: str) -> str:
    """A program has few colours, and says them again in each line."""
    plain = _CARRIED_OUT.sub("", numbers)
    is_colour = not _CARRIED_OUT.sub("", between) and _COLOURS.fullmatch(plain)
    return marked(plain) if is_colour else ""
