"""What the run mode makes of a replica's main container: debug commands, resume commands."""

from __future__ import annotations

from typing import Any

from jobyard.api.run_mode import DebugReplica, ResumeReplica, RunMode
from jobyard.plan.description import Role, Start

DEBUG_COMMAND = ("sleep", "inf")
# What would end or restart a container that only sleeps.
_DROPPED_IN_DEBUG = ("args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def is_debugging(mode: RunMode | None) -> bool:
    return mode is not None and mode.debug is not None and mode.debug.enabled


def debug_override(mode: RunMode | None, role: Role) -> DebugReplica | None:
    specs = mode.debug.replica_specs if mode is not None and mode.debug is not None else ()
    return next((spec for spec in specs if spec.type == role.type), None)


def resume_override(mode: RunMode | None, role: Role) -> ResumeReplica | None:
    specs = mode.pause.resume_specs if mode is not None and mode.pause is not None else ()
    return next((spec for spec in specs if spec.type == role.type), None)


def in_debug(container: dict[str, Any], override: DebugReplica | None) -> dict[str, Any]:
    """The main container with nothing but the debug command."""
    command = override.command if override is not None and override.command else DEBUG_COMMAND
    kept = {key: value for key, value in container.items() if key not in _DROPPED_IN_DEBUG}
    return {**kept, "command": list(command)}


def started(
    container: dict[str, Any], start: Start, resume: ResumeReplica | None
) -> dict[str, Any]:
    """The main container as its kind starts it, and after a pause as resumeSpecs say.

    Where the kind has a command of its own (torchrun), only the args of resumeSpecs count.
    """
    out = dict(container)
    if resume is not None and resume.command and start.command is None:
        out["command"] = list(resume.command)
        # The template's args belong to the template's command.
        out.pop("args", None)
    if resume is not None and resume.args:
        out["args"] = list(resume.args)
    if start.command is not None:
        out["command"] = list(start.command)
    if start.args is not None:
        out["args"] = list(start.args)
    return out


def skips_init_containers(mode: RunMode | None, role: Role, *, is_resumed: bool) -> bool:
    if is_debugging(mode):
        debug = debug_override(mode, role)
        return debug is not None and debug.skip_init_container
    resume = resume_override(mode, role) if is_resumed else None
    return resume is not None and resume.skip_init_container
