"""The SPDY codec: frames survive the way over the wire, however it is cut; nonsense is refused."""

from __future__ import annotations

import zlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobyard.server.streaming.spdy.dictionary import DICTIONARY
from jobyard.server.streaming.spdy.frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    MoreHeaders,
    Ping,
    Reset,
    Settings,
    SpdyError,
    SynReply,
    SynStream,
    WindowUpdate,
)

numbers = st.integers(0, 2**31 - 1)
headers = st.dictionaries(st.from_regex(r"[a-z-]{1,12}", fullmatch=True), st.text(max_size=40))
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Data, numbers, st.binary(max_size=300), st.booleans()),
    st.builds(SynStream, numbers, headers, st.booleans()),
    st.builds(SynReply, numbers, headers, st.booleans()),
    st.builds(MoreHeaders, numbers, headers, st.booleans()),
    st.builds(Reset, numbers, numbers),
    st.builds(Ping, numbers),
    st.builds(GoAway, numbers, numbers),
    st.builds(WindowUpdate, numbers, numbers),
    st.just(Settings()),
)


def test_the_dictionary_is_the_protocols() -> None:
    # The checksum that every SPDY/3 implementation puts in front of its first header block.
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


@given(st.lists(frames, max_size=8), st.lists(st.integers(1, 90), min_size=1, max_size=8))
def test_frames_survive_the_wire_however_it_is_cut(sent: list[Frame], sizes: list[int]) -> None:
    encoder, decoder = Encoder(), Decoder()
    wire = b"".join(map(encoder.encoded, sent))
    got: list[Frame] = []
    at = step = 0
    while at < len(wire):
        size = sizes[step % len(sizes)]
        got += decoder.decoded(wire[at : at + size])
        at, step = at + size, step + 1
    assert got == sent


def test_the_bytes_are_those_of_the_specification() -> None:
    encoder = Encoder()
    assert encoder.encoded(Ping(7)).hex() == "8003000600000004" + "00000007"
    assert encoder.encoded(Data(5, b"ab", True)).hex() == "0000000501000002" + b"ab".hex()
    assert encoder.encoded(Reset(3, 5)).hex() == "8003000300000008" + "0000000300000005"
    syn = encoder.encoded(SynStream(1, {"StreamType": "error"}))
    assert syn[:4].hex() == "80030001"
    # Stream, associated stream, priority and slot come before the block.
    block = zlib.decompressobj(zdict=DICTIONARY).decompress(syn[18:])
    assert block == pack(">II", 1, 10) + b"streamtype" + pack(">I", 5) + b"error"


@pytest.mark.parametrize(
    ("wire", "told"),
    [
        pytest.param(pack(">IIII", 0x80020006, 4, 1, 0), "version 2", id="an older version"),
        pytest.param(pack(">IIH", 0x80030003, 2, 1), "can't be read", id="a frame too short"),
        pytest.param(
            pack(">IIIIH", 0x80030001, 20, 1, 0, 0) + b"notcompres", "can't be read", id="no zlib"
        ),
    ],
)
def test_nonsense_is_refused(wire: bytes, told: str) -> None:
    with pytest.raises(SpdyError, match=told):
        list(Decoder().decoded(wire))


def test_a_header_block_that_grows_without_end_is_refused() -> None:
    bomb = Encoder().encoded(SynStream(1, {"a": "x" * 10_000_000}))
    with pytest.raises(SpdyError, match="more than"):
        list(Decoder().decoded(bomb))


def test_frames_that_nobody_knows_are_skipped() -> None:
    unknown = pack(">III", 0x8003000B, 4, 0)
    assert list(Decoder().decoded(unknown + Encoder().encoded(Ping(1)))) == [Ping(1)]
