"""The line of the report that says how many steps of the simulation a run has taken."""

from __future__ import annotations

from collections.abc import Generator

import pytest

STEPS_PROPERTY = "simulation steps"


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    steps = [
        int(str(value))
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == STEPS_PROPERTY
    ]
    if steps:
        terminalreporter.line(f"simulation: {sum(steps):,} steps in {len(steps)} shards")
