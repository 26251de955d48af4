"""Shapes of DeepSpeedJob, MPIJob and ColossalAIJob as users of other platforms have them.

Their files are in `their_files`. A real API server takes them through a strict kubectl, `render`
shows what becomes of them, and an engine runs those that need no framework.
"""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Any

import pytest
import yaml
from api.wrong_manifests.edits import Edit, append, edited, put
from click.testing import CliRunner
from rig.engine import JOBS, Room
from rig.kube.kubectl import Kubectl
from rig.manifests import ROOT, documents
from rig.needs import lacks, missing

from jobyard.cli.main import cli
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.ssh import FILES_PATH
from jobyard.schema.finding import dotted, is_error

FOLDER = ROOT / "tests" / "their_files"
FILES = [FOLDER / f"{kind}.yaml" for kind in ("deepspeedjob", "mpijob", "colossalaijob")]
needs_ssh = pytest.mark.skipif(
    lacks("sshd") or lacks("ssh"), reason=missing("sshd", "openssh-server openssh-client")
)
needs_mpi = pytest.mark.skipif(lacks("mpirun"), reason=missing("mpirun", "openmpi-bin"))


def jobs(kind: str) -> dict[str, dict[str, Any]]:
    found = (document.value for document in documents(FOLDER / f"{kind}.yaml"))
    return {job["metadata"]["name"]: job for job in found}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_strict_kubectl_applies_the_file(path: Any, kubectl: Kubectl, crds: None) -> None:
    applied = kubectl("apply", "--validate=strict", "-f", str(path))
    assert len(applied.stdout.splitlines()) == len(documents(path))
    assert applied.stderr == ""


@cache
def rendered(kind: str) -> dict[str, dict[str, Any]]:
    """Pods by name, and config maps, as `jobyard render` prints them."""
    done = CliRunner().invoke(cli, ["render", str(FOLDER / f"{kind}.yaml")])
    assert done.exit_code == 0, done.output
    return {child["metadata"]["name"]: child for child in yaml.safe_load_all(done.stdout)}


def pod_of(kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = rendered(kind)[name]["spec"]
    return spec


def main_of(kind: str, name: str) -> dict[str, Any]:
    container: dict[str, Any] = pod_of(kind, name)["containers"][0]
    return container


def hosts(kind: str, job: str) -> list[str]:
    text: str = rendered(kind)[f"{job}-launch"]["data"]["hostfile"]
    return text.splitlines()


def launched(kind: str, name: str) -> list[str]:
    """The command without what all jobs have: the start script and the host file."""
    words: list[str] = main_of(kind, name)["command"]
    return [word for word in words if word != "--hostfile" and not word.startswith(FILES_PATH)][1:]


def env_of(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


class TestDeepSpeedJob:
    """Empty is as good as absent; a whole command leaves nothing but slotsPerWorker."""

    @pytest.mark.parametrize("job", ["serve-by-hand", "empty-by-hand"])
    def test_debugged_with_nothing_to_launch_it_runs_sshd(self, job: str) -> None:
        container = main_of("deepspeedjob", f"{job}-worker-0")
        assert container["command"] == ["sh", f"{FILES_PATH}/worker.sh"]
        assert "args" not in container
        assert hosts("deepspeedjob", job) == [f"{job}-worker-0.{job} slots=1"]

    def test_the_one_way_to_run_that_is_not_empty_counts(self) -> None:
        assert launched("deepspeedjob", "one-of-three-worker-0") == [
            "deepspeed",
            *("/t9k/hostfile", "--master_addr", "one-of-three-worker-0.one-of-three"),
            *("--no_python", "./train.sh", "--epochs", "2"),
        ]
        assert {line.split()[1] for line in hosts("deepspeedjob", "one-of-three")} == {"slots=2"}

    def test_a_whole_command_is_all_that_is_run(self) -> None:
        whole = jobs("deepspeedjob")["whole-command"]["spec"]["config"]["customCommand"]
        assert launched("deepspeedjob", "whole-command-worker-0") == ["sh", "-c", whole]
        assert {line.split()[1] for line in hosts("deepspeedjob", "whole-command")} == {"slots=4"}


class TestMPIJob:
    """The oldest shape is arguments of mpirun; both shapes together are one."""

    def test_fields_of_the_oldest_shape_are_arguments_of_mpirun(self) -> None:
        assert launched("mpijob", "oldest-launcher")[:11] == [
            *("/usr/bin/mpirun", "--prefix", "/usr", "-mca", "btl", "^openib"),
            *("-N", "3", "--enable-recovery", "--max-restarts", "100"),
        ]
        assert {line.split()[1] for line in hosts("mpijob", "oldest")} == {"slots=3"}

    def test_both_shapes_are_merged_and_the_second_wins(self) -> None:
        assert launched("mpijob", "mixed-launcher")[:10] == [
            *("/usr/bin/mpirun", "--prefix", "/usr", "-mca", "btl", "^openib"),
            *("-mca", "mpi_yield_when_idle", "1", "-N"),
        ]

    def test_a_launchers_own_template_is_used_as_it_is(self) -> None:
        container = main_of("mpijob", "own-launcher-launcher")
        limits = container["resources"]["limits"]
        assert {name: int(amount) for name, amount in limits.items()} == {
            "cpu": 1,
            "nvidia.com/gpu": 1,
        }
        # But for what every container needs.
        assert (container["name"], container["image"]) == ("launcher", "mpi:4.1")

    def test_a_launcher_of_the_second_shape_may_stand_beside_workers_of_the_first(self) -> None:
        assert main_of("mpijob", "lone-launcher-launcher")["image"] == "mpi-launcher:4.1"
        assert main_of("mpijob", "lone-launcher-worker-1")["image"] == "mpi:4.1"

    def test_what_is_empty_is_as_absent(self) -> None:
        assert launched("mpijob", "zeros-launcher") == ["mpirun", "hostname"]
        env = env_of(main_of("mpijob", "zeros-worker-0"))
        assert env["JOBYARD_SSHD"] == "/usr/sbin/sshd"
        assert env["JOBYARD_SSH_DIR"] == "/root/.ssh"

    def test_debugged_with_nothing_to_launch_it_waits(self) -> None:
        assert "sleep inf" in " ".join(main_of("mpijob", "by-hand-launcher")["command"])


class TestColossalAIJob:
    """Spellings before and after; a launcher is like the workers where it says nothing."""

    def test_old_spellings_mean_the_same(self) -> None:
        words = launched("colossalaijob", "spelled-before-launcher")
        assert words[:4] == ["colossalai", "run", "--nproc_per_node", "2"]
        for name in ("spelled-before-launcher", "spelled-before-worker-0"):
            container = main_of("colossalaijob", name)
            assert env_of(container)["JOBYARD_SSH_DIR"] == "/keys"
            assert "/keys" in {mount["mountPath"] for mount in container["volumeMounts"]}

    def test_a_launcher_without_an_image_has_the_workers_image_and_folder(self) -> None:
        container = main_of("colossalaijob", "spelled-before-launcher")
        assert (container["image"], container["workingDir"]) == ("colossalai:0.3", "/workspace")
        assert set(container["resources"]["limits"]) == {"cpu"}

    def test_a_launcher_without_containers_has_the_workers_without_their_devices(self) -> None:
        pod = rendered("colossalaijob")["spelled-after-launcher"]
        assert pod["metadata"]["labels"]["part"] == "launcher"
        assert pod["spec"]["nodeSelector"] == {"kind": "small"}
        (container,) = pod["spec"]["containers"]
        assert (container["image"], container["workingDir"]) == ("colossalai:0.3", "/workspace")
        assert set(container["resources"]["limits"]) == {"cpu"}
        worker = pod_of("colossalaijob", "spelled-after-worker-0")
        assert worker["nodeSelector"] == {"kind": "large"}
        assert set(worker["containers"][0]["resources"]["limits"]) == {"cpu", "nvidia.com/gpu"}

    def test_extra_args_are_passed_once(self) -> None:
        want = ["--master_port", "29600", "train.py"]
        assert launched("colossalaijob", "spelled-after-launcher")[-5:-2] == want
        assert launched("colossalaijob", "mixed-shapes-launcher")[-5:] == [
            "--ssh-port",
            "2222",
            *want,
        ]

    def test_both_shapes_are_merged_and_the_second_wins(self) -> None:
        words = launched("colossalaijob", "mixed-shapes-launcher")
        assert words[:4] == ["colossalai", "run", "--nproc_per_node", "4"]
        env = env_of(main_of("colossalaijob", "mixed-shapes-worker-0"))
        assert env["JOBYARD_SSHD"] == "/usr/sbin/sshd"
        assert env["JOBYARD_SSH_DIR"] == "/root/.ssh"
        for job in ("lone-launcher", "beside"):
            image = main_of("colossalaijob", f"{job}-launcher")["image"]
            assert image == "colossalai-launcher:0.3"
        beside = main_of("colossalaijob", "beside-launcher")
        assert (beside["image"], beside["workingDir"]) == ("colossalai-launcher:0.3", "/launch")


NO_RESTARTS = "has no effect: what is launched can't take a single pod back in, so none restarts"
WHOLE = "has no effect: customCommand is run instead"
HIDES = (
    "gives mpirun --enable-recovery and --max-restarts: it then ends with 0, and the job succeeds,"
    " even if a process failed; only the log tells"
)
RESTARTS = {f"spec.replicaSpecs[{n}].restartPolicy": NO_RESTARTS for n in (0, 1)}


def other(name: str) -> str:
    return f"has no effect: {name} says something else, and that counts"


WARNED = {
    "whole-command": {
        f"spec.config.{field}": WHOLE for field in ("run", "localRank", "autotune", "otherArgs")
    },
    "oldest": {"spec.worker.processRecovery": HIDES},
    "mixed": {"spec.mca.btl": other("mpiConfig.mca.btl"), **RESTARTS},
    "own-launcher": {
        "spec.replicaSpecs[1].template.spec.containers[0].command": (
            "has no effect: the launcher starts what the job says"
        )
    },
    "spelled-after": RESTARTS,
    "mixed-shapes": {
        "spec.worker.command": other("torchConfig.script"),
        "spec.worker.procPerWorker": other("torchConfig.procPerWorker"),
    },
}


def test_what_has_no_effect_is_a_warning_and_nothing_else_is() -> None:
    found: dict[str, dict[str, str]] = {}
    for document in (document for path in FILES for document in documents(path)):
        told = checked(document).findings
        assert not any(map(is_error, told))
        found[document.value["metadata"]["name"]] = {
            dotted(finding.path): finding.text for finding in told
        }
    assert {name: told for name, told in found.items() if told} == WARNED


OWN_LAUNCHER = {
    "type": "launcher",
    "template": {"spec": {"containers": [{"name": "launcher", "image": "own"}]}},
}
PLACED_LAUNCHER = {"type": "launcher", "template": {"spec": {"nodeSelector": {"kind": "small"}}}}
# What is put into a job, and the warning that comes of it.
CONFLICTS = [
    pytest.param(
        *("mpijob", "oldest", put("spec.worker.extraMPIArgs", ["-npernode", "2"])),
        ("spec.worker.processesPerWorker", other("an argument of mpirun")),
        id="a number of processes that mpirun's arguments say otherwise",
    ),
    pytest.param(
        *("mpijob", "oldest", put("spec.worker.processRecovery", {"limit": 3})),
        ("spec.worker.processRecovery.limit", "has no effect: processRecovery.enable isn't true"),
        id="a limit of a recovery that isn't wanted",
    ),
    pytest.param(
        *("mpijob", "mixed", put("spec.mpiConfig.home", "/opt/mpi")),
        ("spec.mpiHome", other("mpiConfig.home")),
        id="two homes",
    ),
    pytest.param(
        *("mpijob", "zeros", put("spec.mpiConfig.script", ["uptime"])),
        ("spec.worker.cmd", other("mpiConfig.script")),
        id="two programs",
    ),
    pytest.param(
        *("colossalaijob", "spelled-before", put("spec.ssh.authMountPath", "/other")),
        ("spec.ssh.sshAuthMountPath", other("ssh.authMountPath")),
        id="two places for keys",
    ),
    pytest.param(
        *("colossalaijob", "spelled-before", put("spec.worker.procPerWorker", 4)),
        ("spec.worker.procPerNode", other("worker.procPerWorker")),
        id="two numbers of processes",
    ),
    pytest.param(
        *("colossalaijob", "beside", append("spec.replicaSpecs", OWN_LAUNCHER)),
        ("spec.launcher", "has no effect: replicaSpecs has a launcher with containers"),
        id="two launchers",
    ),
    pytest.param(
        *("colossalaijob", "beside", append("spec.replicaSpecs", PLACED_LAUNCHER)),
        (
            "spec.replicaSpecs[1].template",
            "has no effect: it has no containers, and spec.launcher has one",
        ),
        id="two launchers, of which one says only where",
    ),
    pytest.param(
        *("deepspeedjob", "one-of-three", put("spec.config.slotsPerWorker", 1)),
        ("spec.config.slotPerWorker", other("slotsPerWorker")),
        id="two numbers of slots",
    ),
]


@pytest.mark.parametrize(("kind", "job", "edit", "want"), CONFLICTS)
def test_of_two_that_differ_one_counts_with_a_warning(
    kind: str, job: str, edit: Edit, want: tuple[str, str]
) -> None:
    (document,) = read(json.dumps(edited(jobs(kind)[job], edit)), "job.json")
    told = checked(document).findings
    assert not any(map(is_error, told))
    assert want in [(dotted(finding.path), finding.text) for finding in told]


def test_workers_are_given_once() -> None:
    worker = {"type": "worker", "template": {"spec": {"containers": [{"name": "worker"}]}}}
    for kind in ("mpijob", "colossalaijob"):
        job = edited(jobs(kind)["lone-launcher"], append("spec.replicaSpecs", worker))
        (document,) = read(json.dumps(job), "job.json")
        told = [each.text for each in checked(document).findings if is_error(each)]
        assert told == ["the workers are given twice: use either worker or replicaSpecs"]


def plural(job: dict[str, Any]) -> str:
    return f"{job['kind'].lower()}s"


def ended(room: Room, kind: str, name: str) -> str:
    """Runs a job to its good end; what its first pod said."""
    job = jobs(kind)[name]
    room.create(plural(job), job, JOBS)

    def is_over(found: dict[str, Any]) -> bool:
        assert found.get("status", {}).get("phase") != "Failed", json.dumps(found["status"])
        return bool(found.get("status", {}).get("phase") == "Succeeded")

    room.until(plural(job), name, is_over, JOBS)
    first = "worker-0" if kind == "deepspeedjob" else "launcher"
    return room.engine.ask("GET", room.path("pods", f"{name}-{first}") + "/log").text


def program_lines(said: str, begins: str) -> list[str]:
    """Without those of mpirun itself, which on a busy machine warns of a child that was quicker."""
    return [line for line in said.splitlines() if line.startswith(begins)]


@needs_mpi
@needs_ssh
def test_the_oldest_shape_starts_as_many_processes_as_it_says(room: Room) -> None:
    said = ended(room, "mpijob", "oldest")
    wanted = [f"process {n} of 6 on oldest-worker-{n // 3}" for n in range(6)]
    assert sorted(program_lines(said, "process")) == wanted


@needs_mpi
@needs_ssh
def test_mixed_shapes_run_and_their_warnings_are_events(room: Room) -> None:
    said = ended(room, "mpijob", "mixed")
    assert program_lines(said, "btl") == ["btl ^openib, yields 1"] * 2
    for path in WARNED["mixed"]:
        room.engine.until(
            room.path("events"), "fieldSelector=type%3DWarning", partial(is_about, path)
        )


def is_about(path: str, event: dict[str, Any]) -> bool:
    return path in event["message"]


@needs_mpi
@needs_ssh
def test_a_launcher_beside_the_workers_of_the_first_shape_starts_them(room: Room) -> None:
    said = ended(room, "mpijob", "lone-launcher")
    wanted = [f"launcher has started lone-launcher-worker-{n}" for n in range(2)]
    assert sorted(program_lines(said, "launcher has started")) == wanted


@needs_ssh
def test_a_whole_command_runs_and_nothing_else_does(room: Room) -> None:
    assert ended(room, "deepspeedjob", "whole-command").splitlines() == [
        "whole-command-worker-0.whole-command slots=4",
        "whole-command-worker-1.whole-command slots=4",
        "by the whole command",
    ]


@needs_ssh
def test_what_is_debugged_with_nothing_to_launch_comes_up(room: Room) -> None:
    kinds = {"serve-by-hand": "deepspeedjob", "empty-by-hand": "deepspeedjob"}
    for name, kind in kinds.items():
        room.create(f"{kind}s", jobs(kind)[name], JOBS)
    room.create("mpijobs", jobs("mpijob")["by-hand"], JOBS)
    for name in (*(f"{job}-worker-0" for job in kinds), "by-hand-launcher", "by-hand-worker-0"):
        room.running(name)
