"""What grows with the number of replicas fits wherever it goes, or the job is refused at once."""

from __future__ import annotations

import asyncio
import copy
import errno
import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import job_manifests
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane

from jobyard.api.crd import schema_node
from jobyard.api.kinds import Kind, kind_of
from jobyard.api.parts.value import REPLICAS_MAX, VARIABLE_BYTES_MAX
from jobyard.plan.lowering.description import Description
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.supporting import supporting_objects
from jobyard.schema.admission import admitted

JSON = dict[str, Any]
SIZE = re.compile(r"would have (\d+) bytes; .* that is (\d+) replicas")
# What Kubernetes lets a ConfigMap hold.
CONFIG_MAP_BYTES_MAX = 2**20
LONGEST_NAME = "n" * (63 - len("-worker-4999"))


def kind_of_job(manifest: JSON) -> Kind:
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return kind


def lowered(manifest: JSON) -> Description:
    """Also of a job that would be refused."""
    kind = kind_of_job(manifest)
    verdict = admitted(copy.deepcopy(manifest), schema_node(kind))
    description = described(kind, verdict.value)
    assert description is not None
    return description


def refusals(manifest: JSON) -> list[str]:
    kind = kind_of_job(manifest)
    return [e.text for e in admitted(copy.deepcopy(manifest), schema_node(kind)).errors]


def named(manifest: JSON, name: str) -> JSON:
    manifest["metadata"]["name"] = name
    return manifest


def variable_bytes(manifest: JSON, name: str) -> int:
    """The longest that any replica gets, as Linux counts it: with name and a byte at the end."""
    description = lowered(manifest)
    return max(
        len(f"{name}={dict(description.start(role, role.replicas - 1).env)[name]}".encode()) + 1
        for role in description.roles
    )


def most_workers(make: Callable[[int], JSON], name: str) -> int:
    """As many as fit, found by trying."""
    low, high = 1, REPLICAS_MAX
    while low < high:
        middle = (low + high + 1) // 2
        if variable_bytes(make(middle), name) <= VARIABLE_BYTES_MAX:
            low = middle
        else:
            high = middle - 1
    return low


@st.composite
def tensorflow_jobs(draw: st.DrawFn) -> Callable[[int], JSON]:
    """A job of which only the number of workers is left open."""
    name = "n" * draw(st.integers(1, 49))
    others = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "chief": st.just(1),
                "ps": st.integers(1, 400),
                "evaluator": st.integers(1, 400),
            },
        )
    )
    ports = draw(st.dictionaries(st.sampled_from(["worker", "ps"]), st.integers(1, 65535)))
    is_last = draw(st.booleans())

    def make(workers: int) -> JSON:
        counts = {**others, "worker": workers} if is_last else {"worker": workers, **others}
        job = named(job_manifests.tensorflow(counts), name)
        for replica in job["spec"]["replicaSpecs"]:
            port = ports.get(replica["type"])
            if port is not None:
                container = replica["template"]["spec"]["containers"][0]
                container["ports"] = [
                    {"name": "other", "containerPort": 1},
                    {"name": "tfjob-port", "containerPort": port},
                ]
        return job

    return make


@given(make=tensorflow_jobs())
@settings(max_examples=30)
def test_tf_config_is_counted_to_the_byte(make: Callable[[int], JSON]) -> None:
    fitting = most_workers(make, "TF_CONFIG")
    counts = [r["replicas"] for r in make(fitting)["spec"]["replicaSpecs"]]
    if sum(counts) > REPLICAS_MAX or fitting == REPLICAS_MAX:
        return
    assert refusals(make(fitting)) == []
    (said,) = refusals(make(fitting + 1))
    found = SIZE.search(said)
    assert found is not None, said
    assert int(found[1]) == variable_bytes(make(fitting + 1), "TF_CONFIG") - len("TF_CONFIG=") - 1


@given(length=st.integers(1, 51))
@settings(max_examples=15)
def test_worker_addrs_is_counted_to_the_byte(length: int) -> None:
    def make(workers: int) -> JSON:
        return named(job_manifests.xgboost(workers), "n" * length)

    fitting = min(most_workers(make, "WORKER_ADDRS"), REPLICAS_MAX - 1)
    assert refusals(make(fitting)) == []
    if fitting == REPLICAS_MAX - 1:
        return
    (said,) = refusals(make(fitting + 1))
    found = SIZE.search(said)
    assert found is not None, said
    value = variable_bytes(make(fitting + 1), "WORKER_ADDRS") - len("WORKER_ADDRS=") - 1
    assert (int(found[1]), int(found[2])) == (value, fitting)


@pytest.mark.parametrize("name", ["job", "train", "a-name-of-thirty-characters-xx", LONGEST_NAME])
def test_the_number_that_fits_is_told(name: str) -> None:
    def make(workers: int) -> JSON:
        return named(job_manifests.tensorflow({"worker": workers}), name)

    (said,) = refusals(make(REPLICAS_MAX))
    found = SIZE.search(said)
    assert found is not None, said
    assert int(found[2]) == most_workers(make, "TF_CONFIG")


def test_the_number_that_fits_does_so_however_replicas_are_shared_out() -> None:
    counts = {"chief": 1, "ps": 2200, "worker": 2200, "evaluator": 500}
    (said,) = refusals(named(job_manifests.tensorflow(counts), "train-the-model"))
    found = SIZE.search(said)
    assert found is not None, said
    most = int(found[2])
    for ps in (1, most // 3, most - 2):
        shared = {"chief": 1, "ps": ps, "worker": most - 1 - ps, "evaluator": 500}
        assert refusals(named(job_manifests.tensorflow(shared), "train-the-model")) == []


def test_linux_takes_so_much_and_no_more() -> None:
    """The limit itself, by starting a program."""

    def started(bytes_: int) -> None:
        value = "x" * (bytes_ - len("TF_CONFIG=") - 1)
        subprocess.run([sys.executable, "-c", ""], env={"TF_CONFIG": value}, check=True)

    started(VARIABLE_BYTES_MAX)
    with pytest.raises(OSError) as refused:
        started(VARIABLE_BYTES_MAX + 1)
    assert refused.value.errno == errno.E2BIG


async def posted(plane: ControlPlane, namespace: str, path: str, manifest: JSON) -> JSON:
    manifest["metadata"].pop("namespace", None)
    async with ApiCaller(plane) as api:
        answer = await api.request(
            "POST", path.format(namespace), body=manifest, query={"dryRun": "All"}
        )
        return answer.body


def test_an_api_server_refuses_with_the_same_words(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    jobs = [
        named(job_manifests.tensorflow({"worker": 4717}), "job"),
        named(job_manifests.tensorflow({"worker": 4718}), "job"),
        named(job_manifests.tensorflow({"chief": 1, "ps": 2000, "worker": 2000}), LONGEST_NAME),
        named(job_manifests.xgboost(3003), "job" * 5),
        named(job_manifests.xgboost(3004), "job" * 5),
    ]
    for job in jobs:
        kind = kind_of_job(job)
        path = f"/apis/{kind.api_version}/namespaces/{{}}/{kind.plural}"
        answer = asyncio.run(posted(control_plane, namespace, path, copy.deepcopy(job)))
        wanted = refusals(job)
        if wanted:
            assert wanted[0] in answer["message"]
        else:
            assert answer["kind"] == kind.name, answer
    assert [bool(refusals(job)) for job in jobs] == [False, True, True, False, True]


MAKERS: dict[str, Callable[[], JSON]] = {
    "MPIJob": lambda: job_manifests.mpi(REPLICAS_MAX),
    "DeepSpeedJob": lambda: job_manifests.deepspeed(REPLICAS_MAX),
    "ColossalAIJob": lambda: job_manifests.colossalai(REPLICAS_MAX),
}


@pytest.mark.parametrize("kind", list(MAKERS))
def test_the_hosts_of_the_largest_job_fit_into_their_configmap(
    kind: str, control_plane: ControlPlane, namespace: str
) -> None:
    job = named(MAKERS[kind](), LONGEST_NAME)
    if kind == "MPIJob":
        job["spec"]["worker"]["extraMPIArgs"] = ["-N", "2147483647"]
    elif kind == "DeepSpeedJob":
        job["spec"]["config"]["slotsPerWorker"] = 1024
    assert refusals(job) == []
    (files,) = (o for o in supporting_objects(lowered(job)) if o["kind"] == "ConfigMap")
    size = sum(len(text.encode()) for text in files["data"].values())
    assert 500_000 < size < CONFIG_MAP_BYTES_MAX
    made = json.loads(json.dumps(files))
    answer = asyncio.run(posted(control_plane, namespace, "/api/v1/namespaces/{}/configmaps", made))
    assert answer["kind"] == "ConfigMap", answer
