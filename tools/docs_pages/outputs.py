"""What commands print, for the blocks of the docs and for the picture, by really running them.

In a Markdown file, a comment names the command whose output stands in the block below it:
`output of: jobyard explain`, with `| head -N` behind it if the first lines are enough.
`cat` is known too; `file: PATH` puts in a file as it is, `folders of: PATH` a tree of folders. What
kubectl prints needs a cluster: those blocks stay as they are unless the caller brings a kubectl, as
the tests do. What `jobyard run` prints is another thing: see `docs_pages.runs`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from docs_pages.folders import folder_tree
from docs_pages.runs import ran, typed
from jobyard.cli.main import cli

_BLOCK = re.compile(
    r"^<!-- (?P<what>output of|file|folders of): (?P<words>.+?)"
    r"(?P<of> of [0-9a-f]{12}(?: [0-9a-f]{12})?)? -->\n+"
    r"```(?P<language>\w+)\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"^<!-- (?:output of|file|folders of): ", re.MULTILINE)
_HEAD = re.compile(r" \| head -(\d+)$")


# Takes kubectl's arguments and gives what it printed.
Kubectl = Callable[[list[str]], str]


class BadMarkError(Exception):
    """A comment that asks for something that can't be put there."""


def refreshed(text: str, root: Path, kubectl: Kubectl | None = None) -> str:
    """The Markdown with every marked block as it would come out now."""

    def block(found: re.Match[str]) -> str:
        whole, start = found[0], found.start("content") - found.start()
        words = found["words"]
        if words.startswith("jobyard run "):
            return ran(found, root)
        if found["what"] == "file":
            content = (root / words).read_text()
        elif found["what"] == "folders of":
            content = folder_tree(root / words)
        elif not words.startswith("kubectl "):
            content = transcript(words, root)
        elif kubectl is not None:
            content = typed(words, kubectl(shlex.split(words)[1:]))
        else:
            content = found["content"]
        return f"{whole[:start]}{content}```"

    if len(_MARK.findall(text)) != len(_BLOCK.findall(text)):
        raise BadMarkError("an 'output of', 'file' or 'folders of' has no block of code below it")
    return _BLOCK.sub(block, text)


def transcript(command: str, root: Path) -> str:
    """The command line as typed, and what came of it, without colours."""
    printed = output(_HEAD.sub("", command), root)
    head = _HEAD.search(command)
    if head:
        printed = "\n".join(printed.split("\n")[: int(head[1])])
    return typed(command, printed)


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
