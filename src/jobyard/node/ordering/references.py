"""Which config maps and secrets a pod refers to, and whether they are mounted.

The agent looks them up before it orders, and looks again when one of the mounted ones changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.objects.volume_source import Volume

CONFIG_MAP = "ConfigMap"
SECRET = "Secret"  # noqa: S105 - the name of a kind


class Wanted(msgspec.Struct, frozen=True, order=True):
    """One object in the pod's own namespace."""

    kind: str
    name: str


def variables_wanted(pod: PodObject) -> frozenset[Wanted]:
    """What variables come from."""
    everyone = (*pod.spec.init_containers, *pod.spec.containers)
    return frozenset(wanted for container in everyone for wanted in _of_container(container))


def mounted_wanted(pod: PodObject) -> frozenset[Wanted]:
    """What files come from; a change of it reaches a running pod."""
    return frozenset(wanted for volume in pod.spec.volumes for wanted in of_volume(volume))


def has_files_about_itself(pod: PodObject) -> bool:
    """Whether a change of its labels or annotations has to reach its files."""
    return any(
        volume.downward_api is not None
        or any(
            source.downward_api is not None
            for source in (volume.projected.sources if volume.projected is not None else ())
        )
        for volume in pod.spec.volumes
    )


def _of_container(container: Container) -> Iterator[Wanted]:
    for source in container.env_from:
        if source.config_map_ref is not None:
            yield Wanted(CONFIG_MAP, source.config_map_ref.name)
        if source.secret_ref is not None:
            yield Wanted(SECRET, source.secret_ref.name)
    for variable in container.env:
        if variable.value_from is None:
            continue
        if variable.value_from.config_map_key_ref is not None:
            yield Wanted(CONFIG_MAP, variable.value_from.config_map_key_ref.name)
        if variable.value_from.secret_key_ref is not None:
            yield Wanted(SECRET, variable.value_from.secret_key_ref.name)


def of_volume(volume: Volume) -> Iterator[Wanted]:
    """The same for one volume."""
    if volume.config_map is not None:
        yield Wanted(CONFIG_MAP, volume.config_map.name)
    if volume.secret is not None:
        yield Wanted(SECRET, volume.secret.secret_name)
    for source in volume.projected.sources if volume.projected is not None else ():
        if source.config_map is not None:
            yield Wanted(CONFIG_MAP, source.config_map.name)
        if source.secret is not None:
            yield Wanted(SECRET, source.secret.name)
