"""The files of a volume that is made of objects: config maps, secrets, facts about the pod.

Pure. Modes are Kubernetes': an item's own, else the volume's default. A missing object, or a
missing key that an item names, is a VolumeError that may pass, unless it is optional.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.surroundings import ConfigMap, Found, Setup
from jobyard.node.objects.volume_source import DownwardItem, Item, Projection, Volume
from jobyard.node.ordering.downward import field_text, resource_text
from jobyard.node.ordering.problems import OrderingError

# What a cluster puts into every namespace for pods that call its API.
ROOT_CA: Final = "kube-root-ca.crt"
PAGE: Final = "docs/embedded-server.md"
_NOT_HAD: Final = (
    "can't be had on one machine: pods don't call the embedded API server, which knows its owner"
    f" and no service accounts; leave the source out ({PAGE})"
)
_NO_ROOT_CA: Final = (
    f"the embedded engine makes none, because pods don't call its API server ({PAGE})"
)


class VolumeError(Exception):
    """A volume that can't be had; `may_pass` tells whether waiting makes sense."""

    def __init__(self, volume: str, message: str, *, may_pass: bool) -> None:
        super().__init__(message)
        self.volume = volume
        self.may_pass = may_pass


class File(msgspec.Struct, frozen=True):
    """One file; `mode` has the permission bits."""

    data: bytes
    mode: int


class About(msgspec.Struct, frozen=True):
    """Whose volume it is, and what was looked up for it."""

    pod: PodObject
    setup: Setup
    found: Found


Files = dict[str, File]


def is_made_of_objects(volume: Volume) -> bool:
    """Whether `files_of` has anything to say about it."""
    return any(
        source is not None
        for source in (volume.config_map, volume.secret, volume.projected, volume.downward_api)
    )


def files_of(volume: Volume, about: About) -> Files:
    """Every file by its path in the volume; of two with the same path the later one stays."""
    out: Files = {}
    for path, file in _files(volume, about):
        check_path(volume.name, path)
        out[path] = file
    return out


def check_path(volume: str, path: str) -> None:
    """A path from an object may not lead out of the volume, nor take the place of its links."""
    parts = path.split("/")
    if (
        not path
        or path.startswith("/")
        or "\0" in path
        or any(part in ("", ".", "..") for part in parts)
        or parts[0].startswith("..")
    ):
        raise VolumeError(
            volume,
            f"path {path!r}: must be relative, without '..' and not begin with it",
            may_pass=False,
        )


def _files(volume: Volume, about: About) -> Iterator[tuple[str, File]]:
    found, name = about.found, volume.name
    if volume.config_map is not None:
        source = volume.config_map
        values = _values(name, found.config_maps, "configmap", source.name, source.optional)
        yield from _chosen(
            volume, values, source.items, source.default_mode, is_optional=source.optional
        )
    elif volume.secret is not None:
        secret = volume.secret
        values = _values(name, found.secrets, "secret", secret.secret_name, secret.optional)
        yield from _chosen(
            volume, values, secret.items, secret.default_mode, is_optional=secret.optional
        )
    elif volume.downward_api is not None:
        yield from _facts(
            volume, volume.downward_api.items, volume.downward_api.default_mode, about
        )
    elif volume.projected is not None:
        for part in volume.projected.sources:
            yield from _projected(volume, part, volume.projected.default_mode, about)


def _projected(
    volume: Volume, part: Projection, mode: int, about: About
) -> Iterator[tuple[str, File]]:
    found, name = about.found, volume.name
    if part.config_map is not None:
        source = part.config_map
        values = _values(name, found.config_maps, "configmap", source.name, source.optional)
        yield from _chosen(volume, values, source.items, mode, is_optional=source.optional)
    if part.secret is not None:
        secret = part.secret
        values = _values(name, found.secrets, "secret", secret.name, secret.optional)
        yield from _chosen(volume, values, secret.items, mode, is_optional=secret.optional)
    if part.downward_api is not None:
        yield from _facts(volume, part.downward_api.items, mode, about)
    if part.others:
        # A file that is missing in silence is looked for much later, and elsewhere.
        raise VolumeError(name, f"{part.others} {_NOT_HAD}", may_pass=True)


def _values(
    volume: str, among: Mapping[str, ConfigMap], word: str, name: str, is_optional: bool
) -> Mapping[str, bytes]:
    found = among.get(name)
    if found is not None:
        return {**found.data, **found.binary}
    if is_optional:
        return {}
    hint = f"; {_NO_ROOT_CA}" if name == ROOT_CA else ""
    raise VolumeError(volume, f'{word} "{name}" not found{hint}', may_pass=True)


def _chosen(
    volume: Volume,
    values: Mapping[str, bytes],
    items: Sequence[Item],
    mode: int,
    *,
    is_optional: bool,
) -> Iterator[tuple[str, File]]:
    if not items:
        for key, value in values.items():
            yield key, File(value, mode)
        return
    for item in items:
        value_or_none = values.get(item.key)
        if value_or_none is None:
            if is_optional:
                continue
            raise VolumeError(
                volume.name, f"references non-existent config key: {item.key}", may_pass=True
            )
        yield item.path, File(value_or_none, item.mode if item.mode is not None else mode)


def _facts(
    volume: Volume, items: Sequence[DownwardItem], mode: int, about: About
) -> Iterator[tuple[str, File]]:
    pod, setup = about.pod, about.setup
    for item in items:
        try:
            text = _fact(item, pod, setup, about.found)
        except OrderingError as error:
            raise VolumeError(volume.name, str(error), may_pass=False) from error
        yield item.path, File(text.encode(), item.mode if item.mode is not None else mode)


def _fact(item: DownwardItem, pod: PodObject, setup: Setup, found: Found) -> str:
    if item.field_ref is not None:
        return field_text(pod, found.address, setup, item.field_ref.field_path)
    if item.resource_field_ref is None:
        return ""
    reference = item.resource_field_ref
    everyone = (*pod.spec.containers, *pod.spec.init_containers)
    container = next((each for each in everyone if each.name == reference.container_name), None)
    if container is None:
        raise OrderingError(
            f"resourceFieldRef: the pod has no container {reference.container_name!r}"
        )
    return resource_text(container, setup, reference.resource, reference.divisor)
