"""Who goes so that a gang of a higher queue can start.

From queues of lower priority alone, and only if it is enough. Members that a gang can do without go
first and alone, then whole gangs: of the lowest queue, of equal ones that with the largest dominant
share, of that the gang of the lowest priority, of those the youngest. As few as needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from jobyard.schedule.amounts import Amounts, total
from jobyard.schedule.gang import surplus
from jobyard.schedule.groups import Gang
from jobyard.schedule.quota import Account
from jobyard.schedule.snapshot import Candidate

Share = Callable[[Candidate], Amounts]
Enough = Callable[[Amounts], bool]


class Unit(msgspec.Struct, frozen=True):
    """Pods that go together or not at all."""

    gang: Gang
    pods: tuple[Candidate, ...]
    amounts: Amounts
    is_whole: bool


class Field(msgspec.Struct, frozen=True):
    """Whom there is to choose from, and how it is counted."""

    gangs: Mapping[str, list[Gang]]
    accounts: Mapping[str, Account]
    capacity: Amounts
    share: Share
    # What could go for a queue of a priority at most; less once some have gone.
    most: dict[int, Amounts] = {}


def victims(field: Field, below: int, enough: Enough) -> list[Unit]:
    """Those that go for a gang of a queue of priority `below`; none at all if it isn't enough."""
    lower = [
        account
        for account in field.accounts.values()
        if account.facts.priority < below and account.facts.is_preemptible
    ]
    if not enough(_most(field, below, lower)):
        # Most of those who wait for room ask in vain, and there may be many of both.
        return []
    used = {account.facts.name: account.used for account in lower}
    chosen: list[Unit] = []
    freed = Amounts()
    for is_whole in (False, True):
        units = {
            account.facts.name: _units(field, account.facts.name, is_whole=is_whole)
            for account in lower
        }
        while not enough(freed):
            named = _next_queue(field, lower, used, units)
            if named is None:
                break
            unit = units[named].pop()
            if is_whole:
                # What went of it alone goes with it.
                for part in [each for each in chosen if each.gang is unit.gang]:
                    chosen.remove(part)
                    freed = freed - part.amounts
                    used[named] = used[named] + part.amounts
            chosen.append(unit)
            freed = freed + unit.amounts
            used[named] = used[named] - unit.amounts
    if not enough(freed):
        return []
    field.most.clear()
    return _needed_ones(chosen, freed, enough)


def _most(field: Field, below: int, lower: Iterable[Account]) -> Amounts:
    if below not in field.most:
        gangs = (gang for each in lower for gang in field.gangs.get(each.facts.name, ()))
        field.most[below] = _sum(field, (pod for gang in gangs for pod in gang.here))
    return field.most[below]


def _units(field: Field, queue: str, *, is_whole: bool) -> list[Unit]:
    """Of one queue, the first to go at the end."""
    out = []
    gangs = [gang for gang in field.gangs.get(queue, ()) if gang.here]
    for gang in sorted(gangs, key=lambda gang: (gang.priority, -gang.created_at, gang.title)):
        parts = [tuple(gang.here)] if is_whole else [(pod,) for pod in surplus(gang)]
        out += [Unit(gang, pods, _sum(field, pods), is_whole) for pods in parts]
    return out[::-1]


def _sum(field: Field, pods: Iterable[Candidate]) -> Amounts:
    return total(field.share(pod) for pod in pods)


def _next_queue(
    field: Field,
    lower: list[Account],
    used: Mapping[str, Amounts],
    units: Mapping[str, list[Unit]],
) -> str | None:
    """The queue that loses next: the lowest, and of equal ones that with the largest share."""
    best = min(
        (account for account in lower if units[account.facts.name]),
        key=lambda account: (
            account.facts.priority,
            -msgspec.structs.replace(account, used=used[account.facts.name]).share(field.capacity),
            account.facts.name,
        ),
        default=None,
    )
    return best.facts.name if best is not None else None


def _needed_ones(chosen: list[Unit], freed: Amounts, enough: Enough) -> list[Unit]:
    """Without those that it would do without; who went last is spared first."""
    out = list(chosen)
    for unit in reversed(chosen):
        if enough(freed - unit.amounts):
            out.remove(unit)
            freed = freed - unit.amounts
    return out
