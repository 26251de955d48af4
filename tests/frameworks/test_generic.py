"""GenericJob with real programs: services and variables, and rules about who may fail."""

from __future__ import annotations

import re

import pytest

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

RING = "genericjob/ring.yaml"
MASTER_WORKER = "genericjob/master-worker.yaml"


def assert_ring_holds(ran: Ran) -> None:
    """Three rounds over four replicas; 18 is three times the sum of their ranks."""
    assert ran.code == 0, ran.text
    assert ran.lines("worker-0")[0] == "the token made 12 hops, sum 18: the ring holds"
    for rank in range(4):
        assert ran.lines(f"worker-{rank}")[-1] == f"worker {rank} leaves the ring"


def assert_work_is_done(ran: Ran) -> None:
    """All of it, although one of the workers fell out with a part in its hands."""
    assert ran.code == 0, ran.text
    said = ran.lines("master-0")
    assert sorted(said[:3]) == [f"worker {rank} is there" for rank in range(3)]
    done = re.fullmatch(r"17984 primes below 200000; parts by worker: {(.+)}", said[-1])
    assert done is not None, ran.text
    parts = {int(rank): int(n) for rank, n in re.findall(r"(\d+): (\d+)", done[1])}
    assert sum(parts.values()) == 20
    assert set(parts) <= {0, 1}
    assert any("gets a part that somebody else has" in line for line in said)
    assert re.search(r"^master-0 +Succeeded +0 ", ran.out, re.MULTILINE), ran.text
    assert re.search(r"^worker-2 +Failed +9 +0 ", ran.out, re.MULTILINE), ran.text


@pytest.mark.proves("Python", "GenericJob", "services and variables")
def test_a_ring_over_services(yard: Yard) -> None:
    assert_ring_holds(yard.proved(RING))


@pytest.mark.proves("Python", "GenericJob", "rules: a worker may fail, the master decides")
def test_a_master_gets_its_work_done_without_one_of_its_workers(yard: Yard) -> None:
    assert_work_is_done(yard.proved(MASTER_WORKER))


@pytest.mark.sample(*FAULTS)
def test_a_wrong_host_breaks_the_ring(yard: Yard) -> None:
    """`$(service.worker[1].host)` names worker 3, and the other way round."""
    swapped = {
        "generic-ring-worker-1:7001": "generic-ring-worker-x:7001",
        "generic-ring-worker-3:7001": "generic-ring-worker-1:7001",
        "generic-ring-worker-x:7001": "generic-ring-worker-3:7001",
    }
    ran = yard.run(RING, *BOUNDED, broken={"replace": swapped})
    with pytest.raises(AssertionError, match=r"hears from worker .: not its neighbour"):
        assert_ring_holds(ran)


@pytest.mark.sample(*FAULTS)
def test_a_wrong_rank_leaves_the_work_undone(yard: Yard) -> None:
    """`$(rank)` is 0 for everybody."""
    with pytest.raises(AssertionError, match="worker 0 of 3, who is there already"):
        assert_work_is_done(yard.run(MASTER_WORKER, *BOUNDED, broken={"env": {"RANK": "0"}}))
