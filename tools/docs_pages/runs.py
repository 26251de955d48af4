"""What `jobyard run` prints, for the docs: written by a command, kept as long as its file stays.

Ranks speak in another order each time, and most need a framework, so these blocks are not made
anew by every `make docs`. The comment above a block ends with ` of DIGEST DIGEST`: that of the file
that ran, and that of what is in the block, so that nobody writes there by hand. `make howto`
(JOBYARD_WRITE_DOCS=1) runs those where one of them has changed since, and `JOBYARD_WRITE_DOCS=all`
runs each; a test finds those that are out of date. ` | head -N` and ` | tail -N` behind the command
show a part of a long output. A run that ends otherwise than examples/README.md promises is written
nowhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import get_frameworks

# Set: blocks that are out of date are written anew; `all`: the others too.
WRITE_VARIABLE = "JOBYARD_WRITE_DOCS"
_PART = re.compile(r" \| (head|tail) -(\d+)$")
_BLOCK = re.compile(
    r"^<!-- output of: (?P<words>jobyard run .+?)(?P<of> of [0-9a-f]{12}(?: [0-9a-f]{12})?)? -->"
    r"(?:\n+```\w+\n(?P<content>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
# A row of the table in examples/README.md.
_PROMISE = re.compile(r"^\| \[[^]]+\]\((?P<file>[^)]+)\) \|.*\bFailed on purpose\b", re.MULTILINE)
_LINE_LENGTH_MAX = 140
# Of one machine's PATH nobody else wants to read, and some frameworks print it.
_PLAIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DIGEST = re.compile(r"/frameworks/(\w+)-[0-9a-f]{12}")


class BadRunError(Exception):
    """A run that ended otherwise than promised; nobody is to learn from what it printed."""


def ran(found: re.Match[str], root: Path) -> str:
    """A whole block: as it stands, or as it comes out now if that is asked for."""
    wish = os.environ.get(WRITE_VARIABLE)
    if not wish or (_is_current(found, root) and wish != "all"):
        return found[0]
    words = found["words"]
    print(words, file=sys.stderr, flush=True)
    printed = _really_run(words, root)
    head = f"<!-- output of: {words} of {digest(words, root)} {_short(printed.encode())} -->"
    return f"{head}\n\n```{found['language']}\n{printed}```"


def out_of_date(text: str, root: Path) -> list[str]:
    """The commands whose file is another one now than when they ran, or whose block is."""
    return [found["words"] for found in _BLOCK.finditer(text) if not _is_current(found, root)]


def _is_current(found: re.Match[str], root: Path) -> bool:
    made_of, _, printed = (found["of"] or "").removeprefix(" of ").partition(" ")
    if made_of != digest(found["words"], root):
        return False
    # Pages from before there was a second one have it as soon as they are written again.
    return not printed or printed == _short((found["content"] or "").encode())


def digest(command: str, root: Path) -> str:
    """Of the files that the command names."""
    files = [root / word for word in shlex.split(command) if word.endswith(".yaml")]
    return _short(b"\0".join(file.read_bytes() for file in files))


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def typed(command: str, printed: str) -> str:
    """The command line as typed, and what came of it."""
    lines = [line.rstrip() for line in printed.rstrip().split("\n")]
    return "\n".join([f"$ {command}", *lines]) + "\n"


def _really_run(command: str, root: Path) -> str:
    """A job on this machine, in a process of its own, as a user would run it."""
    words = shlex.split(_PART.sub("", command))
    images = get_frameworks.images_variable(os.environ)
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=root,
        env={**os.environ, "PATH": _PLAIN_PATH, "JOBYARD_IMAGES": images},
        # In the order in which a person would see it.
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if (code := done.returncode) != (promised := _promised_code(words, root)):
        raise BadRunError(f"{command} ended with {code}, not with {promised}:\n{done.stdout}")
    plain = _DIGEST.sub(r"/frameworks/\1", done.stdout).replace(str(root), "~/jobyard")
    lines = plain.replace(str(Path.home()), "~").rstrip().split("\n")
    kept = _part([_cut(line) for line in lines], _PART.search(command))
    return typed(_PART.sub("", command), "\n".join(kept))


def _promised_code(words: list[str], root: Path) -> int:
    """What the table of the examples says about the end; who isn't in there succeeds."""
    table = root / "examples" / "README.md"
    failing = _PROMISE.findall(table.read_text()) if table.is_file() else []
    return 1 if any(word.removeprefix("examples/") in failing for word in words) else 0


def _cut(line: str) -> str:
    """Some frameworks print whole environments; a page shows where such a line begins."""
    return line if len(line) <= _LINE_LENGTH_MAX else f"{line[: _LINE_LENGTH_MAX - 1]}…"


def _part(lines: list[str], asked: re.Match[str] | None) -> list[str]:
    if asked is None:
        return lines
    kept = int(asked[2])
    if len(lines) <= kept:
        return lines
    return [*lines[:kept], "..."] if asked[1] == "head" else ["...", *lines[-kept:]]
