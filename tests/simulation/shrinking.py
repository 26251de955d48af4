"""Whole runs by their seeds, and shorter ones that fail in the same way.

A run is a function of its settings alone. One that fails is tried again with fewer steps, fewer
kinds of faults and fewer kinds of jobs, within a fixed number of tries; what is left is told with
the command that plays it once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import msgspec

from simulation.driver import FAULTS, Settings, Simulation
from simulation.settling import settle
from simulation.violation import ViolationError

SEED_VARIABLE = "JOBYARD_SIM_SEED"
WITHOUT_VARIABLE = "JOBYARD_SIM_WITHOUT"
STEPS_VARIABLE = "JOBYARD_SIM_STEPS"
_TRIES_MAX = 60
_TOLD_MAX = 80


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A run that broke a rule."""

    settings: Settings
    rule: str
    message: str
    steps: int
    trace: tuple[str, ...]

    @property
    def command(self) -> str:
        without = ",".join(sorted(self.settings.without))
        said = f" {WITHOUT_VARIABLE}='{without}'" if without else ""
        return (
            f"{SEED_VARIABLE}={self.settings.seed} {STEPS_VARIABLE}={self.settings.steps}{said}"
            " pytest -n0 tests/simulation/test_simulation.py"
        )

    def __str__(self) -> str:
        lines = "\n  ".join(self.trace[-_TOLD_MAX:])
        return f"{self.message}\nafter {self.steps} steps:\n  {lines}\nagain: {self.command}"


def run(settings: Settings) -> tuple[int, Failure | None]:
    """One run to its end: how many steps it took, and what went wrong."""
    simulation = Simulation(settings)
    try:
        simulation.run()
        settle(simulation)
    except ViolationError as violation:
        failure = Failure(
            settings=settings,
            rule=violation.rule,
            message=str(violation),
            steps=simulation.steps,
            trace=tuple(simulation.trace),
        )
        return simulation.steps, failure
    return simulation.steps, None


def shrunk(
    failure: Failure, again: Callable[[Settings], tuple[int, Failure | None]] = run
) -> Failure:
    """The shortest run found that breaks the same rule."""
    tries = 0
    has_shrunk = True
    while has_shrunk and tries < _TRIES_MAX:
        has_shrunk = False
        for settings in _smaller(failure):
            tries += 1
            _, other = again(settings)
            if other is not None and other.rule == failure.rule:
                failure, has_shrunk = other, True
                break
            if tries >= _TRIES_MAX:
                break
    return failure


def _smaller(failure: Failure) -> Iterator[Settings]:
    settings = failure.settings
    if failure.steps < settings.steps:
        yield msgspec.structs.replace(settings, steps=failure.steps + 1)
    for steps in (settings.steps // 4, settings.steps // 2, settings.steps * 4 // 5):
        if 10 < steps < settings.steps:
            yield msgspec.structs.replace(settings, steps=steps)
    for fault in FAULTS:
        if fault not in settings.without:
            yield msgspec.structs.replace(settings, without=settings.without | {fault})


def settings_from_environment() -> Settings | None:
    """The run that a person asks for by name."""
    seed = os.environ.get(SEED_VARIABLE)
    if seed is None:
        return None
    without = frozenset(filter(None, os.environ.get(WITHOUT_VARIABLE, "").split(",")))
    steps = int(os.environ.get(STEPS_VARIABLE, str(Settings(seed=0).steps)))
    return Settings(seed=int(seed), steps=steps, without=without)
