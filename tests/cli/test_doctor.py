"""`jobyard doctor`: what each kind can find on a machine, and the command that brings the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jobyard.cli.arguments.needs import NEEDS, Check, kind_checks
from jobyard.cli.main import cli
from jobyard.plan.lowering.table import JOB_KINDS


def virtualenv(folder: Path, **modules: str) -> Path:
    """A virtualenv as it looks on the disk: packages, and what they say of themselves."""
    site = folder / "lib" / "python3.11" / "site-packages"
    (folder / "pyvenv.cfg").parent.mkdir(parents=True)
    (folder / "pyvenv.cfg").touch()
    for name, version in modules.items():
        (site / name).mkdir(parents=True)
        told = site / f"{name}-{version}.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def programs(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def looked(*environments: Path, is_root: bool = True, sandboxes_lack: str = "") -> dict[str, Check]:
    checks = kind_checks(environments, is_root=is_root, sandboxes_lack=sandboxes_lack)
    return {check.name: check for check in checks}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing of the machine on it."""
    folder = programs(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("jobyard.cli.arguments.needs.PLACES_OF_SERVERS", str(folder))
    return folder


def test_no_kind_is_forgotten() -> None:
    told = {need.what.split()[0] for need in NEEDS}
    assert {kind.name for kind in JOB_KINDS} <= told


def test_a_framework_in_a_virtualenv_is_found(tmp_path: Path, path: Path) -> None:
    seen = looked(virtualenv(tmp_path / "venv", torch="2.13.0", xgboost="3.2.0"))
    assert (seen["PyTorchTrainingJob"].is_there, seen["PyTorchTrainingJob"].detail) == (
        True,
        "torch 2.13.0",
    )
    assert seen["XGBoostTrainingJob"].is_there
    assert not seen["TensorFlowTrainingJob"].is_there
    assert seen["TensorFlowTrainingJob"].remedy == "pip install tensorflow-cpu"
    assert seen["GenericJob"].is_there


def test_several_virtualenvs_are_looked_at(tmp_path: Path, path: Path) -> None:
    programs(tmp_path / "more", "java").joinpath("java").rename(path / "java")
    beam = virtualenv(tmp_path / "beam", apache_beam="2.77.0")
    seen = looked(beam, virtualenv(tmp_path / "spark", pyspark="3.5.6"))
    assert seen["BeamJob on Spark"].is_there
    assert not seen["BeamJob on Flink"].is_there


def test_one_command_brings_all_that_is_missing(tmp_path: Path, path: Path) -> None:
    (path / "ssh").touch(mode=0o755)
    nothing = virtualenv(tmp_path / "venv")
    assert looked(nothing)["MPIJob"].remedy == "apt install openssh-server openmpi-bin"
    asked = looked(nothing, is_root=False)["DeepSpeedJob"].remedy
    assert asked.startswith("sudo apt install openssh-server pdsh && pip install torch")
    assert "pip install --no-build-isolation deepspeed" in asked


def test_who_has_no_name_needs_a_wrapper_to_log_in(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ssh", "sshd", "mpirun"):
        (path / name).touch(mode=0o755)
    nothing = virtualenv(tmp_path / "venv")
    monkeypatch.setattr("jobyard.cli.arguments.needs.PLACES_OF_LIBRARIES", (str(tmp_path / "lib"),))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert looked(nothing)["MPIJob"].is_there, "root has a name"
    nobody = 987654
    monkeypatch.setattr("os.geteuid", lambda: nobody)
    assert looked(nothing, is_root=False)["MPIJob"].remedy == "sudo apt install libnss-wrapper"
    (tmp_path / "lib" / "x86_64-linux-gnu").mkdir(parents=True)
    (tmp_path / "lib" / "x86_64-linux-gnu" / "libnss_wrapper.so.0").touch()
    assert looked(nothing, is_root=False)["MPIJob"].is_there


def test_mpi_programs_need_a_compiler_or_numpy(tmp_path: Path, path: Path) -> None:
    (path / "mpirun").touch(mode=0o755)
    seen = looked(virtualenv(tmp_path / "venv", mpi4py="4.1"))
    assert seen["MPI from Python"].remedy == "pip install numpy"
    assert seen["MPI programs in C"].remedy == "apt install libopenmpi-dev gcc"


def test_kinds_that_log_in_need_sandboxes(tmp_path: Path, path: Path) -> None:
    seen = looked(virtualenv(tmp_path / "venv"), sandboxes_lack="network namespaces")
    assert seen["MPIJob"].detail == "needs sandboxes, and this machine has no network namespaces"
    assert not seen["MPIJob"].remedy
    assert seen["TaskSet"].is_there


def test_images_of_the_environment_count(tmp_path: Path) -> None:
    folder = virtualenv(tmp_path / "venv", tensorboard="9.9")
    done = CliRunner().invoke(cli, ["doctor", "-o", "json"], env={"JOBYARD_IMAGES": f"tb={folder}"})
    assert done.exit_code == 0, done.output
    checks = {each["name"]: each for each in json.loads(done.stdout)}
    assert checks["TensorBoard beside a job"]["detail"] == "tensorboard 9.9"
    done = CliRunner().invoke(cli, ["doctor"], env={"JOBYARD_IMAGES": "tb=/no/such"})
    assert done.exit_code == 2
    assert "$JOBYARD_IMAGES: 'tb=/no/such': there is no folder" in done.output


def test_the_report_is_for_people(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["doctor"])
    assert done.exit_code == 0
    kinds = done.output.split("\nKinds\n")[1].split("\n\n")[0]
    assert [line.split()[1] for line in kinds.splitlines()][:3] == [
        "GenericJob", "TaskSet", "PyTorchTrainingJob",
    ]  # fmt: skip
