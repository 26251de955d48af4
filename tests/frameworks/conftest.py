"""Fixtures of the tests with real frameworks, and the table at the end of their run.

A test says what it proves: `@pytest.mark.proves("torch", "PyTorchTrainingJob", "elastic")`, the
distribution whose version counts, the kind, the mode.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Generator, Iterator
from typing import Any

import get_frameworks
import pytest
from rig.person import person

from frameworks.yard import Yard, frameworks_missing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(framework, kind, mode): what a test shows to work")


def pytest_sessionstart() -> None:
    if missing := frameworks_missing():
        pytest.exit(f"not there: {', '.join(missing)}; get them by: make frameworks", 4)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("proves"):
            item.user_properties.append(("proves", mark.args))


@pytest.fixture
def yard() -> Iterator[Yard]:
    """Whoever runs the tests, with the frameworks in place of the examples' images."""
    with person(is_ordinary=False) as somebody:
        yield Yard(somebody)
        assert somebody.processes() == {}


@pytest.fixture
def ordinary_yard() -> Iterator[Yard]:
    """The same for a user without rights; only root can become one."""
    with person(is_ordinary=True, readable=get_frameworks.cache_root(os.environ)) as somebody:
        yield Yard(somebody)
        assert somebody.processes() == {}


# Around all the others, so that the table is what a run ends with.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Generator[None, None, None]:
    yield
    rows = [
        (*dict(report.user_properties)["proves"], report.duration)
        for report in terminalreporter.getreports("passed")
        if report.when == "call" and "proves" in dict(report.user_properties)
    ]
    if not rows:
        return
    versions = _versions()
    terminalreporter.section("frameworks that ran")
    line = "{:<16} {:<12} {:>8}  {:<22} {}"
    terminalreporter.line(line.format("framework", "version", "seconds", "kind", "mode"))
    for framework, kind, mode, seconds in sorted(rows, key=lambda row: row[:3]):
        version = versions.get(framework, "")
        terminalreporter.line(line.format(framework, version, f"{seconds:.1f}", kind, mode))


def _versions() -> dict[str, str]:
    found = {"Open MPI": _open_mpi(), "Python": platform.python_version()}
    for framework in get_frameworks.FRAMEWORKS:
        folder = get_frameworks.folder_of(framework, os.environ)
        found |= get_frameworks.versions(framework, folder)
    return found


def _open_mpi() -> str:
    answer = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split("\n")[0].rpartition(" ")[2]
