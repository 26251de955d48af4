"""exec and attach: a process of a pod, and a client at the other end of its streams.

A process whose client goes away is ended. The client hears of the end of the process only after
all of its output. How the streams look on the wire is in `process_ends`.
"""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from jobyard.kubelet import ExecOptions, Session
from jobyard.server.call import Call
from jobyard.server.problem import bad_request
from jobyard.server.resource import Object
from jobyard.server.streaming.channels import V1, V1_BASE64, V4, V4_BASE64, V5, Channels, websocket
from jobyard.server.streaming.containers import check_placed, chosen_container
from jobyard.server.streaming.departure import Connected
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.outcomes import SUCCESS, fault, outcome
from jobyard.server.streaming.process_ends import Ends, SocketEnds, SpdyEnds
from jobyard.server.streaming.spdy.connection import SpdyConnection
from jobyard.server.streaming.upgrading import (
    Upgrade,
    socket_protocol,
    stream_protocol,
    upgrade_headers,
    upgrade_wanted,
)
from jobyard.server.streaming.wires import Finished, parted, taken_over

SOCKET_PROTOCOLS = (V5, V4, V4_BASE64, V1, V1_BASE64)
SPDY_PROTOCOLS = ("v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", V1)


async def serve_process(
    request: web.BaseRequest, call: Call, pod: Object, kubelet: Kubelet, *, is_attach: bool
) -> web.StreamResponse:
    """Runs the process that is asked for, or joins the container's own, until either end goes."""
    options = process_options(call, pod, needs_command=not is_attach)
    upgrade = upgrade_wanted(request)
    if upgrade is Upgrade.WEBSOCKET:
        protocol = socket_protocol(request, SOCKET_PROTOCOLS)
    else:
        protocol = stream_protocol(request, SPDY_PROTOCOLS)
    # Before the upgrade: what is refused is refused with a Status that every client understands.
    session = await (kubelet.attach if is_attach else kubelet.execute)(pod, options)
    try:
        async with Connected(request):
            if upgrade is Upgrade.SPDY:
                return await _over_spdy(request, protocol, session, options, is_attach)
            socket = websocket(*SOCKET_PROTOCOLS)
            await socket.prepare(request)
            channels = Channels(socket)
            ends = SocketEnds(channels, options)
            await carried(session, ends, is_attach)
            await channels.close()
            return socket
        return Finished()
    finally:
        await session.close()


async def _over_spdy(
    request: web.BaseRequest,
    protocol: str,
    session: Session,
    options: ExecOptions,
    is_attach: bool,
) -> web.StreamResponse:
    async with taken_over(request, upgrade_headers(protocol)) as wire:
        connection = SpdyConnection(wire)
        running = asyncio.create_task(connection.run())
        try:
            ends = await SpdyEnds.opened(connection, options, protocol or V1)
            if ends is not None:
                await carried(session, ends, is_attach)
                running.cancel()
                await asyncio.wait((running,))
                await parted(wire)
        finally:
            running.cancel()
            await asyncio.wait((running,))
    return Finished()


def process_options(call: Call, pod: Object, *, needs_command: bool) -> ExecOptions:
    """Reads the query; the refusals come in the order of a real server's."""
    container = chosen_container(pod, call.option("container"))
    check_placed(pod)
    options = ExecOptions(
        command=call.options("command"),
        container=container,
        stdin=call.flag("stdin"),
        stdout=call.flag("stdout"),
        stderr=call.flag("stderr"),
        tty=call.flag("tty"),
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    if needs_command and not options.command:
        raise bad_request("you must specify at least one command for the container")
    if options.tty:
        # A terminal has one way out.
        return msgspec.structs.replace(options, stderr=False)
    return options


async def carried(session: Session, ends: Ends, is_attach: bool) -> None:
    """Carries bytes both ways until the process has ended or the client has gone."""
    feeding = asyncio.create_task(ends.feed(session))
    showing = asyncio.create_task(_shown(session, ends))
    try:
        await asyncio.wait((feeding, showing), return_when=asyncio.FIRST_COMPLETED)
        if not showing.done():
            return
        try:
            exit_code = showing.result()
            status = SUCCESS if is_attach else outcome(exit_code)
        except OSError as problem:
            status = fault(problem)
        # The client may still send; there is nobody who would read it.
        feeding.cancel()
        await asyncio.wait((feeding,))
        await ends.conclude(status)
    except ConnectionError:
        pass
    finally:
        for task in (feeding, showing):
            task.cancel()
        await asyncio.gather(feeding, showing, return_exceptions=True)


async def _shown(session: Session, ends: Ends) -> int:
    await ends.ready()
    while (piece := await session.read()) is not None:
        await ends.show(*piece)
    return await session.wait()
