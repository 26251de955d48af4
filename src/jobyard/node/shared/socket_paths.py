"""Paths of Unix sockets, which may be longer than the address of one.

The folder is opened then, and the address is built from the descriptor. Both the hub's socket
and the supervisors' are found this way.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

# An address has room for 107.
_ADDRESS_BYTES_MAX: Final = 100


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """An address for a socket file, valid inside the `with`."""
    if len(os.fsencode(path)) <= _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
