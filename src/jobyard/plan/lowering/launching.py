"""Launcher and workers, from either shape of a kind that has them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobyard.api.parts.launching import LaunchedReplica, LauncherType
from jobyard.api.parts.run_policy import CleanUpPolicy, LauncherRunPolicy
from jobyard.plan.lowering.description import JSON, Command, Ending, Role, main_container, only
from jobyard.schema.finding import Finding, Path, warning


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
        serves=True,
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


def listed_workers(specs: tuple[LaunchedReplica, ...], *containers: str) -> Role:
    """The workers of the shape with `replicaSpecs`."""
    n, worker = next(each for each in enumerate(specs) if each[1].type is LauncherType.WORKER)
    assert worker.template is not None
    place: Path = ("spec", "replicaSpecs", n, "template")
    return worker_role(worker.replicas, worker.template, place, *containers)


def listed_launcher(specs: tuple[LaunchedReplica, ...], workers: Role, *containers: str) -> Role:
    """The launcher of that shape, which may stand beside the workers of the other.

    Its template is used as it is, devices and all. What it lacks is the workers': the image of a
    container, or all containers, and then the rest of their pod too.
    """
    for n, spec in enumerate(specs):
        if spec.type is LauncherType.LAUNCHER and spec.template:
            own: JSON = spec.template
            if own.get("spec", {}).get("containers"):
                place: Path = ("spec", "replicaSpecs", n, "template")
                return launcher_role(_with_images(own, workers), place, "launcher")
            return launcher_like(_laid_over(workers.template, own), workers.place, *containers)
    return launcher_like(workers.template, workers.place, *containers)


def main_of(role: Role) -> JSON:
    return next(c for c in role.containers if c["name"] == role.main_container)


def _with_images(template: JSON, workers: Role) -> JSON:
    image = main_of(workers).get("image", "")
    pod = template["spec"]
    containers = [c if c.get("image") else {**c, "image": image} for c in pod["containers"]]
    return {**template, "spec": {**pod, "containers": containers}}


def _laid_over(template: JSON, own: JSON) -> JSON:
    """The workers' template with what the launcher's own says, which has no containers."""
    pod, said = template["spec"], {k: v for k, v in own.get("spec", {}).items() if v}
    if "volumes" in said:
        theirs = {volume["name"] for volume in said["volumes"]}
        shared = [volume for volume in pod.get("volumes", ()) if volume["name"] not in theirs]
        said["volumes"] = [*shared, *said["volumes"]]
    metadata = {**template.get("metadata", {}), **own.get("metadata", {})}
    return {**({"metadata": metadata} if metadata else {}), "spec": {**pod, **said}}


def launching_advice(specs: tuple[LaunchedReplica, ...], launcher: Role) -> Iterator[Finding]:
    """What of `replicaSpecs` has no effect where a launcher starts everything."""
    for n, spec in enumerate(specs):
        place: Path = ("spec", "replicaSpecs", n)
        restart = spec.restart_policy
        if restart is not None and (restart.policy or restart.limit):
            yield warning(
                (*place, "restartPolicy"),
                "has no effect: what is launched can't take a single pod back in, so none restarts",
            )
        # A launcher that is like the workers has their place, and no command of its own.
        if spec.type is not LauncherType.LAUNCHER or launcher.place != (*place, "template"):
            continue
        for m, container in enumerate(launcher.containers):
            for field in ("command", "args"):
                if container["name"] == launcher.main_container and container.get(field):
                    yield warning(
                        (*launcher.place, "spec", "containers", m, field),
                        "has no effect: the launcher starts what the job says",
                    )


def overruled(path: Path, value: object, by: str, other: object) -> Iterator[Finding]:
    """A field that says one thing where another, which counts, says something else."""
    if value and other and value != other:
        yield warning(path, f"has no effect: {by} says something else, and that counts")


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
