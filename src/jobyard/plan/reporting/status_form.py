"""The status of a kind of jobs, as its own type says it.

Inside, every job has the same status, which is its memory; a kind with other phases or conditions
brings a form of its own. `not_understood` is for when nothing can be decided: somebody's spec,
status or pod was something that nobody had thought of, and the program raised; or the job can't
even be read. Then the job says so, and all else stays as it is; the next decision that succeeds
writes a status as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from jobyard.api.parts.status import Condition, ConditionType, JobStatus, Phase
from jobyard.api.parts.value import Value
from jobyard.plan.facts.decision import NOT_UNDERSTOOD, Observed
from jobyard.plan.reporting.conditions import (
    NO,
    ConditionValue,
    condition,
    conditions_of,
    may_have_pods,
)
from jobyard.plan.reporting.status import of_type

_NOTHING_KNOWN: Mapping[ConditionType, ConditionValue] = {
    ConditionType.INITIALIZED: ConditionValue(NO),
    ConditionType.RUNNING: ConditionValue(NO, "-", "The job could not be initialized."),
    ConditionType.REPLICA_FAILURE: ConditionValue(NO, "-", "No replica is in error."),
    ConditionType.COMPLETED: ConditionValue(NO, "-", "The job has not ended."),
    ConditionType.FAILED: ConditionValue(NO, "-", "The job has not ended."),
    ConditionType.PAUSED: ConditionValue(NO, "-", "The job is not paused."),
}


class StatusForm(Protocol):
    """Between the status that is stored and the one that is decided on."""

    def read(self, stored: Value | None) -> JobStatus | None:
        """What a stored status remembers."""
        ...

    def written(self, seen: Observed, status: JobStatus, now: float) -> Value:
        """The decided status as the kind has it."""
        ...

    def not_understood(
        self, stored: Value | None, generation: int, problem: str, now: float
    ) -> Value | None:
        """The status that tells of `problem`; None for a job that has ended and stays as it is."""
        ...


class JobForm:
    """That of most kinds: `type_` adds a field or two to the common status."""

    def __init__(self, type_: type[Value]) -> None:
        assert issubclass(type_, JobStatus), type_
        self._type = type_

    def read(self, stored: Value | None) -> JobStatus | None:
        assert stored is None or isinstance(stored, JobStatus)
        return stored

    def written(self, seen: Observed, status: JobStatus, now: float) -> Value:  # noqa: ARG002
        return of_type(status, self._type, seen)

    def not_understood(
        self, stored: Value | None, generation: int, problem: str, now: float
    ) -> Value | None:
        known = self.read(stored) or self._type()
        if known.phase in (Phase.SUCCEEDED, Phase.FAILED):
            return None
        holdings = {
            type_: _said(condition(known.conditions, type_)) or nothing
            for type_, nothing in _NOTHING_KNOWN.items()
        }
        initialized = condition(known.conditions, ConditionType.INITIALIZED)
        if may_have_pods(initialized, has_had_one=_has_had_pod(known)):
            running = holdings[ConditionType.RUNNING].status
            holdings[ConditionType.RUNNING] = ConditionValue(running, NOT_UNDERSTOOD, problem)
        else:
            holdings[ConditionType.INITIALIZED] = ConditionValue(NO, NOT_UNDERSTOOD, problem)
        return msgspec.structs.replace(
            known,
            observed_generation=generation,
            phase=known.phase or Phase.PENDING,
            conditions=conditions_of(known.conditions, holdings, now),
        )


def restarts_between(before: JobStatus | None, after: JobStatus) -> int:
    return max(0, _restarts(after) - _restarts(before))


def _restarts(status: JobStatus | None) -> int:
    return (status.restarts or 0) if status is not None else 0


def _has_had_pod(stored: JobStatus) -> bool:
    return any(row.uid or row.pods_before for task in stored.tasks for row in task.status)


def _said(known: Condition | None) -> ConditionValue | None:
    return ConditionValue(known.status, known.reason, known.message) if known is not None else None
