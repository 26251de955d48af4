"""`jobyard wait`: until a job has ended, or until it or another object is as wanted."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click
import msgspec

from jobyard.cli.arguments.durations import Duration
from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.selecting import JOBS, chosen
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask, found, looked_for
from jobyard.cli.output.saying import say, say_aside, say_json
from jobyard.client.deep_json import decoded_json
from jobyard.client.discovery import NOT_FOUND
from jobyard.client.request import PODS, Resource, get, resource_of
from jobyard.client.resources import CLAIMS, NAMESPACES
from jobyard.client.sender import Sender
from jobyard.jobs.one_object import DELETED, Reference, until_object
from jobyard.jobs.troubles import Troubles
from jobyard.jobs.view import OVER, view_of
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.schema.wording import suggestion

TIMED_OUT: Final = 124
CONDITION: Final = "condition="
# kubectl's word and ours.
_GONE: Final = ("delete", "deleted")
PHASES: Final = tuple(
    dict.fromkeys(
        phase.lower()
        for phase in (*(phase for kind in JOB_KINDS for phase in kind.phases), DELETED)
        if phase != "Unknown"
    )
)
_OTHER_PHASES: Final = {
    PODS: ("pending", "running", "succeeded", "failed"),
    NAMESPACES: ("active", "terminating"),
    CLAIMS: ("pending", "bound", "lost"),
}
_JOBS: Final = tuple(resource_of(kind) for kind in JOB_KINDS)
JSON = dict[str, Any]


class Wish(msgspec.Struct, frozen=True):
    """A phase, in small letters, or a condition with the status it should have."""

    phase: str = ""
    condition: str = ""
    status: str = "True"

    def holds(self, phase: str, value: JSON) -> bool:
        if not self.condition:
            return phase.lower() == self.phase
        conditions = (value.get("status") or {}).get("conditions") or ()
        return any(
            each["type"].lower() == self.condition.lower()
            and each["status"].lower() == self.status.lower()
            for each in conditions
        )


class End(msgspec.Struct, frozen=True):
    """What was waited for, as it was last; without a reference if it was never there."""

    reference: Reference | None
    phase: str
    is_wanted: bool
    # Time was up before it was as wanted, or couldn't be so any more.
    is_late: bool = False


@click.command("wait")
@click.argument("what", metavar="JOB | KIND/NAME")
@click.option(
    "--for", "wanted", default="succeeded", show_default=True, metavar="PHASE",
    help="The phase to wait for, such as running, paused, succeeded, deleted; or condition=NAME.",
)  # fmt: skip
@click.option("--timeout", type=Duration(), metavar="10m", help="Give up after this long.")
@output_option()
@target_options
@click.pass_context
def command(
    ctx: click.Context, /, what: str, wanted: str, timeout: float | None, output: str,
    target: Target,
) -> None:  # fmt: skip
    """Wait until a job, or another object, is in a phase, has a condition, or is gone.

    Exit code 0: it is so, 1: it ended some other way, 124: time is up. An object that
    doesn't exist counts as deleted.
    """
    other = _other(what)
    wish = _wish(wanted, other)

    async def talk(sender: Sender, namespace: str) -> End:
        first = await _first(sender, namespace, what, other, wish)
        if first is None:
            return End(None, DELETED, is_wanted=True)
        return await _until(sender, first, wish, timeout)

    end = ask(target, talk)
    if end.is_late:
        say(f"{what}: not {wanted} after {timeout:g} s", err=True)
    if output == "json":
        told = {**_named(what, end.reference), "phase": end.phase, "isWanted": end.is_wanted}
        say_json(told)
    elif not end.is_late:
        is_condition = end.is_wanted and wish.condition
        said = f"has {wanted}" if is_condition else end.phase.lower() or "is there"
        say(f"{end.reference or what} {said}")
    ctx.exit(TIMED_OUT if end.is_late else 0 if end.is_wanted else 1)


def _other(what: str) -> Resource | None:
    """The resource of what isn't a job."""
    kind, slash, _ = what.partition("/")
    if not slash or kind.lower() in JOBS:
        return None
    (choice,) = chosen((what,))
    return choice.resource if choice.resource not in _JOBS else None


def _wish(text: str, other: Resource | None) -> Wish:
    if text.startswith(CONDITION):
        name, _, status = text.removeprefix(CONDITION).partition("=")
        if not name:
            raise click.BadParameter(
                f"{text} names no condition; write condition=NAME or condition=NAME=STATUS",
                param_hint="--for",
            )
        return Wish(condition=name, status=status or "True")
    wanted = DELETED.lower() if text.lower() in _GONE else text.lower()
    phases = PHASES if other is None else (*_OTHER_PHASES.get(other, ()), DELETED.lower())
    if wanted not in phases:
        of = "" if other is None else f" of a {other.kind}"
        raise click.BadParameter(
            f"there is no phase {text}{of}{suggestion(wanted, phases)}; there are"
            f" {', '.join(phases)}, and condition=NAME",
            param_hint="--for",
        )
    return Wish(phase=wanted)


def _named(what: str, one: Reference | None) -> JSON:
    if one is None:
        return {"name": what.rpartition("/")[2]}
    where = {"namespace": one.namespace} if one.namespace else {}
    return {"kind": one.resource.kind, **where, "name": one.name}


class _First(msgspec.Struct, frozen=True):
    """An object as it was when the waiting began."""

    reference: Reference
    value: JSON


async def _first(
    sender: Sender, namespace: str, what: str, other: Resource | None, wish: Wish
) -> _First | None:
    """None if it is gone, as wished; what isn't there can't be waited for otherwise."""
    is_gone_wanted = wish.phase == DELETED.lower()
    if other is None:
        job = await looked_for(sender, namespace, what)
        if job is None and not is_gone_wanted:
            job = await found(sender, namespace, what)
        return _First(job.reference, job.value) if job else None
    name = what.rpartition("/")[2]
    where = namespace if other.namespaced else ""
    answer = await sender.send(get(other, where, name))
    if answer.status == NOT_FOUND and is_gone_wanted:
        return None
    if not answer.is_ok:
        raise click.ClickException(answer.problem.message)
    value = decoded_json(answer.body)
    return _First(Reference(other, where, name, value["metadata"]["uid"]), value)


async def _until(sender: Sender, first: _First, wish: Wish, timeout: float | None) -> End:
    """Until the wish is true or can't become so, or time is up."""
    reference = first.reference
    is_job = reference.resource in _JOBS
    kind = reference.resource.kind

    def phase_of(value: JSON) -> str:
        if is_job:
            return view_of(value, kind).phase
        return str((value.get("status") or {}).get("phase") or "")

    seen = phase_of(first.value)

    def is_settled(value: JSON) -> bool:
        nonlocal seen
        seen = phase = phase_of(value)
        is_over = phase in OVER and wish.phase != DELETED.lower()
        return wish.holds(phase, value) or is_over

    try:
        async with asyncio.timeout(timeout):
            last = await until_object(sender, reference, is_settled, Troubles(say_aside))
    except TimeoutError:
        return End(reference, seen, is_wanted=False, is_late=True)
    phase = DELETED if last is None else phase_of(last)
    return End(reference, phase, wish.holds(phase, last or {}))
