"""What the API server asks of this node: logs, processes inside pods, connections to them.

Has the shape of `server.kubelet.Kubelet` without importing it. Decides which container and which
run is meant, and what is refused in kubelet's words; a `Runtime` starts and connects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from jobyard.kubelet import ExecOptions, KubeletError, LogOptions, Session
from jobyard.node.logs.container_logs import LogCut, read_logs, run_to_read
from jobyard.node.logs.kept_logs import kept_attempts, kept_folder, last_run
from jobyard.node.objects.attempts import attempt_of
from jobyard.node.runtime.process_session import AttachedSession, ProcessSession
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.runtime import Inside, Runtime, RuntimeFailedError
from jobyard.node.shared.state import ContainerState, PodState, Stage

Pod = dict[str, Any]
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class KubeletService:
    """The node's answers; `state_of` tells how a pod stands, by uid."""

    def __init__(
        self, runtime: Runtime, data: Path, state_of: Callable[[str], PodState | None]
    ) -> None:
        self._runtime = runtime
        self._data = data
        self._state_of = state_of

    async def logs(self, pod: Pod, options: LogOptions) -> AsyncGenerator[bytes, None]:
        """The text of a log, in pieces; with `follow` until the container's run has ended."""
        name = self._container(pod, options.container)
        folder, run = self._log(pod, name, options)
        since = options.since_time
        if options.since_seconds is not None:
            since = max(time.time() - options.since_seconds, 0.0)
        cut = LogCut(
            follow=options.follow and not options.previous and options.attempt is None,
            tail_lines=options.tail_lines,
            since=since,
            timestamps=options.timestamps,
            limit_bytes=options.limit_bytes,
        )
        async with aclosing(read_logs(folder, name, run, cut)) as pieces:
            async for piece in pieces:
                yield piece

    def _log(self, pod: Pod, name: str, options: LogOptions) -> tuple[PodFolder, int]:
        """Where the log is that is meant, and of which run of the container."""
        metadata = pod["metadata"]
        is_gone = "uid" not in metadata
        if is_gone or options.attempt not in (None, attempt_of(metadata.get("annotations") or {})):
            return self._kept_log(pod, name, options.attempt or 0)
        state = self._state(pod, name)
        run = options.run
        if run is None:
            run = run_to_read(state, previous=options.previous)
        if run is None:
            raise self._no_log(pod, name, state, options)
        return PodFolder(self._data, metadata["uid"]), run

    def _kept_log(self, pod: Pod, name: str, attempt: int) -> tuple[PodFolder, int]:
        where = (self._data, pod["metadata"]["namespace"], pod["metadata"]["name"])
        folder = kept_folder(*where, attempt)
        run = last_run(folder, name)
        if run is None:
            kept = ", ".join(map(str, kept_attempts(*where))) or "none"
            text = f"attempt {attempt} of {where[2]} has no log any more; kept are: {kept}"
            raise KubeletError(404, "NotFound", text)
        return folder, run

    async def execute(self, pod: Pod, options: ExecOptions) -> Session:
        """Start a process inside a running container."""
        name = self._container(pod, options.container)
        self._running(pod, name)
        what = Inside(container=name, argv=options.command, stdin=options.stdin, tty=options.tty)
        try:
            pipes = await self._runtime.inside(pod["metadata"]["uid"], what)
        except RuntimeFailedError as error:
            raise KubeletError(500, "InternalError", str(error)) from error
        return ProcessSession(pipes, has_terminal=options.tty)

    async def attach(self, pod: Pod, options: ExecOptions) -> Session:
        """What the container's own process writes from now on, and its input if it has one."""
        name = self._container(pod, options.container)
        state = self._running(pod, name)
        uid = pod["metadata"]["uid"]
        stdin = await self._input(uid, name) if options.stdin else -1
        folder = PodFolder(self._data, uid)
        pieces = read_logs(folder, name, state.run, LogCut(follow=True, tail_lines=0))
        return AttachedSession(pieces, lambda: self._exit_code(uid, name, state.run), stdin)

    async def _input(self, uid: str, container: str) -> int:
        try:
            descriptor = await self._runtime.attach(uid, container)
        except RuntimeFailedError as error:
            raise KubeletError(500, "InternalError", str(error)) from error
        if descriptor < 0:
            raise KubeletError(
                400,
                "BadRequest",
                f"container {container} has no input: it needs `stdin: true` in the pod;"
                " `kubectl exec -it` works without",
            )
        return descriptor

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from inside the pod's network."""
        if self._pod_state(pod).is_over:
            raise self._not_running(pod)
        try:
            return await self._runtime.connect(pod["metadata"]["uid"], port)
        except (RuntimeFailedError, OSError) as error:
            raise KubeletError(500, "InternalError", str(error)) from error

    def _exit_code(self, uid: str, container: str, run: int) -> int:
        state = self._state_of(uid)
        for known in state.containers if state is not None else ():
            if known.name == container:
                end = known.end if known.run == run else known.last_end
                return end.exit_code if end is not None else 0
        return 0

    def _container(self, pod: Pod, asked: str) -> str:
        spec = pod["spec"]
        names = [each["name"] for each in spec["containers"]]
        others = [each["name"] for each in spec.get("initContainers") or ()]
        if asked:
            if asked in (*names, *others):
                return asked
            raise KubeletError(
                400,
                "BadRequest",
                f"container {asked} is not valid for pod {pod['metadata']['name']}",
            )
        default = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
        return str(default if default in names else names[0])

    def _pod_state(self, pod: Pod) -> PodState:
        state = self._state_of(pod["metadata"]["uid"])
        if state is None:
            raise self._not_running(pod)
        return state

    def _state(self, pod: Pod, name: str) -> ContainerState:
        state = self._state_of(pod["metadata"]["uid"])
        for known in (*state.init_containers, *state.containers) if state is not None else ():
            if known.name == name:
                return known
        return ContainerState(name=name, message=_waiting_message(pod, name))

    def _running(self, pod: Pod, name: str) -> ContainerState:
        self._pod_state(pod)
        state = self._state(pod, name)
        if state.stage is not Stage.RUNNING:
            raise KubeletError(
                500,
                "InternalError",
                f'container not found ("{name}"): it is {state.stage.value}',
            )
        return state

    def _not_running(self, pod: Pod) -> KubeletError:
        where = f"{pod['metadata']['name']}_{pod['metadata']['namespace']}"
        return KubeletError(404, "NotFound", f"pod {where} is not running on this node")

    def _no_log(
        self, pod: Pod, name: str, state: ContainerState, options: LogOptions
    ) -> KubeletError:
        pod_name = pod["metadata"]["name"]
        if options.previous:
            return KubeletError(
                400,
                "BadRequest",
                f'previous terminated container "{name}" in pod "{pod_name}" not found',
            )
        why = state.message or state.reason
        return KubeletError(
            400,
            "BadRequest",
            f'container "{name}" in pod "{pod_name}" is waiting to start: {why}',
        )


def _waiting_message(pod: Pod, name: str) -> str:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status["name"] == name:
            waiting = (status.get("state") or {}).get("waiting") or {}
            return str(waiting.get("message") or waiting.get("reason") or "")
    return ""
