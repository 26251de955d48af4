"""JSON without what is nested too deep in it.

An API server takes objects of ten thousand levels (in managed fields, mostly), and a decoder that
calls itself for each level raises long before that. Whoever reads objects that others wrote reads
them a second time then, through `without_depth`: what lies deeper than anything of ours is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, overload

import msgspec

# No object of Kubernetes' or of ours comes near; and a list of objects adds two.
LEVELS_MAX: Final = 100
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_OPENING: Final = (b"{", b"[")
_CLOSING: Final = (b"}", b"]")

T = TypeVar("T")


def without_depth(text: bytes, levels: int = LEVELS_MAX) -> bytes:
    """The same JSON with null for all that has more levels around it; it is no check of syntax."""
    kept: list[bytes] = []
    begun = done = depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in _OPENING:
            depth += 1
            if depth == levels + 1:
                begun = token.start()
        elif token[0] in _CLOSING:
            if depth == levels + 1:
                kept += text[done:begun], b"null"
                done = token.end()
            depth -= 1
    return b"".join((*kept, text[done:]))


@overload
def decoded_json(text: bytes | msgspec.Raw) -> Any: ...
@overload
def decoded_json(text: bytes | msgspec.Raw, type: type[T]) -> T: ...
def decoded_json(text: bytes | msgspec.Raw, type: Any = Any) -> Any:
    """An answer of an API server, of any depth."""
    return decoded_flat(partial(msgspec.json.decode, type=type), bytes(text))


def decoded_flat(decode: Callable[[bytes], T], text: bytes) -> T:
    """What `decode` makes of the text; of its upper levels alone, if it has too many."""
    try:
        return decode(text)
    except RecursionError:
        return decode(without_depth(text))
