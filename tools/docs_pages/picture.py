"""A terminal window as an SVG file: real output, ANSI colours and all.

Each run of characters is set at its own column and stretched to its width, so columns
line up whatever monospaced font the reader has.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from html import escape

import msgspec

COLUMNS = 98
_FONT_SIZE = 14
_CHARACTER_WIDTH = 8.43
_LINE_HEIGHT = 21
_MARGIN = 24
_BAR_HEIGHT = 44
_INDENT = "    "

_SGR = re.compile(r"\x1b\[([\d;]*)m")
_CLASSES = {
    "1": "b",
    "2": "d",
    "31": "r",
    "32": "g",
    "33": "y",
    "34": "p",
    "35": "m",
    "36": "a",
}

_STYLE = f"""
text {{
  font: {_FONT_SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
    "Liberation Mono", monospace;
  fill: #d1d9e0; white-space: pre;
}}
.b {{ font-weight: 700; fill: #ffffff; }}
.d {{ fill: #8b95a1; }}
.r {{ fill: #ff7b72; }}
.g {{ fill: #6fdd8b; }}
.y {{ fill: #e3b341; }}
.p {{ fill: #79c0ff; }}
.m {{ fill: #d2a8ff; }}
.a {{ fill: #56d4dd; }}
.c {{ font-weight: 700; fill: #ffffff; }}
"""


class Span(msgspec.Struct, frozen=True):
    """A run of characters in one style; `style` holds names of classes."""

    text: str
    style: tuple[str, ...] = ()


Line = tuple[Span, ...]


def picture(title: str, runs: list[tuple[str, str]]) -> str:
    """A window that shows each command and its coloured output."""
    lines: list[Line] = []
    for command, printed in runs:
        if lines:
            lines.append(())
        lines.append((Span("$ ", ("p",)), Span(command, ("c",))))
        for text in printed.rstrip("\n").split("\n"):
            lines += wrapped(spans(text))
    return _svg(title, lines)


def spans(text: str) -> Line:
    """A line with ANSI colours as runs of one style each."""
    out: list[Span] = []
    style: tuple[str, ...] = ()
    end = 0
    for code in _SGR.finditer(text):
        out.append(Span(text[end : code.start()], style))
        end = code.end()
        for number in code[1].split(";"):
            style = () if number in ("", "0") else (*style, _CLASSES[number])
    out.append(Span(text[end:], style))
    return tuple(span for span in out if span.text)


def wrapped(line: Line) -> list[Line]:
    """The line as several that fit, broken between words and indented from the second on."""
    whole = "".join(span.text for span in line)
    if len(whole) <= COLUMNS:
        return [line]
    styles = [span.style for span in line for _ in span.text]
    out: list[Line] = []
    at = 0
    for part in textwrap.wrap(whole, COLUMNS - len(_INDENT), break_on_hyphens=False):
        at = whole.index(part, at)
        lead = (Span(_INDENT),) if out else ()
        out.append((*lead, *_joined(part, styles[at : at + len(part)])))
        at += len(part)
    return out


def _joined(text: str, styles: list[tuple[str, ...]]) -> Iterator[Span]:
    start = 0
    for n in range(1, len(text) + 1):
        if n == len(text) or styles[n] != styles[start]:
            yield Span(text[start:n], styles[start])
            start = n


def _svg(title: str, lines: list[Line]) -> str:
    width = round(COLUMNS * _CHARACTER_WIDTH + 2 * _MARGIN)
    height = _BAR_HEIGHT + len(lines) * _LINE_HEIGHT + _MARGIN
    dots = "".join(
        f'<circle cx="{22 + 20 * n}" cy="20" r="6" fill="{fill}"/>'
        for n, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    texts = [
        f'<text y="{_BAR_HEIGHT + n * _LINE_HEIGHT + _FONT_SIZE}">{_spans_svg(line)}</text>'
        for n, line in enumerate(lines)
        if line
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"'
            ' fill="#161b22" stroke="#3d444d"/>',
            dots,
            *texts,
            "</svg>\n",
        ]
    )


def _spans_svg(line: Line) -> str:
    out = ""
    column = 0
    for span in line:
        text = span.text.lstrip(" ")
        start = column + len(span.text) - len(text)
        column += len(span.text)
        text = text.rstrip(" ")
        if not text:
            continue
        # The last class wins for the colour, so that a bold red is red.
        style = f' class="{" ".join(span.style)}"' if span.style else ""
        out += (
            f'<tspan x="{_MARGIN + start * _CHARACTER_WIDTH:.2f}"'
            f' textLength="{len(text) * _CHARACTER_WIDTH:.2f}"{style}>{escape(text)}</tspan>'
        )
    return out
