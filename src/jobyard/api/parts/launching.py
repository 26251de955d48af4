"""What the kinds with a launcher share: MPIJob and ColossalAIJob, each in two shapes.

The shapes may be mixed: what either says counts, and where both say something else the
second does. Only the workers can't be given twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.run_mode import on
from jobyard.api.parts.value import Count, PodTemplateOrEmpty, Value
from jobyard.api.rules import pod_name_length
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

DEFAULT_SSHD_PATH = "/usr/sbin/sshd"
DEFAULT_AUTH_MOUNT_PATH = "/root/.ssh"


class LauncherType(StrEnum):
    """The two types of a job that a launcher drives."""

    LAUNCHER = "launcher"
    WORKER = "worker"


class LaunchedRestart(Value):
    """Known from GenericJob, and without effect here."""

    policy: Annotated[str, described("Has no effect.", max_length=63)] = ""
    limit: Annotated[Count | None, described("Has no effect.")] = None


class LaunchedReplica(Value):
    """The launcher, or the workers it drives."""

    type: Annotated[LauncherType, described("Whether this is the launcher or the workers.")]
    replicas: ReplicaCount = 1
    restart_policy: Annotated[
        LaunchedRestart | None,
        described("Has no effect: what is launched can't take a single pod back in."),
    ] = None
    template: Annotated[
        PodTemplateOrEmpty | None,
        described(
            "The pod each runs in, as it is, but its main container's command has no effect; what"
            " the launcher's lacks, its containers or an image, is the workers', without their"
            " GPUs."
        ),
    ] = None


def given(path: str) -> str:
    """CEL for whether a list, map or text is there and not empty, which Go writes for absent."""
    steps = path.split(".")
    there = [f"has({'.'.join(steps[:end])})" for end in range(2, len(steps) + 1)]
    return "(" + " && ".join([*there, f"size({path}) > 0"]) + ")"


_LISTED = given("self.replicaSpecs")


def workers_once(kind: str, config: str) -> tuple[Rule, ...]:
    """The workers stand in `worker` or in `replicaSpecs`; `config` goes with the latter.

    Beside `worker` the other may hold the launcher alone.
    """
    listed = f"({_LISTED} && self.replicaSpecs.exists(r, r.type == 'worker'))"
    return (
        Rule(
            cel=f"!(has(self.worker) && {listed})",
            message="the workers are given twice: use either worker or replicaSpecs",
        ),
        Rule(
            cel=f"has(self.worker) || {_LISTED}",
            message=f"{kind} needs either worker, or {config} with replicaSpecs",
        ),
        Rule(
            cel=f"has(self.worker) || !{_LISTED} || {listed}",
            message="one entry must be of type worker",
            field=".replicaSpecs",
        ),
        Rule(
            cel="!has(self.replicaSpecs) || self.replicaSpecs.all(r, r.type != 'launcher'"
            " || r.replicas == 1)",
            message="there is one launcher: its replicas must be 1",
            field=".replicaSpecs",
        ),
    )


_DEBUGGING = f"(has(self.runMode) && has(self.runMode.debug) && {on('self.runMode.debug')})"


def something_to_launch(launcher: str, programs: tuple[str, ...], advised: str) -> Rule:
    """A job names a program in one of these fields, or is debugged, where a person starts it.

    A resume command of the type that launches is a program too: a job can be made paused.
    """
    named = " || ".join(given(f"self.{path}") for path in programs)
    resumed = (
        "has(self.runMode) && has(self.runMode.pause) && has(self.runMode.pause.resumeSpecs)"
        f" && self.runMode.pause.resumeSpecs.exists(o, o.type == '{launcher}'"
        " && (has(o.command) && size(o.command) > 0 || has(o.args) && size(o.args) > 0))"
    )
    return Rule(
        cel=f"{_DEBUGGING} || {named} || ({resumed})",
        message=f"there is nothing to launch: {advised}, or debug the job"
        " (runMode.debug.enabled: true) and start something by hand",
    )


def worker_container(*names: str) -> Rule:
    """The workers of the second shape have the container that sshd runs in."""
    wanted = " or ".join(names)
    listed = ", ".join(f"'{name}'" for name in names)
    return Rule(
        cel="!has(self.replicaSpecs) || self.replicaSpecs.all(r, r.type != 'worker'"
        " || (has(r.template) && has(r.template.spec) && has(r.template.spec.containers)"
        f" && r.template.spec.containers.exists(c, c.name in [{listed}])))",
        message=f"the workers' template must have a container named {wanted}",
        field=".replicaSpecs",
    )


def keys_unmounted(*path_fields: str) -> tuple[Rule, ...]:
    """No volume of the user's lies where the job's keys appear.

    That is the first of these fields of `ssh` that says another place than the default.
    """
    place = f"'{DEFAULT_AUTH_MOUNT_PATH}'"
    for field in reversed(path_fields):
        said = f"self.ssh.{field}"
        place = f"({given(said)} && {said} != '{DEFAULT_AUTH_MOUNT_PATH}' ? {said} : {place})"
    free = (
        ".spec.containers.all(c, !has(c.volumeMounts)"
        f" || c.volumeMounts.all(m, m.mountPath != {place}"
        f" && !m.mountPath.startsWith({place} + '/')))"
    )
    message = (
        f"no volume may be mounted at ssh.{path_fields[0]} ({DEFAULT_AUTH_MOUNT_PATH} if absent):"
        " the keys of the job appear there"
    )
    return (
        Rule(
            cel=f"!has(self.worker) || self.worker.template{free}",
            message=message,
            field=".worker.template.spec.containers",
        ),
        Rule(
            cel="!has(self.replicaSpecs) || self.replicaSpecs.all(r, !has(r.template)"
            " || !has(r.template.spec) || !has(r.template.spec.containers)"
            f" || r.template{free})",
            message=message,
            field=".replicaSpecs",
        ),
    )


_WORKERS = (
    "(has(self.spec.worker) ? self.spec.worker.replicas :"
    " has(self.spec.replicaSpecs) ?"
    " self.spec.replicaSpecs.filter(r, r.type == 'worker').map(r, r.replicas).sum() : 1)"
)

# `<job>-worker-<rank>`, in either shape; `<job>-launcher` is never longer.
LAUNCHER_POD_NAMES = (pod_name_length(f"[{_WORKERS}]", "'worker'", "r"),)
