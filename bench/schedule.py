"""One look of the scheduler at many waiting gangs.

python bench/schedule.py [--gangs 1000] [--queues 20] [--rounds 5]

A machine that is full, and gangs of eight pods in queues with quotas: CPU time for one decision
as a shell takes it that has the pods read already, median of the rounds; and the same for half,
twice and four times as many gangs, with what that is beside N log N.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

from jobyard.schedule.amounts import Amounts, kept
from jobyard.schedule.deciding import decide
from jobyard.schedule.snapshot import (
    Candidate,
    GroupFacts,
    GroupKey,
    Machine,
    QueueFacts,
    Snapshot,
)

SIZE = 8


def snapshot_of(gangs: int, queues: int, *, may_preempt: bool = False) -> Snapshot:
    machine = Machine(name="here", capacity=Amounts.of({"cpu": 64, "memory": "1Ti", "pods": 1000}))
    asked = kept(Amounts.of({"cpu": 4, "memory": "8Gi", "pods": 1}))
    lines = tuple(
        QueueFacts(
            name=f"team-{number}", priority=number % 5, quota=Amounts.of({"cpu": 40 + number % 3})
        )
        for number in range(queues)
    )
    groups, pods = [], []
    for number in range(gangs):
        key = GroupKey("work", f"gang-{number}")
        groups.append(
            GroupFacts(
                key=key,
                uid=key.name,
                queue=f"team-{number % queues}",
                priority=number % 3,
                needed=SIZE,
                roles=(("worker", SIZE),),
                created_at=float(number),
            )
        )
        # The first two fill the machine.
        is_here = number < 2
        pods += [
            Candidate(
                uid=f"{number}-{rank}",
                namespace="work",
                name=f"gang-{number}-worker-{rank}",
                spec={},
                asked=asked,
                group=key,
                role="worker",
                created_at=float(number),
                node="here" if is_here else "",
                phase="Running" if is_here else "Pending",
            )
            for rank in range(SIZE)
        ]
    return Snapshot(
        machine=machine,
        queues=lines,
        groups=tuple(groups),
        pods=tuple(pods),
        may_preempt=may_preempt,
    )


def milliseconds(snapshot: Snapshot, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        decided = decide(snapshot)
        times.append((time.process_time() - begun) * 1000)
        assert not decided.placed
        assert len(decided.refused) == len(snapshot.pods) - 2 * SIZE
    return statistics.median(times)


def main() -> None:
    asking = argparse.ArgumentParser()
    asking.add_argument("--gangs", type=int, default=1000)
    asking.add_argument("--queues", type=int, default=20)
    asking.add_argument("--rounds", type=int, default=5)
    given = asking.parse_args()
    for may_preempt in (False, True):
        print("with preemption: some are sent away" if may_preempt else "without preemption")
        first = None
        for gangs in (given.gangs // 2, given.gangs, given.gangs * 2, given.gangs * 4):
            whole = snapshot_of(gangs, given.queues, may_preempt=may_preempt)
            taken = milliseconds(whole, given.rounds)
            unit = taken / (gangs * math.log2(gangs))
            first = first or unit
            print(f"{gangs:6} gangs of {SIZE}: {taken:7.1f} ms, {unit / first:.2f} of N log N")


if __name__ == "__main__":
    main()
