"""The machine as its node object says: labels, taints and whether it is cordoned.

The scheduler of a strict engine follows it, so that `kubectl label`, `cordon` and `taint` mean what
they mean on a cluster. How much the machine has was measured, and is not read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from jobyard.schedule.snapshot import Machine
from jobyard.schedule.tolerating import Taint


class _Meta(msgspec.Struct, frozen=True):
    labels: Mapping[str, str] = {}


class _Spec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class SeenNode(msgspec.Struct, frozen=True):
    """What a placement depends on."""

    metadata: _Meta
    spec: _Spec = _Spec()


class NodeView:
    """What a watch of one node tells; `told` is called when it matters."""

    def __init__(self, measured: Machine, told: Callable[[], None]) -> None:
        self._measured = measured
        self._told = told
        # None: not known yet. What an earlier engine's node was told still holds.
        self.machine: Machine | None = None

    def replaced(self, items: Sequence[SeenNode], resource_version: str) -> None:  # noqa: ARG002
        if items:
            self.changed(items[0])
        elif self.machine is not None:
            self._stands(self._measured)

    def changed(self, obj: SeenNode) -> None:
        self._stands(
            msgspec.structs.replace(
                self._measured,
                labels=obj.metadata.labels,
                taints=obj.spec.taints,
                is_cordoned=obj.spec.unschedulable,
            )
        )

    def removed(self, obj: SeenNode) -> None:  # noqa: ARG002
        # The machine itself is still there, and its agent makes the object again.
        self._stands(self._measured)

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes no node."""

    def _stands(self, machine: Machine) -> None:
        # Most changes are heartbeats.
        if machine != self.machine:
            self.machine = machine
            self._told()
