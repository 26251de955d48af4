"""What the scheduler's watches have told, as facts by uid; `told` is called when that changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from jobyard.engine.scheduling.devices import DEVICES, may_have
from jobyard.engine.scheduling.seen import Meta, SeenPod, candidate_of
from jobyard.schedule.decision import Placed
from jobyard.schedule.snapshot import Candidate, Machine


class Named(Protocol):
    """Whatever has metadata."""

    @property
    def metadata(self) -> Meta: ...


Seen = TypeVar("Seen", bound=Named)
Facts = TypeVar("Facts")


class View(Generic[Seen, Facts]):
    """The facts of one kind; an object whose facts can't be told is reported and left out."""

    def __init__(
        self,
        facts: Callable[[Seen], Facts],
        told: Callable[[], None],
        report: Callable[[Seen, Exception], None],
    ) -> None:
        self._facts = facts
        self._told = told
        self._report = report
        self.by_uid: dict[str, Facts] = {}
        self.is_known = False

    def replaced(self, items: Sequence[Seen], resource_version: str) -> None:  # noqa: ARG002
        self.by_uid = {}
        self.is_known = True
        for item in items:
            self._put(item)
        self._told()

    def changed(self, obj: Seen) -> None:
        self._put(obj)
        self._told()

    def removed(self, obj: Seen) -> None:
        self.by_uid.pop(obj.metadata.uid, None)
        self._told()

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes nothing."""

    def _put(self, obj: Seen) -> None:
        try:
            self.by_uid[obj.metadata.uid] = self._facts(obj)
        except Exception as problem:
            # One that nobody understands is as good as none.
            self.by_uid.pop(obj.metadata.uid, None)
            self._report(obj, problem)


class PodsView:
    """All pods, as they are once what was answered to us has come back by the watch."""

    def __init__(self, node: str, told: Callable[[], None], gone: Callable[[str], None]) -> None:
        self._node = node
        self._told = told
        self._gone = gone
        self.by_uid: dict[str, Candidate] = {}
        self.is_known = False
        # What was bound, until the watch tells of it: it must not be placed twice.
        self.bound: dict[str, Placed] = {}
        # The devices that were given away.
        self.given: dict[str, tuple[int, ...]] = {}
        # Those on which somebody wrote of devices.
        self.claims_devices: set[str] = set()

    def replaced(self, items: Sequence[SeenPod], resource_version: str) -> None:  # noqa: ARG002
        known = {pod.metadata.uid for pod in items}
        for uid in self.by_uid.keys() - known:
            self._forget(uid)
        self.is_known = True
        for pod in items:
            self._put(pod)
        self._told()

    def changed(self, obj: SeenPod) -> None:
        self._put(obj)
        self._told()

    def removed(self, obj: SeenPod) -> None:
        self._forget(obj.metadata.uid)
        self._told()

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes no pod."""

    def bind(self, placed: Placed) -> None:
        """A binding was answered."""
        uid = placed.pod.uid
        self.given[uid] = placed.devices
        seen = self.by_uid.get(uid)
        if seen is not None and not seen.node:
            self.bound[uid] = placed
            self.by_uid[uid] = self._as_bound(seen)

    def leaving(self, uid: str) -> None:
        """It was deleted, and is about to be told so."""
        seen = self.by_uid.get(uid)
        if seen is not None:
            self.by_uid[uid] = msgspec.structs.replace(seen, is_terminating=True)

    def on(self, machine: Machine) -> tuple[Candidate, ...]:
        """All of them, with the devices that are their own: what we gave, else what can be true."""
        return tuple(
            self._with_devices(pod, machine) if pod.node == machine.name else pod
            for pod in self.by_uid.values()
        )

    def _with_devices(self, pod: Candidate, machine: Machine) -> Candidate:
        # Anybody can write an annotation.
        devices = self.given.get(pod.uid)
        if devices is None:
            devices = pod.devices if may_have(machine, pod) else ()
        return pod if devices == pod.devices else msgspec.structs.replace(pod, devices=devices)

    def _put(self, pod: SeenPod) -> None:
        uid = pod.metadata.uid
        found = candidate_of(pod)
        if pod.is_bound:
            self.bound.pop(uid, None)
        if DEVICES in (pod.metadata.annotations or {}):
            self.claims_devices.add(uid)
        self.by_uid[uid] = self._as_bound(found)

    def _as_bound(self, pod: Candidate) -> Candidate:
        """The pod with the binding that was answered, also if this was told before it."""
        placed = self.bound.get(pod.uid)
        if placed is None:
            return pod
        return msgspec.structs.replace(pod, node=self._node, devices=placed.devices)

    def _forget(self, uid: str) -> None:
        for memory in (self.by_uid, self.bound, self.given):
            memory.pop(uid, None)
        self.claims_devices.discard(uid)
        self._gone(uid)
