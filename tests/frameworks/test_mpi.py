"""MPIJob with Open MPI and sshd: mpirun starts real ranks across the sandboxes of workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import BOUNDED, FAULTS, Ran, Yard

EXAMPLES = ROOT / "examples" / "mpijob"
RANK = r"rank (\d+) of 15 on {}-worker-(\d): .* (\d+) walkers sent on, (\d+) arrived"
# As in the manifest that T9k's manual begins with.
RECOVERING = ["-N", "3", "--enable-recovery", "--max-restarts", "100", "--allow-run-as-root"]
# Parts of Open MPI and OpenSSH outside of the libraries' folder.
SOME = ("usr/lib/openssh", "usr/lib/libpsm1", "usr/share/openmpi")
# What starts MPI processes; the rest of Open MPI are libraries, and tools of the compiler.
PROGRAMS = ("mpirun", "mpiexec", "orterun", "orted")


def no_walker_was_lost(ran: Ran, job: str = "mpi-random-walk") -> None:
    """Fifteen ranks, three on each worker, have walked 30 walkers to their ends."""
    said = "\n".join(ran.lines("launcher"))
    ranks = [tuple(map(int, found)) for found in re.findall(RANK.format(job), said)]
    assert sorted(rank for rank, *_ in ranks) == list(range(15)), ran.text
    assert Counter(worker for _, worker, *_ in ranks) == dict.fromkeys(range(5), 3), ran.text
    assert sum(arrived for *_, arrived in ranks) == 30, ran.text
    assert min(sent for *_, sent, _ in ranks) > 0, ran.text
    assert "all 30 walkers have arrived, none was lost: 707 steps" in said, ran.text
    assert ran.code == 0, ran.text


def pi_came_out(ran: Ran) -> None:
    said = ran.lines("launcher")
    hosts = [line.split()[5] for line in said if line.startswith("rank ")]
    assert hosts == [f"mpi-mpi4py-worker-{n}:" for n in (0, 0, 1, 1)], ran.text
    assert "pi = 3.1415926536 by 4 ranks on 2 hosts" in said, ran.text
    assert ran.code == 0, ran.text


def the_environment_arrived(ran: Ran) -> None:
    want = [f"rank {n} of 2 sees NCCL_DEBUG=INFO, btl ^openib, pml ob1" for n in range(2)]
    assert sorted(ran.lines("launcher")) == want, ran.text
    assert ran.code == 0, ran.text


@pytest.mark.proves("Open MPI", "MPIJob", "immediate")
def test_a_random_walk_in_c_loses_no_walker(yard: Yard) -> None:
    no_walker_was_lost(yard.run("mpijob/random-walk.yaml"))


@pytest.mark.proves("Open MPI", "MPIJob", "immediate, no root")
def test_a_random_walk_of_an_ordinary_user_with_the_arguments_of_t9ks_manual(
    ordinary_yard: Yard,
) -> None:
    arguments = [*RECOVERING, "-bind-to", "none"]
    ran = ordinary_yard.run(
        "mpijob/random-walk.yaml", "--set", f"spec.worker.extraMPIArgs={arguments}"
    )
    no_walker_was_lost(ran)
    assert "even if a process failed" in ran.text


@pytest.mark.sample(*FAULTS)
def test_a_random_walk_with_a_wrong_host_file_is_noticed(yard: Yard) -> None:
    ran = yard.run("mpijob/random-walk.yaml", *BOUNDED, broken={"replace": {"slots=3": "slots=1"}})
    with pytest.raises(AssertionError):
        no_walker_was_lost(ran)
    assert "There are not enough slots" in ran.out, ran.text


@pytest.mark.proves("mpi4py", "MPIJob", "immediate")
def test_mpi4py_sums_up_over_all_ranks(yard: Yard) -> None:
    pi_came_out(yard.run("mpijob/mpi4py.yaml"))


def test_mpi4py_notices_a_rank_that_is_not_there(yard: Yard) -> None:
    """With `-N 1` in place of `-N 2` there are two ranks, and the program wants four."""
    ran = yard.run("mpijob/mpi4py.yaml", *BOUNDED, "--set", 'spec.worker.extraMPIArgs=["-N", "1"]')
    with pytest.raises(AssertionError):
        pi_came_out(ran)
    assert ran.code == 1, ran.text
    assert "2 ranks, not 4" in ran.out


@pytest.mark.proves("Open MPI", "MPIJob", "immediate, Horovod's recipe")
def test_what_the_container_has_reaches_every_rank(yard: Yard) -> None:
    the_environment_arrived(yard.run("mpijob/environment.yaml"))


@pytest.mark.sample(*FAULTS)
def test_an_environment_that_does_not_arrive_is_noticed(yard: Yard) -> None:
    ran = yard.run("mpijob/environment.yaml", *BOUNDED, broken={"env": {"NCCL_DEBUG": None}})
    with pytest.raises(AssertionError):
        the_environment_arrived(ran)
    assert ran.code == 1, ran.text
    assert "NCCL_DEBUG is '', not INFO" in ran.out, ran.text


def test_an_mca_parameter_that_does_not_arrive_is_noticed(yard: Yard) -> None:
    ran = yard.run("mpijob/environment.yaml", *BOUNDED, "--set", 'spec.mca={"btl": "^openib"}')
    with pytest.raises(AssertionError):
        the_environment_arrived(ran)
    assert ran.code == 1, ran.text
    assert "the mca parameters are btl ^openib, pml \n" in ran.out, ran.text


@pytest.mark.parametrize(
    ("example", "want"),
    [
        ("mpijob/hostname.yaml", ["mpi-hostname-worker-0"] * 2 + ["mpi-hostname-worker-1"] * 2),
        ("mpijob/replica-specs-launcher.yaml", [f"mpi-own-launcher-worker-{n}" for n in range(2)]),
        (
            "mpijob/replica-specs.yaml",
            [f"rank {n} of 4 on mpi-replica-specs-worker-{n // 2}" for n in range(4)],
        ),
    ],
)
@pytest.mark.proves("Open MPI", "MPIJob", "immediate, both shapes")
def test_ranks_are_where_the_host_file_puts_them(yard: Yard, example: str, want: list[str]) -> None:
    ran = yard.proved(example)
    assert sorted(ran.lines("launcher")) == want, ran.text


@pytest.mark.proves("Open MPI", "MPIJob", "debug and pause")
def test_debug_and_pause(yard: Yard) -> None:
    """mpirun started by hand in a job that is debugged; a paused job that goes on."""

    def launched(*words: str) -> subprocess.CompletedProcess[str]:
        return yard.person.ask("exec", "mpi-debug", "launcher", "--", *words)

    def can_log_in(worker: int) -> bool:
        return launched("ssh", f"mpi-debug-worker-{worker}.mpi-debug", "true").returncode == 0

    def phase(job: str) -> str:
        return str(yard.job(f"mpijob/{job}").get("status", {}).get("phase", ""))

    with yard.engine():
        yard.apply("mpijob/debug.yaml")
        yard.apply("mpijob/pause.yaml")
        yard.until("mpi-debug runs", lambda: phase("mpi-debug") == "Running")
        yard.said("wait", "mpi-pause", "--for", "paused", "--timeout", "60s", seconds=90)
        yard.said("resume", "mpi-pause")
        # Running says that the containers have started, not that sshd listens.
        yard.until("logins", lambda: all(can_log_in(worker) for worker in range(2)))
        done = launched("mpirun", "--hostfile", "/run/jobyard/files/hostfile", "hostname")
        assert sorted(done.stdout.split()) == ["mpi-debug-worker-0", "mpi-debug-worker-1"], done
        yard.until("mpi-pause has ended", lambda: phase("mpi-pause") == "Succeeded")
        log = yard.said("logs", "mpi-pause")
        assert Ran(0, log, "").lines("launcher") == ["resumed"] * 2, log


def with_the_manuals_resume_specs(yard: Yard, example: str) -> str:
    """The example whose workers go on as in the manual, and without what would fail them."""
    *others, job = yaml.safe_load_all((ROOT / "examples" / example).read_text())
    job["spec"]["runMode"]["pause"]["resumeSpecs"].append(
        {"type": "worker", "skipInitContainer": True, "command": ["/usr/bin/sshd"]}
    )
    once = (
        'test "$JOBYARD_REPLICA_TYPE" = launcher || mkdir /checkpoint/started-$JOBYARD_REPLICA_RANK'
    )
    pod = job["spec"]["worker"]["template"]["spec"]
    mounts = pod["containers"][0]["volumeMounts"]
    first = {"name": "once", "image": "any", "command": ["sh", "-c", once], "volumeMounts": mounts}
    pod["initContainers"] = [first]
    return str(yard.person.write("resumes.yaml", yaml.safe_dump_all([*others, job])))


@pytest.mark.proves("mpi4py", "MPIJob", "paused while it runs, resumed from a checkpoint")
def test_a_running_job_is_paused_and_goes_on_after_the_saved_step(yard: Yard) -> None:
    """Its workers by the manual's own command, a bare sshd that this machine has elsewhere."""
    job = "mpijob/mpi-checkpoint"

    def steps() -> list[int]:
        said = yard.person.ask("logs", job, "--replica", "launcher").stdout
        return [int(step) for step in re.findall(r"step (\d+) of 80", said)]

    with yard.engine():
        yard.apply(with_the_manuals_resume_specs(yard, "mpijob/checkpoint.yaml"))
        before = yard.until("three steps", lambda: len(done := steps()) >= 3 and done[-1])
        yard.said("pause", job)
        yard.said("wait", job, "--for", "paused", "--timeout", "60s", seconds=90)
        yard.until("no pod is left", lambda: yard.said("get", "pods", "-o", "name") == "")
        yard.said("resume", job)
        yard.said("wait", job, "--timeout", "120s", seconds=150)
        log = yard.said("logs", job, "--replica", "launcher")
        starts = re.findall(r"rank (\d) of 2: starting after step (\d+)", log)
        (done,) = {int(step) for _, step in starts}
        assert {rank for rank, _ in starts} == {"0", "1"}, log
        assert before <= done < 80, log
        assert steps() == list(range(done + 1, 81)), log
        assert log.count("the total is 9720, as without a pause") == 2, log
        assert yard.job(job)["status"]["pauseCount"] == 1
        said = yard.said("logs", job, "--replica", "worker-1")
        assert "jobyard: there is no sshd at /usr/bin/sshd: running" in said, said


@pytest.mark.proves("Open MPI", "MPIJob", "a rank that gives up")
def test_a_rank_that_gives_up_fails_the_job_with_its_code(yard: Yard) -> None:
    ran = yard.run("mpijob/failure.yaml", *BOUNDED)
    assert ran.code == 1, ran.text
    assert ran.lines("launcher").count("rank 1 gives up") == 1, ran.text
    assert re.search(r"^launcher +Failed +3 ", ran.out, re.MULTILINE), ran.text


FAILING = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: mpi-failing}
spec:
  worker:
    replicas: 2
    extraMPIArgs: ["-N", "1", "--allow-run-as-root"]
    cmd: ["python3", "-c", "from mpi4py.MPI import COMM_WORLD as world; WHAT; world.Barrier()"]
    template:
      spec:
        containers:
          - name: mpi-worker
            image: jobyard/mpi4py:4.1
            resources:
              limits: {memory: 128Mi}
"""


def failed(yard: Yard, what: str) -> Ran:
    """What comes of a job in which rank 1 does this."""
    text = FAILING.replace("WHAT", f"world.rank == 1 and {what}")
    ran = yard.run(str(yard.person.write("failing.yaml", text)), *BOUNDED)
    assert ran.code == 1, ran.text
    assert "MPIJob/mpi-failing failed after" in ran.out + ran.errors, ran.text
    return ran


@pytest.mark.proves("mpi4py", "MPIJob", "out of memory")
def test_a_rank_out_of_memory_fails_the_job_and_its_worker_is_named(yard: Yard) -> None:
    ran = failed(yard, "bytearray(300 << 20)")
    assert "worker-1: OOMKilled (exit code 137)" in ran.out + ran.errors, ran.text
    assert re.search(r"^worker-1 +Failed +137 +0 +OOMKilled", ran.out, re.MULTILINE), ran.text
    assert re.search(r"^worker-0 +Stopped", ran.out, re.MULTILINE), ran.text


def test_a_rank_that_aborts_fails_the_job_with_its_code(yard: Yard) -> None:
    ran = failed(yard, "world.Abort(7)")
    assert "MPI_ABORT was invoked on rank 1" in ran.out, ran.text
    assert re.search(r"^launcher +Failed +7 ", ran.out, re.MULTILINE), ran.text


@pytest.mark.proves("Open MPI", "MPIJob", "the manual's manifest")
@pytest.mark.skipif(os.geteuid() != 0, reason="root folders with other people's files")
def test_the_manifest_of_t9ks_manual_as_it_is(yard: Yard, tmp_path: Path) -> None:
    """Its image has Open MPI below /usr/local and the program in /usr/local/code."""
    folder = root_folder(tmp_path / "root")
    program = next(yaml.safe_load_all((EXAMPLES / "random-walk.yaml").read_text()))["data"]
    source = tmp_path / "random_walk.c"
    source.write_text(program["random_walk.c"])
    built = folder / "usr/local/code/random_walk"
    subprocess.run(["mpicc", "-Wall", "-Werror", "-o", built, source], check=True)
    original = ROOT / "tests" / "originals" / "mpijob.yaml"
    ran = yard.run(str(original), "--image", f"t9kpublic/mpi-tutorial*={folder}")
    no_walker_was_lost(ran, job="mpi-example")


@pytest.mark.proves("Open MPI", "MPIJob", "mpiHome, an Open MPI of one's own")
@pytest.mark.skipif(os.geteuid() != 0, reason="root folders with other people's files")
def test_an_open_mpi_that_is_not_on_the_path_is_found_by_mpi_home(
    yard: Yard, tmp_path: Path
) -> None:
    folder = root_folder(tmp_path / "root")
    own = folder / "opt/openmpi/bin"
    own.mkdir(parents=True)
    (folder / "opt/openmpi/lib").symlink_to("../../usr/lib")
    moved = [path for name in PROGRAMS for path in (folder / "usr/bin").glob(f"{name}*")]
    assert {path.name for path in moved} >= {"mpirun", "orterun", "orted"}, moved
    for path in moved:
        path.unlink()
    # The program looks at the name it is called by.
    shutil.copy("/usr/bin/orterun", own / "mpirun")
    shutil.copy("/usr/bin/orted", own / "orted")
    image = ("--image", f"mpioperator/mpi-pi*={folder}")

    ran = yard.run("mpijob/hostname.yaml", *image, "--set", "spec.mpiHome=/opt/openmpi")
    assert ran.code == 0, ran.text
    hosts = [f"mpi-hostname-worker-{n}" for n in (0, 0, 1, 1)]
    assert sorted(ran.lines("launcher")) == hosts, ran.text
    without = yard.run("mpijob/hostname.yaml", *image, *BOUNDED)
    assert without.code == 1, without.text
    assert "mpirun: not found" in without.out, without.text


def root_folder(folder: Path) -> Path:
    """What an image with Open MPI and sshd would hold, by links to the machine's own files."""
    for path in ("etc", "usr/lib", "usr/share", "usr/local/code"):
        (folder / path).mkdir(parents=True)
    for path in ("usr/bin", "usr/sbin", "usr/lib64", "usr/lib/x86_64-linux-gnu", *SOME):
        if Path("/", path).exists():
            linked_or_copied(Path("/", path), folder / path)
    for path in ("passwd", "group", "nsswitch.conf", "alternatives", "openmpi", "ld.so.cache"):
        subprocess.run(["cp", "-a", f"/etc/{path}", folder / "etc"], check=True)
    (folder / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name in ("bin", "lib", "share"):
        (folder / "usr/local" / name).symlink_to(f"../{name}")
    return folder


def linked_or_copied(there: Path, here: Path) -> None:
    """Links take no time and no room, but can't leave a file system."""
    if subprocess.run(["cp", "-al", there, here], stderr=subprocess.DEVNULL).returncode != 0:
        shutil.rmtree(here, ignore_errors=True)
        subprocess.run(["cp", "-a", there, here], check=True)
