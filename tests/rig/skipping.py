"""Tests that could not be tried here: why, how to get what they need, and what CI makes of it.

The last lines of a run list all reasons, with counts. Where CI runs the tests as root (`CI=true`),
everything that can be got (`rig.needs`) has to be there: a skip for such a reason is a failure. A
plugin, which only pytest imports.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

from rig.needs import GET_IT


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
