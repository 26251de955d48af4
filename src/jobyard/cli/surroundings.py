"""What a command finds when it is called: its streams, its folder, names that others chose.

`main` asks. A stream that was closed is opened again, to nowhere: else the next file that is opened
would have its number, and whatever is said would be written into that. What can't be worked with
is no fault of the program's, and is told as the caller's to change.
"""

from __future__ import annotations

import os
import sys


def open_streams() -> None:
    """Standard input, output and error, for a command that was called with some of them closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest that is free, so it is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - to the end
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def expect_folder() -> None:
    """The one in which jobs will run; raises what `wrong_with` has words for."""
    os.getcwd().encode()


def wrong_with(problem: Exception) -> str | None:
    """What of the surroundings an exception is about, in words; None if it is about ourselves."""
    if isinstance(problem, UnicodeEncodeError) and problem.reason == "surrogates not allowed":
        shown = os.fsencode(problem.object).decode(errors="backslashreplace")
        return f"{shown}: is not UTF-8, which names of folders have to be here"
    if isinstance(problem, FileNotFoundError) and problem.filename is None:
        try:
            os.getcwd()
        except FileNotFoundError:
            return "the current folder has been removed; change to another one"
    return None
