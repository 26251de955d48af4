"""The little Markdown that the pages are made of, and the anchors GitHub gives headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    return f"`{text}`"


def text_block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def slug(heading: str) -> str:
    """The anchor of a heading: lower case, spaces as hyphens, no other punctuation."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def page(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
