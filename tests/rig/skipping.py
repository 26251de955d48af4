"""Tests that could not be tried here: why, how to get what they need, and what CI makes of it.

A reason that ends with "; get it with: COMMAND" is something that the machine could have had. The
last lines of a run list all reasons, with counts. Where CI runs the tests as root (`CI=true`),
everything that can be got has to be there: such a skip is a failure. `rig.users` has the reason
for what needs root.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Generator

import pytest

GET_IT = "; get it with: "
AS_ROOT = f"{GET_IT}sudo make test"
# Of the system's administration; not on every user's PATH.
_MORE_FOLDERS = "/usr/sbin:/sbin"


def lacks(program: str) -> bool:
    return not _found(program)


def needed(program: str, package: str = "") -> str:
    """Where a program of the system is; the test is skipped if it is not there."""
    path = _found(program)
    if not path:
        pytest.skip(missing(program, package))
    return path


def missing(program: str, package: str = "") -> str:
    """The reason to skip what needs it; `package` is Debian's, if it has another name."""
    return f"there is no {program}{GET_IT}apt-get install {package or program}"


def _found(program: str) -> str:
    return shutil.which(program, path=f"{os.environ['PATH']}:{_MORE_FOLDERS}") or ""


def must_have_it(reason: str, environment: dict[str, str], uid: int) -> bool:
    """Whether whoever runs the tests has promised that nothing is missing that can be got."""
    return GET_IT in reason and environment.get("CI") == "true" and uid == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    reason = _reason(report)
    if must_have_it(reason, dict(os.environ), os.geteuid()):
        report.outcome = "failed"
        report.longrepr = f"CI must not skip this: {reason}"
    return report


def _reason(report: pytest.TestReport) -> str:
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return ""
    return report.longrepr[2].removeprefix("Skipped: ")


def summary(reports: list[pytest.TestReport]) -> list[str]:
    """A line for each reason, what skips most first."""
    reasons = Counter(filter(None, map(_reason, reports)))
    return [
        f"{count} {'test' if count == 1 else 'tests'}: {reason}"
        for reason, count in sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    ]


# Around the terminal's own, so that the list comes after its sections.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report, pytest.TestReport)
    ]
    if lines := summary(skipped):
        terminalreporter.section("not tried here")
        for line in lines:
            terminalreporter.line(line)
