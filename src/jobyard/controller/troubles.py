"""A job that can't be read, or that made a pass raise: the job itself says so.

Called by `reconciling` with what went wrong. The status is the memory here too: a problem that it
tells of was told. Where it can't be written, or the job has ended, a note stands for it; that the
API server refuses a status is told as well. Whoever wants to mend the program finds the whole
story in the log, once for each problem.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from jobyard.client.request import EVENTS, Answer, create
from jobyard.client.unreadable import PROBLEM_LENGTH_MAX, said
from jobyard.controller.notes import Notes
from jobyard.controller.objects import event_object
from jobyard.controller.performing import Perform, as_it_is
from jobyard.controller.records import JobRecord
from jobyard.plan.facts.decision import NOT_UNDERSTOOD, Event, EventType
from jobyard.plan.table import decisions_of

# An address in memory is another one each time, and the problem the same.
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_log = logging.getLogger(__name__)

STATUS_REFUSED: Final = "StatusRefused"
# Not the version, and not the moment: the same status would be refused again.
_REFUSED: Final = (400, 403, 413, 422)

Write = Callable[[JobRecord, msgspec.Struct], Awaitable[bool]]


class Troubles:
    """Tells of them, each once."""

    def __init__(self, notes: Notes, write: Write, perform: Perform) -> None:
        self._notes = notes
        self._write = write
        self._perform = perform

    async def raised(self, record: JobRecord, problem: Exception, now: float) -> str:
        """A pass that came to no end; the problem in a line."""
        text = _ADDRESS.sub("0x…", said(problem))
        if self._notes.of(record).problem != text:
            _log.error("%s: the pass failed: %s", record.key, text, exc_info=problem)
        await self._say(record, text, now)
        return text

    async def unreadable(self, record: JobRecord, now: float) -> bool:
        """Whether all that can be said about it has been."""
        text = f"it can't be read: {record.problem}"
        if self._notes.of(record).problem != text:
            _log.error("%s: %s", record.key, text)
        return await self._say(record, text, now)

    async def _say(self, record: JobRecord, text: str, now: float) -> bool:
        note = self._notes.of(record)
        is_new, note.problem = note.problem != text, text
        if record.is_deleting:
            return True
        told = f"Nothing can be decided about this job: {text}"
        generation = record.metadata.generation
        status = decisions_of(record.kind).not_understood(record.status, generation, told, now)
        is_said = status is not None and status == record.status
        is_written = True
        if status is not None and not is_said:
            is_written = await self._write(record, status)
        # What the status says already was told with it, perhaps by the controller before this one.
        if is_new and not is_said:
            await self._tell(record, NOT_UNDERSTOOD, f"Nothing can be decided: {text}", now)
        return is_written

    async def answered(self, record: JobRecord, answer: Answer, now: float) -> None:
        """A status was written, or refused for a reason that won't pass by itself."""
        note = self._notes.of(record)
        before, note.refusal = note.refusal, ""
        if answer.status in _REFUSED:
            note.refusal = answer.problem.message[:PROBLEM_LENGTH_MAX]
            if note.refusal != before:
                text = f"The API server refuses this job's status: {note.refusal}"
                await self._tell(record, STATUS_REFUSED, text, now)

    async def _tell(self, record: JobRecord, reason: str, text: str, now: float) -> None:
        event = event_object(record, Event(reason, text, EventType.WARNING), now)
        await self._perform(record.key, [create(EVENTS, record.namespace, event)], as_it_is)
