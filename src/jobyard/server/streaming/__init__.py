"""What a node answers for the server: logs, processes, connections and proxied requests.

`serving` calls `serve` for them. Refusals before anything has begun are Status objects like all
others. Which pod is meant, and how bytes travel, is known here; what a pod is made of is not.
"""

from __future__ import annotations

import logging

from aiohttp import web

from jobyard.kubelet import KubeletError
from jobyard.server.call import Call
from jobyard.server.messages.http_messages import call_of, response
from jobyard.server.messages.rendering import problem_reply
from jobyard.server.messages.routing import Route
from jobyard.server.problem import ProblemError
from jobyard.server.server import ApiServer
from jobyard.server.streaming.forwarding import serve_forward
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.log_request import pod_asked_for, pod_with_log
from jobyard.server.streaming.logs import serve_log
from jobyard.server.streaming.processes import serve_process
from jobyard.server.streaming.proxying import serve_proxy

__all__ = ["serve"]

_log = logging.getLogger(__name__)


async def serve(
    request: web.BaseRequest, server: ApiServer, kubelet: Kubelet
) -> web.StreamResponse:
    """Answers a request for a part of a pod that only its node has."""
    call = call_of(request)
    try:
        route = server.streamed_route(call)
        assert route is not None, f"{call.path} is not for a node"
        return await _served(request, call, route, server, kubelet)
    except ProblemError as problem:
        return _refused(problem, call)
    except KubeletError as problem:
        return _refused(ProblemError(problem.code, problem.reason, problem.message), call)
    except ConnectionError:
        # The client went before it could be answered.
        raise
    except Exception as problem:
        # The top: one request that goes wrong is no reason to tell the client nothing.
        _log.exception("%s %s", call.method, call.path)
        text = f"Internal error occurred: {problem}"
        return _refused(ProblemError(500, "InternalError", text), call)


async def _served(
    request: web.BaseRequest, call: Call, route: Route, server: ApiServer, kubelet: Kubelet
) -> web.StreamResponse:
    if route.subresource == "proxy":
        return await serve_proxy(request, route, server, kubelet)
    if route.subresource == "log":
        return await serve_log(request, call, pod_with_log(server, route, call), kubelet)
    pod = pod_asked_for(server, route)
    match route.subresource:
        case "portforward":
            return await serve_forward(request, call, pod, kubelet)
        case name:
            return await serve_process(request, call, pod, kubelet, is_attach=name == "attach")


def _refused(problem: ProblemError, call: Call) -> web.Response:
    return response(problem_reply(problem, call.accept))
