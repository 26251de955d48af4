"""Users that nobody is: uids for tests that need somebody else, and what is said without root.

A uid is held as long as a test uses it. No other test has it, of this run or of another one beside
it; no account has it, and no process. Only root can become somebody else, so nobody else draws.
"""

from __future__ import annotations

import os
import pwd
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.needs import AS_ROOT

ROOT_ONLY = f"only root can become somebody else{AS_ROOT}"
# Of no distribution's accounts, nor of systemd's; and a user namespace of 65536 has them too.
UIDS = range(20_000, 60_000)
_DRAWS_MAX = 1000


@contextmanager
def free_uid() -> Iterator[int]:
    """A uid of the caller's own; the test is skipped if whoever runs it is not root."""
    if os.geteuid() != 0:
        pytest.skip(ROOT_ONLY)
    dice = random.SystemRandom()
    for _ in range(_DRAWS_MAX):
        uid = dice.choice(UIDS)
        with socket.socket(socket.AF_UNIX) as name:
            try:
                # A name that is no file: one process at a time has it, and it ends with that.
                name.bind(f"\0jobyard-test-uid-{uid}")
            except OSError:
                continue
            if has_name(uid) or uid in _running():
                continue
            yield uid
            return
    raise AssertionError(f"no uid of {UIDS} is free")


def has_name(uid: int) -> bool:
    """Whether there is an account for it."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _running() -> set[int]:
    """Whose processes there are, also those that another run has left behind."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found.add(path.stat().st_uid)
        except OSError:
            continue
    return found
