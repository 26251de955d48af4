"""Where things are kept on disk: one folder for the engine, in it one for each pod, by uid.

    <data>/pods/<uid>/order.json        what to run
                      state.json        how it stands, replaced as a whole
                      lock              held by the supervisor while it lives
                      taken-away        there: whatever ends it now is not its own doing
                      control.sock      where the agent speaks with the supervisor
                      volumes/<name>/   what is mounted
                      logs/<container>/<run>.log

A uid is made by our own server and is still checked: a path is built from it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_UID: Final = re.compile(r"[0-9a-f-]{1,64}")


def is_uid(text: str) -> bool:
    """Whether a folder may be called so."""
    return _UID.fullmatch(text) is not None


class PodFolder:
    """The places that belong to one pod."""

    def __init__(self, data: Path, uid: str) -> None:
        if not is_uid(uid):
            raise ValueError(f"uid {uid!r}: must be hexadecimal digits and dashes")
        self.uid = uid
        self.path = data / "pods" / uid
        self.order = self.path / "order.json"
        self.state = self.path / "state.json"
        self.lock = self.path / "lock"
        self.taken_away = self.path / "taken-away"
        self.control = self.path / "control.sock"
        self.volumes = self.path / "volumes"
        self.logs = self.path / "logs"

    def log(self, container: str, run: int) -> Path:
        """The log of one run of a container; a rotated part has `.1`, `.2` … appended."""
        return self.logs / container / f"{run}.log"


def pod_folders(data: Path) -> tuple[PodFolder, ...]:
    """Those of all pods, in order; whatever else lies there is nobody's."""
    paths = sorted((data / "pods").glob("*"))
    return tuple(
        PodFolder(data, path.name) for path in paths if is_uid(path.name) and path.is_dir()
    )
