"""One pass over a job: observe, decide, carry the plan out in its order.

Written without a clock and without asyncio: all calls go through `perform`, which takes a
batch of requests and gives back what is made of the outcome of each. The controller performs
them over the network, the simulation with faults of its choice; both run these very lines. What
users' own programs are asked goes through `ask`, and no pass waits for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import msgspec

from jobyard.api.parts.status import Phase
from jobyard.client.request import (
    EVENTS,
    Answer,
    Propagation,
    Request,
    create,
    delete,
    json_patch,
    merge_patch,
    resource_named,
    resource_of,
)
from jobyard.controller.asking import Ask
from jobyard.controller.creating import Creating
from jobyard.controller.lookups import Lookups
from jobyard.controller.notes import Notes
from jobyard.controller.objects import (
    Keyed,
    MakeKeys,
    event_object,
    status_patch,
    whole_status_patch,
)
from jobyard.controller.performing import Outcome, Perform, as_it_is
from jobyard.controller.records import JobKey, JobRecord
from jobyard.controller.troubles import Troubles
from jobyard.controller.world import World
from jobyard.plan.facts.decision import Delete, Event, EventReason, Observed, Plan
from jobyard.plan.table import decisions_of

# What such an answer says of a write is that nobody knows whether it was done.
_SERVER_ERROR = 500
# Supporting objects, then probes, then the rest: more rounds mean that nothing moves.
_ROUNDS_MAX = 4
# Of one pass; a job can't have more to tell than a person reads.
_EVENTS_MAX = 50


class Next(StrEnum):
    """How a pass ended."""

    # Nothing to do until something changes, or `look_again_at`.
    WAIT = "wait"
    # Something failed or was stale: again, after a delay that grows.
    RETRY = "retry"
    # The job is gone.
    GONE = "gone"


class Passed(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass came to, for the queue and the metrics."""

    next: Next
    look_again_at: float | None = None
    pods_created: int = 0
    restarts: int = 0
    # Seconds from its creation until all of it ran, when that has just come.
    started_after: float | None = None
    # Why nothing could be decided; the job says so itself.
    problem: str = ""


class Reconciler:
    """Passes over jobs, with what is kept between them."""

    def __init__(
        self,
        world: World,
        notes: Notes,
        perform: Perform,
        now: Callable[[], float],
        make_keys: MakeKeys,
        ask: Ask,
    ) -> None:
        self._world = world
        self._notes = notes
        self._perform = perform
        self._now = now
        self._make_keys = make_keys
        self._lookups = Lookups(world, notes, perform, ask)
        self._troubles = Troubles(notes, self._write_status, perform)

    async def reconcile(self, key: JobKey) -> Passed:
        record = self._world.job(key)
        if record is None:
            self._world.forget(key)
            self._notes.forget(key)
            return Passed(next=Next.GONE)
        if record.job is None:
            is_told = await self._troubles.unreadable(record, self._now())
            return Passed(next=Next.WAIT if is_told else Next.RETRY, problem=record.problem)
        try:
            passed = await self._pass(record)
        except MemoryError:
            raise
        except Exception as problem:
            # The top of a pass: this job says so, and is tried again; the others go on.
            text = await self._troubles.raised(record, problem, self._now())
            return Passed(next=Next.RETRY, problem=text)
        self._notes.of(record).problem = ""
        return passed

    async def _pass(self, record: JobRecord) -> Passed:
        note = self._notes.of(record)
        if not await self._lookups.find_unanswered(record, note):
            return Passed(next=Next.RETRY)
        is_known = await self._lookups.find_secrets(record, note)
        creating = Creating(record, note, self._world, self._perform)
        has_failed = False
        for _ in range(_ROUNDS_MAX):
            seen = self._world.observe(record, self._notes)
            plan = self._decide(record, seen)
            if has_failed or not (plan.supporting or plan.probes):
                break
            has_failed = not await self._prepare(creating, plan)
        has_failed = has_failed or not is_known
        return await self._carry_out(record, creating, plan, has_failed=has_failed)

    def _decide(self, record: JobRecord, seen: Observed) -> Plan:
        return decisions_of(record.kind).decide(seen, self._now(), record.job.spec)

    async def _prepare(self, creating: Creating, plan: Plan) -> bool:
        """Supporting objects and probes; whether all went well."""
        is_well = True
        if plan.supporting:
            is_well = await creating.make(Keyed(plan.supporting, self._make_keys))
        if plan.probes:
            # Also if something could not be made: a TensorBoard doesn't hold up the job.
            is_well = await creating.probe(plan.probes) and is_well
        return is_well

    async def _carry_out(
        self, record: JobRecord, creating: Creating, plan: Plan, *, has_failed: bool
    ) -> Passed:
        now = self._now()
        restarts = 0
        if plan.status is not None:
            restarts = decisions_of(record.kind).restarts_between(record.status, plan.status)
        if not await self._settle_status(record, plan):
            return Passed(next=Next.RETRY)
        is_well = not has_failed
        if plan.deletes:
            is_well = await self._delete(record, plan.deletes) and is_well
        made, events = 0, plan.events
        if plan.pods:
            before = creating.made
            are_there = await creating.make(plan.pods)
            made, is_well = creating.made - before, is_well and are_there
            if not are_there:
                # Not what was planned; the pass that makes the rest tells of it.
                events = tuple(each for each in events if each.reason != EventReason.CREATED_PODS)
        if events:
            await self._tell(record, events, now)
        again_at = plan.look_again_at
        if plan.asks_for_job_url:
            self._lookups.ask_for_page(record)
        if await self._lookups.ask_nodes(record, plan.nodes_to_ask):
            # What is lost now may be back later, so the answer is acted upon at once.
            again_at = now
        if await self._lookups.ask_about(record, plan.pods_to_ask, now):
            # What they say goes into the status.
            again_at = now
        if plan.ends_job:
            is_well = await self._end(record) and is_well
        return Passed(
            next=Next.WAIT if is_well else Next.RETRY,
            look_again_at=again_at,
            pods_created=made,
            restarts=restarts,
            started_after=_started_after(record, plan, now),
        )

    async def _settle_status(self, record: JobRecord, plan: Plan) -> bool:
        """Whether the status is as planned, and known to be.

        A write without an answer may have been done all the same, and the watch may be behind:
        nothing is made or deleted then before an empty write on that version is taken.
        """
        if plan.status is not None:
            return await self._write_status(record, plan.status)
        if self._notes.of(record).unconfirmed_version == record.version and (
            plan.deletes or plan.pods
        ):
            assert record.status is not None, "what is planned rests on a status"
            return await self._write_status(record, record.status)
        return True

    async def _write_status(self, record: JobRecord, status: msgspec.Struct) -> bool:
        note = self._notes.of(record)
        outcome = await self._sent(record, _status_request(record, status))
        if outcome is None or outcome.status >= _SERVER_ERROR:
            note.unconfirmed_version = record.version
            return False
        await self._troubles.answered(record, outcome, self._now())
        if not outcome.is_ok:
            return False
        note.unconfirmed_version = ""
        name = record.kind.name
        self._world.jobs[name].absorb(self._world.decode_job[name](outcome.body))
        return True

    async def _delete(self, record: JobRecord, deletes: Sequence[Delete]) -> bool:
        def take(n: int, outcome: Outcome) -> bool:
            # Gone already, or another one of that name by now: both are what was wanted.
            is_gone = outcome is not None and (outcome.is_ok or outcome.status in (404, 409))
            each = deletes[n]
            if each.kind == "Secret" and is_gone:
                # Nobody watches secrets, so no event would ever tell.
                self._notes.of(record).secrets.pop(each.name, None)
            elif each.kind == "Pod" and outcome is not None and outcome.is_ok:
                self._absorb_deleted(outcome)
            return is_gone

        requests = [_delete_request(record, each) for each in deletes]
        return all(await self._perform(record.key, requests, take))

    def _absorb_deleted(self, answer: Answer) -> None:
        """A pod that has its grace to go comes back with the mark on it."""
        if b'"kind":"Pod"' in answer.body[:100]:
            pod = self._world.decode_pod(answer.body)
            if pod.is_terminating:
                self._world.pods.absorb(pod)

    async def _tell(self, record: JobRecord, events: Sequence[Event], now: float) -> None:
        """Events are told at most once; nothing depends on them."""
        objects = [event_object(record, event, now) for event in events[:_EVENTS_MAX]]
        requests = [create(EVENTS, record.namespace, each) for each in objects]
        await self._perform(record.key, requests, as_it_is)

    async def _sent(self, record: JobRecord, request: Request) -> Outcome:
        (outcome,) = await self._perform(record.key, [request], as_it_is)
        return outcome

    async def _end(self, record: JobRecord) -> bool:
        request = delete(
            resource_of(record.kind),
            record.namespace,
            record.name,
            uid=record.uid,
            propagation=Propagation.BACKGROUND,
        )
        outcome = await self._sent(record, request)
        return outcome is not None and (outcome.is_ok or outcome.status in (404, 409))


def _started_after(record: JobRecord, plan: Plan, now: float) -> float | None:
    after = getattr(plan.status, "state", None) or getattr(plan.status, "phase", None)
    # A TaskSet that is retried is pending again, but has run before.
    has_run = getattr(record.status, "start_at", None) is not None
    is_new = record.phase == Phase.PENDING and after == Phase.RUNNING and not has_run
    return now - record.created_at if is_new else None


def _status_request(record: JobRecord, status: msgspec.Struct) -> Request:
    resource, new = resource_of(record.kind), msgspec.to_builtins(status)
    if getattr(status, "WRITES_NULLS", False):
        whole = whole_status_patch(record, new)
        return json_patch(resource, record.namespace, record.name, whole, subresource="status")
    old = msgspec.to_builtins(record.status) if record.status is not None else {}
    patch = status_patch(record, old, new)
    return merge_patch(resource, record.namespace, record.name, patch, subresource="status")


def _delete_request(record: JobRecord, each: Delete) -> Request:
    api_version = "scheduler.tensorstack.dev/v1beta1" if each.kind == "PodGroup" else "v1"
    return delete(
        resource_named(api_version, each.kind),
        record.namespace,
        each.name,
        uid=each.uid,
        grace_seconds=each.grace_seconds,
        propagation=Propagation(each.propagation) if each.propagation else None,
    )
