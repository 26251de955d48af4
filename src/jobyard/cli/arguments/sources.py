"""The files a command was given, as documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final

import click

from jobyard.cli.output.saying import say
from jobyard.client.resources import may_name
from jobyard.manifest.reading import Document, UnreadableManifest, decoded, read

_SUFFIXES = (".yaml", ".yml", ".json")
# Of one file; an API server takes objects of three. What has no end, such as a device or a pipe of
# a program that doesn't stop, would else be read until the machine has no memory left.
_BYTES_MAX: Final = 64 * 1024 * 1024


class Unreadable(click.ClickException):
    """A file that can't be read at all; the command ends with 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        if file is None:
            say(self.message, err=True)
        else:
            file.write(f"{self.message}\n")


def read_sources(sources: tuple[str, ...]) -> list[Document]:
    """The documents of all files, in order; a folder stands for the manifests in it.

    Raises Unreadable, but only after every file was tried, and with what is wrong in each.
    """
    documents, problems = read_what_can_be(sources)
    if problems:
        raise Unreadable("\n".join(problems))
    return documents


def read_what_can_be(sources: tuple[str, ...]) -> tuple[list[Document], list[str]]:
    """The documents of the files that can be read, and what is wrong with the others."""
    documents: list[Document] = []
    problems: list[str] = []
    for source in sources:
        try:
            files = _files(source)
        except Unreadable as problem:
            problems.append(problem.message)
            continue
        for file in files:
            try:
                documents += _read(file)
            except Unreadable as problem:
                problems.append(problem.message)
    return documents, problems


def expect_names(documents: Iterable[Document]) -> None:
    """Raises Unreadable for a name that would make a path lead to another object."""
    for document in documents:
        value = document.value if isinstance(document.value, dict) else {}
        metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
        for field in ("name", "namespace"):
            text = str(metadata.get(field) or "")
            if text and not may_name(text):
                line = document.line_of(("metadata", field))
                raise Unreadable(
                    f'{document.source}:{line}: metadata.{field}: is "{text}", which is no name'
                )


def _files(source: str) -> list[str]:
    # Path("") is the current folder: a variable that is not set would mean all that is in it.
    if not source:
        raise Unreadable('"": not the name of a file')
    path = Path(source)
    try:
        if source == "-" or not path.is_dir():
            return [source]
        found = sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    except OSError as problem:
        raise Unreadable(f"{source}: {problem.strerror or problem}") from None
    if not found:
        raise Unreadable(f"{source}: no {', '.join(_SUFFIXES)} file in this folder")
    return [str(file) for file in found]


def _content(source: str) -> bytes:
    if source == "-":
        found = sys.stdin.buffer.read(_BYTES_MAX + 1)
    else:
        with Path(source).open("rb") as file:
            found = file.read(_BYTES_MAX + 1)
    if len(found) > _BYTES_MAX:
        most = _BYTES_MAX >> 20
        raise Unreadable(f"{source}: is larger than {most} MiB, which no manifest is; split it")
    return found


def _read(source: str) -> list[Document]:
    try:
        documents = read(decoded(_content(source)), source)
    except OSError as problem:
        raise Unreadable(f"{source}: {problem.strerror or problem}") from None
    except UnreadableManifest as problem:
        raise Unreadable(str(problem)) from None
    if not documents:
        raise Unreadable(f"{source}: there is no document in this file")
    return list(documents)
