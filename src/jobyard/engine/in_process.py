"""A client's connection to the server in the same process: requests become calls, with no wire.

The controller and the node agent use it as they use a connection to a cluster.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from jobyard.client.errors import RefusedError
from jobyard.client.request import Answer, Request, problem_of
from jobyard.kubelet import KubeletError
from jobyard.server.call import Call, Reply
from jobyard.server.live import LiveServer
from jobyard.server.messages.rendering import problem_reply
from jobyard.server.problem import ProblemError
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.log_request import log_options, pod_with_log
from jobyard.server.verbs.watch import Watch

USER_AGENT: Final = "jobyard"


class InProcess:
    """A `client.sender.Sender`. `kubelet` is set once there is one."""

    def __init__(self, live: LiveServer) -> None:
        self._live = live
        self.kubelet: Kubelet | None = None

    async def send(self, request: Request) -> Answer:
        call = _call(request)
        is_for_pod = request.method == "GET" and "/proxy/" in request.path
        reply = await (self._ask_pod(call) if is_for_pod else self._live.send(call))
        return Answer(reply.status, reply.body)

    async def _ask_pod(self, call: Call) -> Reply:
        """What a program in a pod says of itself."""
        # It needs an HTTP client, which takes a while to load and which few jobs need.
        from jobyard.server.streaming.proxying import ask_pod

        try:
            route = self._live.server.streamed_route(call)
            if route is None:
                return await self._live.send(call)
            assert self.kubelet is not None, "a pod is on a node"
            return await ask_pod(call, route, self._live.server, self.kubelet)
        except ProblemError as problem:
            return problem_reply(problem, call.accept)

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch."""
        answer = await self._live.answer(_call(request))
        if isinstance(answer, Reply):
            raise RefusedError(str(request), problem_of(answer.status, answer.body))
        async with aclosing(self._live.lines(answer)) as chunks:
            async for chunk in chunks:
                # A watch hands out whole lines, many at a time.
                for line in chunk.split(b"\n"):
                    if line:
                        yield line

    async def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The bytes of a log; a watch has them too."""
        call = _call(request)
        try:
            route = self._live.server.streamed_route(call)
            if route is None:
                answer = await self._live.answer(call)
                if isinstance(answer, Watch):
                    async with aclosing(self._live.lines(answer)) as lines:
                        async for chunk in lines:
                            yield chunk
                    return
                if answer.status >= 400:
                    raise RefusedError(str(request), problem_of(answer.status, answer.body))
                yield answer.body
                return
            assert self.kubelet is not None, "logs need a node"
            pod = pod_with_log(self._live.server, route, call)
            options = log_options(call)
            async with aclosing(self.kubelet.logs(pod, options)) as pieces:
                async for piece in pieces:
                    yield piece
        except (ProblemError, KubeletError) as problem:
            body = b'{"kind":"Status"}'
            told = problem_of(problem.code, body)
            raise RefusedError(
                f"{request}", type(told)(problem.code, problem.reason, problem.message)
            ) from problem


def _call(request: Request) -> Call:
    return Call(
        method=request.method,
        path=request.path,
        query=request.query,
        body=request.body or b"",
        content_type=request.content_type,
        accept=request.accept,
        user_agent=USER_AGENT,
    )
