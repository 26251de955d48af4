"""The world: what users and programs do at random, and what comes of the scheduler's decisions."""

from __future__ import annotations

import random
from typing import Any

import msgspec

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
        # How many pods of each gang are to succeed, and those that are done for good.
        self.finished: set[str] = set()
        self.started: set[GroupKey] = set()
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
            owner=Owner("batch.tensorstack.dev/v1beta1", "GenericJob", name, name),
        )
        for rank in range(size + extra):
            self.make_pod(f"{name}-worker-{rank}", namespace, asks, group=key)

    def make_pod(
        self,
        name: str,
        namespace: str,
        asks: dict[str, Any],
        *,
        queue: str = "default",
        group: GroupKey | None = None,
    ) -> None:
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
        )

    def make_anew(self, pod: Candidate) -> None:
        """As a controller does with a replica that was taken away, or has failed."""
        del self.pods[pod.uid]
        if pod.group is not None and pod.group not in self.groups:
            return
        asks = pod.spec["containers"][0]["resources"]["requests"]
        self.make_pod(pod.name, pod.namespace, asks, queue=pod.queue, group=pod.group)

    def delete_gang(self) -> None:
        if not self.groups:
            return
        key = self.dice.choice(sorted(self.groups))
        del self.groups[key]
        self.started.discard(key)
        for uid, pod in list(self.pods.items()):
            if pod.group == key:
                if pod.node and not pod.has_ended:
                    self.pods[uid] = replace(pod, is_terminating=True)
                else:
                    del self.pods[uid]

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
        if self.dice.random() < 0.2:
            self.make_anew(pod)
        elif pod.group is None or self.dice.random() < 0.1:
            # Somebody cleans up after it.
            del self.pods[pod.uid]
        else:
            self.pods[pod.uid] = replace(pod, phase="Succeeded")

    def begin_all(self) -> None:
        for pod in self.running:
            self.pods[pod.uid] = replace(pod, phase="Running")

    def stop_some(self, share: float = 0.5) -> None:
        """Those that are being stopped are gone some time, and come anew."""
        for pod in [pod for pod in self.running if pod.is_terminating]:
            if self.dice.random() < share:
                self.make_anew(pod)

    def clean_up(self) -> None:
        """Gangs of which all members have succeeded are done."""
        for key in list(self.groups):
            pods = [pod for pod in self.pods.values() if pod.group == key]
            if all(pod.phase == "Succeeded" for pod in pods):
                for pod in pods:
                    del self.pods[pod.uid]
                del self.groups[key]
                self.started.discard(key)

    def pass_time(self) -> None:
        self.now += self.dice.choice((0.1, 1.0, SETTLING_SECONDS))

    # What the scheduler does.

    def decide(self) -> Decision:
        return decide(self.snapshot())

    def apply(self, decided: Decision) -> None:
        for placed in decided.placed:
            pod = self.pods[placed.pod.uid]
            self.pods[pod.uid] = replace(pod, node=NODE, devices=placed.devices, is_nominated=False)
        for evicted in decided.evicted:
            pod = self.pods[evicted.pod.uid]
            self.pods[pod.uid] = replace(pod, is_terminating=True)
        for refused in decided.refused:
            pod = self.pods[refused.pod.uid]
            self.pods[pod.uid] = replace(pod, is_nominated=refused.is_nominated)
        for key, status in decided.group_statuses.items():
            self.groups[key] = replace(self.groups[key], status=status)
        for name, told in decided.queue_statuses.items():
            self.queues[name] = replace(self.queues[name], status=told)
