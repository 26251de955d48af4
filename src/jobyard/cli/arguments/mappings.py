"""`--pvc NAME=DIR`, `--image PATTERN=ENV`, and $JOBYARD_IMAGES for those who always say it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from jobyard.node.ordering.image_config import parts_of

IMAGES_VARIABLE: Final = "JOBYARD_IMAGES"


def claim_folder(text: str) -> tuple[str, Path]:
    name, separator, folder = text.partition("=")
    if not separator or not name or not folder:
        raise click.BadParameter(f"{text!r} is not NAME=DIR, such as data=./data")
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise click.BadParameter(f"{text!r}: there is no folder {path}; make it first")
    return name, path


def image_rule(text: str) -> tuple[str, str]:
    """The pattern, and the folder with its options; paths no longer depend on where we are."""
    pattern, folder, options = parts_of(text)
    if not pattern or not folder:
        raise click.BadParameter(
            f"{text!r} is not PATTERN=ENV, such as 'pytorch/*=./venv',"
            " nor PATTERN=ROOT,workdir=/workspace"
        )
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise click.BadParameter(f"{text!r}: there is no folder {path}")
    return pattern, ",".join((str(path), *map(_absolute, options)))


def image_folder(rule: tuple[str, str]) -> Path:
    """The folder of a rule, without its options."""
    return Path(parts_of("=".join(rule))[1])


def _absolute(option: str) -> str:
    name, _, value = option.partition("=")
    if name != "config":
        return option
    path = Path(value).expanduser().absolute()
    if not path.is_file():
        raise click.BadParameter(f"{option!r}: there is no file {path}")
    return f"config={path}"


def all_image_rules(
    given: tuple[tuple[str, str], ...], environment: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Those of the command line, and after them those of the environment, words as in a shell."""
    try:
        words = shlex.split(environment.get(IMAGES_VARIABLE, ""))
        return (*given, *(image_rule(word) for word in words))
    except (ValueError, click.BadParameter) as problem:
        told = problem.message if isinstance(problem, click.BadParameter) else str(problem)
        raise click.UsageError(f"${IMAGES_VARIABLE}: {told}") from problem
