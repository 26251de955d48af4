"""Where the tools keep what takes long to get, and how runs keep out of each other's way.

Standard library only, because it runs before anything is installed.
"""

import fcntl
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def cache_root(environment: Mapping[str, str]) -> Path:
    """The folder of all caches; an empty variable counts as unset, as XDG wants it."""
    if own := environment.get("JOBYARD_CACHE"):
        return Path(own).expanduser()
    if shared := environment.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "jobyard"
    return Path.home() / ".cache" / "jobyard"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the kernel drops it with us, however we end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another run that holds {path}", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def is_unused(marker: Path, days: float) -> bool:
    """Whether something can go: its marker was never made, or last touched so long ago.

    Another checkout of the project may need just what this one has outgrown, perhaps at this
    moment; whoever uses it touches the marker.
    """
    if not marker.exists():
        return True
    return time.time() - marker.stat().st_mtime > days * 24 * 3600
