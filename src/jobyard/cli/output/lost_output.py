"""Output that can't be written any more: its reader has left, or the disk is full.

`main` asks before it calls an exception a fault of jobyard. Commands that follow several things
at once fail with a group of exceptions, and click, which sees to a closed pipe, sees no groups.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Final, TypeGuard

from jobyard.cli.output.saying import say

# What click ends with when a pipe is closed: the command has not come to its end.
LOST: Final = 1
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_lost_output(problem: Exception) -> bool:
    """Whether this is all that went wrong; if so it is told, and no more will be written."""
    leaves = _leaves(problem)
    if all(_has_left(leaf) for leaf in leaves):
        # Whoever read our output has seen enough, also of what goes wrong.
        silence_all()
        return True
    full = [leaf for leaf in leaves if _is_full(leaf)]
    if len(full) < len(leaves):
        return False
    _silence(sys.stdout.fileno())
    say(f"Error: the output can't be written: {full[0].strerror}", err=True)
    return True


def _leaves(problem: BaseException) -> list[BaseException]:
    if isinstance(problem, BaseExceptionGroup):
        return [leaf for inner in problem.exceptions for leaf in _leaves(inner)]
    return [problem]


def _has_left(problem: BaseException) -> bool:
    """Whether the reader has: of a pipe, or of a terminal, which says EIO once it is closed."""
    if isinstance(problem, BrokenPipeError):
        return True
    is_terminal = isinstance(problem, OSError) and problem.errno == errno.EIO
    return is_terminal and getattr(problem, "filename", None) is None


def _is_full(problem: BaseException) -> TypeGuard[OSError]:
    # A file that was opened by its name is not our output.
    return isinstance(problem, OSError) and problem.errno in _FULL and problem.filename is None


def silence_all() -> None:
    """Nobody is there any more to be told anything."""
    _silence(sys.stdout.fileno(), sys.stderr.fileno())


def _silence(*descriptors: int) -> None:
    """What is still in a buffer goes nowhere; Python would complain of it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
