"""What is wrong with probes and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import header_name, port_number
from jobyard.server.kinds.service_faults import port_or_name_faults

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_FIGURES = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def probe_faults(probe: Mapping[str, Any], kind: str, faults: Faults, path: str) -> None:
    """`kind` is the field it stands in: only a readiness probe may succeed more than once."""
    handler_faults(probe, faults, path)
    for field in _FIGURES:
        if probe.get(field, 0) < 0:
            text = "must be greater than or equal to 0"
            faults.invalid(f"{path}.{field}", probe[field], text)
    seconds = probe.get("terminationGracePeriodSeconds")
    where = f"{path}.terminationGracePeriodSeconds"
    if seconds is not None and seconds <= 0:
        faults.invalid(where, seconds, "must be greater than 0")
    if kind == "readinessProbe":
        if seconds is not None:
            faults.invalid(where, seconds, "must not be set for readinessProbes")
    elif probe["successThreshold"] != 1:
        faults.invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def handler_faults(handler: Mapping[str, Any], faults: Faults, path: str) -> None:
    kinds = [kind for kind in _HANDLERS if kind in handler]
    for kind in kinds[1:]:
        faults.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
    if not kinds:
        faults.required(path, "must specify a handler type")
        return
    action, where = handler[kinds[0]], f"{path}.{kinds[0]}"
    match kinds[0]:
        case "exec":
            if not action.get("command"):
                faults.required(f"{where}.command")
        case "httpGet":
            port_or_name_faults(action["port"], faults, f"{where}.port")
            for header in action.get("httpHeaders", ()):
                wrong = header_name(header["name"])
                faults.invalid(f"{where}.httpHeaders", header["name"], *wrong)
        case "tcpSocket":
            port_or_name_faults(action["port"], faults, f"{where}.port")
        case "grpc":
            faults.invalid(f"{where}.port", action["port"], *port_number(action["port"]))
