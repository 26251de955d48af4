"""One pass over a pod: what `pod_step` says is done, in an order that survives a kill anywhere.

`agent` wakes pods, `lanes` runs the passes. All that is kept here between passes may be lost:
it only spares work, or tells the runtime less often what it knows already.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from jobyard.client.errors import RefusedError
from jobyard.client.request import PODS, delete, merge_patch
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.agent.container_status import Waiting
from jobyard.node.agent.options import AgentOptions
from jobyard.node.agent.pod_queue import Lanes
from jobyard.node.agent.pod_status import Facts, Refusal, lost_state, patch_of, status_of
from jobyard.node.agent.pod_step import Step, grace_seconds, step_of
from jobyard.node.agent.sources import has_other_files
from jobyard.node.agent.starting import Hindrance, Outcome, Starter
from jobyard.node.network.addresses import AddressPool
from jobyard.node.network.host_ports import HostPorts
from jobyard.node.objects.events import Event, Reason, Reporter
from jobyard.node.objects.pod_book import PodBook
from jobyard.node.objects.pod_object import PodObject, pod_of
from jobyard.node.shared.runtime import Runtime
from jobyard.node.shared.state import PodState, Stage

STOP_AGAIN_SECONDS: Final = 2.0
NOT_FOUND: Final = 404
CONFLICT: Final = 409


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What passes work with."""

    sender: Sender
    runtime: Runtime
    book: PodBook
    starter: Starter
    reporter: Reporter
    pool: AddressPool | None
    ports: HostPorts
    options: AgentOptions


class _Notes(msgspec.Struct, kw_only=True):
    """What is remembered of one pod."""

    was_started: bool = False
    # Something on disk belongs to it, even if it never ran.
    is_placed: bool = False
    has_stale_volumes: bool = False
    is_removed: bool = False
    stops_at: float | None = None
    last_note: int = 0
    waiting: dict[str, Waiting] = {}


class Passes:
    """Passes over all pods of one node."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._notes: dict[str, _Notes] = {}
        self.lanes: Lanes | None = None

    def adopt(self, state: PodState) -> None:
        """A pod that is there from before: it was started, and its news are old."""
        last = state.notes[-1].number if state.notes else 0
        self._notes[state.uid] = _Notes(was_started=True, is_placed=True, last_note=last)

    def spoil(self, uid: str) -> None:
        """Something that is mounted changed."""
        self._of(uid).has_stale_volumes = True

    def is_waiting(self, uid: str) -> bool:
        """Whether it couldn't be started for want of something."""
        notes = self._notes.get(uid)
        return notes is not None and not notes.was_started

    def clear(self, uid: str) -> None:
        """Something is on disk for it; whatever it is, it goes with the pod."""
        self._of(uid).is_placed = True

    def _of(self, uid: str) -> _Notes:
        return self._notes.setdefault(uid, _Notes())

    async def work(self, uid: str) -> None:
        """One pass."""
        book = self._parts.book
        pod, state, notes = book.pod(uid), book.state(uid), self._of(uid)
        match step_of(pod, state, was_started=notes.was_started):
            case Step.NOTHING:
                await self._forget(uid, notes)
            case Step.FORGET:
                notes.is_placed = True
                await self._forget(uid, notes)
            case Step.START:
                assert pod is not None, f"pod {uid} can't be started without its object"
                await self._start(pod, notes)
            case Step.LOSE:
                assert pod is not None, f"pod {uid} can't be lost without its object"
                book.stands(lost_state(pod, time.time()))
            case Step.STOP:
                await self._stop(uid, pod, state, notes)
            case Step.REPORT:
                assert pod is not None, f"pod {uid} has no object to report to"
                await self._report(pod, state, notes)
                await self._refresh(uid, notes)
            case Step.REMOVE:
                assert pod is not None, f"pod {uid} is removed already"
                await self._remove(pod, state, notes)

    async def _start(self, pod: PodObject, notes: _Notes) -> None:
        notes.is_placed = True
        outcome = await self._parts.starter.start(pod)
        if outcome.hindrance is None:
            notes.was_started, notes.waiting = True, {}
            for reason, text in outcome.hints:
                self._tell(pod, reason, text)
            return
        self._tell_of_hindrance(pod, outcome)
        notes.waiting = outcome.waiting
        await self._report(pod, None, notes, outcome.refusal)
        if outcome.refusal is None and self.lanes is not None:
            self.lanes.retry(pod.metadata.uid)

    async def _stop(
        self, uid: str, pod: PodObject | None, state: PodState | None, notes: _Notes
    ) -> None:
        now = time.time()
        stops_at = now + grace_seconds(pod, now)
        # It never gets more time than it had, however often it is told.
        notes.stops_at = stops_at if notes.stops_at is None else min(stops_at, notes.stops_at)
        await self._parts.runtime.stop(uid, max(0.0, notes.stops_at - now))
        if self.lanes is not None:
            # Until it is over: whoever should have heard it may just not have been there.
            self.lanes.wake_in(uid, STOP_AGAIN_SECONDS)
        if pod is None:
            return
        for container in state.containers if state is not None else ():
            if container.stage is Stage.RUNNING:
                message = f"Stopping container {container.name}"
                self._tell(pod, Reason.KILLING, message, container.name)
        await self._report(pod, state, notes)

    async def _report(
        self,
        pod: PodObject,
        state: PodState | None,
        notes: _Notes,
        refusal: Refusal | None = None,
    ) -> bool:
        """Whether the server says now what is true; if not, there will be another pass."""
        if state is None and refusal is None and (pod.has_ended or notes.was_started):
            # Nothing is known that the status doesn't say, or its state is about to come.
            return True
        parts = self._parts
        if state is not None:
            self._tell_of_state(pod, state, notes)
        facts = Facts(
            host_address=parts.options.setup.host_address,
            now=time.time(),
            address=self._address(pod.metadata.uid),
            state=state,
            waiting=notes.waiting,
            refusal=refusal,
        )
        patch = patch_of(pod, status_of(pod, facts))
        if patch is None:
            return True
        namespace, name = pod.key
        request = merge_patch(PODS, namespace, name, patch, subresource="status")
        answer = await send_patiently(parts.sender, request)
        if answer.is_ok:
            answered = pod_of(answer.body)
            if has_other_files(parts.book.pod(pod.metadata.uid), answered):
                notes.has_stale_volumes = True
            parts.book.absorb(answered)
        elif answer.status == NOT_FOUND:
            parts.book.vanished(pod.metadata.uid)
        elif answer.status == CONFLICT and self.lanes is not None:
            # It changed meanwhile; the watch brings the new version.
            self.lanes.retry(pod.metadata.uid)
            return False
        else:
            raise RefusedError(str(request), answer.problem, answer.retry_after_seconds)
        return True

    def _address(self, uid: str) -> str:
        pool = self._parts.pool
        return pool.known(uid) if pool is not None else ""

    async def _refresh(self, uid: str, notes: _Notes) -> None:
        # The pod as it is by now: it may have changed since the pass began.
        pod, state = self._parts.book.pod(uid), self._parts.book.state(uid)
        if pod is None or state is None or state.is_over:
            return
        if notes.has_stale_volumes:
            # Not afterwards: what changes meanwhile spoils them again.
            notes.has_stale_volumes = False
            try:
                await self._parts.starter.refresh(pod)
            except Exception:
                notes.has_stale_volumes = True
                raise

    async def _remove(self, pod: PodObject, state: PodState | None, notes: _Notes) -> None:
        if notes.is_removed:
            return
        # How it ended is told before it is gone: others count on it.
        if state is not None and not await self._report(pod, state, notes):
            return
        namespace, name = pod.key
        uid = pod.metadata.uid
        request = delete(PODS, namespace, name, uid=uid, grace_seconds=0)
        answer = await send_patiently(self._parts.sender, request)
        if answer.status in (NOT_FOUND, CONFLICT):
            self._parts.book.vanished(uid)
        elif not answer.is_ok:
            raise RefusedError(str(request), answer.problem, answer.retry_after_seconds)
        notes.is_removed = True

    async def _forget(self, uid: str, notes: _Notes) -> None:
        parts = self._parts
        if notes.is_placed:
            await parts.runtime.forget(uid)
        parts.book.forgotten(uid)
        parts.reporter.forget(uid)
        parts.ports.release(uid)
        if parts.pool is not None:
            parts.pool.release(uid)
        if self.lanes is not None:
            self.lanes.forget(uid)
        self._notes.pop(uid, None)

    def _tell_of_state(self, pod: PodObject, state: PodState, notes: _Notes) -> None:
        for container in (*state.init_containers, *state.containers):
            if container.stage is Stage.RUNNING:
                message = f"Started container {container.name}"
                self._tell(pod, Reason.STARTED, message, container.name)
        for note in state.notes:
            if note.number > notes.last_note:
                notes.last_note = note.number
                self._tell(
                    pod, note.reason, note.message, note.container, is_warning=note.is_warning
                )

    def _tell_of_hindrance(self, pod: PodObject, outcome: Outcome) -> None:
        is_mount = outcome.hindrance is Hindrance.MOUNT
        reason = Reason.FAILED_MOUNT if is_mount else Reason.FAILED
        self._tell(pod, reason, outcome.message, is_warning=True)

    def _tell(
        self,
        pod: PodObject,
        reason: str,
        message: str,
        container: str = "",
        *,
        is_warning: bool = False,
    ) -> None:
        is_init = any(each.name == container for each in pod.spec.init_containers)
        field = "initContainers" if is_init else "containers"
        self._parts.reporter.tell(
            Event(
                kind="Pod",
                about=pod.metadata,
                reason=reason,
                message=message,
                is_warning=is_warning,
                field_path=f"spec.{field}{{{container}}}" if container else "",
            )
        )
