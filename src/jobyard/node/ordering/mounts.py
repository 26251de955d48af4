"""Where the volumes of a pod stand in one of its containers.

Paths are checked here once more, though an API server refuses the same: a mount is made by a
process that may be root.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from jobyard.node.objects.pod_object import Container, VolumeMount
from jobyard.node.objects.surroundings import Placed
from jobyard.node.ordering.expansion import expanded, unknown_names
from jobyard.node.ordering.problems import NeverError
from jobyard.node.shared.order import Mount, MountType


def mounts_of(
    container: Container, volumes: Mapping[str, Placed], values: Mapping[str, str]
) -> tuple[Mount, ...]:
    """All mounts, parents before children."""
    mounts = [_mount(container, mount, volumes, values) for mount in container.volume_mounts]
    return tuple(sorted(mounts, key=lambda mount: mount.target.count("/")))


def _mount(
    container: Container,
    mount: VolumeMount,
    volumes: Mapping[str, Placed],
    values: Mapping[str, str],
) -> Mount:
    placed = volumes.get(mount.name)
    if placed is None:
        raise NeverError(
            f"volumeMount {mount.mount_path}: the pod has no volume {mount.name!r}",
            container=container.name,
        )
    target = _target(container, mount)
    read_only = mount.read_only or placed.read_only
    below = _below(container, mount, values)
    if placed.is_memory:
        return Mount(
            target=target,
            type=MountType.TMPFS,
            read_only=read_only,
            size_bytes=placed.size_bytes,
        )
    if below:
        source = posixpath.join(placed.source, below)
        return Mount(target=target, source=source, read_only=read_only, within=placed.source)
    within = "" if placed.is_of_host else placed.source
    return Mount(target=target, source=placed.source, read_only=read_only, within=within)


def _target(container: Container, mount: VolumeMount) -> str:
    path = mount.mount_path
    if not path or "\0" in path or ".." in path.split("/"):
        raise NeverError(
            f"mountPath {path!r} of volume {mount.name}: must be a path without '..'",
            container=container.name,
        )
    # Kubernetes takes a relative path as one from the root.
    target = posixpath.normpath(f"/{path.lstrip('/')}")
    if target == "/":
        raise NeverError(
            f"mountPath {path!r} of volume {mount.name}: the root itself can't be a volume",
            container=container.name,
        )
    return target


def _below(container: Container, mount: VolumeMount, values: Mapping[str, str]) -> str:
    path = mount.sub_path
    if mount.sub_path_expr:
        unknown = unknown_names(mount.sub_path_expr, values)
        if unknown:
            raise NeverError(
                f"subPathExpr {mount.sub_path_expr!r} of volume {mount.name}:"
                f" the container has no variable {unknown[0]}",
                container=container.name,
            )
        path = expanded(mount.sub_path_expr, values, f"subPathExpr of volume {mount.name}")
    if not path:
        return ""
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise NeverError(
            f"subPath {path!r} of volume {mount.name}: must stay inside the volume",
            container=container.name,
        )
    return posixpath.normpath(path)
