"""Options that several commands have, each said once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def output_option(help: str | None = None) -> Callable[[F], F]:
    """The option `-o`, as one argument `output`."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", help=help
    )


def deed_output(command: F) -> F:
    """The same for commands that do something to objects, see `output.deeds`."""
    return output_option("json: an object per line, with what was done.")(command)


def data_dir_option(command: F) -> F:
    """Which of the engines on this machine is meant."""
    decorated: F = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="The folder that was given to `up`.",
    )(command)
    return decorated
