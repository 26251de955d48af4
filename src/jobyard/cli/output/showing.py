"""What `run` and `logs` say: which line is written when something is seen of a job.

It keeps what was seen last of each job for the live table, and since when; how rows look is
`rows`' to know, and how lines and table share a terminal `screen`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from jobyard.cli.output.lost_output import silence_all
from jobyard.cli.output.rows import Timed, last_lines, live_lines
from jobyard.cli.output.saying import say
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.style import Palette
from jobyard.jobs.log_lines import Line
from jobyard.jobs.pods import JobPod
from jobyard.jobs.view import JobView
from jobyard.terminal.widths import last_state, printable

# A longer name isn't waited for by the others' columns.
PREFIX_COLUMNS_MAX: Final = 40
# Of a line that has no end yet so much is looked at: more than a terminal is wide.
_UNFINISHED_BYTES_MAX: Final = 2000


class Show:
    """Writes about several jobs at once; with one job its name is left out of prefixes."""

    def __init__(self, screen: Screen, palette: Palette, *, is_quiet: bool) -> None:
        self._screen = screen
        self._palette = palette
        self._is_quiet = is_quiet
        self._views: dict[str, JobView] = {}
        self._began = time.monotonic()
        self._ended: dict[str, float] = {}
        self._width = 0
        self._names_jobs = False
        self._is_late = False
        self._said: set[str] = set()
        self._heard: set[str] = set()
        # What has no end yet, by job, replica and container.
        self._unfinished: dict[tuple[str, str, str], bytes] = {}

    def expect(self, jobs: Iterable[str], *, is_late: bool = False) -> None:
        """The jobs there are going to be, as KIND/NAME; or those that began without us."""
        self._is_late = is_late
        self._names_jobs = len(list(jobs)) > 1
        self._began = time.monotonic()

    def heard(self, texts: Iterable[str]) -> None:
        """What the user has been told already, by its words."""
        self._heard |= set(texts)

    def has_heard(self, text: str) -> bool:
        return text in self._heard

    def note(self, text: str) -> None:
        """One line of our own, to be told from those of the user's programs."""
        if not self._is_quiet:
            # The engine speaks here too, and can't help it: who shows the logs will hear.
            with suppress(OSError):
                self._screen.line(self._palette.faint(text))

    def note_once(self, text: str) -> None:
        """The same, unless it was said before: many replicas, or many tries, and one fact."""
        if text not in self._said:
            self._said.add(text)
            self.note(text)

    def warn(self, text: str) -> None:
        self._screen.line(self._palette.warning(text))

    def warn_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.warn(text)

    def trouble(self, text: str) -> None:
        """What isn't about the jobs: apart from what they say, unless a table would be torn."""
        if self._screen.is_live:
            self.warn(text)
        else:
            say(text, err=True)

    def lines_of(self, job: str) -> Callable[[Line], None]:
        """What writes the log lines of a job, KIND/NAME."""

        def write(line: Line) -> None:
            if not self._is_quiet:
                self._write(job, line)

        return write

    def _write(self, job: str, line: Line) -> None:
        name = self._prefix(job, line.replica, line.container)
        self._widen(name)
        front = f"{self._palette.prefix(name, self._width)} "
        if self._screen.is_terminal:
            self._screen.line(front + printable(line.text))
        else:
            # As `kubectl logs` does: what a program gets is for it to judge.
            self._screen.pass_on(front, last_state(line.text))

    def holds_of(self, job: str) -> Callable[[Line], None]:
        """What takes note of lines that have no end yet: a bar is to be seen while it grows."""

        def hold(line: Line) -> None:
            key = (job, line.replica, line.container)
            is_new = line.text != self._unfinished.pop(key, b"")
            if line.text:
                self._unfinished[key] = line.text
            if is_new and not self._is_quiet:
                self._screen.show(self._table)

        return hold

    def _prefix(self, job: str, replica: str, container: str) -> str:
        parts = [job.partition("/")[2]] if self._names_jobs else []
        return "/".join([*parts, replica, *([container] if container else [])])

    def _widen(self, name: str) -> None:
        self._width = max(self._width, min(len(name), PREFIX_COLUMNS_MAX))

    def pods_of(self, job: str) -> Callable[[JobPod], None]:
        """What takes note of pods: widths are known before the first line, so columns stay."""

        def see(pod: JobPod) -> None:
            containers = [each.name for each in pod.spec.init_containers]
            if len(pod.spec.containers) > 1:
                containers += [each.name for each in pod.spec.containers]
            for container in containers or [""]:
                self._widen(self._prefix(job, pod.replica, container))

        return see

    def saw_job(self, view: JobView) -> None:
        before = self._views.get(view.uid)
        self._views[view.uid] = view
        if view.is_over:
            self._ended.setdefault(view.uid, time.monotonic())
        has_moved = before is not None and before.phase != view.phase
        # A table says the same.
        if has_moved and not view.is_over and not self._screen.is_live:
            self.note(f"{view} is {view.phase.lower()}")
        self._screen.show(self._table)

    def _table(self, columns: int, lines: int) -> Sequence[str]:  # noqa: ARG002
        lines_max = max(lines // 2, 1)
        if not self._views:
            return self._unfinished_lines()[:lines_max]
        jobs = [self._timed(view) for view in self._views.values()]
        return live_lines(jobs, self._palette, lines_max)

    def _unfinished_lines(self) -> list[str]:
        """As they will be when they have ended."""
        return [
            f"{self._palette.prefix(self._prefix(*key), self._width)} {_shortly(text)}"
            for key, text in sorted(self._unfinished.items())
        ]

    def _timed(self, view: JobView) -> Timed:
        if self._is_late:
            return Timed(view, _lasted(view))
        now = self._ended.get(view.uid, time.monotonic())
        speaking = {
            replica: _shortly(text)
            for (job, replica, _), text in self._unfinished.items()
            if job == str(view)
        }
        return Timed(view, now - self._began, speaking)

    def abandon(self) -> None:
        """Nobody reads it any more: a closed terminal refuses what is written."""
        self._screen.abandon()
        silence_all()

    def close(self) -> None:
        """Takes the live table away."""
        self._screen.close()

    def summary(self, views: Iterable[JobView]) -> list[str]:
        """The table at the end, for a terminal or not."""
        lines: list[str] = []
        for view in views:
            lines += ["", *last_lines(self._timed(view), self._palette, self._screen.columns)]
        return lines


def _lasted(view: JobView) -> float:
    """How long a job has taken, by its own status."""
    began, ended = (_moment(text) for text in (view.started_at, view.ended_at))
    if began is None:
        return 0.0
    return max(((ended or datetime.now(UTC)) - began).total_seconds(), 0.0)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _shortly(text: bytes) -> str:
    return printable(last_state(text)[:_UNFINISHED_BYTES_MAX])
