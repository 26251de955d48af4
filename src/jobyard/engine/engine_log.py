"""The log of an engine in the background: within bounds, whatever is logged and however often.

`up -d` gives the engine a file as standard output and error. It is moved aside when it is large,
and of the same message only so many are written in a minute; how many were left out is told.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from pathlib import Path
from typing import Final

LOG_NAME: Final = "engine.log"
BYTES_MAX: Final = 4 * 1024 * 1024
# Of one message, in each minute.
SAME_MAX: Final = 30
_MINUTE: Final = 60.0
_MESSAGES_MAX: Final = 1000
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class EngineLog(logging.StreamHandler):  # type: ignore[type-arg]
    """Standard error; `path` is moved aside when that is where standard error goes."""

    def __init__(self, path: Path, *, bytes_max: int = BYTES_MAX) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(_FORMAT))
        self._path = path
        self._bytes_max = bytes_max
        self._counts: dict[tuple[str, str], int] = {}
        self._minute = 0

    def emit(self, record: logging.LogRecord) -> None:
        minute = math.trunc(time.monotonic() / _MINUTE)
        if minute != self._minute or len(self._counts) > _MESSAGES_MAX:
            self._begin(minute)
        # Without what is filled in: a flood has many forms.
        key = (record.name, str(record.msg))
        self._counts[key] = count = self._counts.get(key, 0) + 1
        if count <= SAME_MAX:
            super().emit(record)
            self._rotate()

    def _begin(self, minute: int) -> None:
        counts, self._counts, self._minute = self._counts, {}, minute
        for (name, message), count in counts.items():
            if count > SAME_MAX:
                text = f"{count - SAME_MAX} more like this were left out: {message[:200]}"
                super().emit(logging.LogRecord(name, logging.WARNING, "", 0, text, None, None))

    def _rotate(self) -> None:
        """Both standard output and error go on in a new file."""
        try:
            now = os.fstat(2)
            if now.st_size <= self._bytes_max or not os.path.samestat(now, self._path.stat()):
                return
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            fresh = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for number in (1, 2):
                os.dup2(fresh, number)
            os.close(fresh)
        except OSError:
            # No room or no descriptor for a new one: the old one has to do.
            return


def keep_log(folder: Path) -> None:
    """From now on all that the engine logs goes there."""
    logging.getLogger().addHandler(EngineLog(folder / LOG_NAME))
