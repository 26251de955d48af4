"""One look at a snapshot: the line is walked once, and each entry is placed, or told why it waits.

What is changed here belongs to this look. `deciding` looks again until nothing more comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from jobyard.api.parts.scheduling import DEFAULT_QUEUE
from jobyard.schedule.amounts import GPU, Amounts, total
from jobyard.schedule.decision import Aside, Evicted, Placed, Refused
from jobyard.schedule.duration import Overdue, overdue
from jobyard.schedule.fitness import GATED, NOT_UNDERSTOOD, bar, gate_text
from jobyard.schedule.gang import lacked, starting
from jobyard.schedule.groups import Gang, by_queue, gathered, was_scheduled
from jobyard.schedule.order import Claim, Entry, Line
from jobyard.schedule.preemption import Field, victims
from jobyard.schedule.quota import Account
from jobyard.schedule.reasons import (
    Ahead,
    Reason,
    Why,
    Wish,
    namespace_not_allowed,
    never_fits_machine,
    no_room,
    no_such_group,
    no_such_queue,
    queue_closed,
    queue_elsewhere,
    room_comes,
    room_reserved,
)
from jobyard.schedule.reservation import Room
from jobyard.schedule.selecting import selects
from jobyard.schedule.snapshot import Candidate, QueueFacts, Snapshot


class Look:
    """`walk` once, then read what came of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.machine = snapshot.machine
        self.gangs = gathered(snapshot)
        self.queues = {queue.name: queue for queue in snapshot.queues}
        # It is there for everybody, also before somebody has made it.
        self.queues.setdefault(DEFAULT_QUEUE, QueueFacts(name=DEFAULT_QUEUE))
        self._by_queue = by_queue(self.gangs)
        self.overdue: Overdue = overdue(self.gangs, self.queues, snapshot.now)
        if self.overdue.uids:
            self._let_go(self.overdue.uids)
        self.accounts = self._accounts()
        self.room = self._room()
        self.placed: list[Placed] = []
        self.refused: list[Refused] = []
        self.aside: list[Aside] = []
        self.evicted: list[Evicted] = []
        # By the gang's number in memory: who loses pods in this very look.
        self._sent_away: set[int] = set()
        # By the gang's number in memory: what it waits for to start.
        self.whys: dict[int, Why] = {}
        self._ahead: list[Ahead] = []
        self._field = Field(self._by_queue, self.accounts, self.machine.capacity, self.share)

    def walk(self) -> None:
        entries: list[Entry] = []
        for gang in self.gangs:
            if not gang.waiting:
                continue
            try:
                entries += self._entries(gang)
            except Exception as problem:
                # Whatever is odd about it costs nobody else a place.
                self._set_aside(gang, problem)
        self._line = Line(
            entries,
            lambda name: self.accounts[name].facts.priority,
            lambda name: self.accounts[name].share(self.machine.capacity),
        )
        for entry in self._line:
            self._judge(entry)

    # Before the line.

    def _let_go(self, uids: frozenset[str]) -> None:
        """Those whose time is over hold their room until they are gone, and ask for none."""
        for gang in self.gangs:
            gang.waiting = [pod for pod in gang.waiting if pod.uid not in uids]
            gang.leaving += [pod for pod in gang.here if pod.uid in uids]
            gang.here = [pod for pod in gang.here if pod.uid not in uids]

    def share(self, pod: Candidate) -> Amounts:
        """What a pod counts for."""
        return pod.asked.cut_to(self.machine.capacity) if self.machine.is_relaxed else pod.asked

    def _accounts(self) -> dict[str, Account]:
        names = set(self.queues)
        if self.machine.is_relaxed:
            # Most files were written for a cluster: its queues have no limits here.
            names |= self._by_queue.keys()
        return {
            name: Account(
                facts=self.queues.get(name) or QueueFacts(name=name),
                used=self.held(self._by_queue.get(name, ())),
            )
            for name in sorted(names)
        }

    def held(self, gangs: Iterable[Gang]) -> Amounts:
        """What pods on the machine hold, those included that are being stopped."""
        pods = (pod for gang in gangs for pods in (gang.here, gang.leaving) for pod in pods)
        return total(self.share(pod) for pod in pods)

    def _room(self) -> Room:
        capacity = self.machine.capacity
        taken = {
            device
            for gang in self.gangs
            for pods in (gang.here, gang.leaving)
            for pod in pods
            for device in pod.devices
        }
        return Room(
            machine=self.machine,
            free=capacity - self.held(self.gangs),
            coming=total(self.share(pod) for gang in self.gangs for pod in gang.leaving),
            devices=[n for n in range(math.trunc(capacity[GPU])) if n not in taken],
        )

    def _entries(self, gang: Gang) -> Iterable[Entry]:
        """The gang's places in the line; none for those that something else keeps waiting."""
        gang.waiting = [pod for pod in gang.waiting if not self._is_aside(pod)]
        if gang.lacks_group is not None:
            return self._all_wait(gang, no_such_group(str(gang.lacks_group)))
        account = self.accounts.get(gang.queue)
        if account is None:
            return self._all_wait(gang, no_such_queue(gang.queue, self.queues))
        barred = self._barred(gang, account)
        if not gang.has_started:
            why = self._at_the_door(gang, account.facts)
            chosen: list[Candidate] = []
            if why is None:
                chosen, why = starting(gang, barred)
            if why is not None:
                return self._all_wait(gang, why, barred)
            if chosen:
                return self._entry(gang, Claim.START, chosen)
        return self._members(gang, barred)

    def _entry(self, gang: Gang, claim: Claim, pods: Iterable[Candidate]) -> list[Entry]:
        chosen = tuple(pods)
        is_nominated = any(pod.is_nominated for pod in chosen)
        return [Entry(gang=gang, claim=claim, pods=chosen, is_nominated=is_nominated)]

    def _members(self, gang: Gang, barred: Mapping[str, Why]) -> list[Entry]:
        """Of a gang that has started: each by itself."""
        chosen, _ = lacked(gang, barred)
        missing = {pod.uid for pod in chosen}
        out: list[Entry] = []
        for pod in (*chosen, *(pod for pod in gang.waiting if pod.uid not in missing)):
            if pod.uid in barred:
                self.refused.append(Refused(pod, barred[pod.uid]))
            else:
                claim = Claim.MISSING if pod.uid in missing else Claim.EXTRA
                out += self._entry(gang, claim, (pod,))
        return out

    def _is_aside(self, pod: Candidate) -> bool:
        text = gate_text(pod)
        if text:
            self.aside.append(Aside(pod, GATED, text))
        elif pod.puzzle:
            text = f"the scheduler can't judge this pod: {pod.puzzle}"
            self.aside.append(Aside(pod, NOT_UNDERSTOOD, text))
        return bool(text)

    def _barred(self, gang: Gang, account: Account) -> dict[str, Why]:
        out: dict[str, Why] = {}
        kept: list[Candidate] = []
        for pod in gang.waiting:
            try:
                why = bar(self.machine, account.facts, pod)
            except Exception as problem:
                # One pod that can't be judged keeps none of the others from a place.
                self.aside.append(Aside(pod, NOT_UNDERSTOOD, _puzzled(problem)))
                continue
            kept.append(pod)
            if why is not None:
                out[pod.uid] = why
        gang.waiting = kept
        return out

    def _at_the_door(self, gang: Gang, queue: QueueFacts) -> Why | None:
        """What keeps a gang out of its queue that hasn't started."""
        # What has started once goes on there, also if it has to start anew.
        is_new = gang.facts is None or not was_scheduled(gang.facts.status)
        if queue.is_closed and is_new:
            return queue_closed(queue.name)
        if not selects(queue.namespaces, self.snapshot.namespaces.get(gang.namespace, {})):
            return namespace_not_allowed(queue.name, gang.namespace)
        if not self.machine.is_relaxed and not selects(queue.nodes, self.machine.labels):
            return queue_elsewhere(queue.name)
        return None

    def _all_wait(self, gang: Gang, why: Why, own: Mapping[str, Why] | None = None) -> list[Entry]:
        self.whys[id(gang)] = why
        self.refused += [Refused(pod, (own or {}).get(pod.uid, why)) for pod in gang.waiting]
        return []

    def _set_aside(self, gang: Gang, problem: Exception) -> None:
        said = {each.pod.uid for each in self.aside} | {each.pod.uid for each in self.refused}
        self.aside += [
            Aside(pod, NOT_UNDERSTOOD, _puzzled(problem))
            for pod in gang.waiting
            if pod.uid not in said
        ]
        gang.waiting = []

    # In the line.

    def _judge(self, entry: Entry) -> None:
        gang, account = entry.gang, self.accounts[entry.gang.queue]
        if entry.claim is not Claim.START and id(gang) in self._sent_away and not gang.here:
            # It has to start again; the next look tells what for it waits.
            return
        wish = self._wish(entry)
        why = self._out_of_bounds(entry, account, wish)
        if why is not None:
            self._waits(entry, why)
        elif self.room.has_for(wish.need, is_missing=entry.claim is Claim.MISSING):
            self._place(entry, account, wish.need)
        else:
            self._await_room(entry, account, wish)
            self._ahead.append(Ahead(gang.title, gang.created_at))

    def _wish(self, entry: Entry) -> Wish:
        shares = [self.share(pod) for pod in entry.pods]
        first = shares[0]
        is_even = all(share is first or share == first for share in shares)
        return Wish(
            count=len(shares),
            need=total(shares),
            each=first if is_even else None,
            is_gang=entry.gang.facts is not None,
        )

    def _out_of_bounds(self, entry: Entry, account: Account, wish: Wish) -> Why | None:
        capacity = self.machine.capacity
        if not self.machine.is_relaxed and not wish.need.fits(capacity):
            return never_fits_machine(wish, self.room.free, capacity)
        why = account.refuses(wish)
        waits = why is not None and why.reason is Reason.QUOTA_EXCEEDED
        if waits and entry.claim is not Claim.EXTRA:
            account.reserve(wish.need, entry.gang.title)
        return why

    def _place(self, entry: Entry, account: Account, need: Amounts) -> None:
        gang = entry.gang
        account.take(need)
        for pod in entry.pods:
            devices, cuts = self.room.take(pod, self.share(pod))
            self.placed.append(Placed(pod, devices, cuts))
        gone = {pod.uid for pod in entry.pods}
        gang.here += entry.pods
        gang.waiting = [pod for pod in gang.waiting if pod.uid not in gone]
        if entry.claim is Claim.START and gang.waiting:
            gang.has_started = True
            self._line.next_in_queue(self._members(gang, self._barred(gang, account)))

    def _await_room(self, entry: Entry, account: Account, wish: Wish) -> None:
        room, title = self.room, entry.gang.title
        if entry.claim is not Claim.EXTRA and self.snapshot.may_preempt:
            leaving = self._makes_room(entry, account, wish)
            if leaving:
                room.reserve(wish.need, title, is_promised=True)
                account.reserve(wish.need, title)
                why = room_comes(wish, room.free, self.machine.capacity, leaving)
                self._waits(entry, why, is_nominated=True)
                return
        holder = room.holder
        is_missing = entry.claim is Claim.MISSING
        # Room is kept for the first; and for those whose own is on its way already, also from
        # restarts: else some of a lower queue come, only to be sent away again.
        comes = room.will_have_for(wish.need, is_missing=is_missing)
        if entry.claim is not Claim.EXTRA and (comes or not holder):
            room.reserve(wish.need, title, is_promised=comes)
            account.reserve(wish.need, title)
        if holder and wish.need.fits(room.free):
            why = room_reserved(holder, self._ahead)
        else:
            why = no_room(wish, room.free, self.machine.capacity, self._ahead)
        self._waits(entry, why)

    def _makes_room(self, entry: Entry, account: Account, wish: Wish) -> int:
        """How many pods go for this one, now or since an earlier look; 0: it waits like others."""
        room, is_missing = self.room, entry.claim is Claim.MISSING
        if room.will_have_for(wish.need, is_missing=is_missing):
            return sum(len(gang.leaving) for gang in self.gangs) if entry.is_nominated else 0
        units = victims(
            self._field,
            account.facts.priority,
            lambda freed: room.will_have_for(wish.need, freed, is_missing=is_missing),
        )
        for unit in units:
            room.coming = room.coming + unit.amounts
            gone = {pod.uid for pod in unit.pods}
            unit.gang.here = [pod for pod in unit.gang.here if pod.uid not in gone]
            unit.gang.leaving += unit.pods
            self._sent_away.add(id(unit.gang))
            said = (
                f"makes room for {entry.gang.title} of queue {account.facts.name}, whose priority"
                f" {account.facts.priority} is higher"
            )
            self.evicted += [Evicted(pod, entry.gang.title, said) for pod in unit.pods]
        return sum(len(unit.pods) for unit in units)

    def _waits(self, entry: Entry, why: Why, *, is_nominated: bool = False) -> None:
        gang = entry.gang
        pods: Iterable[Candidate] = entry.pods
        if entry.claim is Claim.START:
            self.whys[id(gang)] = why
            # Those beyond what it needs wait with it.
            pods = gang.waiting
        chosen = {pod.uid for pod in entry.pods}
        self.refused += [
            Refused(pod, why, is_nominated=is_nominated and pod.uid in chosen) for pod in pods
        ]


def _puzzled(problem: Exception) -> str:
    return f"the scheduler can't judge this pod: {type(problem).__name__}: {problem}"
