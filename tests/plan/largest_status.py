"""The largest status that a job of each kind can come to: made by the decision itself.

A job with as many replicas as its kind allows, the longest names and the most containers goes
through the worst there is; what `decide` makes of that is the status. Nothing of it is put
together by hand but what a cluster would say about pods, and what earlier passes have counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from rig import job_manifests

from jobyard.api.beamjob import BeamJobStatus
from jobyard.api.parts.status import (
    MESSAGE_LENGTH_MAX,
    ContainerState,
    Failure,
    JobStatus,
    ReplicaStatus,
)
from jobyard.api.parts.value import REPLICAS_MAX
from jobyard.plan.facts.decision import NAME_TAKEN, Obstacle
from jobyard.plan.facts.pod_facts import Container, Pod, PodPhase
from plan.deciding.job_world import World

JSON = dict[str, Any]
CONTAINERS = 32
NAME_LENGTH_MAX = 63
# Of an XGBoostTrainingJob with as many workers as there can be.
SHORT_NAME_LENGTH_MAX = 6
# As many digits as there can be, with room for those that are counted now.
COUNT = 2_000_000_000
MOMENT = "2026-01-01T00:00:00Z"

MAKERS: dict[str, Callable[[int], JSON]] = {
    "GenericJob": lambda n: job_manifests.generic({"worker": n}, service={"ports": [{"port": 1}]}),
    "MPIJob": job_manifests.mpi,
    "PyTorchTrainingJob": lambda n: job_manifests.pytorch({"worker": n}),
    # Evaluators aren't in TF_CONFIG, which would be the larger part of all this.
    "TensorFlowTrainingJob": lambda n: job_manifests.tensorflow({"worker": 1, "evaluator": n - 1}),
    "XGBoostTrainingJob": lambda n: job_manifests.xgboost(n - 1),
    "DeepSpeedJob": job_manifests.deepspeed,
    "ColossalAIJob": job_manifests.colossalai,
    "BeamJob": job_manifests.beam,
}


def largest_job(kind: str, replicas: int = REPLICAS_MAX) -> JSON:
    """As many replicas as the kind can have, with the longest names."""
    manifest = MAKERS[kind](replicas)
    types = {"BeamJob": "flinkcluster-taskmanager", "TensorFlowTrainingJob": "evaluator"}
    longest = f"-{types.get(kind, 'worker')}-{replicas - 1}"
    length = NAME_LENGTH_MAX - len(longest)
    if kind == "XGBoostTrainingJob":
        # All of its workers stand in one variable.
        length = min(length, SHORT_NAME_LENGTH_MAX)
    manifest["metadata"]["name"] = "n" * length
    return manifest


def worst_world(manifest: JSON, letter: str) -> World:
    """All of the job's pods have failed, not for the first time, and at the greatest length."""
    world = World(manifest)
    world.settle()
    world.run()
    world.settle()
    words = letter * MESSAGE_LENGTH_MAX
    world.status = _long_counted(world.status, words)
    for number, pod in enumerate(list(world.pods.values())):
        world.pods[pod.name] = _failed(pod, number, words, world)
    return world


def hindered_world(manifest: JSON) -> World:
    """Everything that the job wants is in somebody else's hand, once it has started."""
    world = worst_world(manifest, "<")
    for key in [*world.wanted, *(("Pod", row.name) for row in rows_of(world.status))]:
        world.children.pop(key, None)
        said = f"{key[0]} default/{key[1]} exists already and belongs to nobody: delete it"
        world.obstacles[key] = Obstacle(NAME_TAKEN, said)
    world.pods.clear()
    return world


def rows_of(status: JobStatus | BeamJobStatus) -> list[ReplicaStatus]:
    return [row for task in status.tasks for row in task.status]


def _long_counted(status: Any, words: str) -> Any:
    replace = msgspec.structs.replace
    tasks = tuple(
        replace(
            task,
            restart_count=COUNT,
            status=tuple(_long_row(row, words) for row in task.status),
        )
        for task in status.tasks
    )
    return replace(status, tasks=tasks, restarts=COUNT)


def _long_row(row: ReplicaStatus, words: str) -> ReplicaStatus:
    failure = Failure(attempt=COUNT, exit_code=255, reason="R" * 128, message=words, time=MOMENT)
    return msgspec.structs.replace(
        row,
        attempt=COUNT,
        restart_count=COUNT,
        pods_before=COUNT,
        failures_in_a_row=COUNT,
        last_failure=failure,
    )


def _failed(pod: Pod, number: int, words: str, world: World) -> Pod:
    main = world.main_container(pod) or "main"
    names = [main, *(f"{'c' * 60}{n:03}" for n in range(CONTAINERS - 1))]
    containers = tuple(
        Container(
            name=name,
            state=ContainerState.TERMINATED,
            exit_code=255,
            reason="R" * 128,
            message=words,
            started_at=world.now,
            finished_at=world.now,
        )
        for name in names
    )
    return msgspec.structs.replace(
        pod,
        uid=f"00000000-0000-0000-0000-{number:012}",
        attempt=COUNT,
        pods_before=COUNT,
        phase=PodPhase.FAILED,
        is_ready=False,
        containers=containers,
    )
