"""What the machine has: cores, memory, disk and GPUs; or what the user declared."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from jobyard.api.parts.quantity import Quantity

PODS_MAX: Final = 1000
_GPU_SECONDS: Final = 5.0


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of one machine."""

    cpus: int = 1
    memory_bytes: int = 2**30
    disk_bytes: int = 2**30
    gpus: int = 0
    pods: int = PODS_MAX
    # What somebody said that it counts as, by resource.
    declared: Mapping[str, str] = {}

    def resources(self) -> dict[str, str]:
        """As a Node object tells it."""
        return {
            "cpu": str(self.cpus),
            "memory": f"{self.memory_bytes // 1024}Ki",
            "ephemeral-storage": str(self.disk_bytes),
            "pods": str(self.pods),
            **({"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}),
            **self.declared,
        }

    def declaring(self, declared: Mapping[str, str]) -> tuple[Capacity, tuple[str, ...]]:
        """The same with what is declared, and of what that is more than there is."""
        has = self.resources()
        more = tuple(
            f"{name} {amount} (has {has.get(name, '0')})"
            for name, amount in declared.items()
            if Quantity.of(amount) > Quantity.of(has.get(name, "0"))
        )
        return msgspec.structs.replace(self, declared=declared), more


def capacity_of_machine(data: Path) -> Capacity:
    """What this process may use."""
    is_linux = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if is_linux else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    existing = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    return Capacity(
        cpus=cpus,
        memory_bytes=memory,
        disk_bytes=shutil.disk_usage(existing).total,
        gpus=gpus_of_machine(),
    )


def gpus_of_machine() -> int:
    """As many as the driver shows; none where there is no driver."""
    driver = Path("/proc/driver/nvidia/gpus")
    if driver.is_dir():
        return sum(1 for _ in driver.iterdir())
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        done = subprocess.run(  # noqa: S603 - found on the user's own PATH
            [command, "-L"], capture_output=True, text=True, timeout=_GPU_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
