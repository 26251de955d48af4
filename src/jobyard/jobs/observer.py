"""Who is told while jobs are followed: a terminal, a program that reads JSON, a page.

`Following` and `Happenings` see; an `Observer` decides what becomes of it. Nothing here prints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jobyard.jobs.log_lines import Line
from jobyard.jobs.pods import JobPod
from jobyard.jobs.view import JobView


class Observer(Protocol):
    """What is said of jobs, as it happens. A job is named as KIND/NAME."""

    def saw_job(self, view: JobView) -> None:
        """A job as it is now."""

    def lines_of(self, job: str) -> Callable[[Line], None]:
        """What takes the log lines of a job."""

    def holds_of(self, job: str) -> Callable[[Line], None]:
        """What takes lines that have no end yet."""

    def pods_of(self, job: str) -> Callable[[JobPod], None]:
        """What takes the pods of a job."""

    def has_heard(self, text: str) -> bool:
        """Whether the user knows this already."""

    def note_once(self, text: str) -> None:
        """A fact about a job."""

    def warn_once(self, text: str) -> None:
        """A warning about a job."""

    def trouble(self, text: str) -> None:
        """What goes wrong between us and the server."""
