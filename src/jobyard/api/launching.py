"""What the kinds with a launcher share: MPIJob and ColossalAIJob, each in two shapes."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from jobyard.api.replicas import ReplicaCount
from jobyard.api.rules import pod_name_length
from jobyard.api.value import PodTemplateOrEmpty, Value
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule

LAUNCHER_TYPES = "['launcher', 'worker']"
DEFAULT_SSHD_PATH = "/usr/sbin/sshd"
DEFAULT_AUTH_MOUNT_PATH = "/root/.ssh"


class LauncherType(StrEnum):
    """The two types of a job that a launcher drives."""

    LAUNCHER = "launcher"
    WORKER = "worker"


class LaunchedReplica(Value):
    """The launcher, or the workers it drives."""

    type: Annotated[LauncherType, described("Whether this is the launcher or the workers.")]
    replicas: ReplicaCount = 1
    template: Annotated[
        PodTemplateOrEmpty | None,
        described("The pod each runs in; an empty one for the launcher means the workers'."),
    ] = None


def one_shape(kind: str, first: tuple[str, ...], second: tuple[str, ...]) -> tuple[Rule, ...]:
    """A manifest is of one shape or the other; the first name of each must be there."""
    has_first = " || ".join(f"has(self.{name})" for name in first)
    has_second = " || ".join(f"has(self.{name})" for name in second)
    return (
        Rule(
            cel=f"!(({has_first}) && ({has_second}))",
            message=f"two shapes of {kind} are mixed: use either {' and '.join(first)},"
            f" or {' and '.join(second)}",
        ),
        Rule(
            cel=f"has(self.{first[0]}) || has(self.{second[-1]})",
            message=f"{kind} needs either {first[0]}, or {' with '.join(second)}",
        ),
        Rule(
            cel=f"!has(self.{second[-1]}) || self.{second[-1]}.exists(r, r.type == 'worker')",
            message="one entry must be of type worker",
            field=f".{second[-1]}",
        ),
        Rule(
            cel=f"!has(self.{second[-1]}) || self.{second[-1]}.all(r, r.type != 'launcher'"
            " || r.replicas == 1)",
            message="there is one launcher: its replicas must be 1",
            field=f".{second[-1]}",
        ),
    )


def worker_container(*names: str) -> Rule:
    """The workers of the second shape have the container that sshd runs in."""
    wanted = " or ".join(names)
    listed = ", ".join(f"'{name}'" for name in names)
    return Rule(
        cel="!has(self.replicaSpecs) || self.replicaSpecs.all(r, r.type != 'worker'"
        " || (has(r.template) && has(r.template.spec)"
        f" && r.template.spec.containers.exists(c, c.name in [{listed}])))",
        message=f"the workers' template must have a container named {wanted}",
        field=".replicaSpecs",
    )


def keys_unmounted(path_field: str) -> tuple[Rule, ...]:
    """No volume of the user's lies where the job's keys appear (`self.ssh.<path_field>`)."""
    path = f"(has(self.ssh) ? self.ssh.{path_field} : '{DEFAULT_AUTH_MOUNT_PATH}')"
    free = (
        ".spec.containers.all(c, !has(c.volumeMounts)"
        f" || c.volumeMounts.all(m, m.mountPath != {path}"
        f" && !m.mountPath.startsWith({path} + '/')))"
    )
    message = (
        f"no volume may be mounted at ssh.{path_field} ({DEFAULT_AUTH_MOUNT_PATH} if absent):"
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
            f" || !has(r.template.spec) || r.template{free})",
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
