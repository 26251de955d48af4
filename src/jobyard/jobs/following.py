"""Several jobs followed at once: their statuses, their logs, their warnings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from jobyard.api.kinds import KINDS
from jobyard.client.errors import ClientError
from jobyard.client.request import EVENTS, Propagation, delete
from jobyard.client.sender import Sender
from jobyard.client.watching import Watched, follow
from jobyard.jobs.happenings import Happenings
from jobyard.jobs.log_lines import DRAIN_SECONDS, LogFollower, Wanted
from jobyard.jobs.observer import Observer
from jobyard.jobs.one_object import Reference, until_gone, watch_one
from jobyard.jobs.pods import JobPod
from jobyard.jobs.troubles import Troubles
from jobyard.jobs.view import JobView, stopped, view_of

# What a job that is deleted has beyond its pods' grace: requests, watches, finalizers.
STOP_MARGIN_SECONDS: Final = 15.0
# Of a pod that doesn't say, or wasn't seen.
GRACE_SECONDS: Final = 30
# One rank may end a job, and the others end by themselves just after it. Their ends are waited
# for as long as one follows another, and then a moment; not for ever, a server may be among them.
ENDS_PAUSE_SECONDS: Final = 1.0
ENDS_SECONDS: Final = 5.0
_SERVING_KINDS: Final = frozenset(kind.name for kind in KINDS if kind.serves)
# The job is gone, or another has its name by now.
_NOT_THERE: Final = (404, 409)


class Following:
    """Follows submitted jobs until all are over."""

    def __init__(
        self,
        sender: Sender,
        jobs: Sequence[Reference],
        show: Observer,
        stop_margin_seconds: float = STOP_MARGIN_SECONDS,
    ) -> None:
        self._sender = sender
        self._jobs = jobs
        self._show = show
        self._stop_margin_seconds = stop_margin_seconds
        self._views = {job.uid: _unseen(job) for job in jobs}
        self._over = asyncio.Event()
        self._changed = asyncio.Event()
        self._troubles = Troubles(show.trouble)
        self._happenings = Happenings(self._views, show)
        self._graces_seconds: set[int] = set()
        # By uid: what nobody could stop.
        self._left: set[str] = set()

    def views(self) -> list[JobView]:
        return [self._views[job.uid] for job in self._jobs]

    async def until_over(self) -> None:
        followers = [self._log_follower(job) for job in self._jobs]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(follower.run()) for follower in followers]
            tasks += [group.create_task(self._follow_job(job)) for job in self._jobs]
            tasks += [
                group.create_task(self._follow_events(namespace))
                for namespace in {job.namespace for job in self._jobs}
            ]
            await self._over.wait()
            await self._last_ends()
            await asyncio.gather(
                *(
                    follower.drained(DRAIN_SECONDS, view.running_pods)
                    for follower, view in zip(followers, self.views(), strict=True)
                )
            )
            for task in tasks:
                task.cancel()

    async def _last_ends(self) -> None:
        """Until nothing ends any more that still ran when the jobs were over."""
        now = asyncio.get_running_loop().time
        until = now() + ENDS_SECONDS
        due, left = now() + ENDS_PAUSE_SECONDS, self._ending()
        with suppress(TimeoutError):
            while left:
                self._changed.clear()
                async with asyncio.timeout_at(min(until, due)):
                    await self._changed.wait()
                if self._ending() < left:
                    due, left = now() + ENDS_PAUSE_SECONDS, self._ending()

    def _ending(self) -> int:
        """How many replicas are running that may end by themselves."""
        return sum(
            len(view.running_pods)
            for view in self._views.values()
            if view.kind not in _SERVING_KINDS
        )

    async def stop_jobs(self, hurry: asyncio.Event) -> Collection[str]:
        """Deletes the jobs and waits until their pods have ended, or until it has to be quick.

        Not for ever: a job that something holds is left to whoever does. The uids of those that
        may go on.
        """
        seconds = max(self._graces_seconds, default=GRACE_SECONDS) + self._stop_margin_seconds
        tasks = {asyncio.ensure_future(self._stop(job)): job for job in self._jobs}
        stopping = asyncio.gather(*tasks)
        asked = asyncio.ensure_future(hurry.wait())
        await asyncio.wait((stopping, asked), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            stopping.result()
        held = [job for task, job in tasks.items() if not task.done()]
        if held and not asked.done():
            self._left |= {job.uid for job in held}
            names = ", ".join(str(job) for job in held)
            self._show.trouble(
                f"{names}: not gone after {seconds:g} s, and not waited for any longer"
                " (a finalizer, or a node that doesn't answer)"
            )
        for each in (stopping, asked):
            each.cancel()
        await asyncio.gather(stopping, asked, return_exceptions=True)
        return self._left

    async def _stop(self, job: Reference) -> None:
        request = delete(
            job.resource, job.namespace, job.name, uid=job.uid, propagation=Propagation.FOREGROUND
        )
        try:
            answer = await self._sender.send(request)
        except ClientError as problem:
            self._left.add(job.uid)
            self._show.trouble(f"{job} may still be running: {problem}")
            return
        if answer.is_ok:
            await until_gone(self._sender, job, self._troubles)
        elif answer.status not in _NOT_THERE:
            self._left.add(job.uid)
            self._show.trouble(f"{job} goes on, it can't be deleted: {answer.problem.message}")

    def _log_follower(self, job: Reference) -> LogFollower:
        wanted = Wanted(kind=job.resource.kind, namespace=job.namespace, name=job.name, uid=job.uid)
        return LogFollower(
            self._sender,
            wanted,
            self._show.lines_of(str(job)),
            self._seeing(job),
            self._troubles,
            self._show.holds_of(str(job)),
        )

    def _seeing(self, job: Reference) -> Callable[[JobPod], None]:
        show = self._show.pods_of(str(job))

        def see(pod: JobPod) -> None:
            show(pod)
            self._happenings.saw_pod(pod, job.uid)
            self._graces_seconds.add(pod.spec.termination_grace_period_seconds)

        return see

    async def _follow_job(self, job: Reference) -> None:
        await watch_one(
            self._sender, job, self._saw_job, lambda: self._lost_job(job.uid), self._troubles
        )

    def _saw_job(self, obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        view = view_of(obj, self._views[uid].kind)
        self._views[uid] = view
        self._changed.set()
        self._show.saw_job(view)
        self._settle()

    def _lost_job(self, uid: str) -> None:
        """A job that somebody deleted, or that its TTL took away, is over."""
        if not self._views[uid].is_over:
            # Its pods go with it, and no status will tell of their ends.
            view = msgspec.structs.replace(
                stopped(self._views[uid]), phase="Failed", message="The job was deleted."
            )
            self._views[uid] = view
            self._show.saw_job(view)
        self._settle()

    def _settle(self) -> None:
        if all(view.is_over for view in self._views.values()):
            self._over.set()

    async def _follow_events(self, namespace: str) -> None:
        watched = Watched(resource=EVENTS, namespace=namespace)
        sink = _EventSink(self._happenings)
        await follow(self._sender, watched, msgspec.json.decode, sink, notice=self._troubles)


class _EventSink:
    """Passes on what a watch tells of events; one that is gone has been told."""

    def __init__(self, happenings: Happenings) -> None:
        self._happenings = happenings

    def replaced(self, items: Sequence[dict[str, Any]], resource_version: str) -> None:  # noqa: ARG002
        for item in items:
            self._happenings.saw_event(item)

    def changed(self, obj: dict[str, Any]) -> None:
        self._happenings.saw_event(obj)

    def removed(self, obj: dict[str, Any]) -> None:
        """Nothing to do."""

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes nothing."""


def _unseen(job: Reference) -> JobView:
    return JobView(kind=job.resource.kind, namespace=job.namespace, name=job.name, uid=job.uid)
