"""The server's end of a SPDY connection: streams that the client opens, each read and written.

kubectl neither sends nor heeds window updates, so there is no flow control per stream: what a
stream's reader doesn't take is kept up to a limit, and beyond it the whole connection waits. We
send window updates all the same, for clients that need them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from jobyard.server.streaming.spdy.frames import (
    CANCEL,
    PROTOCOL_ERROR,
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    Headers,
    Ping,
    Reset,
    SpdyError,
    SynReply,
    SynStream,
    WindowUpdate,
)
from jobyard.server.streaming.wires import Wire

STREAM_BYTES_MAX: Final = 1024 * 1024
STREAMS_MAX: Final = 1000
DATA_BYTES: Final = 32 * 1024
# While nothing is read, only a write can tell that the client has gone.
NUDGE_SECONDS: Final = 10.0


class SpdyStream:
    """One stream, opened by the client."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Headers) -> None:
        self.number = number
        self.headers = headers
        self._reset = asyncio.Event()
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._has_ended = False
        self._is_finished = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_reset(self) -> bool:
        return self._reset.is_set()

    async def gone(self) -> None:
        """Waits until neither end has any use for the stream."""
        await self._reset.wait()

    async def read(self) -> bytes:
        """What has come; nothing when the client has said all it has to say."""
        while not self._pieces:
            if self._has_ended:
                return b""
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._size <= STREAM_BYTES_MAX:
            self._room.set()
        return piece

    async def write(self, data: bytes) -> None:
        """Lost where the client has reset the stream."""
        for start in range(0, len(data), DATA_BYTES):
            if self.is_reset or self._is_finished:
                return
            await self._connection.send(Data(self.number, data[start : start + DATA_BYTES]))

    async def finish(self) -> None:
        """Nothing more will be written."""
        if not self._is_finished and not self.is_reset:
            self._is_finished = True
            await self._connection.send(Data(self.number, b"", True))

    async def reset(self, status: int = CANCEL) -> None:
        if not self.is_reset:
            self.end(is_reset=True)
            await self._connection.send(Reset(self.number, status))

    async def room(self, seconds: float) -> bool:
        """Whether there is room for more, at the latest after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._room.wait()
        except TimeoutError:
            return False
        return True

    def put(self, data: bytes) -> None:
        if data and not self._has_ended:
            self._pieces.append(data)
            self._size += len(data)
            if self._size > STREAM_BYTES_MAX:
                self._room.clear()
            self._news.set()

    def end(self, *, is_reset: bool = False) -> None:
        """The client will say no more; after a reset it will hear no more either."""
        self._has_ended = True
        if is_reset:
            self._reset.set()
            self._pieces.clear()
            self._size = 0
        self._room.set()
        self._news.set()


class SpdyConnection:
    """All streams of one client. Somebody has to `run` it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._opened: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Takes what the client sends, until it has gone or spoken nonsense."""
        try:
            while data := await self._wire.read():
                for frame in self._decoder.decoded(data):
                    await self._take(frame)
        except SpdyError:
            await self.send(GoAway(self._last, PROTOCOL_ERROR))
        except ConnectionError:
            pass
        finally:
            for stream in self._streams.values():
                stream.end(is_reset=True)
            self._streams.clear()
            self._opened.put_nowait(None)

    async def opened(self) -> SpdyStream | None:
        """The next stream that the client opens; None when it has gone."""
        return await self._opened.get()

    async def accept(self, stream: SpdyStream) -> None:
        await self.send(SynReply(stream.number))

    def forget(self, stream: SpdyStream) -> None:
        """What still comes for the stream is of no interest."""
        self._streams.pop(stream.number, None)
        stream.end(is_reset=True)

    async def send(self, *frames: Frame) -> None:
        # One after the other, also because each header block builds on those before.
        async with self._writing:
            await self._wire.write(b"".join(map(self._encoder.encoded, frames)))

    async def _take(self, frame: Frame) -> None:
        match frame:
            case Data(number, payload, is_last):
                await self._take_data(number, payload, is_last)
            case SynStream(number, headers, is_last):
                await self._open(number, headers, is_last)
            case Ping(number):
                if number % 2:
                    await self.send(frame)
            case Reset(number):
                stream = self._streams.pop(number, None)
                if stream is not None:
                    stream.end(is_reset=True)
            case _:
                pass

    async def _take_data(self, number: int, payload: bytes, is_last: bool) -> None:
        stream = self._streams.get(number)
        if stream is not None:
            stream.put(payload)
            if is_last:
                stream.end()
            while not await stream.room(NUDGE_SECONDS):
                await self.send(Ping(2))
        if payload:
            await self.send(WindowUpdate(number, len(payload)), WindowUpdate(0, len(payload)))

    async def _open(self, number: int, headers: Headers, is_last: bool) -> None:
        if number % 2 == 0 or number <= self._last:
            raise SpdyError(f"stream {number} after {self._last}")
        self._last = number
        stream = SpdyStream(self, number, headers)
        if len(self._streams) >= STREAMS_MAX:
            await stream.reset()
            return
        self._streams[number] = stream
        if is_last:
            stream.end()
        self._opened.put_nowait(stream)
