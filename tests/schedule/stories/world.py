"""The world: what users and programs do at random, and what comes of the scheduler's decisions."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from jobyard.api.podgroup import PodGroupStatus
from jobyard.api.queue import QueueStatus
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.deciding import decide
from jobyard.schedule.decision import Decision
from jobyard.schedule.groups import SETTLING_SECONDS
from jobyard.schedule.requests import requested
from jobyard.schedule.snapshot import (
    Candidate,
    GroupFacts,
    GroupKey,
    Machine,
    Owner,
    QueueFacts,
    Snapshot,
)

replace = msgspec.structs.replace
NODE = "here"


def spec_of(asks: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": asks}}]}


class World:
    """Everything by name; a step changes it, and the scheduler answers."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        cpus = dice.choice((4, 8, 16, 32))
        capacity = {"cpu": cpus, "memory": f"{cpus * dice.choice((1, 2, 4))}Gi", "pods": 200}
        if dice.random() < 0.5:
            capacity["nvidia.com/gpu"] = dice.choice((2, 4, 8))
        self.machine = Machine(name=NODE, capacity=Amounts.of(capacity))
        self.queues: dict[str, QueueFacts] = {"default": QueueFacts(name="default")}
        for number in range(dice.randint(1, 4)):
            self.queues[f"q{number}"] = self.new_queue(f"q{number}")
        self.groups: dict[GroupKey, GroupFacts] = {}
        self.pods: dict[str, Candidate] = {}
        # Gangs that ran whole once.
        self.started: set[GroupKey] = set()
        # Pods that are gone, and that somebody makes anew.
        self.lacking: list[Candidate] = []
        self.now = 1_000_000.0
        self.cycle = 0
        self.uids = 0
        self.submitted = 0

    def new_queue(self, name: str) -> QueueFacts:
        dice, capacity = self.dice, self.machine.capacity
        quota = None
        if dice.random() < 0.5:
            part = dice.choice((2, 3, 4))
            names = dice.choice((("cpu",), ("cpu", "memory"), ("memory",)))
            quota = Amounts({each: capacity[each] // part or capacity[each] for each in names})
        return QueueFacts(
            name=name,
            priority=dice.randint(0, 2),
            quota=quota,
            is_preemptible=dice.random() < 0.8,
            is_closed=dice.random() < 0.05,
            namespaces={"matchLabels": {"team": "a"}} if dice.random() < 0.1 else None,
        )

    def snapshot(self) -> Snapshot:
        self.cycle += 1
        return Snapshot(
            machine=self.machine,
            queues=tuple(self.queues.values()),
            groups=tuple(self.groups.values()),
            pods=tuple(self.pods.values()),
            namespaces={"one": {"team": "a"}, "two": {}},
            now=self.now,
            cycle=str(self.cycle),
        )

    # What users do.

    def submit(self) -> None:
        dice = self.dice
        self.submitted += 1
        name = f"g{self.submitted}"
        namespace = dice.choice(("one", "one", "two"))
        queue = dice.choice((*self.queues, "default"))
        asks: dict[str, Any] = {"cpu": dice.choice((1, 1, 2, 3)), "memory": "1Gi"}
        if self.machine.capacity["nvidia.com/gpu"] and dice.random() < 0.4:
            asks["nvidia.com/gpu"] = 1
        if dice.random() < 0.3:
            self.make_pod(name, namespace, asks, queue=queue)
            return
        size = dice.randint(1, 6)
        extra = dice.choice((0, 0, 0, 1, 2))
        key = GroupKey(namespace, name)
        self.groups[key] = GroupFacts(
            key=key,
            uid=name,
            queue=queue,
            priority=dice.choice((0, 0, 50)),
            needed=size,
            roles=(("worker", size),) if not extra and dice.random() < 0.5 else (),
            created_at=self.now,
            owner=_job(name, name),
        )
        for rank in range(size + extra):
            self.make_pod(f"{name}-worker-{rank}", namespace, asks, queue=queue, group=key)

    def make_pod(
        self,
        name: str,
        namespace: str,
        asks: dict[str, Any],
        *,
        queue: str = "default",
        group: GroupKey | None = None,
    ) -> None:
        """Of its group's job, as that is now."""
        self.uids += 1
        spec = spec_of(asks)
        uid = f"u{self.uids}"
        self.pods[uid] = Candidate(
            uid=uid,
            namespace=namespace,
            name=name,
            spec=spec,
            asked=requested(spec),
            created_at=self.now,
            group=group,
            queue=queue,
            role="worker" if group else "",
            owner=self.groups[group].owner if group else Owner(),
        )

    def lose(self, pod: Candidate) -> None:
        """It is gone, and is made anew some time, as a controller does with replicas."""
        del self.pods[pod.uid]
        self.lacking.append(pod)

    def make_some(self, share: float = 0.5) -> None:
        """Each when its controller comes to it, and not before its name is free."""
        still: list[Candidate] = []
        names = {(pod.namespace, pod.name) for pod in self.pods.values()}
        for pod in self.lacking:
            if pod.group is not None and pod.group not in self.groups:
                continue
            if (pod.namespace, pod.name) in names or self.dice.random() > share:
                still.append(pod)
                continue
            asks = pod.spec["containers"][0]["resources"]["requests"]
            self.make_pod(pod.name, pod.namespace, asks, queue=pod.queue, group=pod.group)
            names.add((pod.namespace, pod.name))
        self.lacking = still

    def make_job_again(self) -> None:
        """Deleted and made under its name, while pods of the one before are still there."""
        if not self.groups:
            return
        key = self.dice.choice(sorted(self.groups))
        self.uids += 1
        job = _job(key.name, f"{key.name}-{self.uids}")
        self.groups[key] = replace(
            self.groups[key], uid=job.uid, owner=job, created_at=self.now, status=None
        )
        self.started.discard(key)
        # Of each replica a pod is wanted again, and none that was wanted for the old one.
        wanted = {pod.name: pod for pod in self.lacking if pod.group == key}
        wanted |= {pod.name: pod for pod in self.pods.values() if pod.group == key}
        self.lacking = [pod for pod in self.lacking if pod.group != key] + list(wanted.values())

    def collect(self, share: float = 0.5) -> None:
        """Pods of jobs that are gone go, some time."""
        for uid, pod in list(self.pods.items()):
            group = self.groups.get(pod.group) if pod.group is not None else None
            is_orphan = bool(pod.owner.uid) and (group is None or group.owner.uid != pod.owner.uid)
            if not is_orphan or pod.is_terminating or self.dice.random() > share:
                continue
            if pod.node and not pod.has_ended:
                self.pods[uid] = replace(pod, is_terminating=True)
            else:
                del self.pods[uid]

    def delete_gang(self) -> None:
        if not self.groups:
            return
        key = self.dice.choice(sorted(self.groups))
        del self.groups[key]
        self.started.discard(key)

    def change_queue(self) -> None:
        """Quotas change, queues are closed and opened, deleted and made."""
        dice = self.dice
        name = dice.choice(sorted(self.queues))
        queue = self.queues[name]
        match dice.randrange(4):
            case 0 if name != "default":
                self.queues[name] = replace(self.new_queue(name), priority=queue.priority)
            case 1:
                self.queues[name] = replace(queue, is_closed=not queue.is_closed)
            case 2 if name != "default" and len(self.queues) > 2:
                del self.queues[name]
            case _:
                other = f"q{dice.randrange(5)}"
                self.queues.setdefault(other, self.new_queue(other))

    # What programs do.

    @property
    def running(self) -> list[Candidate]:
        return [pod for pod in self.pods.values() if pod.node and not pod.has_ended]

    def end_one(self) -> None:
        pods = [pod for pod in self.running if not pod.is_terminating]
        if not pods:
            return
        pod = self.dice.choice(pods)
        if self.dice.random() < 0.1:
            # Nobody starts it again, and it stays.
            self.pods[pod.uid] = replace(pod, phase="Failed")
        elif self.dice.random() < 0.2:
            self.lose(pod)
        elif pod.group is None or self.dice.random() < 0.1:
            # Somebody cleans up after it.
            del self.pods[pod.uid]
        else:
            self.pods[pod.uid] = replace(pod, phase="Succeeded")

    def begin_all(self) -> None:
        for pod in self.running:
            self.pods[pod.uid] = replace(pod, phase="Running")

    def stop_some(self, share: float = 0.5) -> None:
        """Those that are being stopped end some time, well or not, and are gone later."""
        for pod in [pod for pod in self.pods.values() if pod.is_terminating and pod.node]:
            if self.dice.random() > share:
                continue
            if pod.has_ended:
                self.lose(pod)
            else:
                phase = self.dice.choice(("Succeeded", "Failed"))
                self.pods[pod.uid] = replace(pod, phase=phase)

    def clean_up(self) -> None:
        """Gangs of which all members have ended are done."""
        wanted = {pod.group for pod in self.lacking}
        for key in list(self.groups):
            pods = [pod for pod in self.pods.values() if pod.group == key]
            if key not in wanted and all(p.has_ended and not p.is_terminating for p in pods):
                for pod in pods:
                    del self.pods[pod.uid]
                del self.groups[key]
                self.started.discard(key)

    def pass_time(self) -> None:
        self.now += self.dice.choice((0.1, 1.0, SETTLING_SECONDS))

    # What the scheduler does.

    def decide(self) -> Decision:
        return decide(self.snapshot())

    def apply(self, decided: Decision, calls: int | None = None) -> None:
        """In the order of the engine, which may be killed after so many calls."""
        for call in tuple(self.calls(decided))[:calls]:
            call()
        for key in self.groups:
            members = [pod for pod in self.pods.values() if self.is_member(pod, key)]
            alive = sum(
                pod.phase == "Succeeded" or (pod.node == NODE and not pod.has_ended)
                for pod in members
                if not pod.is_terminating
            )
            if alive >= self.groups[key].needed:
                self.started.add(key)

    def calls(self, decided: Decision) -> Iterator[Callable[[], None]]:
        def bind_all() -> None:
            # They reach the disk together.
            for placed in decided.placed:
                self._change(placed.pod, node=NODE, devices=placed.devices, is_nominated=False)

        yield bind_all
        for refused in decided.refused:
            yield partial(self._change, refused.pod, is_nominated=refused.is_nominated)
        for evicted in decided.evicted:
            yield partial(self._change, evicted.pod, is_terminating=True)
        for key, status in decided.group_statuses.items():
            yield partial(self._tell_group, key, status)
        for name, told in decided.queue_statuses.items():
            yield partial(self._tell_queue, name, told)

    def _change(self, pod: Candidate, **change: Any) -> None:
        self.pods[pod.uid] = replace(self.pods[pod.uid], **change)

    def _tell_group(self, key: GroupKey, status: PodGroupStatus) -> None:
        self.groups[key] = replace(self.groups[key], status=status)

    def _tell_queue(self, name: str, status: QueueStatus) -> None:
        self.queues[name] = replace(self.queues[name], status=status)

    def is_member(self, pod: Candidate, key: GroupKey) -> bool:
        """Of the group's job, and not of one of that name before it."""
        return pod.group == key and key in self.groups and pod.owner == self.groups[key].owner

    def copied(self) -> World:
        other = copy.copy(self)
        for name in ("pods", "groups", "queues"):
            setattr(other, name, dict(getattr(self, name)))
        other.started = set(self.started)
        return other


def _job(name: str, uid: str) -> Owner:
    return Owner("batch.tensorstack.dev/v1beta1", "GenericJob", name, uid)
