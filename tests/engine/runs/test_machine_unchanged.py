"""The machine stays as it was: what replicas write outside of their user's folders goes with them.

On a machine of the test's own, where every change shows, as root and as an ordinary user; with
root's home closed and a stranger's folder where jobs have theirs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from rig.machine import Machine, Resident, resident
from rig.needs import lacks, missing
from rig.places import ROOT
from rig.script_job import script_job
from rig.selection import ROWS, all_is_asked_for

from engine.runs.test_examples_run import AT_HAND, End, ends_of, name_of, promises, said, until_all

EXAMPLES = ROOT / "examples"
# Closed to everybody else: root's home, and a folder where jobs have their own.
CLOSED = """
chmod 700 /root
[ -d /t9k ] || mkdir /t9k
chmod 700 /t9k
chown 12345 /t9k
"""
# A disk with data on it, one that only root may look into, and one in a folder of such.
DISKS = """
mkdir -p /data /mnt/disk /srv/closed/disk
for place in /data /mnt/disk /srv/closed/disk; do
    mount -t tmpfs -o mode=755 tmpfs $place
    echo told >$place/set
    mkdir $place/own
    chown $uid $place/own
    echo mine >$place/own/file
    chown $uid:$uid $place/own/file
done
chmod 700 /srv/closed
"""
needs_ssh = pytest.mark.skipif(
    lacks("sshd") or lacks("ssh"), reason=missing("sshd", "openssh-server openssh-client")
)
needs_mpi = pytest.mark.skipif(lacks("mpirun"), reason=missing("mpirun", "openmpi-bin"))
# Who runs it and which folders are closed differ in few lines: one of two, then the other.
pytestmark = pytest.mark.sample(2)
# So many of each kind at once.
JOBS_OF_A_KIND = 10 if all_is_asked_for() else 5


@pytest.fixture(params=["root", "an ordinary user"])
def is_ordinary(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "an ordinary user")


@pytest.fixture
def lived_in(is_ordinary: bool) -> Iterator[tuple[Machine, Resident]]:
    with resident(is_ordinary=is_ordinary, script=CLOSED + DISKS) as both:
        yield both


def job(
    who: Resident, script: str, name: str = "job", mounts: str = "[]", volumes: str = "[]"
) -> str:
    container = {"volumeMounts": yaml.safe_load(mounts)}
    pod = {"volumes": yaml.safe_load(volumes)}
    text = script_job(name, ["sh", "-c", script], container=container, pod=pod)
    return str(who.write(f"{name}.yaml", text))


def ran(who: Resident, *words: str, code: int = 0, seconds: float = 40) -> list[str]:
    """What the one replica said."""
    done = who.run("run", *words, seconds=seconds)
    assert done.returncode == code, done.stdout + done.stderr
    return [line.partition(" | ")[2] for line in done.stdout.splitlines() if " | " in line]


WRITING = """
for place in / /etc /opt /root /run /srv /t9k /usr /usr/lib /usr/local /usr/local/bin \
    /usr/local/lib /var /var/lib /data /mnt /mnt/disk /mnt/disk/own; do
    mkdir -p $place/jy-made/deep && echo word >$place/jy-made/deep/file \
        && grep -qx word $place/jy-made/deep/file || echo "can't write in $place"
done
echo over >/mnt/disk/own/file; rm /data/own/file; mkdir /data/own/file
[ ! -e $HOME/of-another ] || echo "another's"
touch $HOME/of-another
cat /data/set /mnt/disk/set /mnt/disk/own/file
rm /etc/group && echo else >/etc/group && cat /etc/group
"""


def test_what_is_written_anywhere_is_seen_by_its_container_alone(
    lived_in: tuple[Machine, Resident],
) -> None:
    machine, who = lived_in
    path = job(who, WRITING)
    for _ in range(2):
        assert ran(who, path) == ["told", "told", "over", "else"]
        (who.home / "of-another").unlink()
    assert machine.changes() == {}
    seen = who.command("cat", "/data/own/file", "/mnt/disk/own/file")
    told = subprocess.run(seen, capture_output=True, text=True, check=True)
    assert told.stdout == "mine\nmine\n"


def test_a_host_path_that_isnt_there_is_made_inside_only(
    lived_in: tuple[Machine, Resident],
) -> None:
    """But where the user's own files are, it is made as on a cluster."""
    machine, who = lived_in
    # Devices are this machine's own, which others use too.
    device = f"/dev/jy-{uuid.uuid4().hex[:8]}"
    paths = [device, "/opt/jy/hal", "/jy-new/deep", str(who.home / "out"), "/data"]
    types = ["", "DirectoryOrCreate", "FileOrCreate", "DirectoryOrCreate", ""]
    volumes = [
        {"name": f"v{n}", "hostPath": {"path": path, "type": kind}}
        for n, (path, kind) in enumerate(zip(paths, types, strict=True))
    ]
    mounts = [{"name": f"v{n}", "mountPath": path} for n, path in enumerate(paths)]
    script = f"for one in {device} /opt/jy/hal $HOME/out; do touch $one/file; done; "
    script += f"[ -f /jy-new/deep ] && cat /data/set && ls {device} /opt/jy/hal"
    path = job(who, script, mounts=json.dumps(mounts), volumes=json.dumps(volumes))
    done = who.run("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | told" in done.stdout.splitlines()
    told = [line for line in done.stdout.splitlines() if "is not on this machine" in line]
    assert [line.split()[1] for line in told] == paths[:3]
    assert [each.name for each in (who.home / "out").iterdir()] == ["file"]
    assert not Path(device).exists()
    assert machine.changes() == {}


def test_what_the_engine_keeps_is_not_to_be_seen(lived_in: tuple[Machine, Resident]) -> None:
    """Neither that of the replica's own engine nor that of another of the same user."""
    _, who = lived_in
    done = who.run("up", "--detach")
    assert done.returncode == 0, done.stderr
    try:
        assert (who.home / "jobyard" / "engine" / "store.sqlite").exists()
        script = "cd $HOME/jobyard; find . -mindepth 1 | sort; ls -A $HOME"
        here = ran(who, "--strict", job(who, script))
        up = ran(who, job(who, script, "other"))
    finally:
        assert who.run("down").returncode == 0
    kept = sorted(path.name for path in who.home.iterdir())
    for seen in (here, up):
        assert [line for line in seen if "/" in line] == ["./engine", "./runs", "./runs.lock"]
        assert sorted(line for line in seen if "/" not in line) == kept


def test_an_engine_in_the_users_own_folder_hides_what_is_its_own_alone(
    lived_in: tuple[Machine, Resident],
) -> None:
    _, who = lived_in
    script = "cat job.yaml >/dev/null && touch out; find pki pods -mindepth 1; cat kubeconfig"
    path = job(who, script + "; head -c 1 store.sqlite; echo end")
    words = ("--data-dir", str(who.work))
    assert who.run("up", "--detach", *words).returncode == 0
    try:
        assert (who.work / "store.sqlite").exists()
        at = ("--kubeconfig", str(who.work / "kubeconfig"))
        assert who.run("apply", "-f", path, *at).returncode == 0
        done = who.run("wait", "GenericJob/job", *at)
        told = who.run("logs", "GenericJob/job", *at)
        assert done.returncode == 0, done.stdout + done.stderr + told.stdout
    finally:
        assert who.run("down", *words).returncode == 0
    assert told.stdout == "worker-0 | end\n"
    assert (who.work / "out").exists()


DEEPSPEED = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {{name: {name}}}
spec:
  config:
    slotsPerWorker: 2
    customCommand: |
      while read -r host slots; do
          echo "$slots $(ssh -n $host hostname)"
      done </t9k/hostfile
  worker:
    replicas: 2
    template: {{spec: {{containers: [{{name: worker, image: any}}]}}}}
"""
MPI = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {{name: {name}}}
spec:
  worker:
    replicas: 2
    cmd: [sh, -c, 'echo ran $(hostname)']
    extraMPIArgs: [-N, "1", --allow-run-as-root, -bind-to, none]
    template: {{spec: {{containers: [{{name: mpi-worker, image: any}}]}}}}
  ssh: {{sshdPath: /usr/sbin/sshd, sshAuthMountPath: /root/.ssh}}
"""


@pytest.mark.long
@needs_ssh
@needs_mpi
def test_many_jobs_that_log_in_find_each_their_own_hosts_where_their_folders_are_closed(
    lived_in: tuple[Machine, Resident],
) -> None:
    machine, who = lived_in
    ours = {f"ds-{n}": DEEPSPEED for n in range(JOBS_OF_A_KIND)}
    ours |= {f"mpi-{n}": MPI for n in range(JOBS_OF_A_KIND)}
    paths = [str(who.write(f"{name}.yaml", text.format(name=name))) for name, text in ours.items()]
    done = who.run("run", *paths, seconds=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ours:
        told = [
            line.rpartition(" ")[2]
            for line in done.stdout.splitlines()
            if f" {name}-worker-" in line and (" ran " in line or " slots=2 " in line)
        ]
        assert sorted(told) == [f"{name}-worker-{n}" for n in range(2)], done.stdout
    assert machine.changes() == {}


def told_kinds(who: Resident) -> dict[str, bool]:
    done = who.run("doctor", "-o", "json")
    assert done.returncode == 0, done.stderr
    return {each["name"]: each["isThere"] for each in json.loads(done.stdout)}


@needs_ssh
@needs_mpi
def test_what_doctor_promises_holds(lived_in: tuple[Machine, Resident]) -> None:
    machine, who = lived_in
    told = told_kinds(who)
    assert told["MPIJob"]
    assert told["overlay mounts"]
    files = sorted((EXAMPLES / "mpijob").glob("*.yaml"))
    chosen = [path for path in files if path.stem in ("hostname", "environment", "replica-specs")]
    done = who.run("run", *map(str, chosen), seconds=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert machine.changes() == {}


# What such a machine has without any framework.
AT_HAND_THERE = (*AT_HAND, "Open MPI, sshd")
ROUNDS = {
    "root's home is closed": "chmod 700 /root",
    "and a stranger's folder is in the way": CLOSED,
}


def examples(*ends: End) -> list[Path]:
    """Every other one, in the next run others; those with MPI run nowhere else in these tests."""
    found = [each.path for each in promises() if each.needs in AT_HAND_THERE and each.end in ends]
    seed = os.environ.get(ROWS) or os.environ["JOBYARD_SEED"]
    dice = random.Random(f"{seed}/{ends}")
    return found if all_is_asked_for() else dice.sample(found, -(-len(found) // 2))


@pytest.mark.long
@needs_ssh
@needs_mpi
@pytest.mark.parametrize("state", ROUNDS)
def test_every_example_that_needs_no_framework_runs_for_an_ordinary_user(state: str) -> None:
    """Of all kinds."""
    with resident(is_ordinary=True, script=ROUNDS[state]) as (machine, who):
        for end, code in ((End.SUCCEEDED, 0), (End.FAILED, 1)):
            ends = ends_of(who, examples(end), code)
            assert {one["phase"] for one in ends.values()} == {end}
        assert said(who, "up", "--detach", "--relaxed")
        try:
            waiting = [*examples(End.RUNNING), *examples(End.PAUSED)]
            said(who, "apply", *(word for path in waiting for word in ("-f", str(path))))
            running = [name_of(path) for path in examples(End.RUNNING)]
            paused = [name_of(path) for path in examples(End.PAUSED)]
            until_all(who, dict.fromkeys(paused, ("Paused",)))
            for name in paused:
                said(who, "resume", name)
            until_all(who, dict.fromkeys(running, ("Running",)))
            until_all(who, dict.fromkeys(paused, ("Succeeded",)))
        finally:
            said(who, "down")
        assert who.processes() == {}
        assert machine.changes() == {}


def test_where_there_can_be_no_layer_jobs_run_and_it_is_said_once(is_ordinary: bool) -> None:
    with resident(is_ordinary=is_ordinary, depth=2) as (machine, who):
        done = who.run("doctor", "-o", "json")
        (layers,) = (each for each in json.loads(done.stdout) if each["name"] == "overlay mounts")
        assert not layers["isThere"]
        assert "stays there" in layers["remedy"]
        mounts = "[{name: v, mountPath: /jy-new/deep}, {name: v, mountPath: /usr/local/jy-new}]"
        script = "touch /jy-new/deep/file; ls /usr/local/jy-new; ls -A $HOME/jobyard/runs"
        path = job(who, script, mounts=mounts, volumes="[{name: v, emptyDir: {}}]")
        told = who.run("run", path)
        assert told.returncode == 0, told.stdout + told.stderr
        lines = told.stdout.splitlines()
        assert [line for line in lines if line.startswith("worker-0 | ")] == ["worker-0 | file"]
        assert (
            len([line for line in lines if "folders stays there: no overlay mounts" in line]) == 1
        )
        # No mount point of ours stays, even so.
        assert machine.changes() == {}


def test_a_folder_may_have_any_name(is_ordinary: bool) -> None:
    """Also one that means something to the kernel among the options of a mount."""
    script = "mkdir '/da:ta,1'; mount -t tmpfs tmpfs '/da:ta,1'; echo told >'/da:ta,1/set'"
    with resident(is_ordinary=is_ordinary, script=script) as (machine, who):
        path = job(who, "cat '/da:ta,1/set'; touch '/da:ta,1/new' /etc/jy-new && echo written")
        done = who.run("run", path, JOBYARD_HOME=str(who.home / "a,b:c\\d e"))
        assert done.returncode == 0, done.stdout + done.stderr
        seen = [line for line in done.stdout.splitlines() if line.startswith("worker-0 | ")]
        assert seen == ["worker-0 | told", "worker-0 | written"]
        assert machine.changes() == {}


def test_files_of_the_machine_may_be_in_any_encoding(is_ordinary: bool) -> None:
    """Such as the comment of an administrator who writes Latin-1."""
    script = """
    printf '# caf\\351\\nhosts: files myhostname dns\\n' >>/etc/nsswitch.conf
    disk=$(printf '/caf\\351'); mkdir "$disk"; mount -t tmpfs tmpfs "$disk"
    """
    with resident(is_ordinary=is_ordinary, script=script) as (machine, who):
        assert ran(who, job(who, "echo ran")) == ["ran"]
        assert machine.changes() == {}
