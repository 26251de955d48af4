"""Which GPUs a pod has: written on it when it is bound, and believed only as far as they can be.

Anybody can write an annotation; what the scheduler has given away itself it remembers.
"""

from __future__ import annotations

from typing import Final

from jobyard.schedule.amounts import GPU
from jobyard.schedule.placing import Candidate, Machine, Placed
from jobyard.schedule.requests import requested

# What a pod's template asks of a GPU becomes the numbers of devices that are its own.
DEVICES: Final = "jobyard.dev/gpu-devices"


def may_have(machine: Machine, pod: Candidate) -> bool:
    """Whether the devices that a pod names can be its own."""
    devices = pod.devices
    if not devices or len(set(devices)) < len(devices) or max(devices) >= machine.capacity[GPU]:
        return False
    try:
        return len(devices) <= requested(pod.spec)[GPU]
    except Exception:
        # What it asks for is not understood; `_decided` says so.
        return False


def notes_of(placed: Placed) -> dict[str, str]:
    return {DEVICES: ",".join(map(str, placed.devices))}
