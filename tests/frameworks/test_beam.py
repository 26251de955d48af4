"""BeamJob with the Beam SDK on a real Flink and a real Spark, which the job itself brings up."""

from __future__ import annotations

import re
from typing import Any

import pytest

from frameworks.yard import BOUNDED, FAULTS, Yard

FLINK = "beamjob/flink.yaml"
SPARK = "beamjob/spark.yaml"
COUNTS = "a=4 and=2 brown=1 dog=4 fox=4 is=2 jumps=1 lazy=1 over=1 quick=1 runs=1 sleeps=1 the=4"


def assert_counted(said: str, workers: tuple[str, ...]) -> None:
    """The right counts came back, each word counted by one of the workers, and all had some."""
    assert f"the counts are {COUNTS}" in said, said
    by = re.findall(r"(\S+) counted (\d+) words", said)
    assert [host for host, _ in by] == list(workers), said
    assert sum(int(count) for _, count in by) == len(COUNTS.split())
    assert f"DONE: 13 words, 27 in all, on {len(workers)} workers" in said, said


def conditions(job: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in job["status"]["conditions"]}


def run_to_the_end(yard: Yard, example: str, job: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job while its program runs, and when it has ended."""
    yard.apply(example)
    yard.said("wait", job, "--for", "running", "--timeout", "400s", seconds=420)
    running = yard.until(
        "the program runs",
        lambda: (found := yard.job(job))["status"]["readyReplicas"] == 4 and found,
    )
    yard.said("wait", job, "--timeout", "400s", seconds=420)
    return running, yard.job(job)


def pods(yard: Yard) -> list[str]:
    listed = yard.said("get", "pods", "-o", "name")
    return sorted(line.partition("/")[2] for line in listed.split())


@pytest.mark.proves("apache-flink", "BeamJob", "word count on Flink")
def test_words_are_counted_on_a_flink_that_the_job_makes(yard: Yard) -> None:
    job = "bj/beam-flink"
    with yard.engine():
        running, ended = run_to_the_end(yard, FLINK, job)
        assert conditions(running) == {"ClusterRunning": "True", "JobRunning": "True"}
        managers = running["status"]["flinkClusterStatus"]
        assert [each["phase"] for each in managers["jobManagerStatus"]] == ["Running"]
        assert [each["phase"] for each in managers["taskManagerStatus"]] == ["Running"] * 2

        assert ended["status"]["phase"] == "Succeeded"
        assert conditions(ended)["JobRunning"] == "False"
        assert [each["phase"] for each in ended["status"]["jobStatus"]] == ["Succeeded"]
        host = "http://beam-flink-flinkcluster-jobmanager-0.beam-flink.default:8081"
        page = f"{re.escape(host)}/#/job/running/[0-9a-f]{{32}}/overview"
        assert re.fullmatch(page, ended["status"]["jobURL"])
        said = yard.said("logs", job, "--replica", "batchjob-0")
        workers = tuple(f"beam-flink-flinkcluster-taskmanager-{rank}" for rank in range(2))
        assert_counted(said, workers)
        # cleanUpCluster is true.
        yard.until("the cluster is gone", lambda: pods(yard) == ["beam-flink-batchjob-0"])
        # Its pods are gone before the status says so.
        end = {"ClusterRunning": "False", "JobRunning": "False"}
        yard.until("the status says so", lambda: conditions(yard.job(job)) == end)


@pytest.mark.proves("pyspark", "BeamJob", "word count on Spark")
def test_words_are_counted_on_a_spark_that_the_job_makes(yard: Yard) -> None:
    job = "bj/beam-spark"
    with yard.engine():
        running, ended = run_to_the_end(yard, SPARK, job)
        assert conditions(running) == {"ClusterRunning": "True", "JobRunning": "True"}
        assert ended["status"]["phase"] == "Succeeded"
        host = "http://beam-spark-sparkcluster-master-0.beam-spark.default:8080"
        page = rf"{re.escape(host)}/app/\?appId=app-\d+-0000"
        assert re.fullmatch(page, ended["status"]["jobURL"])
        workers = tuple(f"beam-spark-sparkcluster-worker-{rank}" for rank in range(2))
        assert_counted(yard.said("logs", job, "--replica", "batchjob-0"), workers)
        # cleanUpCluster is false.
        assert pods(yard) == sorted([*workers, "beam-spark-batchjob-0", master_of(host)])
        assert conditions(ended) == {"ClusterRunning": "True", "JobRunning": "False"}


def master_of(address: str) -> str:
    return address.removeprefix("http://").partition(".")[0]


@pytest.mark.sample(*FAULTS)
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param(
            "--environment_config=localhost:50000",
            "--environment_config=localhost:50001",
            ":50001",
            id="the program's Python is somewhere else",
        ),
    ],
)
def test_a_wrong_address_is_found_out(yard: Yard, old: str, new: str, told: str) -> None:
    once = ("--set", "spec.jobTemplate.spec.backoffLimit=0")
    ran = yard.run(FLINK, *once, *BOUNDED, broken={"replace": {old: new}})
    workers = tuple(f"beam-flink-flinkcluster-taskmanager-{rank}" for rank in range(2))
    with pytest.raises(AssertionError):
        assert_counted(ran.out, workers)
    # The program itself failed for it, and not for want of time.
    assert (ran.code, told in ran.out) == (1, True), ran.text


@pytest.mark.proves("apache-beam", "BeamJob", "a version that doesn't fit")
def test_a_flink_that_beam_has_no_runner_for_is_told_and_refused_by_beam(yard: Yard) -> None:
    version = ("--set", 'spec.flinkClusterTemplate.spec.flinkVersion="2.3"')
    once = ("--set", "spec.jobTemplate.spec.backoffLimit=0")
    small = ("--set", "spec.flinkClusterTemplate.spec.taskManager.replicas=1")
    ran = yard.run(FLINK, *version, *once, *small, *BOUNDED)
    assert ran.code == 1, ran.text
    told = "asks for Flink 2.3, for which Beam 2.77 has no runner: use 1.19"
    assert told in ran.text, ran.text
    assert "argument --flink_version: invalid choice: '2.3'" in ran.out, ran.text
