"""Which replica of a TaskSet a pod is: by it, replicas know one another as `<role>-<index>`.

On Octopus' platform those names come from poddiscovery: an init container writes them into a file
that all pods of a TaskSet mount at /etc/hosts, from a file system that all nodes share. On one
machine the agent's own hosts files have them, so `without_discovery` leaves both out. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from jobyard.node.objects.pod_object import Container, PodObject, PodSpec
from jobyard.node.objects.volume_source import Volume
from jobyard.numerals import INT32_MAX, whole_number
from jobyard.plan.lowering.names import ROLE_INDEX, TASK_ROLE, TASKSET, TASKSET_UID

HOSTS_PATH: Final = "/etc/hosts"
_DISCOVERY: Final = "poddiscovery"
_SHELLS: Final = ("sh", "bash", "dash", "ash")
# A label's value may have capitals and underscores; a role's name has not.
_ROLE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class TaskSetReplica(msgspec.Struct, frozen=True):
    """One replica, of the TaskSet with this uid."""

    taskset: str
    host: str


def replica_of(pod: PodObject) -> TaskSetReplica | None:
    """None for a pod of anything else, or one whose labels make no sense."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    role, taskset = labels.get(TASK_ROLE, ""), annotations.get(TASKSET_UID, "")
    index = whole_number(annotations.get(ROLE_INDEX, ""), INT32_MAX)
    if TASKSET not in labels or not taskset or index is None or not _ROLE.fullmatch(role):
        return None
    return TaskSetReplica(taskset, f"{role}-{index}")


def without_discovery(pod: PodObject) -> PodObject:
    """The pod as it runs here: without poddiscovery, and without the file that it would write.

    What poddiscovery alone had mounted goes too: nothing of it has to be there, or be made.
    """
    spec = pod.spec
    if (not spec.volumes and not spec.init_containers) or replica_of(pod) is None:
        return pod
    left_out = [each for each in spec.init_containers if is_discovery(each)]
    # Where there is one, whatever stands there is its file; a role may do without, and share it.
    hosts = {volume.name for volume in spec.volumes if left_out or _is_shared_file(volume)}
    init = tuple(_without(hosts, each) for each in spec.init_containers if each not in left_out)
    containers = tuple(_without(hosts, each) for each in spec.containers)
    fitted = msgspec.structs.replace(spec, init_containers=init, containers=containers)
    if fitted == spec:
        return pod
    unused = _mounted(spec) - _mounted(fitted)
    volumes = tuple(each for each in spec.volumes if each.name not in unused)
    names = ", ".join(each.name for each in left_out)
    what = f"init container {names} and a hosts file" if names else "a hosts file"
    note = (
        f"{what} at {HOSTS_PATH}: left out on one machine, where replicas find one another as"
        " <role>-<index> without poddiscovery"
    )
    fitted = msgspec.structs.replace(fitted, volumes=volumes)
    return msgspec.structs.replace(pod, spec=fitted, note=note)


def _is_shared_file(volume: Volume) -> bool:
    return volume.host_path is not None and volume.host_path.type == "FileOrCreate"


def is_discovery(container: Container) -> bool:
    """By its image, `…/poddiscovery:v1` or `…/taskset:poddiscovery-1.0`, or by its program."""
    path, _, rest = container.image.partition("@")[0].rpartition("/")[2].partition(":")
    if path == _DISCOVERY or rest.startswith(_DISCOVERY):
        return True
    return posixpath.basename(next(_program(container), "")) == _DISCOVERY


def _program(container: Container) -> Iterator[str]:
    """What it runs: its first word, or the first that it has a shell run."""
    words = (*container.command, *container.args)
    if len(words) > 2 and posixpath.basename(words[0]) in _SHELLS and words[1] == "-c":
        words = tuple(words[2].removeprefix("exec ").split())
    yield from words[:1]


def _without(hosts: Collection[str], container: Container) -> Container:
    mounts = tuple(
        each
        for each in container.volume_mounts
        if each.name not in hosts
        or posixpath.normpath(f"/{each.mount_path.lstrip('/')}") != HOSTS_PATH
    )
    return msgspec.structs.replace(container, volume_mounts=mounts)


def _mounted(spec: PodSpec) -> set[str]:
    containers = (*spec.init_containers, *spec.containers)
    return {mount.name for each in containers for mount in each.volume_mounts}
