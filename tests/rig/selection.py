"""Which tests of a run are run, and in which order.

A table whose rows exercise the same lines carries `@pytest.mark.sample(4)`: one row in four runs,
others in a run with another seed, and all of them with `JOBYARD_ALL_ROWS=1` (`make test-all`) or
when a test is asked for by name. Tests of several functions and files are one table if the mark
has its name: `@pytest.mark.sample(4, "faults")`. `JOBYARD_ORDER=random` shuffles files and the
tests in them, by the seed of the run; without it, every worker begins with its share of the tests
marked `long`, so that none is left alone with one at the end. Every worker of xdist collects by
itself, so all of it follows from the seed.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Generator
from typing import Any, TypeVar

import pytest

ALL_ROWS = "JOBYARD_ALL_ROWS"
# Which rows: CI repeats all other random tests, but takes rows by the commit.
ROWS = "JOBYARD_ROWS"
ORDER = "JOBYARD_ORDER"
LEFT_OUT = "jobyard_rows_left_out"
_left_out: set[int] = set()
T = TypeVar("T")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not _all_rows_are_asked_for(config):
        kept = sampled(items, os.environ.get(ROWS) or os.environ["JOBYARD_SEED"])
        gone = [item for item in items if item not in kept]
        config.hook.pytest_deselected(items=gone)
        _left_out.add(len(gone))
        items[:] = [item for item in items if item in kept]
    if os.environ.get(ORDER) == "random":
        items.sort(key=lambda item: shuffled_place(item.nodeid, os.environ["JOBYARD_SEED"]))
    else:
        workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        long = [item for item in items if item.get_closest_marker("long")]
        others = [item for item in items if not item.get_closest_marker("long")]
        items[:] = dealt(long, others, workers)


def all_is_asked_for() -> bool:
    """Whether this run takes its time: tests that can always try more try all they have."""
    return bool(os.environ.get(ALL_ROWS))


def _all_rows_are_asked_for(config: pytest.Config) -> bool:
    named = any("::" in word for word in config.args)
    return named or bool(config.option.keyword) or all_is_asked_for()


def sampled(items: list[pytest.Item], seed: str) -> set[pytest.Item]:
    """All tests without the mark; of each marked table its share, and never none."""
    kept = set(items)
    tables: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sample"):
            own = item.nodeid.partition("[")[0]
            one_in, name = mark.args if len(mark.args) == 2 else (mark.args[0], own)
            tables[name, one_in].append(item)
    for (name, one_in), rows in tables.items():
        dice = random.Random(f"{seed}/{name}")
        kept -= set(dice.sample(rows, len(rows) - -(-len(rows) // one_in)))
    return kept


def dealt(long: list[T], others: list[T], workers: int) -> list[T]:
    """The long ones evenly among the workers, each of which begins with a block of its own."""
    size = -(-len(others) // workers)
    blocks = ((*long[n::workers], *others[n * size : (n + 1) * size]) for n in range(workers))
    return [each for block in blocks for each in block]


def shuffled_place(nodeid: str, seed: str) -> tuple[float, float]:
    """Files stay together: what a file's tests share would be recreated for each of them."""
    module = nodeid.partition("::")[0]
    return random.Random(f"{seed}/{module}").random(), random.Random(f"{seed}/{nodeid}").random()


def pytest_sessionfinish(session: pytest.Session) -> None:
    workeroutput: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput[LEFT_OUT] = sorted(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Every worker left out the same rows."""
    _left_out.update(getattr(node, "workeroutput", {}).get(LEFT_OUT, ()))


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    yield
    if count := max(_left_out, default=0):
        terminalreporter.line(
            f"{count} rows of tables were left out of this run, others than in the last one;"
            " make test-all runs them all"
        )
