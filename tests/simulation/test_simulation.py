"""The controller in a simulated cluster, for many steps in which anything may go wrong.

Each shard takes runs with seeds of its own until it has its share of the steps. A run that breaks
a rule is made shorter and told with the command that plays it again; `JOBYARD_SIM_SEED` asks for
one run alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from rig.selection import all_is_asked_for

from simulation.driver import Settings, Simulation
from simulation.plugin import STEPS_PROPERTY
from simulation.settling import settle
from simulation.shrinking import run, settings_from_environment, shrunk

STEPS = 1_000_000 if all_is_asked_for() else 100_000
SHARDS = STEPS // 25_000
ASKED = settings_from_environment()


def shard_settings(shard: int) -> Settings:
    """The next run of a shard, as the seed of the whole test run says."""
    dice = DICE.setdefault(shard, random.Random(f"{os.environ['JOBYARD_SEED']}/{shard}"))
    return Settings(seed=dice.getrandbits(40))


DICE: dict[int, random.Random] = {}


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS) if ASKED is None else (0,))
def test_nothing_breaks_a_rule(shard: int, record_property: Callable[[str, object], None]) -> None:
    steps = 0
    while steps < STEPS // SHARDS:
        taken, failure = run(ASKED or shard_settings(shard))
        if failure is not None:
            pytest.fail(str(failure if ASKED else shrunk(failure)), pytrace=False)
        steps += taken
        if ASKED is not None:
            break
    record_property(STEPS_PROPERTY, steps)


def test_the_same_seed_is_the_same_run() -> None:
    traces = []
    for _ in range(2):
        simulation = Simulation(Settings(seed=7), trace_length=10_000)
        simulation.run()
        settle(simulation)
        traces.append(list(simulation.trace))
    assert traces[0] == traces[1]
    assert len(traces[0]) > 800
