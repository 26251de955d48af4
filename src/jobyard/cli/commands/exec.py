"""`jobyard exec`: a command in a replica that runs, with its output, input and exit code."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

import click
import msgspec

from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask, found, pods_of
from jobyard.cli.output import terminal
from jobyard.cli.output.saying import say
from jobyard.client.errors import ClientError, RefusedError
from jobyard.client.sender import Sender
from jobyard.client.websockets import Channel, Execution, RemoteProcess, remote_process
from jobyard.jobs.pods import JobPod
from jobyard.schema.wording import suggestion

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@click.command("exec")
@click.argument("job")
@click.argument("replica")
@click.argument("arguments", nargs=-1, required=True, metavar="-- COMMAND...")
@click.option("-i", "--stdin", is_flag=True, help="Pass input on, from a terminal too.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal.")
@click.option("-c", "--container", default="", metavar="NAME", help="In this container.")
@target_options
def command(
    job: str,
    replica: str,
    arguments: tuple[str, ...],
    target: Target,
    **how: Any,
) -> None:
    """Run a command in a replica of JOB and end with its exit code.

    REPLICA is a name such as worker-0, or the name of a pod. Piped input reaches the
    command; a terminal's only with -i.
    """
    is_piped = not terminal.is_terminal()
    has_terminal = how["tty"]
    if has_terminal and is_piped:
        say("-t is left out: the input is not a terminal", err=True)
        has_terminal = False
    wanted = Execution(
        namespace="",
        pod=replica,
        command=arguments,
        container=how["container"],
        stdin=how["stdin"] or is_piped,
        tty=has_terminal,
    )
    raise click.exceptions.Exit(run_inside(target, job, wanted))


def run_inside(target: Target, job: str, wanted: Execution) -> int:
    """Runs something in the replica that `wanted.pod` names; its exit code."""

    async def talk(sender: Sender, namespace: str) -> Execution:
        return await placed(sender, namespace, job, wanted)

    execution = ask(target, talk)
    cluster = target.cluster()

    async def connected() -> int:
        with terminal.ended_gently() as signals:
            try:
                async with remote_process(cluster, execution) as process:
                    return await _joined(process, execution)
            except asyncio.CancelledError:
                if not signals:
                    raise
                return 128 + signals[0]

    try:
        return asyncio.run(connected())
    except RefusedError as problem:
        raise click.ClickException(problem.problem.message) from problem
    except ClientError as problem:
        raise click.ClickException(str(problem)) from problem


async def placed(sender: Sender, namespace: str, job: str, wanted: Execution) -> Execution:
    """The same with the pod and the container that are meant."""
    known = await found(sender, namespace, job)
    pods = await pods_of(sender, known)
    matches = [pod for pod in pods if wanted.pod in (pod.replica, pod.metadata.name)]
    if not matches:
        names = sorted({pod.replica for pod in pods})
        there = f"it has {', '.join(names)}" if names else "it has none now"
        close = suggestion(wanted.pod, names)
        raise click.ClickException(f"{known} has no replica {wanted.pod}{close}; {there}")
    running = [pod for pod in matches if pod.status.phase == "Running"]
    if not running:
        phase = matches[0].status.phase
        raise click.ClickException(
            f"{known}: replica {wanted.pod} is {phase}; only one that is running can be entered"
        )
    pod = running[-1]
    return msgspec.structs.replace(
        wanted,
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        container=wanted.container or _container(pod),
    )


def _container(pod: JobPod) -> str:
    """The one that the pod says is meant, else the first, as kubectl chooses."""
    names = [each.name for each in pod.spec.containers]
    default = pod.metadata.annotations.get(DEFAULT_CONTAINER, "")
    return default if default in names else names[0]


async def _joined(process: RemoteProcess, execution: Execution) -> int:
    """Carries the user's input and the process's output until the process ends."""
    with ExitStack() as stack:
        resizing: set[asyncio.Task[None]] = set()

        def resize() -> None:
            task = asyncio.ensure_future(process.resize(*terminal.size()))
            resizing.add(task)
            task.add_done_callback(resizing.discard)

        if execution.tty:
            stack.enter_context(terminal.raw_terminal())
            stack.enter_context(terminal.resized(resize))
            await process.resize(*terminal.size())
        feeding = asyncio.ensure_future(_fed(process)) if execution.stdin else None
        try:
            while (piece := await process.output()) is not None:
                channel, data = piece
                terminal.show(data, is_error=channel is Channel.STDERR)
            return process.exit_code
        finally:
            tasks = [*resizing, *((feeding,) if feeding else ())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _fed(process: RemoteProcess) -> None:
    while data := await terminal.read_input():
        await process.write(data)
    if process.can_end_input:
        await process.end_input()
    else:
        say(
            "the cluster can't be told that the input has ended; Kubernetes 1.30 and later can",
            err=True,
        )
