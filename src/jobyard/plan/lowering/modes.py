"""What the run mode makes of a replica's main container: debug commands, resume commands.

And what of it has no effect, told as warnings: a mode that isn't on or that the kind lacks, an
override for a type that isn't there, the older spelling of `enabled`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from jobyard.api.parts.run_mode import (
    DebugReplica,
    Elastic,
    Mode,
    ResumeReplica,
    RunMode,
    Switch,
)
from jobyard.plan.lowering.description import Command, Description, Role, Start
from jobyard.plan.lowering.ssh import prepared, with_own_sshd
from jobyard.plan.lowering.ssh.sshd import in_foreground
from jobyard.schema.finding import Finding, Path, enumerated, warning
from jobyard.schema.wording import suggestion

_DEBUG = "debug"
# Before the digest of a spec. Another way to take that digest gets another word, so that pods
# from before an upgrade aren't taken for those of another spec.
_SPEC = "spec1-"
# What would end or restart a container that only sleeps.
_DROPPED_IN_DEBUG = ("args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def is_debugging(mode: RunMode | None) -> bool:
    return mode is not None and mode.debug is not None and mode.debug.is_on


def wants_pause(mode: RunMode | None) -> bool:
    return mode is not None and mode.pause is not None and mode.pause.is_on


def revision(description: Description, role: Role, rank: int) -> str:
    """What a pod was made for; a pod of another revision is replaced."""
    words = [f"{_SPEC}{description.revision}"] if description.revision else []
    if is_debugging(description.run_mode):
        words.append(_DEBUG)
    if description.recreates_first and rank == 0 and role.type == description.roles[0].type:
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
    container: dict[str, Any], role: Role, override: DebugReplica | None, *, logs_in: bool
) -> dict[str, Any]:
    """The main container with nothing but the debug command.

    In a job whose replicas log in to one another the keys are in place for any command.
    """
    own = override.command if override is not None else ()
    if own:
        own = prepared(own) if logs_in else in_foreground(own)
    kept = {key: value for key, value in container.items() if key not in _DROPPED_IN_DEBUG}
    return {**kept, "command": list(own or role.debug_command)}


def started(
    container: dict[str, Any], role: Role, start: Start, resume: ResumeReplica | None
) -> dict[str, Any]:
    """The main container as its kind starts it, and after a pause as resumeSpecs say."""
    command = resume.command if resume is not None else ()
    args = resume.args if resume is not None else ()
    out = dict(container)
    if start.program is not None:
        # The kind runs a program of its own or the user's: command and args replace that.
        own = () if start.is_fixed else _resumed(role, (*command, *args))
        program = own or start.program
        out["command"] = [*start.command, *program]
        out.pop("args", None)
        return out
    if start.command:
        # torchrun: the container's args are its script, and only those can be replaced.
        out["command"] = list(start.command)
    elif command:
        whole = in_foreground((*command, *args))
        if whole != (*command, *args):
            command, args = whole, ()
        out["command"] = list(command)
        # The template's args belong to the template's command.
        out.pop("args", None)
    if args:
        out["args"] = list(args)
    return out


def _resumed(role: Role, command: tuple[str, ...]) -> tuple[str, ...]:
    """An sshd stays in the foreground, and in place of the job's own it has what that has."""
    own = with_own_sshd(command) if role.command is Command.REPLACED_BY_SSHD else ()
    return own or in_foreground(command)


def skips_init_containers(mode: RunMode | None, role: Role, *, is_resumed: bool) -> bool:
    if is_debugging(mode):
        debug = debug_override(mode, role)
        return debug is not None and debug.skip_init_container
    resume = resume_override(mode, role) if is_resumed else None
    return resume is not None and resume.skip_init_container


def mode_advice(
    spec: Any, roles: Sequence[Role], kind: str, modes: frozenset[Mode]
) -> Iterator[Finding]:
    """What a spec says of its modes without effect, or in an older spelling.

    Specs differ in which of the blocks they have; `modes` are those of the kind.
    """
    run_mode: RunMode | None = getattr(spec, "run_mode", None)
    debug = run_mode.debug if run_mode is not None else None
    pause = run_mode.pause if run_mode is not None else None
    elastic: Elastic | None = getattr(spec, "elastic", None)
    torchrun: Switch | None = getattr(spec, "torchrun_config", None)
    blocks: tuple[tuple[Path, Mode | None, Switch | None], ...] = (
        (("spec", "runMode", "debug"), Mode.DEBUG, debug),
        (("spec", "runMode", "pause"), Mode.PAUSE, pause),
        (("spec", "elastic"), Mode.ELASTIC, elastic),
        (("spec", "torchrunConfig"), None, torchrun),
    )
    for path, mode, block in blocks:
        if block is None:
            continue
        yield from _spelling_advice(block, path)
        if mode is not None and mode not in modes:
            yield warning(path, f"has no effect: {kind} has no {mode} mode")
    if Mode.DEBUG in modes and debug is not None:
        types = [override.type for override in debug.replica_specs]
        yield from _type_advice(types, roles, ("spec", "runMode", "debug", "replicaSpecs"))
    if Mode.PAUSE in modes and pause is not None:
        types = [override.type for override in pause.resume_specs]
        yield from _type_advice(types, roles, ("spec", "runMode", "pause", "resumeSpecs"))
    if Mode.ELASTIC in modes and elastic is not None:
        yield from _elastic_advice(spec, elastic)
    if torchrun is not None and not torchrun.is_on and _says_more(torchrun):
        text = "has no effect: torchrun is used only where enabled is true"
        yield warning(("spec", "torchrunConfig"), text)


def _spelling_advice(block: Switch, path: Path) -> Iterator[Finding]:
    if block.enable is None:
        return
    text = "is the older spelling of enabled, and means the same: write enabled"
    if block.enabled is not None:
        given, counts = str(block.enable).lower(), str(block.enabled).lower()
        text = f"is {given} and has no effect: enabled beside it is {counts}, and that counts"
    yield warning((*path, "enable"), text)


def _type_advice(types: Sequence[str], roles: Sequence[Role], path: Path) -> Iterator[Finding]:
    there = [role.type for role in roles]
    for n, type_ in enumerate(types):
        if type_ not in there:
            text = f"is {type_ or 'empty'}, and has no effect: the types of this job are"
            near = suggestion(type_, there)
            yield warning((*path, n, "type"), f"{text} {enumerated(there, 'and')}{near}")


def _elastic_advice(spec: Any, elastic: Elastic) -> Iterator[Finding]:
    if spec.scaling is not None:
        return
    if elastic.is_on:
        text = "has no effect: only torchrun can do with other numbers; set torchrunConfig.enabled"
        yield warning(("spec", "elastic"), f"{text} to true")
    elif any((elastic.min_replicas, elastic.max_replicas, elastic.expected_replicas)):
        yield warning(("spec", "elastic"), "has no effect: elastic.enabled isn't true")


def _says_more(block: Switch) -> bool:
    """Whether more is said than that it is off."""
    return msgspec.structs.replace(block, enabled=None, enable=None) != type(block)()
