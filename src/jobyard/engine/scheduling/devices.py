"""Which GPUs a pod has: written on it when it is bound, and believed only as far as they can be.

Anybody can write an annotation; what the scheduler has given away itself it remembers.
"""

from __future__ import annotations

from typing import Final

from jobyard.schedule.amounts import GPU
from jobyard.schedule.decision import Placed
from jobyard.schedule.snapshot import Candidate, Machine

# What a pod's template asks of a GPU becomes the numbers of devices that are its own.
DEVICES: Final = "jobyard.dev/gpu-devices"


def may_have(machine: Machine, pod: Candidate) -> bool:
    """Whether the devices that a pod names can be its own."""
    devices = pod.devices
    if not devices or len(set(devices)) < len(devices) or max(devices) >= machine.capacity[GPU]:
        return False
    return len(devices) <= pod.asked[GPU]


def notes_of(placed: Placed) -> dict[str, str]:
    return {DEVICES: ",".join(map(str, placed.devices))}
