"""A server on a file, with the clock and the dice of this machine.

What a composition root calls; everything else about the server is deterministic.
"""

from __future__ import annotations

import random
import time
import uuid
from pathlib import Path

from jobyard.server.server import SUFFIX_CHARACTERS, SUFFIX_LENGTH, ApiServer
from jobyard.server.store.journal import Journal
from jobyard.server.store.store import Store

_dice = random.SystemRandom()


def open_server(path: Path | None, *, durable: bool = True) -> ApiServer:
    """The server whose objects are in the file; None keeps them in memory only.

    Raises JournalError if the file can't be used, as when another server has it open. Whoever
    opens a server closes it: `server.store.journal.close()`.
    """
    journal = Journal(path, durable=durable)
    try:
        return ApiServer(
            Store(journal),
            now=time.time,
            new_uid=lambda: str(uuid.uuid4()),
            new_suffix=lambda: "".join(_dice.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH)),
        )
    except BaseException:
        # Nobody else could close it.
        journal.close()
        raise
