"""Texts that would act on a terminal, and what of a terminal's input is a sign that one did.

The texts are what a program, an object or a file may say. `strays` reads what has come to a
terminal, with a reader of its own: it knows colours and the few sequences of the live table.
"""

from __future__ import annotations

import re
from typing import Final

ESC, ST, BEL, CAN, SUB = "\x1b", "\x1b\\", "\x07", "\x18", "\x1a"
# By what they would do. All of them stand between two words, so that it is seen that these stay.
SEQUENCES: Final = {
    "clear the screen": f"{ESC}[2J",
    "clear all above": f"{ESC}[3J{ESC}[H",
    "go up and write over": f"{ESC}[1A{ESC}[2K",
    "go anywhere": f"{ESC}[12;40H",
    "scroll": f"{ESC}[5S{ESC}[2T",
    "a scrolling region": f"{ESC}[3;10r",
    "save and restore": f"{ESC}7{ESC}8{ESC}[s{ESC}[u",
    "another screen": f"{ESC}[?1049h",
    "no cursor": f"{ESC}[?25l",
    "report the mouse": f"{ESC}[?1000h{ESC}[?1006h",
    "bracketed paste": f"{ESC}[?2004h",
    "a frame that never ends": f"{ESC}[?2026h",
    "where is the cursor": f"{ESC}[6n",
    "who are you": f"{ESC}[c{ESC}[>c{ESC}[=c{ESC}Z",
    "what is your title": f"{ESC}[21t",
    "another size": f"{ESC}[8;10;10t",
    "other keys": f"{ESC}[>4;2m",
    "ask for other keys": f"{ESC}[?4m",
    "kitty's keyboard": f"{ESC}[>31u",
    "repeat": f"x{ESC}[9999b",
    "soft reset": f"{ESC}[!p",
    "hard reset": f"{ESC}c",
    "eights everywhere": f"{ESC}#8",
    "line drawing": f"{ESC}(0{ESC})0\x0e",
    "not UTF-8 any more": f"{ESC}%@",
    "C1 in seven bits": f"{ESC} F{ESC} G",
    "keypad": f"{ESC}={ESC}>",
    "title, ended by BEL": f"{ESC}]0;owned{BEL}",
    "title, ended by ST": f"{ESC}]2;owned{ST}",
    "title, never ended": f"{ESC}]0;owned",
    "clipboard": f"{ESC}]52;c;cm0gLXJmIC8K{BEL}",
    "clipboard, asked for": f"{ESC}]52;c;?{BEL}",
    "a link elsewhere": f"{ESC}]8;;http://evil.example{ST}here{ESC}]8;;{ST}",
    "another palette": f"{ESC}]4;1;rgb:00/00/00{BEL}{ESC}]10;#000000{BEL}",
    "ask for colours": f"{ESC}]11;?{BEL}",
    "a notification": f"{ESC}]9;done{BEL}{ESC}]777;notify;a;b{BEL}",
    "iTerm's files": f"{ESC}]1337;File=name=x:aGk={BEL}",
    "DECRQSS": f"{ESC}P$qm{ST}",
    "user's keys": f"{ESC}P1;1|17/0d{ST}",
    "a picture": f"{ESC}Pq#0;2;0;0;0#0~~{ST}",
    "through tmux": f"{ESC}Ptmux;{ESC}{ESC}[2J{ST}",
    "through screen": f"{ESC}P{ESC}]0;owned{BEL}{ST}",
    "SOS": f"{ESC}Xhidden{ST}",
    "PM": f"{ESC}^hidden{ST}",
    "APC, kitty's pictures": f"{ESC}_Gf=100;AAAA{ST}",
    "screen's title": f"{ESC}ktitle{ST}",
    "NUL inside": f"{ESC}[\x002J",
    "SOH inside": f"{ESC}[\x016n",
    "NUL behind ESC": f"{ESC}\x00[2J",
    "tab and backspace inside": f"{ESC}[2\t\bJ",
    "DEL inside": f"{ESC}\x7f[\x7f2\x7fJ",
    "CAN, then another": f"{ESC}[3{CAN}{ESC}[2J",
    "SUB, then another": f"{ESC}]0;x{SUB}{ESC}[2J",
    "ESC inside": f"{ESC}[{ESC}[2J",
    "ESC ESC": f"{ESC}{ESC}[2J",
    "nested strings": f"{ESC}]0;{ESC}P{ESC}]0;x{BEL}{ST}{BEL}",
    "one in another's place": f"{ESC}{ESC}[m[2J",
    "taken out, it makes another": f"{ESC}[{ESC}[1m2J{ESC}]0;{ESC}[Ax{BEL}",
    "a letter in between": f"{ESC}[é2J{ESC}é[2J",
    "a colour that hides": f"{ESC}[8mhidden{ESC}[28m",
    "a colour with words of another kind": f"{ESC}[31;1 m{ESC}[31$m",
    "a colour without an end": f"{ESC}[31",
    "C1 CSI": "\x9b2J",
    "C1 OSC": "\x9d0;owned\x9c",
    "C1 DCS, SOS, PM, APC": "\x90q\x9c\x98a\x9c\x9eb\x9c\x9fc\x9c",
    "C1 with NUL": "\x9b\x002J",
    "C1 IND, NEL, RI, HTS": "\x84\x85\x8d\x88",
    "backspaces": "secret\b\b\b\b\b\b",
    "back to the start": "good\rbad",
    "bell, form feed, vertical tab": "\x07\x0c\x0b",
    "shifts": "\x0e\x0f",
    "flow control": "\x11\x13",
    "DEL": "\x7f",
    "turned round": "\u202edlrow\u202c",
    "isolated": "\u2066a\u2069\u2067b\u2069\u2068c\u2069",
    "embedded": "\u202aa\u202c\u202bb\u202c\u202dc\u202c",
    "our own marks": "\ufdd031\ufdd1red\ufdd02J\ufdd1\ufdd0",
}
# What only a program can write: no text.
BYTES: Final = {
    "C1 as single bytes": b"\x9b2J\x9d0;owned\x9c\x90q\x9c",
    "C1 too long": b"\xc0\x9b2J\xe0\x80\x9b2J",
    "halves": b"\xed\xb2\x9b2J",
    "a text that breaks off": b"\xe4\xb8",
}
# All of them, a line each, as a program writes them.
LINES: Final = b"".join(
    b"before " + each + b" after\n"
    for each in (*map(str.encode, SEQUENCES.values()), *BYTES.values())
)
# All in one text, such as an annotation has.
TEXT: Final = " ".join(f"before {each} after" for each in SEQUENCES.values())

_COLOUR: Final = re.compile(r"\x1b\[[0-9;:]*m")
_HIDING: Final = re.compile(r"\x1b\[(?:[0-9:;]*;)?0*8(?:;[0-9:;]*)?m")
_TABLE: Final = re.compile(r"\x1b\[[0-9]+F\x1b\[J|\x1b\[\?2026[hl]")
_ACTS: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufdd0\ufdd1]"
)


def strays(raw: bytes, *, has_table: bool = False) -> list[str]:
    """What of this isn't text and colours, and not the live table's either where there is one."""
    text = raw.decode()
    found = [each[0] for each in _HIDING.finditer(text)]
    left = _COLOUR.sub("", text)
    if has_table:
        left = _TABLE.sub("", left)
    found += [repr(left[max(at.start() - 20, 0) : at.end() + 20]) for at in _ACTS.finditer(left)]
    # Our lines end in CR LF, made by the terminal; by itself a CR writes over a line.
    return found + re.findall(r"\r(?!\n|\r*\n).{0,20}", left)


def colours(raw: bytes) -> set[str]:
    return set(_COLOUR.findall(raw.decode()))
