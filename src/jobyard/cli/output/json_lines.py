"""Log lines for programs: one JSON object each, on standard output and nothing else there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobyard.cli.output.saying import as_json, say
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.jobs.log_lines import Line


class JsonShow(Show):
    """Writes lines as objects; what else there is to say goes to standard error."""

    def __init__(self, screen: Screen, *, has_timestamps: bool) -> None:
        super().__init__(screen, Palette(is_coloured=False), is_quiet=False)
        self._has_timestamps = has_timestamps

    def lines_of(self, job: str) -> Callable[[Line], None]:  # noqa: ARG002 - there is one
        def write(line: Line) -> None:
            say(as_json(self._told(line), is_ascii=False))

        return write

    def _told(self, line: Line) -> dict[str, Any]:
        text = line.text.decode(errors="replace")
        told: dict[str, Any] = {"replica": line.replica, "attempt": line.attempt}
        if line.container:
            told["container"] = line.container
        if self._has_timestamps:
            told["time"], _, text = text.partition(" ")
        return {**told, "line": text}

    def note(self, text: str) -> None:
        say(text, err=True)

    def warn(self, text: str) -> None:
        say(text, err=True)
