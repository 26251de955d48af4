"""Launcher and workers, from either shape of a kind that has them."""

from __future__ import annotations

from jobyard.api.launching import LaunchedReplica, LauncherType
from jobyard.plan.description import JSON, Command, Role, main_container
from jobyard.schema.finding import Path


def launcher_role(template: JSON, place: Path, *containers: str) -> Role:
    return Role(
        type=str(LauncherType.LAUNCHER),
        replicas=1,
        template=template,
        place=place,
        main_container=main_container(template, *containers),
        is_single=True,
    )


def worker_role(replicas: int, template: JSON, place: Path, *containers: str) -> Role:
    return Role(
        type=str(LauncherType.WORKER),
        replicas=replicas,
        template=template,
        place=place,
        main_container=main_container(template, *containers),
        command=Command.REPLACED_BY_SSHD,
    )


def launched_roles(specs: tuple[LaunchedReplica, ...], *containers: str) -> tuple[Role, ...]:
    """The roles of the shape with `replicaSpecs`; a launcher without a template of its own
    takes the workers'.
    """
    places: dict[str, Path] = {
        spec.type: ("spec", "replicaSpecs", n, "template") for n, spec in enumerate(specs)
    }
    by_type = {spec.type: spec for spec in specs}
    worker = by_type[LauncherType.WORKER]
    assert worker.template is not None
    launcher = by_type.get(LauncherType.LAUNCHER)
    workers = worker_role(
        worker.replicas, worker.template, places[LauncherType.WORKER], *containers
    )
    if launcher is None or not (launcher.template or {}).get("spec"):
        first = launcher_role(worker.template, places[LauncherType.WORKER], *containers)
    else:
        assert launcher.template is not None
        first = launcher_role(launcher.template, places[LauncherType.LAUNCHER], "launcher")
    return (first, workers)
