"""The logs of all replicas of a job, merged line by line as they come.

Follows the pods by watch and each log by a stream of its own; a container that runs again has a
new log. Lines are whole: what has no end yet is held back until it has, or until the log ends.
Who has a place for it, such as a live table, is told what is held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from typing import Final

import msgspec

from jobyard.client.backoff import PATIENCE
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import ClientError, ConnectionFailedError, RefusedError
from jobyard.client.request import PODS, Request, listing
from jobyard.client.sender import Sender
from jobyard.client.watching import Notice, Watched, follow
from jobyard.jobs.log_place import Lines, LogPlace
from jobyard.jobs.pods import JobPod, LogKey, PodList
from jobyard.numerals import whole_number
from jobyard.plan.lowering.names import is_octopus, pod_selector
from jobyard.terminal.widths import last_state

# A line longer than this is shown in pieces.
LINE_BYTES_MAX: Final = 64 * 1024
# How long the last lines of a job that ended are waited for, when none comes.
DRAIN_SECONDS: Final = 5.0
# What was written before a job's end is read by then, also of a replica that outlives its job.
_LINGER_SECONDS: Final = 0.3


class Line(msgspec.Struct, frozen=True):
    """One line of one container of a replica."""

    replica: str
    # Empty for the only one.
    container: str
    text: bytes
    attempt: int = 0


Show = Callable[[Line], None]
# What is held back of a log; nothing when its line has ended.
Hold = Callable[[bytes], None]
SeePod = Callable[[JobPod], None]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs, and how much of each."""

    kind: str
    namespace: str
    name: str
    # Of the job; an earlier one of its name may have pods that are on their way out.
    uid: str
    # Empty: all.
    replica: str = ""
    container: str = ""
    tail_lines: int | None = None
    timestamps: bool = False
    # Of a run of a container, by number; None: each as it comes.
    run: int | None = None
    # Of an attempt of the replica; None: the pod that is there.
    attempt: int | None = None


class LogFollower:
    """Follows one job's pods and their logs; `run` in a task, `drained` when the job has ended."""

    def __init__(
        self,
        sender: Sender,
        wanted: Wanted,
        show: Show,
        see: SeePod,
        notice: Notice,
        hold: Show | None = None,
    ) -> None:
        self._sender = sender
        self._wanted = wanted
        self._show = show
        self._see = see
        self._notice = notice
        # What has no end yet, each time it changes; without a text once it has.
        self._hold = hold
        self._listed = asyncio.Event()
        self._pods: dict[str, JobPod] = {}
        self._streams: dict[LogKey, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        # How many were shown.
        self._lines = 0

    async def run(self) -> None:
        """Until cancelled."""
        wanted = self._wanted
        watched = Watched(
            resource=PODS,
            namespace=wanted.namespace,
            label_selector=pod_selector(wanted.kind, wanted.name),
        )
        decode = msgspec.json.Decoder(JobPod).decode
        async with asyncio.TaskGroup() as group:
            self._group = group
            await follow(self._sender, watched, decode, self, notice=self._notice)

    @property
    def pods(self) -> Collection[JobPod]:
        """All that were seen, as they were last."""
        return self._pods.values()

    async def drained(self, seconds: float, running: Collection[str] = ()) -> None:
        """Until every log of the job has been read to its end, or none has said more for `seconds`.

        `running` are the pods that outlive the job, such as workers that wait for logins. Their
        logs have no end to wait for.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look_once_more()
        await self._read_to_the_end(seconds, running)

    async def _look_once_more(self) -> None:
        """The job's end may be known before its pods are: their watch is another one."""
        await self._listed.wait()
        wanted = self._wanted
        selector = pod_selector(wanted.kind, wanted.name)
        try:
            answer = await self._sender.send(
                listing(PODS, wanted.namespace, label_selector=selector)
            )
        except ClientError:
            # Then what has been seen has to do.
            return
        if answer.is_ok:
            for pod in decoded_json(answer.body, type=PodList).items:
                self.changed(pod)

    async def _read_to_the_end(self, seconds: float, running: Collection[str]) -> None:
        pending = {key: task for key, task in self._streams.items() if not task.done()}
        endless = {task for key, task in pending.items() if self._goes_on(key, running)}
        ending = set(pending.values()) - endless
        while ending:
            before = self._lines
            _, ending = await asyncio.wait(ending, timeout=seconds)
            if self._lines == before:
                break
        if endless:
            await asyncio.wait(endless, timeout=_LINGER_SECONDS)

    def _goes_on(self, key: LogKey, running: Collection[str]) -> bool:
        """As the job says and the pod: either of them may know of an end before the other."""
        pod = self._pods[key.uid]
        return pod.metadata.name in running and key in pod.running

    # What the watch tells.

    def replaced(self, items: Sequence[JobPod], resource_version: str) -> None:  # noqa: ARG002
        for pod in items:
            self.changed(pod)
        self._listed.set()

    def changed(self, obj: JobPod) -> None:
        wanted = self._wanted
        if not obj.is_of(wanted.uid):
            return
        self._see(obj)
        self._pods[obj.metadata.uid] = obj
        if wanted.replica and wanted.replica not in (obj.replica, obj.metadata.name):
            return
        for key in obj.logs:
            if key in self._streams or (wanted.container and key.container != wanted.container):
                continue
            assert self._group is not None, "the watch runs inside of `run`"
            self._streams[key] = self._group.create_task(self._read(obj, key))

    def removed(self, obj: JobPod) -> None:
        """Its logs end by themselves."""

    def reached(self, resource_version: str) -> None:
        """Nothing to do: a bookmark changes no pod."""

    # One log.

    async def _read(self, pod: JobPod, key: LogKey) -> None:
        """To its end; a connection that is cut is made again, and nothing is shown twice."""
        is_only = len(pod.spec.containers) == 1 and key.container == pod.spec.containers[0].name
        container = "" if is_only else key.container
        place, failures = LogPlace(), 0

        def hold(text: bytes) -> None:
            if self._hold is not None:
                self._hold(Line(pod.replica, container, text, pod.attempt))

        while True:
            request = log_request(pod, key, self._wanted, follow=True, is_resumed=failures > 0)
            lines = place.after(split_lines(self._sender.chunks(request), hold))
            try:
                async with aclosing(lines):
                    async for text, _ in lines:
                        failures = 0
                        self._lines += 1
                        self._show(Line(pod.replica, container, text, pod.attempt))
                return
            except RefusedError:
                # It was gone before it could be read; the job's status tells how it ended.
                return
            except ClientError as problem:
                if not self._can_resume(problem):
                    cut_off = f"[log cut off: {problem}]".encode()
                    self._show(Line(pod.replica, container, cut_off, pod.attempt))
                    return
            failures += 1
            await PATIENCE.after(failures)

    def _can_resume(self, problem: ClientError) -> bool:
        # Of a log that was read from somewhere in it nobody knows where that was.
        is_whole = self._wanted.tail_lines is None
        return is_whole and isinstance(problem, ConnectionFailedError) and problem.may_pass


def log_request(
    pod: JobPod, key: LogKey, wanted: Wanted, *, follow: bool, is_resumed: bool = False
) -> Request:
    """The request for one log; when it `is_resumed` another run may have begun meanwhile."""
    options = {"container": key.container}
    if follow:
        options["follow"] = "true"
    if wanted.run is not None:
        options["run"] = str(wanted.run)
    elif is_resumed:
        options["run"] = str(key.run)
    if wanted.attempt is not None and wanted.attempt != pod.attempt:
        options["attempt"] = str(wanted.attempt)
    return _log_request(wanted, pod.metadata.name, options)


def kept_log_request(wanted: Wanted, pod: str, container: str, last: int) -> Request:
    """The request for a log of a pod that is gone; `last` is its replica's last attempt."""
    if is_octopus(wanted.kind):
        # Each attempt of a replica has a name of its own, which ends in -ATTEMPT-INDEX.
        front, number, index = pod.rsplit("-", 2)
        last = whole_number(number) or 0
        pod = pod if wanted.attempt is None else f"{front}-{wanted.attempt}-{index}"
    attempt = last if wanted.attempt is None else wanted.attempt
    return _log_request(wanted, pod, {"container": container, "attempt": str(attempt)})


def _log_request(wanted: Wanted, pod: str, options: dict[str, str]) -> Request:
    if wanted.tail_lines is not None:
        options["tailLines"] = str(wanted.tail_lines)
    if wanted.timestamps:
        options["timestamps"] = "true"
    return Request(
        method="GET",
        path=PODS.item(wanted.namespace, pod, "log"),
        query=tuple(options.items()),
        accept="*/*",
    )


async def split_lines(
    chunks: AsyncGenerator[bytes, None], hold: Hold = lambda _text: None
) -> Lines:
    """Lines without their ends; the last one also if nothing ended it, a long one in pieces."""
    held = b""
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                *whole, held = (held + chunk).split(b"\n")
                for line in whole:
                    yield line, True
                if len(held) > LINE_BYTES_MAX:
                    # A progress bar writes over its line for hours: only its last state counts.
                    held = held[len(held.rstrip(b"\r")) - len(last_state(held)) :]
                while len(held) > LINE_BYTES_MAX:
                    yield held[:LINE_BYTES_MAX], False
                    held = held[LINE_BYTES_MAX:]
                hold(held)
        if held:
            yield held, False
    finally:
        hold(b"")
