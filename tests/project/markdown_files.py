"""Markdown as the tests look at it: headings with their anchors, links, and blocks of code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
from docs_pages.markdown import slug
from rig.manifests import ROOT

MARKDOWN = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]+`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_LINKS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)"),
    re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE),
    re.compile(r"""\b(?:href|src|srcset)=["']([^"']+)["']"""),
)
_NAMED = re.compile(r"""<\w+[^>]*\b(?:id|name)=["']([^"']+)["']""")
_EXTERNAL = re.compile(r"^[a-z]+:|^//")


class Block(msgspec.Struct, frozen=True):
    """A fenced block of code."""

    language: str
    text: str


def blocks(file: Path) -> list[Block]:
    return [Block(language, text) for language, text in _FENCED.findall(file.read_text())]


def anchors(text: str) -> set[str]:
    """What can stand behind a `#`: headings as GitHub names them, and named tags."""
    prose = _FENCED.sub("", text)
    seen: Counter[str] = Counter()
    out = set(_NAMED.findall(prose))
    for heading in _HEADING.findall(prose):
        name = slug(heading)
        out.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return out


def broken_links(file: Path) -> Iterator[str]:
    """Relative links of a file that lead nowhere."""
    prose = _FENCED.sub("", file.read_text())
    # In a link's text, code is fine; what looks like a link inside code is none.
    prose = _INLINE_CODE.sub("code", prose)
    for pattern in _LINKS:
        for link in pattern.findall(prose):
            if _EXTERNAL.match(link):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / path).resolve() if path else file
            if not target.exists():
                yield f"{link}: there is no {path}"
            elif anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text())):
                yield f"{link}: {target.name} has no heading with that anchor"
