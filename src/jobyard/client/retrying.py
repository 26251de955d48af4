"""Requests that are sent again when the server is busy or the connection broke.

Callers that can wait use this instead of `Transport.send`. Decides which answers are worth
another attempt and how many there are. A request that may have been carried out already is
repeated only if that does no harm: a create under a fixed name then gets the 409 that its
caller handles anyway, a delete the 404, a write with a resourceVersion the 409.
"""

from __future__ import annotations

from typing import Final

import msgspec

from jobyard.client.backoff import PATIENCE, Backoff
from jobyard.client.errors import ConnectionFailedError
from jobyard.client.request import Answer, Request
from jobyard.client.sender import Sender

ATTEMPTS_MAX: Final = 5
TOO_MANY_REQUESTS: Final = 429
# 501 and 505 stay what they are however often one asks.
_PASSING: Final = frozenset({500, 502, 503, 504})


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def is_repeatable(request: Request) -> bool:
    """Whether sending it twice leaves the same objects as sending it once."""
    if request.method != "POST":
        return True
    # With generateName each create would make an object of its own.
    return bool(msgspec.json.decode(request.body or b"{}", type=_Named).metadata.name)


async def send_patiently(
    sender: Sender,
    request: Request,
    *,
    attempts_max: int = ATTEMPTS_MAX,
    backoff: Backoff = PATIENCE,
) -> Answer:
    """Send until there is an answer to go by, at most `attempts_max` times.

    Gives back the last answer, or raises the last ConnectionFailedError.
    """
    assert attempts_max >= 1, f"attempts_max is {attempts_max}; must be at least 1"
    for failures in range(1, attempts_max):
        asked_seconds: float | None = None
        try:
            answer = await sender.send(request)
        except ConnectionFailedError as error:
            if not error.may_pass or not is_repeatable(request):
                raise
        else:
            if not _is_worth_another(request, answer):
                return answer
            asked_seconds = answer.retry_after_seconds
        await backoff.after(failures, asked_seconds)
    return await sender.send(request)


def _is_worth_another(request: Request, answer: Answer) -> bool:
    # A 429 comes before anything is done; behind a 5xx the object may have been made.
    if answer.status == TOO_MANY_REQUESTS:
        return True
    return answer.status in _PASSING and is_repeatable(request)
