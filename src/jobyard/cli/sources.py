"""The files a command was given, as documents."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from jobyard.manifest.reading import Document, UnreadableManifest, read

_SUFFIXES = (".yaml", ".yml", ".json")


class Unreadable(click.ClickException):
    """A file that can't be read at all; the command ends with 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:  # noqa: ARG002
        click.echo(self.message, err=True)


def read_sources(sources: tuple[str, ...]) -> list[Document]:
    """The documents of all files, in order; a folder stands for the manifests in it."""
    return [document for source in sources for document in _read(source)]


def _read(source: str) -> list[Document]:
    if source == "-":
        return _parsed(sys.stdin.buffer.read(), source)
    path = Path(source)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
        if not files:
            raise Unreadable(f"{source}: no {', '.join(_SUFFIXES)} file in this folder")
        return [document for file in files for document in _read(str(file))]
    try:
        return _parsed(path.read_bytes(), source)
    except OSError as problem:
        raise Unreadable(f"{source}: {problem.strerror or problem}") from None


def _parsed(content: bytes, source: str) -> list[Document]:
    try:
        documents = read(content.decode(errors="surrogateescape"), source)
    except UnreadableManifest as problem:
        raise Unreadable(str(problem)) from None
    if not documents:
        raise Unreadable(f"{source}: there is no document in this file")
    return list(documents)
