"""portforward: connections to ports of a pod, many of them over one of the client's.

kubectl opens two SPDY streams for each, one for data and one for what goes wrong, in a connection
taken over or in the tunnel of a WebSocket. Other clients name the ports in the query and get two
channels of a WebSocket for each, good for one connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from struct import pack
from typing import Final

from aiohttp import web

from jobyard.kubelet import KubeletError
from jobyard.numerals import port_number
from jobyard.server.call import Call
from jobyard.server.problem import bad_request
from jobyard.server.resource import Object
from jobyard.server.streaming.channels import V4, V4_BASE64, Channels, websocket
from jobyard.server.streaming.containers import check_placed
from jobyard.server.streaming.departure import Connected
from jobyard.server.streaming.kubelet import Kubelet
from jobyard.server.streaming.spdy.connection import SpdyConnection, SpdyStream
from jobyard.server.streaming.spdy.frames import PROTOCOL_ERROR
from jobyard.server.streaming.upgrading import (
    Upgrade,
    socket_protocol,
    stream_protocol,
    upgrade_headers,
    upgrade_wanted,
)
from jobyard.server.streaming.wires import BLOCK_BYTES, Finished, SocketWire, Wire, taken_over

FORWARD: Final = "portforward.k8s.io"
TUNNEL: Final = f"SPDY/3.1+{FORWARD}"
# How long the second stream of a pair may take.
PAIR_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 3.0


async def serve_forward(
    request: web.BaseRequest, call: Call, pod: Object, kubelet: Kubelet
) -> web.StreamResponse:
    """Forwards until the client goes."""
    check_placed(pod)
    wanted = upgrade_wanted(request)
    target = Target(pod, kubelet)
    if wanted is Upgrade.SPDY:
        protocol = stream_protocol(request, (FORWARD,))
        async with (
            Connected(request),
            taken_over(request, upgrade_headers(protocol or FORWARD)) as wire,
        ):
            await Forwarder(wire, target).run()
        return Finished()
    protocol = socket_protocol(request, (TUNNEL, V4, V4_BASE64))
    ports = () if protocol == TUNNEL else asked_ports(call)
    socket = websocket(TUNNEL, V4, V4_BASE64)
    async with Connected(request):
        await socket.prepare(request)
        if protocol == TUNNEL:
            await Forwarder(SocketWire(socket), target).run()
        else:
            await forwarded_ports(Channels(socket), target, ports)
        await socket.close()
        return socket
    return Finished()


def asked_ports(call: Call) -> tuple[int, ...]:
    """The ports in the query, repeated or with commas."""
    texts = [each for text in call.options("ports") for each in text.split(",")]
    if not texts:
        raise bad_request('query parameter "port" is required')
    return tuple(map(_port, texts))


def _port(text: str) -> int:
    number = port_number(text)
    if number is None:
        raise bad_request(f'unable to parse "{text}" as a port')
    return number


class Target:
    """A pod, as something to connect to."""

    def __init__(self, pod: Object, kubelet: Kubelet) -> None:
        self._pod = pod
        self._kubelet = kubelet

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._kubelet.connect(self._pod, port)

    def failure(self, port: int, problem: Exception) -> bytes:
        """What a client shows when there is no connection."""
        meta = self._pod["metadata"]
        text = f"error forwarding port {port} to pod {meta['name']}, uid {meta.get('uid', '')}"
        return f"{text}: {problem}".encode()


class Forwarder:
    """The connections of one kubectl."""

    def __init__(self, wire: Wire, target: Target) -> None:
        self._connection = SpdyConnection(wire)
        self._target = target
        # Streams whose other half hasn't come yet, by request and type.
        self._halves: dict[tuple[str, str], SpdyStream] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        running = asyncio.create_task(self._connection.run())
        try:
            while (stream := await self._connection.opened()) is not None:
                await self._take(stream)
        except ConnectionError:
            pass
        finally:
            for task in (running, *self._tasks):
                task.cancel()
            await asyncio.gather(running, *self._tasks, return_exceptions=True)

    async def _take(self, stream: SpdyStream) -> None:
        kind = stream.headers.get("streamtype", "")
        port = port_number(stream.headers.get("port", ""))
        if kind not in ("data", "error") or port is None:
            await stream.reset(PROTOCOL_ERROR)
            self._connection.forget(stream)
            return
        await self._connection.accept(stream)
        # Old clients don't number their requests: there the error stream comes right before.
        number = stream.number - 2 if kind == "data" else stream.number
        request = stream.headers.get("requestid") or f"stream {number}"
        other = self._halves.pop((request, "error" if kind == "data" else "data"), None)
        if other is None:
            self._halves[request, kind] = stream
            asyncio.get_running_loop().call_later(PAIR_SECONDS, self._expire, request, kind, stream)
            return
        data, error = (stream, other) if kind == "data" else (other, stream)
        task = asyncio.create_task(self._forward(port, data, error))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _expire(self, request: str, kind: str, stream: SpdyStream) -> None:
        if self._halves.get((request, kind)) is stream:
            del self._halves[request, kind]
            self._connection.forget(stream)

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            try:
                reader, writer = await self._target.connect(port)
            except (KubeletError, OSError) as problem:
                await error.write(self._target.failure(port, problem))
            else:
                await _joined(data, reader, writer)
            await data.finish()
            await error.finish()
        except ConnectionError:
            # The client has gone, and the connection with it.
            pass
        finally:
            self._connection.forget(data)
            self._connection.forget(error)


async def _joined(
    stream: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Carries bytes both ways. Each side may end its half alone; a reset ends both."""
    inward = asyncio.create_task(_inward(stream, writer))
    outward = asyncio.create_task(_outward(stream, reader))
    try:
        await asyncio.wait((inward, outward), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (inward, outward):
            task.cancel()
        await asyncio.gather(inward, outward, return_exceptions=True)
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await writer.wait_closed()


async def _inward(stream: SpdyStream, writer: asyncio.StreamWriter) -> None:
    """Ends only when nobody wants an answer any more."""
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if not stream.is_reset and writer.can_write_eof():
        writer.write_eof()
    await stream.gone()


async def _outward(stream: SpdyStream, reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        while data := await reader.read(BLOCK_BYTES):
            await stream.write(data)


async def forwarded_ports(channels: Channels, target: Target, ports: tuple[int, ...]) -> None:
    """One connection for each port; channel 2n has its data, 2n + 1 what goes wrong."""
    writers: dict[int, asyncio.StreamWriter] = {}
    tasks: set[asyncio.Task[None]] = set()
    try:
        for index, port in enumerate(ports):
            for channel in (2 * index, 2 * index + 1):
                await channels.send(channel, pack("<H", port))
            try:
                reader, writers[2 * index] = await target.connect(port)
            except (KubeletError, OSError) as problem:
                await channels.send(2 * index + 1, target.failure(port, problem))
            else:
                tasks.add(asyncio.create_task(_told(channels, 2 * index, reader)))
        receiving = asyncio.create_task(_received(channels, writers))
        tasks.add(receiving)
        others = tasks - {receiving}
        ended = asyncio.gather(*others, return_exceptions=True)
        await asyncio.wait((receiving, ended), return_when=asyncio.FIRST_COMPLETED)
    except ConnectionError:
        pass
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers.values():
            writer.close()


async def _told(channels: Channels, channel: int, reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        while data := await reader.read(BLOCK_BYTES):
            await channels.send(channel, data)


async def _received(channels: Channels, writers: dict[int, asyncio.StreamWriter]) -> None:
    while (message := await channels.receive()) is not None:
        writer = writers.get(message.channel)
        if writer is not None and message.data:
            with suppress(ConnectionError):
                writer.write(message.data)
                await writer.drain()
