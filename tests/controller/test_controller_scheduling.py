"""Gangs under the running controller: with the T9k Scheduler, without it, and when it is missing.

Nodes are played by a fake kubelet, which may look away from the pods of a scheduler.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane

from controller.controller_stage import Json, Stage, Staging, condition
from controller.test_controller_modes import pytorch

GROUP = "scheduler.tensorstack.dev"
# Both are there as users have them; only the minute until pods count as forgotten is shorter.
IMPATIENT = """#!{python}
import jobyard.plan.reporting.status

assert jobyard.plan.reporting.status.UNSCHEDULED_SECONDS == 60
jobyard.plan.reporting.status.UNSCHEDULED_SECONDS = 2

from jobyard.cli.main import main

main()
"""


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def queued(name: str) -> Json:
    return pytorch(name, scheduler={"t9kScheduler": {"queue": "research", "priority": 50}})


def test_without_a_gang_scheduler_the_pods_go_to_the_default_one(staging: Staging) -> None:
    async def act(stage: Stage) -> None:
        name = "alone"
        await stage.apply(queued(name))
        told = await stage.until_told(name, "SpecAdvice", "--gang-scheduler=none")
        assert told.type == "Warning"
        assert "queue and priority have no effect" in told.message
        await stage.until_running(name, 2)
        await stage.until_pods(name, "worker-0", "worker-1")
        for pod in stage.pods(name).values():
            assert pod["spec"]["schedulerName"] == "default-scheduler"
            assert not [label for label in pod["metadata"]["labels"] if GROUP in label]
        assert not stage.all_of("PodGroup")
        # One event is enough, however often the job is looked at.
        await stage.kubelet.finish(f"{name}-worker-1", 1)
        await stage.until("a restart", lambda: stage.status(name).get("restarts") == 1)
        await stage.kubelet.finish(f"{name}-worker-0")
        await stage.until_phase(name, "Succeeded")
        await stage.until_told(name, "Succeeded")
        said = [event for event in stage.events(name) if "--gang-scheduler" in event.message]
        assert said == [told]

    staging.play(act, "--gang-scheduler=none")


def test_pods_that_no_scheduler_looks_at_are_told_of(
    staging: Staging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "jobyard"
    program.write_text(IMPATIENT.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr("rig.kube.jobyard_controller.JOBYARD", program)

    async def act(stage: Stage) -> None:
        name = "forgotten"
        await stage.apply(queued(name))
        told = await stage.until_told(name, "Unscheduled")
        words = "no scheduler named t9k-scheduler has looked at them: is it running?"
        assert told.type == "Warning"
        assert told.message.startswith("0 of 2 running"), told
        assert told.message.endswith(words), told
        said = await stage.until_condition(name, "Running", "False", "Unscheduled")
        assert said["message"] == told.message
        group = await stage.until("a gang", lambda: stage.children("PodGroup", name).get(name))
        assert group is not None
        assert group["spec"]["minMember"] == 2
        await stage.until_pods(name, "worker-0", "worker-1")
        for pod in stage.pods(name).values():
            assert pod["spec"]["schedulerName"] == "t9k-scheduler"
            assert pod["metadata"]["labels"][f"{GROUP}/group-name"] == name
        # A scheduler comes after all.
        for pod_name in sorted(stage.pods(name)):
            await stage.kubelet.running(pod_name)
        await stage.until_running(name, 2)
        assert condition(stage.status(name), "Running")["reason"] == "-"
        assert stage.reasons(name).count("Unscheduled") == 1

    staging.play(act, ignored_schedulers=frozenset({"t9k-scheduler"}))
