"""TaskSet with a real parameter server: PyTorch's tensors, policies about who has to succeed."""

from __future__ import annotations

import json

import pytest

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

PARAMETER_SERVER = "taskset/parameter-server.yaml"


def assert_workers_learnt(ran: Ran) -> None:
    """Both workers found all weights at the server, which each alone can't learn."""
    assert ran.code == 0, ran.text
    for index in range(2):
        said = ran.lines(f"worker-{index}")
        assert said[0] == f"taskset-parameter-server: worker {index}"
        right = f"worker {index}: all three weights are right: 1.00, -2.00, 3.00"
        assert said[-1] == right, ran.text
    assert ran.lines("ps-0")[0] == "the parameter server listens"


@pytest.mark.proves("torch", "TaskSet", "a parameter server, two of three workers")
def test_two_of_three_workers_and_a_parameter_server_that_never_ends(yard: Yard) -> None:
    ran = yard.proved(PARAMETER_SERVER, "-o", "json")
    (job,) = json.loads(ran.out)["jobs"]
    assert_workers_learnt(Ran(ran.code, ran.errors, ""))
    assert job["message"].startswith("Role worker succeeded")
    phases = {row["name"]: row["phase"] for row in job["replicas"]}
    # Worker 2 fails as often as it is tried; the others may be done before it has been twice.
    assert phases.pop("worker-2") in ("Failed", "Stopped")
    assert phases == {"ps-0": "Stopped", "worker-0": "Succeeded", "worker-1": "Succeeded"}


@pytest.mark.sample(*FAULTS)
def test_a_wrong_index_is_found_out(yard: Yard) -> None:
    """Everybody is told to be worker 0; the server knows each of them once."""
    wrong = {"env": {"TASKROLE_REPLICA_INDEX": "0"}}
    with pytest.raises(AssertionError, match="there is a worker 0 already"):
        assert_workers_learnt(yard.run(PARAMETER_SERVER, *BOUNDED, broken=wrong))
