"""`jobyard controller`: runs jobs on a cluster, inside of it or beside it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import ClientError
from jobyard.client.transport import Transport
from jobyard.controller.operations.leading import LeadershipLostError, LeaseName, lead, own_identity
from jobyard.controller.operations.logs import LogFormat, configure
from jobyard.controller.operations.metrics import Metrics
from jobyard.controller.operations.serving import Serving, ServingError
from jobyard.controller.running import Controller, Options
from jobyard.controller.world import World
from jobyard.numerals import PORT_MAX, whole_number

STOP_SECONDS = 10.0
_log = logging.getLogger(__name__)


def _host_and_port(_c: click.Context, _p: click.Parameter, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    number = whole_number(port, PORT_MAX)
    if number is None:
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 0.0.0.0:8080")
    return host.strip("[]") or "0.0.0.0", number  # noqa: S104


def _lease_name(_c: click.Context, _p: click.Parameter, value: str | None) -> LeaseName | None:
    if value is None:
        return None
    namespace, _, name = value.partition("/")
    if not namespace or not name:
        raise click.BadParameter(f"{value!r} is not NAMESPACE/NAME")
    return LeaseName(namespace, name)


@click.command("controller")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The cluster; absent: $KUBECONFIG, the pod's own cluster, or ~/.kube/config.",
)
@click.option("--context", help="The context of the kubeconfig; absent: its current one.")
@click.option("--namespace", default="", help="Work on this namespace only.")
@click.option(
    "--gang-scheduler",
    type=click.Choice(["t9k", "none"]),
    default="t9k",
    show_default=True,
    help="Who places the pods of jobs with spec.scheduler; none: the default scheduler.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="How many jobs of one namespace are worked on at once; in all, three times as many.",
)
@click.option(
    "--lease",
    metavar="NAMESPACE/NAME",
    callback=_lease_name,
    help="Lead only while holding this Lease, so that several can stand by.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    metavar="HOST:PORT",
    callback=_host_and_port,
    help="Where /metrics, /healthz and /readyz are served.",
)
@click.option(
    "--log-format",
    type=click.Choice([each.value for each in LogFormat]),
    default=LogFormat.TEXT.value,
    show_default=True,
    help="The format of log lines.",
)
def command(
    **chosen: Any,
) -> None:
    """Run the controller: create the pods of jobs, and keep their status up to date.

    It runs until it is told to stop (SIGTERM, Ctrl-C). Being killed at any moment
    loses nothing: all it knows is in the cluster.
    """
    flags = Flags(**chosen)
    configure(LogFormat(flags.log_format))
    try:
        asyncio.run(_run(flags))
    except (ClientError, ServingError, LeadershipLostError) as error:
        raise click.ClickException(str(error)) from error


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were given."""

    kubeconfig: Path | None
    context: str | None
    namespace: str
    gang_scheduler: str
    workers: int
    lease: LeaseName | None
    listen: tuple[str, int]
    log_format: str


async def _run(flags: Flags) -> None:
    metrics = Metrics()
    cluster = cluster_of(flags.kubeconfig, flags.context)
    options = Options(
        namespace=flags.namespace,
        has_gang_scheduler=flags.gang_scheduler != "none",
        workers=flags.workers,
    )
    async with Transport(cluster, observe=metrics.called) as transport:
        controller = Controller(transport, options, metrics)
        metrics.count_jobs_with(lambda: job_counts(controller.world))
        is_standing_by = flags.lease is not None

        async def work() -> None:
            nonlocal is_standing_by
            is_standing_by = False
            metrics.leading(True)
            await controller.run()

        def is_ready() -> bool:
            return is_standing_by or controller.is_synced

        def standstill() -> str:
            return "" if is_standing_by else controller.standstill

        async with Serving(*flags.listen, metrics, is_ready, standstill):
            _log.info("looking after %s at %s", flags.namespace or "all namespaces", cluster.server)
            task = asyncio.ensure_future(
                work()
                if flags.lease is None
                else lead(transport, flags.lease, own_identity(), work)
            )
            await _until_stopped(task, controller)


async def _until_stopped(task: asyncio.Future[None], controller: Controller) -> None:
    """The first signal lets running passes finish, for STOP_SECONDS at most."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    asked = asyncio.ensure_future(stopped.wait())
    await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        _log.info("stopping")
        controller.stop()
        await asyncio.wait({task}, timeout=STOP_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    asked.cancel()
    if not task.cancelled():
        task.result()


def job_counts(world: World) -> dict[tuple[str, str], int]:
    """Jobs by kind and phase."""
    return Counter((record.kind.name, record.phase) for record in world.all_jobs())
