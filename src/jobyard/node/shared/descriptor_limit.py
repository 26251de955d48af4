"""How many descriptors a process may have: many for engine and hub, as before for replicas.

A followed replica takes three of the engine's. The soft limit is what programs that use `select`
rely on, so replicas get the one that the engine was started with; the environment carries it from
the engine to the hub, and a fork from there to whoever starts a container's program.
"""

from __future__ import annotations

import os
import resource
from typing import Final

from jobyard.numerals import whole_number

# The hub keeps what every supervisor shares at fixed numbers from 100 on.
NEEDED: Final = 256
_ENOUGH: Final = 1 << 20
_VARIABLE: Final = "JOBYARD_DESCRIPTORS"


def raise_limit() -> int:
    """As far as the machine allows; how many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        os.environ.setdefault(_VARIABLE, str(soft))
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def restore_limit() -> None:
    """What there was before anybody raised it; called by what is about to be a program."""
    before = whole_number(os.environ.get(_VARIABLE, ""))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before and (hard == resource.RLIM_INFINITY or before <= hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
