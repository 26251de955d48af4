"""The table from kinds to what is decided about them, and how their statuses are written.

Most kinds have the decision and the status of T9k's jobs; a row is for those that differ. Called
by the controller and by the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

import msgspec

from jobyard.api.kinds import Kind
from jobyard.api.parts.value import Value
from jobyard.plan.deciding.decide import decide
from jobyard.plan.facts.decision import Observed, Plan
from jobyard.plan.reporting.beam_status import BeamForm
from jobyard.plan.reporting.status_form import JobForm, StatusForm, restarts_between
from jobyard.plan.taskset.decide import decide_taskset
from jobyard.plan.taskset.status import taskset_not_understood, taskset_restarts_between


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to decide about the jobs of a kind."""

    # What to do about one now; with its spec.
    decide: Callable[[Observed, float, Any], Plan]
    # The stored status with a sentence on why nothing can be decided; None for one that is over.
    not_understood: Callable[[Any, int, str, float], Value | None]
    # How often replicas were started again from one status to the next.
    restarts_between: Callable[[Any, Any], int] = restarts_between


def _of_jobs(form: StatusForm) -> Decisions:
    return Decisions(
        decide=lambda seen, now, _spec: decide(seen, now, form),
        not_understood=form.not_understood,
    )


_OTHERS: Mapping[str, Decisions] = {
    "BeamJob": _of_jobs(BeamForm()),
    "TaskSet": Decisions(
        decide=decide_taskset,
        not_understood=taskset_not_understood,
        restarts_between=taskset_restarts_between,
    ),
}


@cache
def decisions_of(kind: Kind) -> Decisions:
    return _OTHERS.get(kind.name) or _of_jobs(JobForm(status_type(kind)))


@cache
def status_type(kind: Kind) -> type[Value]:
    """The type of a kind's status, from its field `status: Annotated[X | None, ...]`."""
    (field,) = (f for f in msgspec.structs.fields(kind.type) if f.name == "status")
    (optional, *_) = get_args(field.type)
    found: type[Value] = next(t for t in get_args(optional) if t is not type(None))
    assert issubclass(found, Value)
    return found
