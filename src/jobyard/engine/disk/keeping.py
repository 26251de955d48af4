"""The words of a clean-up: what is kept, and what was asked to go."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from jobyard.node.agent.disk_use import Use


class What(StrEnum):
    """Kinds of things that are kept."""

    RUN = "run"
    LOGS = "logs"
    SCRATCH = "scratch"
    CLAIM = "claim"


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is kept."""

    what: What
    name: str
    folder: Path
    use: Use
    about: str = ""
    # Empty: it may go. Else why it stays.
    stays: str = ""
    # Whether somebody asked for just this.
    is_named: bool = False
    # The option that would make it go, if one would.
    remedy: str = ""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for beyond what goes anyway."""

    # By the run's own name, or that of its only job.
    runs: tuple[str, ...] = ()
    all_runs: bool = False
    # `namespace/name`, or a name in the default namespace.
    claims: tuple[str, ...] = ()
    all_claims: bool = False


class CleaningError(Exception):
    """Something was asked for that isn't there, or can't go; the message says which."""


def left_over(path: Path) -> str:
    """What is said of a folder that should be gone; empty if it is."""
    return f"{path} could not be removed wholly: not all of it is yours" if path.exists() else ""
