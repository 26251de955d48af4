"""What the run mode makes of a replica's main container: debug commands, resume commands."""

from __future__ import annotations

from typing import Any

from jobyard.api.run_mode import DebugReplica, ResumeReplica, RunMode
from jobyard.plan.description import Command, Description, Role, Start
from jobyard.plan.ssh import with_own_sshd

_DEBUG = "debug"
# Before the digest of a spec. Another way to take that digest gets another word, so that pods
# from before an upgrade aren't taken for those of another spec.
_SPEC = "spec1-"
# What would end or restart a container that only sleeps.
_DROPPED_IN_DEBUG = ("args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def is_debugging(mode: RunMode | None) -> bool:
    return mode is not None and mode.debug is not None and mode.debug.enabled


def wants_pause(mode: RunMode | None) -> bool:
    return mode is not None and mode.pause is not None and mode.pause.enabled


def revision(description: Description, role: Role, rank: int) -> str:
    """What a pod was made for; a pod of another revision is replaced."""
    words = [f"{_SPEC}{description.revision}"] if description.revision else []
    if is_debugging(description.run_mode):
        words.append(_DEBUG)
    if description.remakes_first and rank == 0 and role.type == description.roles[0].type:
        words.append(f"of-{description.replicas}")
    return ".".join(words)


def is_for(made_for: str, wanted: str) -> bool:
    """Whether a pod of one revision will do for another."""
    has, wants = _words(made_for), _words(wanted)
    if not _spec_of(has):
        # Made by a release that took another digest, or none.
        wants = {word for word in wants if not word.startswith(_SPEC)}
        has = {word for word in has if not word.startswith("spec")}
    return has == wants


def is_same_spec(made_for: str, description: Description) -> bool:
    """Whether a pod was made from today's spec and run mode, however many replicas there are."""
    has = _words(made_for)
    digest = _spec_of(has)
    is_same = not digest or digest == {f"{_SPEC}{description.revision}"}
    return is_same and (_DEBUG in has) == is_debugging(description.run_mode)


def _words(made_for: str) -> set[str]:
    return set(made_for.split(".")) - {""}


def _spec_of(words: set[str]) -> set[str]:
    return {word for word in words if word.startswith(_SPEC)}


def debug_override(mode: RunMode | None, role: Role) -> DebugReplica | None:
    specs = mode.debug.replica_specs if mode is not None and mode.debug is not None else ()
    return next((spec for spec in specs if spec.type == role.type), None)


def resume_override(mode: RunMode | None, role: Role) -> ResumeReplica | None:
    specs = mode.pause.resume_specs if mode is not None and mode.pause is not None else ()
    return next((spec for spec in specs if spec.type == role.type), None)


def in_debug(
    container: dict[str, Any], role: Role, override: DebugReplica | None
) -> dict[str, Any]:
    """The main container with nothing but the debug command."""
    own = _foreground(role, override.command) if override is not None else ()
    command = own or role.debug_command
    kept = {key: value for key, value in container.items() if key not in _DROPPED_IN_DEBUG}
    return {**kept, "command": list(command)}


def started(
    container: dict[str, Any], role: Role, start: Start, resume: ResumeReplica | None
) -> dict[str, Any]:
    """The main container as its kind starts it, and after a pause as resumeSpecs say."""
    command = resume.command if resume is not None else ()
    args = resume.args if resume is not None else ()
    out = dict(container)
    if start.program is not None:
        # The kind runs a program of its own or the user's: command and args replace that.
        own = () if start.is_fixed else _foreground(role, (*command, *args))
        program = own or start.program
        out["command"] = [*start.command, *program]
        out.pop("args", None)
        return out
    if start.command:
        # torchrun: the container's args are its script, and only those can be replaced.
        out["command"] = list(start.command)
    elif command:
        out["command"] = list(command)
        # The template's args belong to the template's command.
        out.pop("args", None)
    if args:
        out["args"] = list(args)
    return out


def _foreground(role: Role, command: tuple[str, ...]) -> tuple[str, ...]:
    """An sshd stays in the foreground, and in place of the job's own it has what that has."""
    own = with_own_sshd(command) if role.command is Command.REPLACED_BY_SSHD else command
    return own if own != command else _with_foreground(command)


def _with_foreground(command: tuple[str, ...]) -> tuple[str, ...]:
    """A bare sshd would go into the background, and the container would end: it gets -D."""
    if command and command[0].rpartition("/")[2] == "sshd" and "-D" not in command:
        return (*command, "-D")
    return command


def skips_init_containers(mode: RunMode | None, role: Role, *, is_resumed: bool) -> bool:
    if is_debugging(mode):
        debug = debug_override(mode, role)
        return debug is not None and debug.skip_init_container
    resume = resume_override(mode, role) if is_resumed else None
    return resume is not None and resume.skip_init_container
