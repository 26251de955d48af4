"""`/healthz`, `/livez` and `/readyz`: what is wrong with the engine, in a real server's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobyard.server.call import Call, Reply

HEALTH: Final = ("/healthz", "/livez", "/readyz")
METRICS: Final = "/metrics"
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
# What stands behind them at least; a store that failed answers everything with 500.
_CHECKS: Final = ("ping", "store")
# A server that waits for its disk is no better for being started again.
_ALIVE: Final = "livez"


def health_reply(call: Call, troubles: Mapping[str, str]) -> Reply | None:
    """`ok`, or what isn't; with `?verbose` a line for each check. None: there is no such check."""
    _, name, *which = call.path.rstrip("/").split("/")
    checks = tuple(dict.fromkeys((*_CHECKS, *troubles)))
    if f"/{name}" not in HEALTH or which not in ([], *([check] for check in checks)):
        return None
    left_out = () if name == _ALIVE else call.options("exclude")
    lines, has_failed = [], False
    for check in which or checks:
        why = "" if name == _ALIVE else troubles.get(check, "")
        if why and check not in left_out:
            lines.append(f"[-]{check} failed: {why}")
            has_failed = True
        else:
            lines.append(f"[+]{check} {'excluded: ' if check in left_out else ''}ok")
    title = "-".join((name, *which))
    if any(key == "verbose" for key, _ in call.query):
        lines.append(f"{title} check {'failed' if has_failed else 'passed'}")
    elif has_failed:
        lines = [line for line in lines if line.startswith("[-]")]
    else:
        return Reply(status=200, body=b"ok", content_type=TEXT_TYPE)
    body = "".join(f"{line}\n" for line in lines).encode()
    return Reply(status=500 if has_failed else 200, body=body, content_type=TEXT_TYPE)
