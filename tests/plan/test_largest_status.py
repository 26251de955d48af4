"""The largest status of each kind fits into what an API server stores.

TaskSets have rows of their own, and their test is in `test_controller_modes`.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane

from jobyard.api.kinds import KINDS, kind_of
from jobyard.api.parts.value import REPLICAS_MAX
from jobyard.plan.reporting.rows import stored_bytes
from plan.largest_status import (
    COUNT,
    JSON,
    MAKERS,
    hindered_world,
    largest_job,
    rows_of,
    worst_world,
)

STATUS_BYTES_MAX = 1_200_000
# Another kind of job has other limits, and the two of the scheduler are no jobs.
OTHERS = {"TaskSet", "Queue", "PodGroup"}


async def stored(
    plane: ControlPlane, namespace: str, manifest: JSON, status: JSON
) -> tuple[JSON, int]:
    """The status as the API server gives it back, and how long it is there."""
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    path = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.plural}"
    name = manifest["metadata"]["name"]
    async with ApiCaller(plane) as api:
        made = await api.request("POST", path, body={**manifest, "metadata": {"name": name}})
        assert made.status == 201, made.text
        written = await api.request(
            "PATCH",
            f"{path}/{name}/status",
            body={"status": status},
            content_type="application/merge-patch+json",
        )
        assert written.status == 200, written.text
    # As the server spells it: what it escapes takes room too.
    return written.body["status"], len(written.text.encode()) - len(made.text.encode())


# Beside their rows, some of a BeamJob's pods stand in its flinkClusterStatus once more.
CASES = [pytest.param(kind, REPLICAS_MAX) for kind in MAKERS]
# With fewer rows there is room for their words, and so for words that take more than they seem.
CASES += [pytest.param("GenericJob", 1000), pytest.param("BeamJob", 1000)]


# The caller of the tests sends all in one piece, and that is what is wanted here.
@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(("kind", "replicas"), CASES)
def test_the_largest_status_fits(
    kind: str, replicas: int, control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    manifest = largest_job(kind, replicas)
    world = worst_world(manifest, "<")
    plan = world.step(until="status")
    assert plan.status is not None
    wanted = msgspec.json.decode(msgspec.json.encode(plan.status))

    found, size = asyncio.run(stored(control_plane, namespace, manifest, wanted))

    assert 500_000 < size < STATUS_BYTES_MAX
    assert found == wanted, "nothing of it was dropped"
    # Whatever had to go for want of room: the rows are all there, and what they count.
    rows = rows_of(world.status)
    assert len(rows) >= replicas
    workers = [row for row in rows if row.uid]
    assert len(workers) >= replicas
    assert {(row.pods_before, row.restart_count >= COUNT) for row in workers} == {(COUNT, True)}
    if kind != "BeamJob":
        assert len(found["conditions"]) == 6
    assert world.decide().status is None, "what was left out is no reason to write again"


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["GenericJob", "PyTorchTrainingJob", "BeamJob"])
def test_what_stands_in_the_way_of_all_replicas_fits_too(kind: str) -> None:
    status = hindered_world(largest_job(kind)).decide().status
    assert status is not None
    assert stored_bytes(status) < STATUS_BYTES_MAX


def test_every_kind_of_job_is_here() -> None:
    assert set(MAKERS) == {kind.name for kind in KINDS} - OTHERS
