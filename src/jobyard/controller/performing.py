"""Carries requests out over the network, many at a time.

Creates start slowly, as the built-in controllers do: a few, then twice as many, so that
a template that is refused costs a few calls and not thousands. Everything else goes at once,
within the transport's own limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from jobyard.client.errors import ClientError
from jobyard.client.request import Answer, Request
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender

FIRST_BATCH = 4
PARALLEL_MAX = 16
_CONFLICT = 409
_log = logging.getLogger(__name__)


class Performer:
    """`perform` for the reconciler."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender
        self._slots = asyncio.Semaphore(PARALLEL_MAX)

    async def __call__(self, requests: Sequence[Request]) -> Sequence[Answer | None]:
        if len(requests) > FIRST_BATCH and all(r.method == "POST" for r in requests):
            return await self._slowly(requests)
        return await self._together(requests)

    async def _slowly(self, requests: Sequence[Request]) -> Sequence[Answer | None]:
        out: list[Answer | None] = []
        size = FIRST_BATCH
        while len(out) < len(requests):
            answers = await self._together(requests[len(out) : len(out) + size])
            out += answers
            if not all(a is not None and (a.is_ok or a.status == _CONFLICT) for a in answers):
                break
            size *= 2
        return out + [None] * (len(requests) - len(out))

    async def _together(self, requests: Sequence[Request]) -> list[Answer | None]:
        if len(requests) == 1:
            return [await self._sent(requests[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._sent(request)) for request in requests]
        return [task.result() for task in tasks]

    async def _sent(self, request: Request) -> Answer | None:
        async with self._slots:
            try:
                answer = await send_patiently(self._sender, request)
            except ClientError as error:
                _log.warning("%s: %s", request, error)
                return None
        if not answer.is_ok and answer.status not in (404, _CONFLICT):
            _log.warning("%s: %s", request, answer.problem)
        return answer
