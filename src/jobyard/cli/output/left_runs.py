"""What runs are left that nobody looks at, told to whoever gives the next command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jobyard.cli.output.saying import say
from jobyard.engine.runs.runs import Run, State, left_runs

# More than these are counted, not told one by one.
_TOLD_MAX: Final = 3


def tell_of_left_runs() -> None:
    """On stderr, since it is no part of any answer."""
    for line in lines_about(left_runs(os.environ)):
        say(line, err=True)


def lines_about(runs: Sequence[Run]) -> list[str]:
    lines = [line_about(run) for run in runs[:_TOLD_MAX]]
    more = len(runs) - len(lines)
    return [*lines, *([f"and {more} more: `jobyard status` lists them"] if more else [])]


def line_about(run: Run) -> str:
    """How a run stands that nobody looks at, and what can be done about it."""
    record = run.record
    jobs = ", ".join(record.jobs)
    what = f"run {run.name} ({jobs}; started {record.started_at} in {_short(record.folder)})"
    match run.state:
        case State.ATTENDED:
            return f"{what} is shown by another command"
        case State.LEFT:
            return f"{what} is still running: `jobyard attach {run.name}` shows it"
        case State.CUT_OFF:
            return (
                f"{what} has lost its engine, its replicas keep running:"
                f" `jobyard attach {run.name}` takes them up"
            )
        case State.ENDED:
            return (
                f"{what} has ended while nobody looked:"
                f" `jobyard attach {run.name}` shows how, and removes it"
            )


def _short(folder: str) -> str:
    home = str(Path.home())
    return folder.replace(home, "~", 1) if folder.startswith(home + "/") else folder
