"""The page of `why`, as lines. Pure: an answer in, text out.

Texts of others stand in one row each, whatever they have in them; what acts on a terminal is taken
out on the way to it.
"""

from __future__ import annotations

from typing import Final

from jobyard.cli.output.style import Palette, duration, table
from jobyard.cli.output.terminal_size import broken
from jobyard.jobs.explaining.answer import Answer, Remedy, Together
from jobyard.jobs.explaining.reading import seconds
from jobyard.jobs.explaining.seen import Event
from jobyard.terminal.sequences import in_a_row
from jobyard.terminal.widths import cut, one_line

_ROWS_MAX: Final = 20
# Off a terminal a message may be so long.
_MESSAGE_COLUMNS: Final = 300


def why_page(answer: Answer, palette: Palette, columns: int | None, now: float) -> list[str]:
    """The cause first; `columns` is None for what isn't a terminal."""
    title = f"{palette.bold(in_a_row(str(answer)))}   {palette.phase(in_a_row(answer.phase))}"
    lines = [title if columns is None else cut(title, columns)]
    lines += broken(in_a_row(answer.cause), columns)
    if answer.remedies:
        lines += ["", palette.bold("What would help")]
        lines += [line for each in answer.remedies for line in _remedy(each, columns)]
    if answer.replicas:
        lines += ["", palette.bold("Replicas"), *_replicas(answer, palette, columns)]
    if answer.events:
        lines += ["", palette.bold("What happened last")]
        rows = [_event(each, now) for each in answer.events]
        lines += _fitting(
            table(["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], rows), columns
        )
    return lines


def _remedy(remedy: Remedy, columns: int | None) -> list[str]:
    words = in_a_row(remedy.text)
    told = f"  {words}:" if remedy.command else f"  {words}"
    lines = broken(told, columns, "    ")
    # A command stays on one line, so that it can be copied.
    return [*lines, f"    {in_a_row(remedy.command)}"] if remedy.command else lines


def _replicas(answer: Answer, palette: Palette, columns: int | None) -> list[str]:
    shown = answer.replicas[:_ROWS_MAX]
    lines = _fitting(
        table(["REPLICAS", "PHASE", "RESTARTS", "WHY"], [_row(each, palette) for each in shown]),
        columns,
    )
    more = sum(len(each.replicas) for each in answer.replicas[_ROWS_MAX:])
    return [*lines, f"  and {more} more"] if more else lines


def _row(together: Together, palette: Palette) -> list[str]:
    said = in_a_row(one_line(together.message))
    word = together.reason.value if together.reason is not None else ""
    why = f"{word}: {said}" if word and said else word or said
    return [
        together.names,
        palette.phase(in_a_row(together.phase)),
        str(together.restarts),
        cut(why, _MESSAGE_COLUMNS),
    ]


def _event(event: Event, now: float) -> list[str]:
    moment = seconds(event.time)
    age = f"{duration(max(now - moment, 0))} ago" if moment is not None else ""
    times = f" (x{event.count})" if event.count > 1 else ""
    message = cut(in_a_row(one_line(event.message)), _MESSAGE_COLUMNS)
    return [f"{age}{times}", event.type, event.reason, event.object, message]


def _fitting(lines: list[str], columns: int | None) -> list[str]:
    indented = [f"  {line}" for line in lines]
    return indented if columns is None else [cut(line, columns) for line in indented]
