"""Watches that fail, told to the user: a command that waits in silence looks as if it hung.

A watch goes on trying by itself, so what is told is no error: each trouble once, in a line.
"""

from __future__ import annotations

from collections.abc import Callable

from jobyard.client.errors import ClientError, ConnectionFailedError, RefusedError


class Troubles:
    """A `Notice` for any number of watches."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, problem: ClientError, failures: int) -> None:
        # What is in between ends long connections now and then; the next try heals that.
        if isinstance(problem, ConnectionFailedError) and failures == 1:
            return
        said = problem.problem.message if isinstance(problem, RefusedError) else str(problem)
        if said not in self._told:
            self._told.add(said)
            self._tell(f"{said} (trying again; Ctrl-C ends it)")
