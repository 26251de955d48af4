"""Questions to the programs in users' own pods, which may answer whatever and whenever they like.

Nothing depends on an answer but a link in a status. So they are asked beside the passes, with
slots, a time and a length of their own: a pass only says that it would like to know, and the job
is woken when there is an answer. One that is slow, endless or never comes holds up nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from jobyard.client.errors import ClientError
from jobyard.client.request import Request
from jobyard.client.sender import Sender
from jobyard.controller.fairness import Slots
from jobyard.controller.records import JobKey

SLOTS: Final = 12
# From the first byte sent to the last one read: a program that dribbles is never silent.
ANSWER_SECONDS: Final = 5.0
# The overview of a cluster of thousands of workers has some hundred bytes for each.
ANSWER_BYTES_MAX: Final = 4 * 2**20
# A job that changes all the time is passed over all the time.
PAUSE_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)

# What to do with an answer; None: there was none that is of use.
Answered = Callable[[bytes | None], None]
# Asks the question of a job, if none of its questions is open or was asked a moment ago.
Ask = Callable[[JobKey, Request, Answered], None]


class Asking:
    """`ask` for the reconciler, while `run` runs."""

    def __init__(self, sender: Sender, group_of: Callable[[JobKey], Hashable]) -> None:
        self._sender = sender
        self._group_of = group_of
        self._slots = Slots[Hashable](SLOTS)
        self._tasks: asyncio.TaskGroup | None = None
        # Jobs with a question: those that are open, and those for which it is too early.
        self._busy: set[JobKey] = set()

    async def run(self) -> None:
        """Until cancelled, and all open questions with it."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    def ask(self, key: JobKey, request: Request, answered: Answered) -> None:
        if self._tasks is None or key in self._busy:
            return
        self._busy.add(key)
        bounded = msgspec.structs.replace(request, answer_bytes_max=ANSWER_BYTES_MAX)
        self._tasks.create_task(self._asked(key, bounded, answered))

    async def _asked(self, key: JobKey, request: Request, answered: Answered) -> None:
        async with self._slots.of(self._group_of(key)):
            body = await self._body(request)
        asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._busy.discard, key)
        try:
            answered(body)
        except Exception:
            # A fault of the program: this job has no link, and the others go on.
            _log.exception("%s: its page's answer", key)

    async def _body(self, request: Request) -> bytes | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._sender.send(request)
        except (ClientError, TimeoutError):
            # Not worth a line in the log: whose pods answer badly could fill it.
            return None
        return answer.body if answer.is_ok else None
