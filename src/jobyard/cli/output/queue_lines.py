"""Tables about queues, as lines. Pure: views in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jobyard.cli.output.style import Palette, table
from jobyard.jobs.explaining.moments import span
from jobyard.jobs.explaining.queues import WAITING, Gang, QueueView
from jobyard.jobs.explaining.reading import seconds
from jobyard.terminal.sequences import in_a_row
from jobyard.terminal.widths import cut, one_line

HEAD: Final = ("QUEUE", "PRIORITY", "STATE", "USED", "SHARE", "RUNNING", "WAITING")
WIDE_HEAD: Final = (*HEAD, "PREEMPTIBLE", "MAX-DURATION", "PODS")
_GANG_HEAD: Final = ("GANG", "STATE", "PRIORITY", "PODS", "AGE", "WHY")
_MESSAGE_COLUMNS: Final = 300


def queue_cells(view: QueueView, *, is_wide: bool) -> list[str]:
    """One row below `HEAD`."""
    uses = [
        f"{name} {use.used}/{use.quota}{_percent(use.share)}"
        if use.quota is not None
        else f"{name} {use.used}"
        for name, use in view.resources.items()
    ]
    cells = [
        view.name,
        str(view.priority),
        "closed" if view.closed else "open",
        ", ".join(uses) or "-",
        "-" if view.dominant_share is None else f"{view.dominant_share:.0%}",
        str(view.running_gangs),
        str(view.waiting_gangs),
    ]
    if not is_wide:
        return cells
    pods = ", ".join(f"{number} {name}" for name, number in view.pods.items() if number)
    return [*cells, "yes" if view.preemptible else "no", view.max_duration or "-", pods or "-"]


def _percent(share: float | None) -> str:
    return f" ({share:.0%})" if share is not None else ""


def queue_table(views: Sequence[QueueView], columns: int | None, *, is_wide: bool) -> list[str]:
    head = WIDE_HEAD if is_wide else HEAD
    return _fitting(table(head, [queue_cells(view, is_wide=is_wide) for view in views]), columns)


def queue_page(
    view: QueueView, palette: Palette, columns: int | None, now: float, *, is_wide: bool
) -> list[str]:
    """One queue, and its gangs in order."""
    lines = queue_table([view], columns, is_wide=is_wide)
    if not view.gangs:
        return [*lines, "", "nothing is in this queue"]
    rows = [_gang(gang, palette, now) for gang in view.gangs]
    return [*lines, "", *_fitting(table(_GANG_HEAD, rows), columns)]


def _gang(gang: Gang, palette: Palette, now: float) -> list[str]:
    created = seconds(gang.created)
    said = in_a_row(one_line(gang.message))
    why = f"{gang.reason}: {said}" if gang.reason and said else gang.reason or said
    if not why and gang.state == WAITING:
        why = "no scheduler has looked at it yet"
    single = "pod/" if gang.kind == "Pod" else ""
    return [
        f"{gang.namespace}/{single}{gang.name}",
        palette.phase(gang.state),
        str(gang.priority),
        f"{gang.running}/{max(gang.needed, gang.running + gang.pending)}",
        span(now - created) if created is not None else "",
        cut(in_a_row(why), _MESSAGE_COLUMNS),
    ]


def _fitting(lines: list[str], columns: int | None) -> list[str]:
    return lines if columns is None else [cut(line, columns) for line in lines]
