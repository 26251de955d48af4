"""The rows of tables about jobs: the live one as the terminal has room for it, and the last one.

Pure: views of jobs in, lines out. The live table takes half of a terminal's lines at most, so
that logs can be read: with less room it counts replicas, and then names jobs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from jobyard.cli.output.style import Palette, duration, table
from jobyard.jobs.view import ENDED, JobView, ReplicaView
from jobyard.terminal.sequences import in_a_row
from jobyard.terminal.widths import cut

HEAD: Final = ("REPLICA", "PHASE", "EXIT", "RESTARTS", "MESSAGE")
# Above this many replicas a live table only counts them.
ROWS_MAX: Final = 16
# Off a terminal a message may be so long.
REMARK_COLUMNS: Final = 120


class Timed(msgspec.Struct, frozen=True):
    """A job, and for how many seconds it has been going on."""

    view: JobView
    seconds: float
    # By replica, what it has written of a line that has no end yet, such as a progress bar.
    unfinished: Mapping[str, str] = {}


def live_lines(jobs: Sequence[Timed], palette: Palette, lines_max: int) -> list[str]:
    """As much as fits into so many lines: all rows, counts, or the jobs that aren't over."""
    for form in (_with_rows, _with_counts):
        lines = [line for job in jobs for line in form(job, palette)]
        if len(lines) <= lines_max:
            return lines
    going = [job for job in jobs if not job.view.is_over]
    room = max(lines_max - 1, 0)
    lines = [_with_counts(job, palette)[0] for job in going[:room]]
    rest = len(going) - len(lines)
    over = len(jobs) - len(going)
    told = ([f"{rest} more"] if rest else []) + ([f"{over} over"] if over else [])
    return [*lines, palette.faint(", ".join(told))] if told else lines


def last_lines(job: Timed, palette: Palette, columns: int | None) -> list[str]:
    """How a job ended, with all its replicas."""
    view = job.view
    goes_on = any(row.phase not in ENDED for row in view.replicas)
    word = view.phase.lower() if view.is_over else "was left" if goes_on else "was stopped"
    rest = "" if view.is_over else ", before its end"
    painted = palette.bold if view.has_succeeded else palette.failure
    lines = [painted(f"{view} {word} after {duration(job.seconds)}{rest}")]
    if view.message and not view.has_succeeded:
        lines += [in_a_row(view.message), *([in_a_row(view.cause)] if view.cause else [])]
    rows = table(HEAD, [cells(row, palette, REMARK_COLUMNS) for row in view.replicas])
    shown = [row if columns is None else cut(row, columns) for row in rows]
    # Below a long table again: its beginning has left the terminal.
    return [*lines, *shown, *(lines if len(view.replicas) > ROWS_MAX else [])]


def cells(row: ReplicaView, palette: Palette, remark_columns: int = 1000) -> list[str]:
    """One row below `HEAD`."""
    code = "" if row.exit_code is None else str(row.exit_code)
    remark = cut(in_a_row(row.remark), remark_columns)
    return [row.name, palette.phase(row.phase), code, str(row.restarts), remark]


def _title(job: Timed, palette: Palette) -> str:
    view = job.view
    return f"{palette.bold(str(view))}  {palette.phase(view.phase)}  {duration(job.seconds)}"


def _with_rows(job: Timed, palette: Palette) -> list[str]:
    replicas = job.view.replicas
    if len(replicas) > ROWS_MAX:
        return _with_counts(job, palette)
    rows = [HEAD, *(_live_cells(row, job, palette) for row in replicas)]
    # What nobody has anything to say about takes no room.
    said = [
        n for n in range(len(HEAD)) if n < 2 or any(row[n] not in ("", "0") for row in rows[1:])
    ]
    head, *rest = ([row[n] for n in said] for row in rows)
    lines = table([palette.faint(name) for name in head], rest) if replicas else []
    waiting = [] if job.view.is_over or not job.view.message else [job.view.message]
    return [_title(job, palette), *(f"  {line}" for line in (*waiting, *lines))]


def _live_cells(row: ReplicaView, job: Timed, palette: Palette) -> list[str]:
    *front, remark = cells(row, palette)
    is_speaking = row.phase not in ENDED
    return [*front, remark or (job.unfinished.get(row.name, "") if is_speaking else "")]


def _with_counts(job: Timed, palette: Palette) -> list[str]:
    counts = _counts(job.view.replicas)
    return [f"{_title(job, palette)}  {counts}" if counts else _title(job, palette)]


def _counts(replicas: Iterable[ReplicaView]) -> str:
    counted: dict[str, int] = {}
    for row in replicas:
        counted[row.phase] = counted.get(row.phase, 0) + 1
    return ", ".join(f"{count} {phase.lower()}" for phase, count in sorted(counted.items()))
