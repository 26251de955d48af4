"""The way out: whatever a command tells somebody is written here, or by `live.screen`.

Nothing in it acts on a terminal but the colours that are marked (`sequences`), so nobody has to
know which words of a message came from an object, a file, a server or a program. A house rule
finds what is written by other ways. What `exec` and `shell` carry is a terminal's by nature and
has a way of its own (`terminal`).
"""

from __future__ import annotations

import io
import json
import os
import re
import traceback
from typing import Any, Final, TextIO

import click

from jobyard.terminal.sequences import finished

# JSON has another word for each of these; below a blank it uses that by itself.
_UNSEEN: Final = re.compile(
    "[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0\ufdd1]"
)


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Writes a text, and the end of its line. Off a terminal click leaves colours out."""
    click.echo(finished(text, is_coloured=not _is_plain()), err=err, nl=nl)


def say_json(value: Any, indent: int | None = None) -> None:
    """Writes a value as JSON, as it is: what would act stands there by its number."""
    say(as_json(value, indent))


def as_json(value: Any, indent: int | None = None, *, is_ascii: bool = True) -> str:
    return escaped(json.dumps(value, indent=indent, ensure_ascii=is_ascii))


def escaped(text: str) -> str:
    r"""JSON, or YAML with such a text in double quotes: with `\u009b` for what would act."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def has_unseen(text: str) -> bool:
    return _UNSEEN.search(text) is not None


def say_aside(text: str) -> None:
    """A line on standard error, apart from what was asked for."""
    say(text, err=True)


def say_problem(problem: click.ClickException) -> None:
    """What is wrong, as click words it."""
    words = io.StringIO()
    problem.show(file=words)
    say(words.getvalue(), err=True, nl=False)


def say_traceback(problem: Exception) -> None:
    """Where a fault is, and what others had said before it."""
    say("".join(traceback.format_exception(problem)), err=True, nl=False)


def shows_colours(stream: TextIO | None) -> bool:
    """Whether it is a terminal that knows colours, and somebody who wants them.

    A process that was started without a stream has None in its place.
    """
    return stream is not None and stream.isatty() and not _is_plain()


def _is_plain() -> bool:
    return os.environ.get("TERM") == "dumb" or "NO_COLOR" in os.environ
