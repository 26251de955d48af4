"""`jobyard logs`: the logs of all replicas of a job, merged."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from typing import Any

import click
import msgspec

from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import Found, ask, declined, found, pods_of
from jobyard.cli.output.json_lines import JsonShow
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.client.errors import RefusedError
from jobyard.client.sender import Sender
from jobyard.jobs.log_lines import (
    DRAIN_SECONDS,
    Line,
    LogFollower,
    Wanted,
    kept_log_request,
    log_request,
    split_lines,
)
from jobyard.jobs.one_object import until_job
from jobyard.jobs.pods import JobPod, LogKey
from jobyard.jobs.troubles import Troubles
from jobyard.jobs.view import JobView, ReplicaView, view_of
from jobyard.plan.lowering.table import described
from jobyard.schema.wording import suggestion


@click.command("logs")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Keep showing lines until the job ends.")
@click.option("--replica", default="", metavar="NAME", help="Only this one, such as worker-0.")
@click.option("-c", "--container", default="", metavar="NAME", help="Only this container.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines of each log.")
@click.option("--timestamps", is_flag=True, help="Show when each line was written.")
@click.option(
    "--attempt", type=click.IntRange(min=0), help="Only this attempt of the replicas, from 0."
)
@output_option("json: one object per line, with replica, container, attempt and line.")
@target_options
def command(
    job: str, follow: bool, attempt: int | None, output: str, target: Target, **which: Any
) -> None:
    """Show the logs of all replicas of JOB, each line with the replica's name.

    Exit code 1: there is no log of that attempt.
    """
    if follow and attempt is not None:
        raise click.UsageError("--attempt is about a log that has been written; not with --follow")
    show = _show(output, has_timestamps=which["timestamps"], follow=follow)

    async def talk(sender: Sender, namespace: str) -> None:
        try:
            await show_logs(sender, namespace)
        finally:
            # What is told next begins where unfinished lines stood.
            show.close()

    async def show_logs(sender: Sender, namespace: str) -> None:
        known = await found(sender, namespace, job)
        wanted = Wanted(
            kind=known.kind.name,
            namespace=known.namespace,
            name=known.name,
            uid=known.uid,
            replica=which["replica"],
            container=which["container"],
            tail_lines=which["tail"],
            timestamps=which["timestamps"],
            attempt=attempt,
        )
        # A cluster keeps no logs of pods that are gone.
        keeps = not target.names_cluster
        if follow:
            view, pods = await _follow(sender, known, wanted, show)
            is_any = any(_logs(pod, wanted) for pod in pods)
        else:
            view, pods = view_of(known.value, known.kind.name), await pods_of(sender, known)
            is_any = await _read(sender, wanted, show, pods, keeps_attempts=keeps)
        if keeps:
            view = _with_containers(view, known)
        gone = _gone(view, wanted, pods)
        if keeps:
            is_any |= await _read_gone(sender, wanted, show, gone)
        if is_any:
            return
        if misnamed := _misnamed(view, wanted, pods):
            raise click.ClickException(misnamed)
        if wanted.attempt is not None:
            declined(_no_attempt(view, wanted.attempt, pods))
        raise click.ClickException(_nothing(view, pods, gone))

    ask(target, talk)


def _logs(pod: JobPod, wanted: Wanted) -> list[LogKey]:
    """The logs of a pod that are wanted."""
    if wanted.replica not in ("", pod.replica, pod.metadata.name):
        return []
    return [key for key in pod.logs if wanted.container in ("", key.container)]


def _with_containers(view: JobView, known: Found) -> JobView:
    """The view with containers in every row: one whose pod was taken away has none in the status.

    Which those were the job itself says.
    """
    if all(row.containers for row in view.replicas):
        return view
    description = described(known.kind, known.value)
    roles = description.roles if description is not None else ()
    named = {role.type: tuple(str(each["name"]) for each in role.containers) for role in roles}

    def filled(row: ReplicaView) -> ReplicaView:
        # What there is only one of by nature has no rank.
        role = row.name if row.name in named else row.name.rpartition("-")[0]
        return msgspec.structs.replace(row, containers=row.containers or named.get(role, ()))

    return msgspec.structs.replace(view, replicas=tuple(map(filled, view.replicas)))


def _gone(view: JobView, wanted: Wanted, pods: Collection[JobPod]) -> list[ReplicaView]:
    """The replicas that are wanted and whose pods are gone."""
    there = {pod.metadata.name for pod in pods}
    return [
        row
        for row in view.replicas
        if row.pod and row.pod not in there and wanted.replica in ("", row.name, row.pod)
    ]


def _misnamed(view: JobView, wanted: Wanted, pods: Collection[JobPod]) -> str:
    """That there is no such replica or container, and which there are; empty if there is."""
    names = sorted({*(pod.replica for pod in pods), *(row.name for row in view.replicas)})
    own = {*names, *(pod.metadata.name for pod in pods), *(row.pod for row in view.replicas)}
    if wanted.replica and names and wanted.replica not in own:
        close = suggestion(wanted.replica, names)
        return f"{view} has no replica {wanted.replica}{close}; it has {', '.join(names)}"
    inside = sorted(
        {each.name for pod in pods for each in (*pod.spec.init_containers, *pod.spec.containers)}
        | {name for row in view.replicas for name in row.containers}
    )
    if wanted.container and inside and wanted.container not in inside:
        close = suggestion(wanted.container, inside)
        return f"{view} has no container {wanted.container}{close}; it has {', '.join(inside)}"
    return ""


def _no_attempt(view: JobView, attempt: int, pods: Collection[JobPod]) -> str:
    known = [*(pod.attempt for pod in pods), *(row.restarts for row in view.replicas)]
    last = f"; the last is attempt {max(known)}" if known and max(known) < attempt else ""
    return f"{view}: there is no log of attempt {attempt}, or none any more{last}"


def _nothing(view: JobView, pods: Collection[JobPod], gone: Collection[ReplicaView]) -> str:
    """Why there is nothing to show."""
    if gone and not pods:
        return f"{view}: its pods are gone, and their logs with them"
    return f"{view} is {view.phase.lower()}: no replica has written a log"


async def _follow(
    sender: Sender, known: Found, wanted: Wanted, show: Show
) -> tuple[JobView, Collection[JobPod]]:
    """Shows what is written until the job ends; how that is, and the pods it had."""
    troubles = Troubles(show.trouble)
    title = str(known)
    follower = LogFollower(
        sender,
        wanted,
        show.lines_of(title),
        show.pods_of(title),
        troubles,
        show.holds_of(title),
    )
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(follower.run())
        last = await until_job(sender, known.reference, lambda view: view.is_over, troubles)
        await follower.drained(DRAIN_SECONDS, last.running_pods)
        reading.cancel()
    return last, follower.pods


async def _read(
    sender: Sender, wanted: Wanted, show: Show, pods: Collection[JobPod], *, keeps_attempts: bool
) -> bool:
    """Every log once, replica by replica; whether there was one."""
    for pod in pods:
        show.pods_of(wanted.name)(pod)
    is_any = False
    refused: list[str] = []
    for pod in pods:
        if not _has_attempt(pod, wanted.attempt, keeps_attempts=keeps_attempts):
            continue
        for key in _logs(pod, wanted):
            try:
                await _read_one(sender, wanted, show, (pod, key))
                is_any = True
            except RefusedError as problem:
                refused.append(f"{pod.replica}: {problem.problem.message}")
    # Where nothing at all can be shown, one error says so.
    for text in refused if is_any or wanted.attempt is None else ():
        show.warn(text)
    return is_any


def _has_attempt(pod: JobPod, attempt: int | None, *, keeps_attempts: bool) -> bool:
    """Whether a log of the attempt may be there: what is yet to come has none."""
    return attempt in (None, pod.attempt) or (keeps_attempts and attempt < pod.attempt)


async def _read_gone(
    sender: Sender, wanted: Wanted, show: Show, gone: Collection[ReplicaView]
) -> bool:
    """The logs of replicas whose pods are gone, as an engine keeps them; whether there was one."""
    is_any = False
    for row in gone:
        for container in row.containers:
            if wanted.container not in ("", container):
                continue
            prefix = container if len(row.containers) > 1 else ""
            attempt = row.restarts if wanted.attempt is None else wanted.attempt
            async with aclosing(split_lines(_kept(sender, wanted, row, container))) as lines:
                async for text, _ in lines:
                    is_any = True
                    show.lines_of(wanted.name)(Line(row.name, prefix, text, attempt))
    return is_any


async def _kept(
    sender: Sender, wanted: Wanted, row: ReplicaView, container: str
) -> AsyncGenerator[bytes, None]:
    """What is kept of one container's log, if anything is."""
    request = kept_log_request(wanted, row.pod, container, row.restarts)
    with suppress(RefusedError):
        async with aclosing(sender.chunks(request)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _read_one(
    sender: Sender, wanted: Wanted, show: Show, which: tuple[JobPod, LogKey]
) -> None:
    pod, key = which
    request = log_request(pod, key, wanted, follow=False)
    container = "" if len(pod.spec.containers) == 1 else key.container
    attempt = pod.attempt if wanted.attempt is None else wanted.attempt
    async with aclosing(split_lines(sender.chunks(request))) as lines:
        async for text, _ in lines:
            show.lines_of(wanted.name)(Line(pod.replica, container, text, attempt))


def _show(output: str, *, has_timestamps: bool, follow: bool) -> Show:
    is_json = output == "json"
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    is_live = follow and is_terminal and not is_json
    screen = Screen(sys.stdout, is_live=is_live, clock=time.monotonic)
    if is_json:
        return JsonShow(screen, has_timestamps=has_timestamps)
    return Show(screen, Palette(), is_quiet=False)
