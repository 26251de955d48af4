"""The cluster of these tests, and the table at the end of their run.

A test says what it shows: `@pytest.mark.shows("MPIJob", "random walk")`, the kind and the
scenario.
"""

import asyncio
import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rig.kube import namespaces
from rig.plugin import VERSION_PROPERTY

from real_cluster import cluster as clusters
from real_cluster import image_versions, ingredients
from real_cluster.cluster import Cluster
from real_cluster.controller import install
from real_cluster.enclosure import FOLDER_VARIABLE
from real_cluster.place import Place

VERSIONS = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(kind, scenario): what a test shows to work")


def pytest_sessionstart() -> None:
    if FOLDER_VARIABLE not in os.environ:
        pytest.exit(
            "these tests change the machine they run on; start them by: make kubelet-test", 4
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("shows"):
            item.user_properties.append(("shows", mark.args))


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A Kubernetes with one node that really runs pods."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    with clusters.running(folder, ingredients.load(folder / "ingredients.json")) as running:
        request.config.stash[VERSIONS] = _told(running.versions)
        image_versions.ask(running.kubectl(), running.images)
        yield running
        found = image_versions.answers(running.kubectl(), running.images)
        request.config.stash[VERSIONS] += f"\nin the images: {_told(found)}"


def _told(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


@pytest.fixture(scope="session")
def controller(cluster: Cluster) -> None:
    """Jobyard's controller, installed and ready."""
    (image,) = (name for name in cluster.images if name.startswith("jobyard:"))
    install(cluster, image)


@pytest.fixture
def place(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A namespace of the test's own."""
    name = namespaces.fresh_name(request.node.name.removeprefix("test_"))
    asyncio.run(namespaces.create(cluster.plane, name))
    yield Place(cluster.kubectl(name))
    asyncio.run(namespaces.delete(cluster.plane, name))


@pytest.fixture
def jobs(place: Place, controller: None) -> Place:
    """The same, with a controller that looks after jobs in it."""
    return place


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    running = getattr(item, "funcargs", {}).get("cluster")
    if isinstance(running, Cluster):
        item.user_properties.append((VERSION_PROPERTY, running.plane.version))


# Around all the others, so that the table is what a run ends with.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: Any, config: pytest.Config
) -> Generator[None, None, None]:
    yield
    rows = [
        (*dict(report.user_properties)["shows"], report.duration)
        for report in terminalreporter.getreports("passed")
        if report.when == "call" and "shows" in dict(report.user_properties)
    ]
    terminalreporter.section("a real cluster")
    terminalreporter.line(config.stash.get(VERSIONS, "it didn't start"))
    line = "{:<22} {:>8}  {}"
    terminalreporter.line(line.format("kind", "seconds", "scenario"))
    for kind, scenario, seconds in sorted(rows):
        terminalreporter.line(line.format(kind, f"{seconds:.1f}", scenario))
