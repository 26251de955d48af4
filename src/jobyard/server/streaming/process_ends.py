"""The client's ends of a process: its streams as channels of a WebSocket, or as SPDY streams."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Protocol, Self

import msgspec

from jobyard.kubelet import ExecOptions, Session, Stream
from jobyard.numerals import whole_number
from jobyard.server.resource import Object
from jobyard.server.streaming.channels import CLOSING, Channels, Message
from jobyard.server.streaming.outcomes import told
from jobyard.server.streaming.spdy.connection import SpdyConnection, SpdyStream

STDIN: Final = 0
ERROR: Final = 3
RESIZE: Final = 4
# How long a client has to open all streams.
STREAMS_SECONDS: Final = 30.0
HEAD_START_SECONDS: Final = 0.03
# A client that pings waits about a minute; a dead one is noticed by writing to it.
NUDGE_SECONDS: Final = 10.0


class Ends(Protocol):
    """What a client sends to a process and hears from it."""

    async def feed(self, session: Session) -> None:
        """Passes on what the client sends; returns when it has gone."""
        ...

    async def ready(self) -> None:
        """Waits until the client can be shown something."""
        ...

    async def show(self, stream: Stream, data: bytes) -> None:
        """Waits while the client doesn't read."""
        ...

    async def conclude(self, status: Object) -> None:
        """Says how it ended, and that nothing more comes."""
        ...


class Size(msgspec.Struct, frozen=True, rename="pascal"):
    """A terminal's size, as clients tell it."""

    width: int = 0
    height: int = 0


_INPUT_ENDS: Final = Message(CLOSING, bytes((STDIN,)))
_sizes: Final = msgspec.json.Decoder(Size)


def resize(session: Session, data: bytes) -> None:
    """Takes the last size that can be read."""
    for line in data.splitlines():
        try:
            size = _sizes.decode(line)
        except msgspec.DecodeError:
            continue
        if 0 < size.width <= 0xFFFF and 0 < size.height <= 0xFFFF:
            session.resize(size.width, size.height)


class SocketEnds:
    """Channels 0 to 4: in, out, errors out, the status, the size of the terminal."""

    def __init__(self, channels: Channels, options: ExecOptions) -> None:
        self._channels = channels
        self._options = options
        self._spoke = asyncio.Event()

    async def ready(self) -> None:
        """kubectl before 1.33 loses what comes while it still makes its streams.

        Its older protocol has an empty message as the sign that everything is set up.
        """
        options = self._options
        if self._channels.can_close_one:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEAD_START_SECONDS):
                    await self._spoke.wait()
        elif options.stdout or options.stderr:
            await self._channels.send(Stream.STDOUT if options.stdout else Stream.STDERR, b"")

    async def feed(self, session: Session) -> None:
        has_input = self._options.stdin
        while (message := await self._channels.receive()) is not None:
            self._spoke.set()
            if message.channel == STDIN and has_input and message.data:
                await self._written(session, message.data)
            elif message.channel == RESIZE:
                resize(session, message.data)
            elif self._channels.can_close_one and message == _INPUT_ENDS and has_input:
                has_input = False
                await session.end_input()

    async def _written(self, session: Session, data: bytes) -> None:
        writing = asyncio.ensure_future(session.write(data))
        try:
            while not (await asyncio.wait((writing,), timeout=NUDGE_SECONDS))[0]:
                await self._channels.nudge()
            writing.result()
        finally:
            writing.cancel()

    async def show(self, stream: Stream, data: bytes) -> None:
        is_wanted = self._options.stdout if stream is Stream.STDOUT else self._options.stderr
        if is_wanted:
            await self._channels.send(stream, data)

    async def conclude(self, status: Object) -> None:
        text = told(status, as_object=self._channels.has_status_objects)
        if text:
            await self._channels.send(ERROR, text)


class SpdyEnds:
    """One SPDY stream each, named by its header `streamtype`."""

    def __init__(self, connection: SpdyConnection, streams: dict[str, SpdyStream]) -> None:
        self._connection = connection
        self._streams = streams
        self.has_status_objects = True

    @classmethod
    async def opened(
        cls, connection: SpdyConnection, options: ExecOptions, protocol: str
    ) -> Self | None:
        """Waits until the client has opened all streams; None if it doesn't."""
        version = whole_number(protocol[1:2]) or 1
        wanted = {"error"}
        wanted |= {name for name in ("stdin", "stdout", "stderr") if getattr(options, name)}
        if options.tty and version >= 3:
            wanted.add("resize")
        found: dict[str, SpdyStream] = {}
        try:
            async with asyncio.timeout(STREAMS_SECONDS):
                while wanted - found.keys():
                    stream = await connection.opened()
                    if stream is None:
                        return None
                    name = stream.headers.get("streamtype", "")
                    if name not in wanted or name in found:
                        await stream.reset()
                        continue
                    await connection.accept(stream)
                    found[name] = stream
        except (TimeoutError, ConnectionError):
            return None
        ends = cls(connection, found)
        ends.has_status_objects = version >= 4
        return ends

    async def feed(self, session: Session) -> None:
        tasks = [
            asyncio.create_task(self._fed_input(session)),
            asyncio.create_task(self._fed_sizes(session)),
        ]
        try:
            # Ends only with the connection: no client opens more streams than it said.
            while (stream := await self._connection.opened()) is not None:
                await stream.reset()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def ready(self) -> None:
        """Its streams are open."""

    async def _fed_input(self, session: Session) -> None:
        stream = self._streams.get("stdin")
        if stream is not None:
            while data := await stream.read():
                await session.write(data)
            if not stream.is_reset:
                await session.end_input()

    async def _fed_sizes(self, session: Session) -> None:
        stream = self._streams.get("resize")
        if stream is not None:
            while data := await stream.read():
                resize(session, data)

    async def show(self, stream: Stream, data: bytes) -> None:
        wanted = self._streams.get("stdout" if stream is Stream.STDOUT else "stderr")
        if wanted is not None:
            await wanted.write(data)

    async def conclude(self, status: Object) -> None:
        for name in ("stdout", "stderr"):
            if name in self._streams:
                await self._streams[name].finish()
        error = self._streams["error"]
        await error.write(told(status, as_object=self.has_status_objects))
        await error.finish()
