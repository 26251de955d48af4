"""What the model knows of each job: its spec as stored, and every pod it ever had.

Kept from the server's writes as they happen. The invariants and the final checks read it; the
description is the real lowering, whose own tests are elsewhere.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.api.kinds import KINDS, Kind
from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.table import JOB_KINDS, lowered
from simulation.kubelet import Life
from simulation.server import JSON

KIND_OF: dict[str, Kind] = {kind.plural: kind for kind in KINDS if kind in JOB_KINDS}


class Job:
    """One job, from its creation to after its deletion."""

    def __init__(self, plural: str, obj: JSON) -> None:
        self.kind = KIND_OF[plural]
        self.plural = plural
        self.uid: str = obj["metadata"]["uid"]
        self.key = obj["metadata"]["namespace"], obj["metadata"]["name"]
        self.obj = obj
        self.is_gone = False
        self.spec: Any = None
        self.description: Description
        # In the order in which they were made.
        self.lives: list[Life] = []
        # Pods whose ends are in the count of restarts.
        self.counted: set[str] = set()
        # Pods whose ends stand in the rows.
        self.recorded: set[str] = set()
        # Pods from before a user changed the spec: another wish may do away with them.
        self.excused: set[str] = set()
        self.edits = 0
        # Pods that a row has named.
        self.known: set[str] = set()
        # The same when a pod was first said to be on its way out.
        self.known_at: dict[str, frozenset[str]] = {}
        self.ranks_max: dict[str, int] = {}
        self.relower()

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def is_taskset(self) -> bool:
        return self.kind.name == "TaskSet"

    @property
    def status(self) -> JSON:
        status: JSON = self.obj.get("status", {})
        return status

    @property
    def is_finished(self) -> bool:
        if self.is_taskset:
            return self.status.get("phase") == "TaskSetCompleted"
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def is_paused(self) -> bool:
        return self._is_on("pause")

    @property
    def is_debugging(self) -> bool:
        return self._is_on("debug")

    def _is_on(self, mode: str) -> bool:
        """In the spelling that counts: `enable` does where there is no `enabled`."""
        switch = self.obj["spec"].get("runMode", {}).get(mode, {})
        return bool(switch.get("enabled", switch.get("enable", False)))

    @property
    def replicas(self) -> list[tuple[str, int]]:
        return [(role.type, n) for role in self.description.roles for n in range(role.replicas)]

    def relower(self) -> None:
        job = msgspec.convert(self.obj, self.kind.type)
        self.description = lowered(self.kind, job)
        self.spec = job.spec  # type: ignore[attr-defined]
        for role in self.description.roles:
            self.ranks_max[role.type] = max(self.ranks_max.get(role.type, 0), role.replicas)

    def edited(self) -> None:
        self.edits += 1
        self.relower()
        self.excused.update(life.uid for life in self.lives)

    def excuses(self, life: Life) -> bool:
        """Whether the pod may be replaced for another reason than its own end."""
        return (
            life.is_debug
            or life.is_ambiguous
            or life.uid in self.excused
            or self.description.is_rigid
            or self.is_paused
            or self.is_debugging
        )

    def restarts_of(self, role: str, rank: int) -> int | None:
        """What the stored status says; None where it says nothing."""
        if self.is_taskset:
            return taskset_row(self.status, role, rank, "totalRetriedCount")
        for task in self.status.get("tasks", ()):
            if task["type"] == role and rank < len(task.get("status", ())):
                count: int = task["status"][rank].get("restartCount", 0)
                return count
        return None

    def latest(self, role: str, rank: int) -> Life | None:
        for life in reversed(self.lives):
            if life.replica == (role, rank):
                return life
        return None

    def __repr__(self) -> str:
        return f"{self.kind.name} {self.name}"


def taskset_row(status: JSON, role: str, index: int, field: str) -> int | None:
    for each in status.get("roleStatus", ()):
        if each["name"] == role and index < len(each.get("replicaStatus", ())):
            found: int = each["replicaStatus"][index].get(field, 0)
            return found
    return None
