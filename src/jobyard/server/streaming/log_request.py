"""What is asked of a pod's log: the query of a request as `LogOptions`, and the pod it is about."""

from __future__ import annotations

import re
from typing import Final

from jobyard.kubelet import LogOptions
from jobyard.server.call import Call
from jobyard.server.messages.paging import integer
from jobyard.server.messages.routing import Route, key_of
from jobyard.server.printing.durations import moment
from jobyard.server.problem import Cause, bad_request, invalid, not_found
from jobyard.server.resource import Object
from jobyard.server.server import ApiServer

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def pod_asked_for(server: ApiServer, route: Route) -> Object:
    """The pod that a call for one of its parts names."""
    found = server.store.get("pods", key_of(route.namespace, route.name))
    if found is None:
        raise not_found("", "pods", route.name)
    return found.value


def pod_with_log(server: ApiServer, route: Route, call: Call) -> Object:
    """The pod whose log is asked for. One that is gone has logs too, if an attempt is named."""
    named = (route.namespace, route.name, call.option("container"))
    if not call.option("attempt") or server.store.get("pods", key_of(*named[:2])) is not None:
        return pod_asked_for(server, route)
    # Nobody has checked these names, and the node makes paths of them.
    if not all(_NAME.fullmatch(name) for name in named):
        raise not_found("", "pods", route.name)
    namespace, name, container = named
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": container}], "nodeName": "unknown"},
    }


def log_options(call: Call, pod_name: str = "") -> LogOptions:
    """Reads the query as a real API server does; what makes no sense is refused."""
    since_seconds = integer(call, "sinceSeconds")
    options = LogOptions(
        container=call.option("container"),
        follow=call.flag("follow"),
        previous=call.flag("previous"),
        run=integer(call, "run"),
        attempt=integer(call, "attempt"),
        timestamps=call.flag("timestamps"),
        tail_lines=integer(call, "tailLines"),
        since_seconds=since_seconds,
        since_time=_moment(call),
        limit_bytes=integer(call, "limitBytes"),
    )
    causes = [
        Cause("FieldValueInvalid", f"Invalid value: {value}: must be greater than {bound}", field)
        for field, value, bound, is_wrong in (
            ("tailLines", options.tail_lines, "or equal to 0", (options.tail_lines or 0) < 0),
            ("limitBytes", options.limit_bytes, "0", options.limit_bytes is not None
             and options.limit_bytes < 1),
            ("sinceSeconds", since_seconds, "0", since_seconds is not None and since_seconds < 1),
        )
        if is_wrong
    ]  # fmt: skip
    if causes:
        raise invalid("", "PodLogOptions", pod_name, causes)
    return options


def _moment(call: Call) -> float | None:
    text = call.option("sinceTime")
    if not text:
        return None
    try:
        return moment(text) or 0.0
    except ValueError:
        layout = "2006-01-02T15:04:05Z07:00"
        fault = f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"'
        raise bad_request(fault) from None
