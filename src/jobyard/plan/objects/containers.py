"""What every container of a replica gets."""

from __future__ import annotations

from typing import Any

from jobyard.plan.lowering.description import JSON, Start

Env = tuple[tuple[str, str], ...]
_ORDER = ("name", "image", "workingDir", "command", "args", "env")


def with_env(container: JSON, env: Env, start: Start) -> dict[str, Any]:
    """The container with our environment before its own, and the job's variables replaced.

    The user's own comes last, so that it may refer to ours (`$(MASTER_ADDR)`) and wins.
    """
    out = dict(container)
    for field in ("command", "args"):
        if field in out:
            out[field] = [start.expand(text) for text in out[field]]
    own = [
        {**variable, "value": start.expand(variable["value"])} if "value" in variable else variable
        for variable in out.get("env", ())
    ]
    out["env"] = [{"name": name, "value": value} for name, value in env] + own
    # In the order in which a person would write them.
    return {field: out[field] for field in _ORDER if field in out} | out


def with_last_words(container: JSON) -> dict[str, Any]:
    """A container whose last words are kept: they go into the status when it fails."""
    kept = container.get("terminationMessagePolicy") or "FallbackToLogsOnError"
    return {**container, "terminationMessagePolicy": kept}
