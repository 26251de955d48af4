"""How many pods and gangs wait, by the reason: figures for Prometheus.

Made of each decision. Labels are the words of the closed list and no names, so that the number of
series doesn't grow with what is submitted; each word is there from the start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from jobyard.schedule.decision import Decision
from jobyard.schedule.reasons import Reason


def figures_of(decided: Decision) -> str:
    pods = Counter(each.why.reason for each in decided.refused)
    gangs = Counter(why.reason for why in decided.groups.values())
    # A pod without a group is a gang of one.
    gangs.update(each.why.reason for each in decided.refused if each.pod.group is None)
    lost = (each for each in decided.refused if each.why.reason is Reason.NO_SUCH_GROUP)
    gangs[Reason.NO_SUCH_GROUP] = len({each.pod.group for each in lost})
    lines = (
        *_gauge("jobyard_waiting_pods", "Pods that wait for a place, by the reason", pods),
        *_gauge("jobyard_waiting_gangs", "Gangs that wait to start, by the reason", gangs),
    )
    return "".join(f"{line}\n" for line in lines)


def _gauge(name: str, meaning: str, counts: Mapping[Reason, int]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} gauge"
    for reason in Reason:
        yield f'{name}{{reason="{reason}"}} {counts.get(reason, 0)}'
