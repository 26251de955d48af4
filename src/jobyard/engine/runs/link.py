"""How a command speaks with the engine of a run: requests over a Unix socket in its folder.

One connection for one question. What is streamed ends with its connection, and a reader that is
slow, or stopped for good, holds up nobody but itself. A frame is its length in four bytes, then
msgpack. There is no TLS and no HTTP here: both take longer to load than a short job runs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from jobyard.client.errors import ClientError, ConnectionFailedError, RefusedError
from jobyard.client.request import Answer, Problem, Request
from jobyard.client.sender import Sender
from jobyard.node.shared.socket_paths import short_path

# Changes with what is said here; an engine may be older than the command that asks it.
VERSION: Final = 1
_LENGTH_BYTES: Final = 4
# What an API server takes and gives at most, with room to spare: more than this is no frame.
_FRAME_BYTES_MAX: Final = 256 * 1024 * 1024

How = Literal["send", "lines", "chunks", "attend", "end"]


class Ask(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The one frame of whoever asks."""

    version: int
    how: How
    request: Request | None = None


class Answered(msgspec.Struct, frozen=True, tag=True):
    answer: Answer


class Piece(msgspec.Struct, frozen=True, tag=True):
    """Some of a stream; of lines, whole ones."""

    data: bytes


class Refused(msgspec.Struct, frozen=True, tag=True):
    what: str
    problem: Problem


class Done(msgspec.Struct, frozen=True, tag=True):
    """The stream is complete. A connection that ends without it was cut."""


Frame = Answered | Piece | Refused | Done
_ask_decoder: Final = msgspec.msgpack.Decoder(Ask)
_frame_decoder: Final = msgspec.msgpack.Decoder(Frame)
_encoder: Final = msgspec.msgpack.Encoder()


async def _read(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
    if length > _FRAME_BYTES_MAX:
        raise ConnectionResetError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


def _framed(frame: Ask | Frame) -> bytes:
    body = _encoder.encode(frame)
    return len(body).to_bytes(_LENGTH_BYTES) + body


# The engine's side.


class Notes:
    """What an engine has to say to whoever attends its run; a later one hears it all again."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._more = asyncio.Event()

    def say(self, text: str) -> None:
        self._said.append(text)
        self._more.set()
        self._more = asyncio.Event()

    async def all(self) -> AsyncIterator[str]:
        """For ever."""
        told = 0
        while True:
            more = self._more
            while told < len(self._said):
                told += 1
                yield self._said[told - 1]
            await more.wait()


class Desk:
    """Answers at the socket of one engine."""

    def __init__(self, sender: Sender, notes: Notes, welcome: Callable[[], None]) -> None:
        self._sender = sender
        self._notes = notes
        # Called before whoever attends is told so.
        self._welcome = welcome
        self._attending = 0
        # Those of whom asked for the end: open until the process ends.
        self._kept: list[asyncio.StreamWriter] = []
        # Set when somebody has asked for the end.
        self.ending = asyncio.Event()
        # One of the two is set: somebody attends, or nobody.
        self.is_attended = asyncio.Event()
        self.is_left = asyncio.Event()
        self.is_left.set()

    @asynccontextmanager
    async def open(self, path: Path) -> AsyncIterator[None]:
        """Listens while inside; whoever asked for the end hears of it when the process ends."""
        path.unlink(missing_ok=True)
        with short_path(path) as address:
            server = await asyncio.start_unix_server(self._served, address)
        path.chmod(0o600)
        try:
            yield
        finally:
            server.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whoever asked may leave at any moment, or have been something else than one of us.
        with suppress(OSError, asyncio.IncompleteReadError, msgspec.MsgspecError):
            ask = _ask_decoder.decode(await _read(reader))
            if ask.version != VERSION:
                writer.write(_framed(Refused("run", _other_version(ask.version))))
                await writer.drain()
            elif ask.how == "end":
                # The end of the connection says that it is done: nothing comes after it.
                self._kept.append(writer)
                self.ending.set()
                return
            else:
                await self._answer(ask, reader, writer)
        writer.close()

    async def _answer(
        self, ask: Ask, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The stream, until it ends or nobody is there to read it."""
        # Nothing more is said on this connection: whatever can be read is its end.
        gone = asyncio.ensure_future(reader.read(1))
        work = asyncio.ensure_future(self._stream(ask, writer))
        try:
            await asyncio.wait((gone, work), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for each in (gone, work):
                each.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)

    async def _stream(self, ask: Ask, writer: asyncio.StreamWriter) -> None:
        async def give(frame: Frame) -> None:
            writer.write(_framed(frame))
            await writer.drain()

        if ask.how == "attend":
            await self._attend(give)
            return
        assert ask.request is not None, "only the end and attendance have none"
        try:
            if ask.how == "send":
                await give(Answered(await self._sender.send(ask.request)))
                return
            stream = self._sender.lines if ask.how == "lines" else self._sender.chunks
            async with aclosing(stream(ask.request)) as pieces:
                async for piece in pieces:
                    await give(Piece(piece))
            await give(Done())
        except RefusedError as problem:
            await give(Refused(str(ask.request), problem.problem))

    async def _attend(self, give: Callable[[Frame], Awaitable[None]]) -> None:
        self._attending += 1
        self.is_left.clear()
        self.is_attended.set()
        try:
            self._welcome()
            # They are heard, even if there is nothing to say.
            await give(Piece(b""))
            async for text in self._notes.all():
                await give(Piece(text.encode(errors="replace")))
        finally:
            self._attending -= 1
            if not self._attending:
                self.is_attended.clear()
                self.is_left.set()


def _other_version(version: int) -> Problem:
    return Problem(
        400,
        "BadRequest",
        f"the engine of this run speaks version {VERSION} of the link, the command {version}:"
        " use the release of jobyard that started the run",
    )


# The command's side.


class Link:
    """A `client.sender.Sender` to the engine of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, request: Request) -> Answer:
        async with aclosing(self._frames("send", request)) as frames:
            async for frame in frames:
                if isinstance(frame, Answered):
                    return frame.answer
        raise self._cut()

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._pieces("lines", request)

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._pieces("chunks", request)

    async def attend(self) -> AsyncGenerator[str, None]:
        """What the engine says; while somebody listens, the run isn't left to itself."""
        async with aclosing(self._pieces("attend", None)) as pieces:
            async for piece in pieces:
                yield piece.decode(errors="replace")

    async def end(self) -> None:
        """Asks the engine to end the run, and waits until it has ended."""
        # One that is gone has ended already.
        with suppress(ConnectionFailedError):
            async with aclosing(self._frames("end", None)) as frames:
                async for _ in frames:
                    pass

    async def _pieces(self, how: How, request: Request | None) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._frames(how, request)) as frames:
            async for frame in frames:
                if isinstance(frame, Piece):
                    yield frame.data
                elif isinstance(frame, Done):
                    return
        raise self._cut()

    async def _frames(self, how: How, request: Request | None) -> AsyncGenerator[Frame, None]:
        """Until the connection ends."""
        try:
            with short_path(self._path) as address:
                reader, writer = await asyncio.open_unix_connection(address)
        except OSError as problem:
            raise self._cut(os.strerror(problem.errno or 0)) from problem
        try:
            writer.write(_framed(Ask(VERSION, how, request)))
            await writer.drain()
            while True:
                frame = _frame_decoder.decode(await _read(reader))
                if isinstance(frame, Refused):
                    raise RefusedError(frame.what, frame.problem)
                yield frame
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    def _cut(self, why: str = "it has ended") -> ClientError:
        return ConnectionFailedError(
            "of this run", why, "`jobyard status` tells what is running on this machine"
        )
