"""What is allowed but has no effect, or what a pod's own validation will refuse.

Warnings, not errors: the API server takes such a job. The tools print them, and the
controller sends them as events.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from jobyard.api.parts.quantity import Quantity, QuantityError
from jobyard.api.podgroup import PodGroup, PodGroupSpec
from jobyard.api.queue import Queue, QueueSpec
from jobyard.plan.lowering.description import JSON, Command, Description, Role
from jobyard.plan.lowering.modes import is_debugging
from jobyard.plan.lowering.ssh import with_own_sshd
from jobyard.plan.objects.tensorboard import tensorboard_advice
from jobyard.schema.finding import Finding, Path, warning

# How many of them become events of a job: a template can hold thousands of mistakes.
ADVICE_MAX = 20
_NAMES_MAX = 10


def advice(description: Description) -> Iterator[Finding]:
    # A launcher and its workers may share one template; it is looked at once.
    seen: set[Path] = set()
    yield from description.warnings
    if description.tensorboard is not None:
        yield from tensorboard_advice(description.tensorboard)
    if not is_debugging(description.run_mode):
        yield from _program_advice(description)
    yield from _resume_advice(description)
    for role in description.roles:
        yield from _command_advice(role)
        if role.place in seen:
            continue
        seen.add(role.place)
        yield from _restart_advice(role)
        if role.place[-1] == "template":
            yield from _pod_advice(role.template.get("spec", {}), (*role.place, "spec"))


def scheduling_advice(obj: Queue | PodGroup) -> Iterator[Finding]:
    """The same of what has no replicas."""
    match obj.spec:
        case QueueSpec(resource_shape_profile=str(profile)) if profile:
            yield warning(
                ("spec", "resourceShapeProfile"),
                "has no effect: Jobyard has no templates for the size of workloads",
            )
        case PodGroupSpec() as spec:
            if spec.min_member and spec.min_member < spec.needed:
                yield warning(
                    ("spec", "minMember"),
                    f"is {spec.min_member}, and the roles need {spec.needed} together: that counts",
                )
            if spec.topology_policy:
                yield warning(
                    ("spec", "topologyPolicy"),
                    "has no effect: whoever places the pods decides how near they are",
                )


def _program_advice(description: Description) -> Iterator[Finding]:
    """A launcher with nothing to launch; in debug mode a person does that by hand."""
    for role in description.roles:
        start = description.start(role, 0)
        if start.program == ():
            yield warning(("spec",), "no program to launch: the job would fail at once")
        elif role.command is Command.REPLACED_BY_TORCHRUN:
            yield from _script_advice(role)


def _resume_advice(description: Description) -> Iterator[Finding]:
    """A worker that only waits for logins, and after a pause would run something else."""
    pause = description.run_mode.pause if description.run_mode is not None else None
    waiting = {
        role.type
        for role in description.roles
        if role.command is Command.REPLACED_BY_SSHD and role.serves
    }
    for n, spec in enumerate(pause.resume_specs if pause is not None else ()):
        command = (*spec.command, *spec.args)
        if command and spec.type in waiting and not with_own_sshd(command):
            yield warning(
                ("spec", "runMode", "pause", "resumeSpecs", n, "command"),
                "runs in place of the worker's sshd: after a pause the launcher would wait for"
                " that in vain; name no more than an sshd, or leave it out",
            )


def _script_advice(role: Role) -> Iterator[Finding]:
    for n, container in enumerate(role.containers):
        if container.get("name") == role.main_container and not container.get("args"):
            path: Path = (*role.place, "spec", "containers", n)
            yield warning(path, "has no args: torchrun takes its script from there")


def _restart_advice(role: Role) -> Iterator[Finding]:
    # A numbered pod's template is TaskSet's or a batch Job's, where the policy has its place.
    if not role.is_numbered and role.template.get("spec", {}).get("restartPolicy"):
        yield warning(
            (*role.place, "spec", "restartPolicy"),
            "has no effect: the job decides on restarts, its pods always get Never",
        )


def _command_advice(role: Role) -> Iterator[Finding]:
    if role.command is Command.KEPT:
        return
    for n, container in enumerate(role.containers):
        path: Path = (*role.place, "spec", "containers", n)
        if container.get("name") != role.main_container:
            continue
        if container.get("command"):
            yield warning((*path, "command"), f"has no effect: it is {role.command}")
        if container.get("args") and role.command is Command.REPLACED_BY_SSHD:
            yield warning((*path, "args"), f"has no effect: it is {role.command}")


def _pod_advice(pod: JSON, path: Path) -> Iterator[Finding]:
    volumes = {volume.get("name") for volume in pod.get("volumes", ())}
    for listed in ("initContainers", "containers"):
        for n, container in enumerate(pod.get(listed, ())):
            place: Path = (*path, listed, n)
            if not container.get("image"):
                yield warning((*place, "image"), "is missing: Kubernetes refuses such a pod")
            yield from _resource_advice(container.get("resources", {}), (*place, "resources"))
            for m, mount in enumerate(container.get("volumeMounts", ())):
                if mount.get("name") not in volumes:
                    yield warning(
                        (*place, "volumeMounts", m, "name"),
                        f"names the volume {mount.get('name')}, which is not among the pod's"
                        f" volumes: {_listed(volumes)}",
                    )


def _listed(names: Set[Any]) -> str:
    shown = sorted(map(str, names))[:_NAMES_MAX]
    more = len(names) - len(shown)
    return (", ".join(shown) or "it has none") + (f" and {more} more" if more else "")


def _resource_advice(resources: JSON, path: Path) -> Iterator[Finding]:
    requests: dict[str, Any] = resources.get("requests", {})
    limits: dict[str, Any] = resources.get("limits", {})
    amounts: dict[tuple[str, str], Quantity] = {}
    for place, given in (("limits", limits), ("requests", requests)):
        for name, text in given.items():
            try:
                amounts[place, name] = Quantity.of(text)
            except QuantityError as problem:
                yield warning((*path, place, name), f"{problem}: Kubernetes refuses such a pod")
    for name, limit in limits.items():
        most, least = amounts.get(("limits", name)), amounts.get(("requests", name))
        if most is not None and least is not None and most < least:
            yield warning(
                (*path, "limits", name),
                f"is {limit}, below the request of {requests[name]}: Kubernetes refuses such a"
                " pod; raise the limit or lower the request",
            )
