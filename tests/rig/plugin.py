"""The pytest plugin: fixtures for a real Kubernetes, and proof that it was used.

Fixtures: `control_plane` (one per run, shared by all workers), `namespace` (a fresh
one per test), `kubectl`, `controllers` (for tests that need kube-controller-manager).
Whatever uses `control_plane` carries the marker `kube`. A run without a Kubernetes
fails with the reason; nothing is skipped for lack of one, and the last section of the report
counts the tests that really had a server.
"""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.kube import namespaces
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.kube.sharing import NoKubernetesError, shared_plane

pytest_plugins = ["rig.skipping"]

# Under this name each report tells which version it ran against; xdist carries it home.
VERSION_PROPERTY = "kubernetes"
MAIN_PID = "jobyard_main_pid"

# Held as long as pytest runs: a collected Popen of a living process is a warning.
KEEPER = pytest.StashKey[subprocess.Popen[bytes]]()


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all workers of this run share."""
    base = tmp_path_factory.getbasetemp()
    # xdist gives each worker a folder inside that of the main process.
    return (base.parent if hasattr(request.config, "workerinput") else base) / "kube"


@pytest.fixture(scope="session")
def control_plane(run_folder: Path, request: pytest.FixtureRequest) -> ControlPlane:
    """A running API server with admin credentials, started by the first who asks."""
    workerinput: dict[str, Any] = getattr(request.config, "workerinput", {})
    try:
        shared = shared_plane(
            run_folder,
            workerinput.get(MAIN_PID, os.getpid()),
            lambda line: _show(request.config, line),
        )
    except NoKubernetesError as problem:
        reason = str(problem)
    else:
        if shared.keeper is not None:
            request.config.stash[KEEPER] = shared.keeper
        return shared.plane
    # Outside of the handler, or the report would say everything twice.
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def controllers(control_plane: ControlPlane) -> ControlPlane:
    """The control plane, for tests that are pointless without kube-controller-manager."""
    if not control_plane.has_controllers:
        pytest.fail(
            "kube-controller-manager isn't beside the other commands (envtest leaves it out);"
            " see tools/get_kube.py",
            pytrace=False,
        )
    return control_plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a namespace that is this test's own, ready for pods."""
    name = namespaces.fresh_name(request.node.name)
    asyncio.run(namespaces.create(control_plane, name))
    yield name
    # A plane of our own goes as a whole; to empty a namespace takes its server a hundred requests.
    if control_plane.is_brought:
        asyncio.run(namespaces.delete(control_plane, name))


@pytest.fixture
def kubectl(control_plane: ControlPlane, namespace: str, run_folder: Path) -> Kubectl:
    """`kubectl("get", "pods")`, in the test's own namespace."""
    return Kubectl(control_plane, namespace, run_folder / "kubectl-cache")


# First, so that `-m kube` and `-m "not kube"` see the marker.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "control_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kube)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    # Fixtures are set up by now, so this is what the test has, not what it asked for.
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if isinstance(plane, ControlPlane):
        item.user_properties.append((VERSION_PROPERTY, plane.version))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each xdist worker whom the keeper has to watch."""
    node.workerinput[MAIN_PID] = os.getpid()


# A wrapper around the terminal's own wrapper, so that our line comes after its sections.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    versions = Counter(
        version
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call" and not report.skipped
        for name, version in report.user_properties
        if name == VERSION_PROPERTY
    )
    terminalreporter.section("Kubernetes")
    for version, count in sorted(versions.items()):
        tests = "1 test" if count == 1 else f"{count} tests"
        terminalreporter.line(f"{tests} ran against a real API server (Kubernetes {version})")
    if not versions:
        terminalreporter.line("0 tests ran against a real API server")


def _show(config: pytest.Config, line: str) -> None:
    """Write to the real standard error: a build of minutes must not look like a hang."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        sys.stderr.write(line)
        return
    with capture.global_and_fixture_disabled():
        sys.stderr.write(line)
        sys.stderr.flush()
