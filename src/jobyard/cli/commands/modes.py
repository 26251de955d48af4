"""`pause`, `resume`, `scale` and `debug`: the run mode of a job that is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from jobyard.api.kinds import kind_of
from jobyard.api.parts.run_mode import Mode, is_on, spelling
from jobyard.api.parts.value import REPLICAS_MAX
from jobyard.cli.arguments.options import deed_output
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import Found, ask, declined, found, send
from jobyard.cli.output.deeds import Deed, tell
from jobyard.client.request import merge_patch
from jobyard.client.sender import Sender
from jobyard.jobs.view import view_of
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.schema.finding import enumerated


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to a job, and how that is said."""

    mode: Mode
    # A patch, or what makes one of the job as it is.
    patch: Any
    # After `GenericJob/train`, and for programs as one word and its details.
    done: str
    action: str
    details: dict[str, Any] = {}
    # The words for a job that is so already, to which nothing is done; empty for any other.
    already: Callable[[dict[str, Any]], str] = lambda _spec: ""


def _changed(target: Target, name: str, output: str, change: Change) -> None:
    mode, patch = change.mode, change.patch

    async def talk(sender: Sender, namespace: str) -> tuple[Found, str]:
        job = await found(sender, namespace, name)
        if mode not in job.kind.modes:
            able = enumerated([kind.name for kind in JOB_KINDS if mode in kind.modes], "and")
            raise click.ClickException(
                f"{job}: {job.kind.name} has no mode {mode.value}; only {able} have it"
            )
        view = view_of(job.value, job.kind.name)
        if view.is_over:
            # The server would take it, and nothing would ever come of it.
            declined(
                f"{job} has ended ({view.phase}): `jobyard {change.action}` is for jobs that"
                " haven't ended"
            )
        body = patch(job.value) if callable(patch) else patch
        already = change.already(job.value["spec"])
        if not already:
            await send(sender, merge_patch(job.resource, job.namespace, job.name, body))
        return job, already

    job, already = ask(target, talk)
    what = {"action": "unchanged" if already else change.action, **change.details}
    tell(output, Deed(job.kind.name, job.namespace, job.name, already or change.done, what))


def _block(spec: dict[str, Any], mode: Mode) -> dict[str, Any]:
    return (spec.get("runMode") or {}).get(mode.value) or {}


def _turned(mode: Mode, to: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Turns a mode on or off by the field that the job itself has for it.

    A file with the older spelling, applied again, must still be able to turn it back.
    """

    def patch(value: dict[str, Any]) -> dict[str, Any]:
        field = spelling(_block(value["spec"], mode))
        return {"spec": {"runMode": {mode.value: {field: to}}}}

    return patch


def _is_on(spec: dict[str, Any], mode: Mode) -> bool:
    return is_on(_block(spec, mode))


@click.command("pause")
@click.argument("job")
@deed_output
@target_options
def pause(job: str, output: str, target: Target) -> None:
    """Remove all replicas of JOB until it is resumed.

    The job and its restart counts stay. After `resume` each replica starts again,
    with the command of its resumeSpecs if it has one.
    """
    _pause(target, job, output, to=True)


@click.command("resume")
@click.argument("job")
@deed_output
@target_options
def resume(job: str, output: str, target: Target) -> None:
    """Start the replicas of a paused JOB again."""
    _pause(target, job, output, to=False)


def _pause(target: Target, job: str, output: str, *, to: bool) -> None:
    already = "is already set to pause" if to else "is not paused"
    change = Change(
        mode=Mode.PAUSE,
        patch=_turned(Mode.PAUSE, to),
        done="is pausing" if to else "is resuming",
        action="pause" if to else "resume",
        already=lambda spec: already if _is_on(spec, Mode.PAUSE) is to else "",
    )
    _changed(target, job, output, change)


@click.command("debug")
@click.argument("job")
@click.option("--off", is_flag=True, help="Leave debug mode: the program is started.")
@deed_output
@target_options
def debug(job: str, off: bool, output: str, target: Target) -> None:
    """Put JOB into debug mode: everything is set up, but the program isn't started.

    Running replicas are recreated. Then `jobyard shell JOB REPLICA` opens a shell in one.
    """
    already = "is not in debug mode" if off else "is already in debug mode"
    change = Change(
        mode=Mode.DEBUG,
        patch=_turned(Mode.DEBUG, to=not off),
        done="leaves debug mode" if off else "is in debug mode now",
        action="debug",
        details={"enabled": not off},
        already=lambda spec: already if _is_on(spec, Mode.DEBUG) is not off else "",
    )
    _changed(target, job, output, change)


def _why_not_elastic(value: dict[str, Any]) -> str:
    """Why a job can't be scaled, and what to do; empty if it can."""
    spec = value.get("spec") or {}
    if "elastic" not in spec:
        return "spec.elastic must be set when a job is created"
    if not is_on(spec["elastic"]):
        return "spec.elastic.enabled is not true; pause the job to change that"
    kind = kind_of(str(value.get("apiVersion")), str(value.get("kind")))
    field = kind.elastic_by if kind is not None else ""
    if field and not is_on(spec.get(field)):
        return (
            f"spec.elastic has no effect without spec.{field}; pause the job and set"
            f" spec.{field}.enabled to true"
        )
    return ""


@click.command("scale")
@click.argument("job")
@click.argument("replicas", type=click.IntRange(1, REPLICAS_MAX))
@deed_output
@target_options
def scale(job: str, replicas: int, output: str, target: Target) -> None:
    """Change how many REPLICAS an elastic JOB has.

    Those that stay are not touched.
    """

    def patch(value: dict[str, Any]) -> dict[str, Any]:
        why = _why_not_elastic(value)
        if why:
            raise click.ClickException(f"{value['metadata']['name']} is not elastic: {why}")
        return {"spec": {"elastic": {"expectedReplicas": replicas}}}

    noun = "replica" if replicas == 1 else "replicas"
    change = Change(
        mode=Mode.ELASTIC,
        patch=patch,
        done=f"is set to {replicas} {noun}",
        action="scale",
        details={"replicas": replicas},
        already=lambda spec: (
            f"is already set to {replicas} {noun}"
            if spec["elastic"].get("expectedReplicas") == replicas
            else ""
        ),
    )
    _changed(target, job, output, change)
