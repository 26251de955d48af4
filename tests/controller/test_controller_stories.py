"""Run modes and retries as stories: the whole status of each kind, scene by scene.

Like the stories of `test_controller_kinds`, on a real API server with a fake kubelet; statuses
and events are in `golden/status`. Every kind with run modes goes through all of them in one
story: made for debugging, debug off, paused while it runs, and resumed. What its pods are then
is in `golden/resumed`. `JOBYARD_WRITE_GOLDEN=1` writes both anew.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.places import TESTS

from controller.controller_stage import COLLECTED_SECONDS, Json, Stage, Staging, Story
from controller.test_controller_kinds import (
    all_made,
    both,
    counts,
    example,
    phase,
    rows,
    states,
    value_of,
    without_additions,
)
from jobyard.api.kinds import KINDS
from jobyard.api.parts.run_mode import Mode
from jobyard.cli.output.printing import as_yaml

RESUMED = TESTS / "golden" / "resumed"
PODS_BEFORE = "batch.tensorstack.dev/pods-before"
# Each has an example that is made paused, and says how it resumes.
WITH_MODES = (
    "genericjob",
    "mpijob",
    "colossalaijob",
    "deepspeedjob",
    "pytorchtrainingjob",
    "tensorflowtrainingjob",
    "xgboosttrainingjob",
)


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def all_run(status: Json) -> bool:
    total = status["replicas"]
    return bool(status["phase"] == "Running" and status["ready"] == f"{total}/{total}")


def all_gone(status: Json) -> bool:
    """Their pods too, not only told to go."""
    rows = [row for task in status["tasks"] for row in task["status"]]
    return not any("uid" in row for row in rows)


def reasons(status: Json) -> set[str]:
    return {each["reason"] for each in status["conditions"]}


def resumed_pods(stage: Stage, job: str) -> str:
    """The job's pods as text, without what differs from run to run."""
    pods = [stage.pods(job)[name] for name in sorted(stage.pods(job))]
    kept = [without_additions({"apiVersion": "v1", "kind": "Pod", **pod}) for pod in pods]
    for pod in kept:
        # How many came before depends on what the job went through.
        pod["metadata"]["annotations"].pop(PODS_BEFORE, None)
    return "---\n".join(as_yaml(pod) for pod in kept)


def are_as_resumed(stage: Stage, job: str, kind: str) -> None:
    """Compares whole pods, so that nothing of a resumed replica goes unnoticed."""
    golden, found = RESUMED / f"{kind}.yaml", resumed_pods(stage, job)
    if os.environ.get("JOBYARD_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text()


async def others(stage: Stage, job: str, old: dict[str, str]) -> list[str]:
    """The names of the job's pods, once each is another than before."""

    def are_others() -> bool:
        now = stage.uids(job)
        return set(now) == set(old) and not set(now.values()) & set(old.values())

    await stage.until(f"all pods of {job} are others", are_others)
    return sorted(stage.pods(job))


async def until_gone(stage: Stage, job: str, names: set[str]) -> None:
    await stage.until(f"none of {sorted(names)}", lambda: not names & set(stage.pods(job)))


async def run_all(stage: Stage, names: list[str]) -> None:
    await stage.all_at_once(*(stage.kubelet.running(name) for name in names))


@pytest.mark.long
@pytest.mark.parametrize("kind", WITH_MODES)
def test_a_job_is_debugged_paused_and_resumed(kind: str, staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        manifest = value_of(example(f"{kind}/pause"))
        manifest["spec"]["runMode"] |= {"debug": {"enabled": True}}
        manifest["spec"]["runMode"]["pause"]["enabled"] = False
        (job,) = await stage.apply(manifest)
        story = Story(stage, job, f"{kind}-modes", tells_pods_once=True)
        made = await story.scene("made for debugging", all_made)
        await stage.until("all pods are seen", lambda: len(stage.pods(job)) == made["replicas"])
        debugged = stage.uids(job)
        await run_all(stage, sorted(debugged))
        debugging = await story.scene("running for debugging", all_run)
        assert "Debug" in reasons(debugging)

        await stage.patch(job, {"runMode": {"debug": {"enabled": False}}})
        fresh = await others(stage, job, debugged)
        made_anew = both(counts(creating=len(fresh)), all_made)
        await story.scene("debug is off, all pods recreated", made_anew)
        old = stage.uids(job)
        await run_all(stage, fresh)
        running = await story.scene("running", all_run)
        assert "Debug" not in reasons(running)

        await stage.pause(job)
        await story.scene("paused", both(phase("Paused"), all_gone))
        await stage.until("no pod is left", lambda: not stage.pods(job))
        await stage.pause(job, enabled=False)
        fresh = await others(stage, job, old)
        await story.scene(
            "resuming", both(phase("Resuming"), counts(creating=len(fresh)), all_made)
        )
        await run_all(stage, fresh)
        resumed = await story.scene("running again", all_run)
        assert (resumed["restarts"], resumed["pauseCount"]) == (0, 1)
        are_as_resumed(stage, job, kind)
        await story.told("Resuming")

    staging.play(act, start=False)


def test_every_kind_with_a_mode_has_its_story() -> None:
    """So that a kind that comes later, or gets a mode, isn't forgotten here."""
    assert {path.stem for path in RESUMED.iterdir()} == set(WITH_MODES)
    assert set(WITH_MODES) == {
        kind.name.lower() for kind in KINDS if {Mode.DEBUG, Mode.PAUSE} <= set(kind.modes)
    }


# Elastic


def elastic(kind: str) -> Json:
    manifest = value_of(example(f"{kind}/elastic"))
    bounds = {"enabled": True, "minReplicas": 1, "maxReplicas": 5, "expectedReplicas": 2}
    manifest["spec"]["elastic"] = bounds
    return manifest


@pytest.mark.parametrize("kind", ["pytorchtrainingjob", "deepspeedjob"])
def test_an_elastic_job_goes_from_two_to_five_to_one(kind: str, staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(elastic(kind))
        story = Story(stage, job, f"{kind}-elastic", tells_pods_once=True)
        await story.scene("two run", both(all_run, counts(running=2)))
        await stage.until_running(job, 2)
        two = stage.uids(job)
        await stage.kubectl("scale", kind, job, "--replicas=5")
        await story.scene("five run", both(all_run, counts(running=5)))
        await stage.until_running(job, 5)
        five = stage.uids(job)
        assert five[f"{job}-worker-1"] == two[f"{job}-worker-1"]
        await stage.kubectl("scale", kind, job, "--replicas=1")
        one = await story.scene("one runs", both(all_run, counts(running=1, deleted=0)))
        await stage.until_running(job, 1)
        await stage.until_pods(job, "worker-0")
        assert one["restarts"] == 0
        if kind == "pytorchtrainingjob":
            # DeepSpeed's first worker has the list of hosts, and is recreated with another.
            first = f"{job}-worker-0"
            assert stage.uids(job)[first] == five[first] == two[first]
        await story.told("Scaled")

    staging.play(act)


# TensorBoard


def test_a_tensorboard_is_told_of_beside_its_job(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(example("pytorchtrainingjob/tensorboard"))
        story = Story(stage, job, "pytorchtrainingjob-tensorboard")
        await stage.until_pods(job, "worker-0", "tensorboard")
        await story.scene("both pods made", all_made)
        await stage.kubelet.image_pull_backoff(f"{job}-tensorboard")
        await stage.kubelet.running(f"{job}-worker-0")
        running = await story.scene(
            "running, and the TensorBoard waits for its image",
            both(all_run, lambda s: "ImagePullBackOff" in s["tensorboard"]["note"]),
        )
        assert running["replicas"] == 1, "it is no replica"
        await stage.kubelet.running(f"{job}-tensorboard")
        await story.scene("the TensorBoard is ready", lambda s: bool(s["tensorboard"]["ready"]))
        await stage.kubelet.finish(f"{job}-worker-0")
        await story.scene("succeeded", both(phase("Succeeded"), counts(succeeded=1)))
        # It serves the curves for as long as the job's object is there.
        assert f"{job}-tensorboard" in stage.pods(job)
        await story.told("Succeeded")

    staging.play(act, start=False)


# TaskSets


RETRY_PENDING = "TaskSetAttemptRetryPending"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def retried_taskset(name: str, **policy: int) -> Json:
    template = {"spec": {"containers": [{"name": "main", "image": "example.com/none"}]}}
    return {
        "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
        "kind": "TaskSet",
        "metadata": {"name": name},
        "spec": {
            "retryPolicy": {"retry": True, **policy},
            "roles": [
                {"name": "gate", "template": template},
                {"name": "worker", "replicas": 2, "template": template},
            ],
        },
    }


def test_a_taskset_is_retried_as_a_whole_after_its_delay(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        (job,) = await stage.apply(retried_taskset("again", delay=2, maxRetryCount=1))
        story = Story(stage, job, "taskset-retried")
        names = ("gate-{}-0-0", "worker-{}-0-0", "worker-{}-0-1")
        for attempt in (0, 1):
            pods = [name.format(attempt) for name in names]
            await stage.until_pods(job, *pods)
            await run_all(stage, [f"{job}-{pod}" for pod in pods])
            running = await story.scene(f"attempt {attempt} runs", rows(3, "AttemptRunning"))
            unit = stage.all_of("ConfigMap")[f"c-{job}-{attempt}"]["metadata"]["uid"]
            assert running["controlUnitUID"] == unit
            # They have ended before the gate fails: how far a pod gets that is stopped is chance.
            for worker in pods[1:]:
                await stage.kubelet.finish(f"{job}-{worker}")
            await story.scene(
                f"attempt {attempt}: the workers are done", states(worker="Succeeded")
            )
            await stage.kubelet.finish(f"{job}-gate-{attempt}-0-0", 11, message="closed")
            if attempt == 0:
                waiting = await story.scene("waits for its retry", phase(RETRY_PENDING))
                await until_gone(stage, job, {f"{job}-{pod}" for pod in pods})
            else:
                began = stage.all_of("ConfigMap")[f"c-{job}-1"]["metadata"]["creationTimestamp"]
                waited = moment(began) - moment(waiting["transitionTime"])
                assert waited >= timedelta(seconds=2)
        await story.scene("failed", phase("TaskSetCompleted"))
        await stage.until("all pods are gone", lambda: not stage.pods(job))
        await story.told("CleanedUp")

    staging.play(act, start=False)


def test_deleting_a_taskset_deletes_all_of_it(staging: Staging, controllers: ControlPlane) -> None:
    async def act(stage: Stage) -> None:
        manifest = retried_taskset("deleted", delay=600, maxRetryCount=1)
        (job,) = await stage.apply(manifest)
        await stage.until("it runs", lambda: stage.status(job).get("state") == "Running")
        await stage.until("all of it is seen", lambda: len(stage.pods(job)) == 3)
        owned = {kind: set(stage.children(kind, job)) for kind in ("ConfigMap", "Pod")}
        assert [len(names) for names in owned.values()] == [1, 3]
        await stage.kubectl("delete", "taskset", job)
        await stage.until(
            "nothing of it is left",
            lambda: not any(names & set(stage.all_of(kind)) for kind, names in owned.items()),
            deadline_seconds=COLLECTED_SECONDS,
        )
        await stage.until("nor the TaskSet", lambda: stage.job(job) is None)

    staging.play(act)
