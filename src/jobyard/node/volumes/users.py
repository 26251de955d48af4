"""Who uses a folder of the machine: the pods of an engine that mount it, or something below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from jobyard.node.hub.starting import supervisor_of
from jobyard.node.shared.folders import PodFolder, pod_folders
from jobyard.node.shared.order import PodOrder


def users_of(data: Path, folder: Path, *, also_ended: bool = False) -> Iterator[str]:
    """The names of pods that run; or of all that are there, whether they run or not."""
    real = folder.resolve()
    for pod in pod_folders(data):
        if (also_ended or supervisor_of(pod.path)) and (order := _order(pod)) is not None:
            containers = (*order.init_containers, *order.containers)
            sources = (mount.source for each in containers for mount in each.mounts)
            if any(Path(one).resolve().is_relative_to(real) for one in sources if one):
                yield f"pod {order.namespace}/{order.name}"


def _order(pod: PodFolder) -> PodOrder | None:
    try:
        return msgspec.json.decode(pod.order.read_bytes(), type=PodOrder)
    except (OSError, msgspec.MsgspecError):
        return None
