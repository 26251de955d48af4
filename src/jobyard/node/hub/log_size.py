"""Keeps the logs of the hub, its supervisors and the way outside within bounds.

Many processes hold these files open, all to append. So a full one is copied aside and emptied:
what is written just then may be lost, and everybody goes on writing at its beginning.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 4 * 2**20


def keep_small(path: Path) -> None:
    """The last of what was emptied is in `<name>.1`, and has a bound as well."""
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        if size <= LOG_BYTES_MAX:
            return
        beside = path.with_name(f"{path.name}.1")
        with path.open("rb") as full, beside.open("wb") as copy:
            os.fchmod(copy.fileno(), 0o600)
            full.seek(max(size - LOG_BYTES_MAX, 0))
            shutil.copyfileobj(full, copy)
            copy.truncate(min(copy.tell(), 2 * LOG_BYTES_MAX))
        os.truncate(path, 0)
    # Also when there was no room for the copy.
    with contextlib.suppress(OSError):
        if path.stat().st_size > 2 * LOG_BYTES_MAX:
            os.truncate(path, 0)
