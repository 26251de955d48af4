"""Launcher and workers, from either shape of a kind that has them."""

from __future__ import annotations

import msgspec

from jobyard.api.launching import LaunchedReplica, LauncherType
from jobyard.api.run_policy import CleanUpPolicy, LauncherRunPolicy
from jobyard.plan.description import JSON, Command, Ending, Role, main_container, only
from jobyard.schema.finding import Path


def launcher_role(template: JSON, place: Path, *containers: str) -> Role:
    """The launcher with a template of its own, which is used as it is."""
    return Role(
        type=str(LauncherType.LAUNCHER),
        replicas=1,
        template=template,
        place=place,
        main_container=main_container(template, *containers),
        is_single=True,
    )


def launcher_like(worker: JSON, place: Path, *containers: str) -> Role:
    """The launcher with the workers' template, but without their GPUs: it only waits."""
    return launcher_role(_without_devices(worker), place, *containers)


def worker_role(replicas: int, template: JSON, place: Path, *containers: str) -> Role:
    return Role(
        type=str(LauncherType.WORKER),
        replicas=replicas,
        template=template,
        place=place,
        main_container=main_container(template, *containers),
        command=Command.REPLACED_BY_SSHD,
        must_not_end=True,
    )


# The launcher decides; a worker whose sshd ended can't be taken back in.
LAUNCHED = Ending(
    success=(only(LauncherType.LAUNCHER, 0),),
    vital_roles=frozenset({LauncherType.LAUNCHER.value, LauncherType.WORKER.value}),
)


def cleaned_workers(workers: Role, policy: LauncherRunPolicy) -> Role:
    """Workers that go at the end, if the job says so; a launcher always stays for its log."""
    chosen = CleanUpPolicy.ALL if policy.clean_up_workers else CleanUpPolicy.NONE
    return msgspec.structs.replace(workers, clean_up=chosen)


def launched_roles(specs: tuple[LaunchedReplica, ...], *containers: str) -> tuple[Role, Role]:
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
        first = launcher_like(worker.template, places[LauncherType.WORKER], *containers)
    else:
        assert launcher.template is not None
        first = launcher_role(launcher.template, places[LauncherType.LAUNCHER], "launcher")
    return (first, workers)


def _without_devices(template: JSON) -> JSON:
    """The template without GPUs and the like: a launcher only waits and starts."""
    pod = template["spec"]
    containers = [_container_without_devices(container) for container in pod["containers"]]
    return {**template, "spec": {**pod, "containers": containers}}


def _container_without_devices(container: JSON) -> JSON:
    resources = container.get("resources")
    if not resources:
        return container
    plain = {
        field: {name: amount for name, amount in amounts.items() if "/" not in name}
        for field, amounts in resources.items()
        if field in ("limits", "requests")
    }
    return {**container, "resources": {**resources, **plain}}
