"""Who is first in line starts as soon as it can, whatever small ones come meanwhile."""

from __future__ import annotations

import os
import random

import msgspec
import pytest

from jobyard.schedule.deciding import decide
from jobyard.schedule.snapshot import Candidate, GroupFacts, Snapshot
from schedule.stories.world import NODE
from schedule.test_schedule_queues import gang, machine, placed, pod

replace = msgspec.structs.replace


class Traffic:
    """A full machine, one large gang that waits, and small pods that come all the time."""

    def __init__(self, seed: str) -> None:
        dice = self.dice = random.Random(seed)
        self.cpus = dice.randint(8, 40)
        self.ends: dict[str, int] = {}
        self.pods: dict[str, Candidate] = {}
        used = number = 0
        while used < self.cpus:
            cpu = min(dice.randint(1, 6), self.cpus - used)
            self._run(replace(pod(f"first-{number}", cpu=cpu), node=NODE, phase="Running"), 0)
            used, number = used + cpu, number + 1
        size = dice.randint(2, 6)
        each = dice.randint(max(1, self.cpus // (2 * size)), self.cpus // size)
        self.large, members = gang("large", size, size, created_at=1.0, cpu=each)
        self.need = size * each
        self.pods |= {member.uid: member for member in members}

    def _run(self, each: Candidate, now: int) -> None:
        self.pods[each.uid] = each
        self.ends[each.uid] = now + self.dice.randint(1, 30)

    def soonest(self) -> int:
        """When those that ran before it leave it room, if nobody else comes."""
        free = 0
        for uid, end in sorted(self.ends.items(), key=lambda item: item[1]):
            free += int(self.pods[uid].asked["cpu"])
            if free >= self.need:
                return end
        raise AssertionError("it fits the machine")

    def starts_at(self) -> int:
        for now in range(1, 100):
            for uid in [uid for uid, end in self.ends.items() if end <= now]:
                del self.ends[uid], self.pods[uid]
            for number in range(self.dice.randint(0, 3)):
                asks = {"cpu": self.dice.randint(1, 3)} if self.dice.random() < 0.8 else {}
                small = pod(f"small-{now}-{number}", created_at=1.0 + now, **asks)
                self.pods[small.uid] = small
            found = decide(
                Snapshot(
                    machine=machine(cpu=self.cpus, pods=999),
                    groups=(self.large,),
                    pods=tuple(self.pods.values()),
                    now=float(now),
                )
            )
            if "large-0" in placed(found):
                assert sum(name.startswith("large") for name in placed(found)) == self._size()
                return now
            for each in found.placed:
                self._run(replace(each.pod, node=NODE, phase="Running"), now)
        raise AssertionError("it starves")

    def _size(self) -> int:
        large: GroupFacts = self.large
        return large.needed


@pytest.mark.parametrize("number", range(60))
def test_small_ones_do_not_delay_the_first_large_gang_by_a_moment(number: int) -> None:
    traffic = Traffic(f"{os.environ['JOBYARD_SEED']}/{number}")
    soonest = traffic.soonest()
    assert traffic.starts_at() == soonest
