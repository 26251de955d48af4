"""The frames of SPDY/3.1 as values, and a codec between them and bytes.

Pure: no I/O, no streams. A codec is one end of one connection, because header blocks are
compressed with a memory of those before. Flow control is left to whoever uses the frames.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from struct import pack, unpack_from
from typing import Final

import msgspec

from jobyard.server.streaming.spdy.dictionary import DICTIONARY

FRAME_BYTES_MAX: Final = (1 << 24) - 1
HEADER_BLOCK_BYTES_MAX: Final = 256 * 1024
_VERSION: Final = 3
_CONTROL: Final = 0x80000000
_ID_MASK: Final = 0x7FFFFFFF
_FIN: Final = 1
_HEAD_BYTES: Final = 8

Headers = Mapping[str, str]


class SpdyError(Exception):
    """The other end doesn't keep to the protocol; the connection is of no use any more."""


class Data(msgspec.Struct, frozen=True):
    """Bytes of a stream."""

    stream: int
    payload: bytes
    is_last: bool = False


class SynStream(msgspec.Struct, frozen=True):
    """A new stream, and what it is for."""

    stream: int
    headers: Headers
    is_last: bool = False


class SynReply(msgspec.Struct, frozen=True):
    """The new stream is accepted."""

    stream: int
    headers: Headers = {}
    is_last: bool = False


class Reset(msgspec.Struct, frozen=True):
    """The stream is over, whatever was under way."""

    stream: int
    status: int


class Settings(msgspec.Struct, frozen=True):
    """What the other end would like; nothing that we heed."""


class Ping(msgspec.Struct, frozen=True):
    """To be sent back if the other end made it: odd numbers are the client's."""

    number: int


class GoAway(msgspec.Struct, frozen=True):
    """No new streams from now on."""

    last_stream: int
    status: int = 0


class MoreHeaders(msgspec.Struct, frozen=True):
    """Headers that come after the stream began."""

    stream: int
    headers: Headers
    is_last: bool = False


class WindowUpdate(msgspec.Struct, frozen=True):
    """So many bytes more may be sent; stream 0 is the connection."""

    stream: int
    delta: int


Frame = Data | SynStream | SynReply | Reset | Settings | Ping | GoAway | MoreHeaders | WindowUpdate

# Statuses of a reset.
PROTOCOL_ERROR: Final = 1
CANCEL: Final = 5


class Encoder:
    """Frames to bytes, in the order in which they are sent."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def encoded(self, frame: Frame) -> bytes:
        match frame:
            case Data(stream, payload, is_last):
                assert len(payload) <= FRAME_BYTES_MAX, "cut before it is framed"
                return pack(">II", stream, is_last << 24 | len(payload)) + payload
            case SynStream(stream, headers, is_last):
                body = pack(">IIH", stream, 0, 0) + self._block(headers)
                return _control(1, body, is_last)
            case SynReply(stream, headers, is_last):
                return _control(2, pack(">I", stream) + self._block(headers), is_last)
            case Reset(stream, status):
                return _control(3, pack(">II", stream, status))
            case Settings():
                return _control(4, pack(">I", 0))
            case Ping(number):
                return _control(6, pack(">I", number))
            case GoAway(last_stream, status):
                return _control(7, pack(">II", last_stream, status))
            case MoreHeaders(stream, headers, is_last):
                return _control(8, pack(">I", stream) + self._block(headers), is_last)
            case WindowUpdate(stream, delta):
                return _control(9, pack(">II", stream, delta))

    def _block(self, headers: Headers) -> bytes:
        parts = [pack(">I", len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += (pack(">I", len(text)), text)
        block = self._deflate.compress(b"".join(parts))
        return block + self._deflate.flush(zlib.Z_SYNC_FLUSH)


class Decoder:
    """Bytes to frames, however the bytes are cut."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._rest = bytearray()

    def decoded(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole by now. Frames of a kind that nobody knows are skipped."""
        self._rest += data
        while len(self._rest) >= _HEAD_BYTES:
            word, tail = unpack_from(">II", self._rest)
            end = _HEAD_BYTES + (tail & FRAME_BYTES_MAX)
            if len(self._rest) < end:
                return
            body = bytes(self._rest[_HEAD_BYTES:end])
            del self._rest[:end]
            is_last = bool(tail >> 24 & _FIN)
            if not word & _CONTROL:
                yield Data(word, body, is_last)
                continue
            if word >> 16 & 0x7FFF != _VERSION:
                raise SpdyError(f"version {word >> 16 & 0x7FFF} of SPDY; only 3 is spoken here")
            try:
                frame = self._control(word & 0xFFFF, body, is_last)
            except (struct.error, zlib.error, UnicodeDecodeError) as problem:
                raise SpdyError(f"a frame can't be read: {problem}") from problem
            if frame is not None:
                yield frame

    def _control(self, kind: int, body: bytes, is_last: bool) -> Frame | None:
        (first,) = unpack_from(">I", body)
        stream = first & _ID_MASK
        match kind:
            case 1:
                return SynStream(stream, self._block(body[10:]), is_last)
            case 2:
                return SynReply(stream, self._block(body[4:]), is_last)
            case 3:
                return Reset(stream, unpack_from(">I", body, 4)[0])
            case 4:
                return Settings()
            case 6:
                return Ping(first)
            case 7:
                return GoAway(stream, unpack_from(">I", body, 4)[0])
            case 8:
                return MoreHeaders(stream, self._block(body[4:]), is_last)
            case 9:
                return WindowUpdate(stream, unpack_from(">I", body, 4)[0] & _ID_MASK)
            case _:
                return None

    def _block(self, data: bytes) -> Headers:
        plain = self._inflate.decompress(data, HEADER_BLOCK_BYTES_MAX)
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"a header block of more than {HEADER_BLOCK_BYTES_MAX} bytes")
        (count,) = unpack_from(">I", plain)
        texts, at = [], 4
        for _ in range(2 * count):
            (length,) = unpack_from(">I", plain, at)
            at += 4 + length
            if at > len(plain):
                raise SpdyError("a header block that ends too early")
            texts.append(plain[at - length : at].decode())
        return dict(zip(texts[::2], texts[1::2], strict=True))


def _control(kind: int, body: bytes, is_last: bool = False) -> bytes:
    head = _CONTROL | _VERSION << 16 | kind
    return pack(">II", head, is_last << 24 | len(body)) + body
