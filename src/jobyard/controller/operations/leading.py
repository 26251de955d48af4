"""One leader at a time among several controllers, by a Lease on the API server.

The controller's command calls `lead` with the work that only one may do. Follows client-go's
leader election: a candidate takes a Lease that is free, or that has not changed for as long as
its holder said, counted on the candidate's own clock since it saw the last change. Moments
written by other machines are never compared. What is allowed is decided by `Sighting` and
`Term`, which are values; the rest sends requests. Differs from client-go in that a leader
who sees somebody else's name in the Lease stops at once, and not only after the deadline.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from jobyard.client.backoff import Wait, wait_seconds
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import ClientError, ConnectionFailedError, GarbledError, RefusedError
from jobyard.client.request import LEASES, Request, create, get, merge_patch
from jobyard.client.sender import Sender

NOT_FOUND: Final = 404
CONFLICT: Final = 409
NO_ANSWER: Final = "no answer in time"

_log: Final = logging.getLogger(__name__)


class LeadershipLostError(Exception):
    """We may no longer act as leader. The process should end with an error and start anew."""


class LeaseName(msgspec.Struct, frozen=True):
    """Which Lease the candidates agree on."""

    namespace: str
    name: str = "jobyard-controller"

    def __str__(self) -> str:
        return f"lease {self.namespace}/{self.name}"


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How long a Lease lasts, and how often we see to it."""

    # Written into the Lease: for so long others leave it alone after a change.
    lease_seconds: int = 15
    # A leader without a successful renewal for so long stops. What is left of the lease is the
    # time that its work has for stopping.
    deadline_seconds: float = 10.0
    renew_seconds: float = 5.0
    # Between the attempts of a candidate, and of a leader whose renewal failed.
    retry_seconds: float = 2.0

    wait: Wait = wait_seconds
    now_seconds: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        retry, renew, deadline = self.retry_seconds, self.renew_seconds, self.deadline_seconds
        # A deadline that isn't below the lease would let two lead at once.
        if not 0 < retry <= renew < deadline < self.lease_seconds:
            raise ValueError(
                f"timing of leadership: retry {retry} s, renew {renew} s, deadline {deadline} s,"
                f" lease {self.lease_seconds} s; must be 0 < retry <= renew < deadline < lease"
            )

    @property
    def attempt_seconds(self) -> float:
        """What one renewal may take, so that a request that hangs leaves time for another."""
        return (self.deadline_seconds - self.renew_seconds) / 2


TIMING: Final = Timing()


class Standing(StrEnum):
    """How a Lease stands to one candidate."""

    FREE = "free"
    OURS = "ours"
    HELD = "held by another"
    EXPIRED = "held by another, who is gone"


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is written in a Lease; all of it may be missing from one made by hand."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """A Lease as read, with the version that a change of it has to name."""

    metadata: _Metadata = _Metadata()
    spec: LeaseSpec = LeaseSpec()


class Sighting(msgspec.Struct, frozen=True):
    """What a candidate last saw in a Lease, and since when (its own clock) it has been so."""

    spec: LeaseSpec
    since_seconds: float

    def then(self, spec: LeaseSpec, now_seconds: float) -> Sighting:
        """The next look at it. Anything new is a sign of life of the holder."""
        return self if spec == self.spec else Sighting(spec, now_seconds)

    def standing(self, identity: str, now_seconds: float, timing: Timing) -> Standing:
        """May `identity` take it now?"""
        holder = self.spec.holder_identity
        if not holder:
            return Standing.FREE
        if holder == identity:
            return Standing.OURS
        # The holder's own word counts: it stops in time for that, not for what we'd allow.
        lasts_seconds = self.spec.lease_duration_seconds or timing.lease_seconds
        is_over = now_seconds - self.since_seconds >= lasts_seconds
        return Standing.EXPIRED if is_over else Standing.HELD


class Term(msgspec.Struct, frozen=True):
    """A leader's own view: when it sent the last renewal that succeeded, and what it said."""

    # Of the sending, not of the answer: others may have seen the change as early as that.
    renewed_seconds: float
    lease: Lease

    def left_seconds(self, now_seconds: float, timing: Timing) -> float:
        """For how long we are still leader; not at all when it is zero or less."""
        return self.renewed_seconds + timing.deadline_seconds - now_seconds


def own_identity() -> str:
    """A name for this process that no other has, also not the one before it on this host."""
    return f"{socket.gethostname()}_{secrets.token_hex(5)}"


def microtime(moment: datetime) -> str:
    """A moment as a Lease holds it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def lead(
    sender: Sender,
    lease: LeaseName,
    identity: str,
    work: Callable[[], Awaitable[None]],
    timing: Timing = TIMING,
) -> None:
    """Wait until we are the leader, then do `work` for as long as we are.

    1. `work` ends or fails: the lease is given back, and its error is raised.
    2. A renewal has not succeeded for `deadline_seconds`, or the lease has another holder:
       `work` is cancelled, and LeadershipLostError raised once it has ended. It has to end
       within the rest of the lease, after which another may lead.
    3. We are cancelled: `work` is, too. The lease is renewed until it has ended, and then
       given back, so that another can go on at once.
    """
    seat = _Seat(sender, lease, identity, timing)
    try:
        term = await seat.gain()
        _log.info("%s: %s leads now", lease, identity)
        await _work_during(work, seat, term)
    except LeadershipLostError:
        # It is somebody else's, or the server can't be reached to give it back.
        raise
    except BaseException:
        await seat.release()
        raise
    await seat.release()


async def _work_during(work: Callable[[], Awaitable[None]], seat: _Seat, term: Term) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(seat.keep(term), name="renew the lease")
            # In this task and not in one of the group: a cancellation from outside then ends
            # the work first, while the lease is still renewed.
            try:
                await work()
            finally:
                renewing.cancel()
    except BaseExceptionGroup as errors:
        lost, others = errors.split(LeadershipLostError)
        if lost is not None:
            raise LeadershipLostError(str(lost.exceptions[0])) from others
        # The group put the error of the work into a group of one.
        if len(errors.exceptions) == 1:
            raise errors.exceptions[0] from None
        raise


class _Seat:
    """One candidate's dealings with the Lease."""

    def __init__(self, sender: Sender, name: LeaseName, identity: str, timing: Timing) -> None:
        assert identity, f"{name}: a candidate needs a name"
        self._sender = sender
        self._name = name
        self._identity = identity
        self._timing = timing
        self._sighting: Sighting | None = None
        self._told = ""

    async def gain(self) -> Term:
        """Come back once the lease is ours."""
        while True:
            try:
                async with asyncio.timeout(2 * self._timing.attempt_seconds):
                    term = await self._try_to_gain()
                if term is not None:
                    return term
            except (ClientError, TimeoutError) as error:
                if isinstance(error, ConnectionFailedError) and not error.may_pass:
                    raise
                self._tell(str(error) or NO_ANSWER)
            await self._timing.wait(self._timing.retry_seconds)

    async def keep(self, term: Term) -> None:
        """Renew until that fails for too long; never comes back without an error."""
        timing, problem = self._timing, ""
        next_seconds = term.renewed_seconds + timing.renew_seconds
        while True:
            # The next attempt is due before the deadline, or at it.
            next_seconds = min(next_seconds, term.renewed_seconds + timing.deadline_seconds)
            await timing.wait(max(0.0, next_seconds - timing.now_seconds()))
            sent_seconds = timing.now_seconds()
            left_seconds = term.left_seconds(sent_seconds, timing)
            if left_seconds <= 0:
                why = problem or "this process was held up"
                raise self._lost(f"not renewed for {timing.deadline_seconds} s ({why})")
            try:
                async with asyncio.timeout(min(left_seconds, timing.attempt_seconds)):
                    renewed = await self._renewed(term)
                term = renewed or term
                problem = "" if renewed is not None else "somebody else keeps writing it"
            except (ClientError, TimeoutError) as error:
                problem = str(error) or NO_ANSWER
            if problem:
                _log.warning("%s: renewal failed: %s", self._name, problem)
            pause_seconds = timing.retry_seconds if problem else timing.renew_seconds
            next_seconds = sent_seconds + pause_seconds

    async def release(self) -> None:
        """Give the lease back if it is ours. If that fails it runs out by itself."""
        try:
            async with asyncio.timeout(2 * self._timing.attempt_seconds):
                # Looked up, since an interrupted write may have been carried out.
                lease = await self._read()
                if lease is None or lease.spec.holder_identity != self._identity:
                    return
                await self._write(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})
            _log.info("%s: no longer held by %s", self._name, self._identity)
        except (ClientError, TimeoutError) as error:
            _log.warning(
                "%s: not given back, it will run out: %s", self._name, str(error) or NO_ANSWER
            )

    async def _try_to_gain(self) -> Term | None:
        lease = await self._read()
        now_seconds = self._timing.now_seconds()
        if lease is None:
            return await self._term(None, transitions=0)
        seen = self._sighting or Sighting(lease.spec, now_seconds)
        self._sighting = seen.then(lease.spec, now_seconds)
        standing = self._sighting.standing(self._identity, now_seconds, self._timing)
        if standing is Standing.HELD:
            self._tell(f"held by {lease.spec.holder_identity}; {self._identity} stands by")
            return None
        return await self._term(lease, (lease.spec.lease_transitions or 0) + 1)

    async def _renewed(self, term: Term) -> Term | None:
        """The next term; None if somebody else keeps writing the lease."""
        transitions = term.lease.spec.lease_transitions or 0
        renewed = await self._term(term.lease, transitions)
        if renewed is not None:
            return renewed
        # Somebody wrote it: we ourselves and the answer was lost, a label, or another leader.
        lease = await self._read()
        if lease is not None and lease.spec.holder_identity != self._identity:
            raise self._lost(f"its holder is {lease.spec.holder_identity or 'nobody'} now")
        return await self._term(lease, transitions)

    async def _term(self, lease: Lease | None, transitions: int) -> Term | None:
        """Write our name into it; None if it is no longer as we know it."""
        sent_seconds = self._timing.now_seconds()
        now = microtime(datetime.now(UTC))
        spec: dict[str, Any] = {"holderIdentity": self._identity, "renewTime": now}
        spec["leaseDurationSeconds"] = self._timing.lease_seconds
        if lease is None or lease.spec.holder_identity != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": transitions}
        written = await self._write(lease, spec)
        return None if written is None else Term(sent_seconds, written)

    async def _read(self) -> Lease | None:
        return await self._ask(get(LEASES, self._name.namespace, self._name.name), NOT_FOUND)

    async def _write(self, lease: Lease | None, spec: dict[str, Any]) -> Lease | None:
        namespace, name = self._name.namespace, self._name.name
        if lease is None:
            head = {"apiVersion": LEASES.api_version, "kind": LEASES.kind}
            made = {**head, "metadata": {"name": name}, "spec": spec}
            return await self._ask(create(LEASES, namespace, made), CONFLICT)
        # A patch leaves labels and annotations of others alone; the version makes it refuse
        # to write over what we have not seen.
        patch = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        request = merge_patch(LEASES, namespace, name, patch)
        return await self._ask(request, CONFLICT, NOT_FOUND)

    async def _ask(self, request: Request, *none_for: int) -> Lease | None:
        answer = await self._sender.send(request)
        if answer.status in none_for:
            return None
        if not answer.is_ok:
            raise RefusedError(str(request), answer.problem, answer.retry_after_seconds)
        try:
            return decoded_json(answer.body, Lease)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise GarbledError(str(request)) from error

    def _lost(self, why: str) -> LeadershipLostError:
        message = f"{self._name}: {self._identity} no longer leads, {why}; restart the process"
        # Said before the work is cancelled, which may take its time.
        _log.error("%s", message)
        return LeadershipLostError(message)

    def _tell(self, news: str) -> None:
        # A standby looks every two seconds, possibly for months.
        if news != self._told:
            self._told = news
            _log.info("%s: %s", self._name, news)
