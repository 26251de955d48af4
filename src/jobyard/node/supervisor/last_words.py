"""The message that a container leaves behind: a file at a path of its own, or the end of its log.

The file is in the pod's folder and is mounted into the container; where a cage can't mount,
there is no such message. At most 4 KiB for one container, 12 KiB for a pod, as kubelet.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from jobyard.node.logs.log_files import numbered, numbers_of
from jobyard.node.logs.log_places import last_lines
from jobyard.node.logs.log_text import LogText
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import ContainerOrder, Mount, PodOrder

_BYTES_MAX: Final = 4096
_POD_BYTES_MAX: Final = 12 * 1024
_LOG_BYTES_MAX: Final = 2048
_LOG_LINES_MAX: Final = 80


def message_file(folder: PodFolder, container: str, run: int) -> Path:
    return folder.path / "messages" / container / str(run)


def with_message_file(folder: PodFolder, container: ContainerOrder, run: int) -> ContainerOrder:
    """The order with the file mounted, which is made here."""
    if not container.termination_message_path:
        return container
    path = message_file(folder, container.name, run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        # The command may run as another user than the supervisor.
        path.chmod(0o666)
    except OSError:
        # No message is a smaller loss than no container.
        return container
    mount = Mount(target=container.termination_message_path, source=str(path))
    return replace(container, mounts=(*container.mounts, mount))


def last_words(
    folder: PodFolder, order: PodOrder, container: ContainerOrder, run: int, *, has_failed: bool
) -> str:
    """The message of a run that ended and whose log is complete."""
    count = len(order.init_containers) + len(order.containers)
    limit = min(_BYTES_MAX, _POD_BYTES_MAX // max(count, 1))
    text = b""
    with contextlib.suppress(OSError), message_file(folder, container.name, run).open("rb") as file:
        text = file.read(limit)
    if not text and has_failed and container.message_from_logs:
        with contextlib.suppress(OSError):
            text = _end_of_log(folder.log(container.name, run))[-min(limit, _LOG_BYTES_MAX) :]
    return text.decode(errors="replace")


def _end_of_log(path: Path) -> bytes:
    descriptors: list[int] = []
    try:
        parts = (*(numbered(path, n) for n in numbers_of(path)[-1:]), path)
        descriptors.extend(os.open(part, os.O_RDONLY | os.O_CLOEXEC) for part in parts)
        file, offset = last_lines(descriptors, _LOG_LINES_MAX)
        text = LogText(timestamps=False)
        shown = b""
        for descriptor in descriptors[file:]:
            data = os.pread(descriptor, os.fstat(descriptor).st_size - offset, offset)
            shown += text.show(data[: data.rfind(b"\n") + 1])
            offset = 0
        return shown
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
