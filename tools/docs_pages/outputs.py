"""What commands print, for the blocks of the docs and for the picture, by really running them.

In a Markdown file, a comment names the command whose output stands in the block below it:
`output of: jobyard explain`, with `| head -N` behind it if the first lines are enough.
`cat` is known too, and `file: PATH` puts in a file as it is. What kubectl prints needs a
cluster: those blocks stay as they are here, and a test compares them with a real one.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from jobyard.cli.main import cli

_BLOCK = re.compile(
    r"^<!-- (?P<what>output of|file): (?P<words>.+?) -->\n+"
    r"```(?P<language>\w+)\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- (?:output of|file): ", re.MULTILINE)
_HEAD = re.compile(r" \| head -(\d+)$")


class BadMarkError(Exception):
    """A comment that asks for something that can't be put there."""


def refreshed(text: str, root: Path) -> str:
    """The Markdown with every marked block as it would come out now."""

    def block(found: re.Match[str]) -> str:
        whole, start = found[0], found.start("content") - found.start()
        content = found["content"]
        if found["what"] == "file":
            content = (root / found["words"]).read_text()
        elif not found["words"].startswith("kubectl "):
            content = transcript(found["words"], root)
        return f"{whole[:start]}{content}```"

    if len(_MARK.findall(text)) != len(_BLOCK.findall(text)):
        raise BadMarkError("an 'output of' or 'file' comment has no block of code after it")
    return _BLOCK.sub(block, text)


def kubectl_blocks(text: str) -> Iterator[tuple[str, str]]:
    """The blocks that kubectl made: its command line, and what it printed."""
    for found in _BLOCK.finditer(text):
        if found["what"] == "output of" and found["words"].startswith("kubectl "):
            yield found["words"], found["content"].partition("\n")[2]


def transcript(command: str, root: Path) -> str:
    """The command line as typed, and what came of it, without colours."""
    line = _HEAD.sub("", command)
    lines = output(line, root).rstrip().split("\n")
    head = _HEAD.search(command)
    if head:
        lines = lines[: int(head[1])]
    return "\n".join([f"$ {command}", *(text.rstrip() for text in lines)]) + "\n"


def output(command: str, folder: Path, *, color: bool = False) -> str:
    """What a command prints on both streams, run in that folder."""
    program, *arguments = shlex.split(command)
    match program:
        case "jobyard":
            return _run(arguments, folder, color=color)
        case "cat":
            return _shown_file(arguments, folder)
        case _:
            raise BadMarkError(f"don't know how to run {command!r}: jobyard and cat are known")


def _run(arguments: list[str], folder: Path, *, color: bool) -> str:
    with contextlib.chdir(folder):
        result = CliRunner().invoke(cli, arguments, prog_name="jobyard", color=color)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def _shown_file(arguments: list[str], folder: Path) -> str:
    *options, name = arguments
    text = (folder / name).read_text()
    if options != ["-n"]:
        return text
    return "".join(f"{n:>6}  {line}" for n, line in enumerate(text.splitlines(True), start=1))
