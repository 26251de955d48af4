"""What is kept on one machine, what of it goes by itself, and what only on request."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rig.engine import Room
from rig.person import Person, person
from rig.terminal import Terminal
from rig.waiting import until_it_holds

from engine.runs.test_run_left import (
    engine_of,
    goes_on,
    let_end,
    run_folder,
    saved,
    started,
    steps_job,
)
from jobyard.engine.disk.claim_store import ClaimStore
from jobyard.engine.disk.keeping import Wanted
from jobyard.engine.homes import DataFolder, new_run
from jobyard.node.agent.disk_keeper import tidy
from jobyard.node.agent.disk_use import Measure, Use, spelled
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import take_lock, write_state
from jobyard.node.shared.state import PodState
from jobyard.node.volumes.claims import Binding, ClaimFolders

BAD_INPUT = 2
KIB = 1024
JSON = dict[str, Any]


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    with person(is_ordinary=request.param == "as an ordinary user") as who:
        yield who


def claim_of(who: Person) -> Path:
    return who.home / "jobyard/claims/default/saved"


def cleaned(who: Person, *words: str, code: int = 0) -> dict[str, JSON]:
    """What `clean` says of each thing that is kept, by kind and name."""
    done = who.run("clean", "-o", "json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    told = json.loads(done.stdout)["items"]
    return {f"{each['kind']} {each['name']}": each for each in told}


# Runs and claims.


def test_what_runs_can_be_attached_or_holds_checkpoints_stays_until_it_is_asked_for(
    somebody: Person,
) -> None:
    who = somebody
    assert who.run("run", "-d", steps_job(who)).returncode == 0
    goes_on(who)
    name = run_folder(who).name
    run, claim = f"run {name}", "claim default/saved"

    told = cleaned(who, "--runs", "--claims", "--yes")
    assert told[run]["stays"] == "it goes on"
    assert re.fullmatch(r"pod default/train-worker-\d uses it", told[claim]["stays"])
    refused = who.run("clean", "--claim", "saved", "--yes")
    assert refused.returncode == BAD_INPUT
    assert "claim default/saved can't be removed: pod default/train-worker-" in refused.stderr
    goes_on(who)

    let_end(who)
    until_it_holds(lambda: not who.processes(), "the engine ends when the jobs are over")
    for words in ((), ("--claims",)):
        told = cleaned(who, *words, "--yes")
        assert told[run]["stays"] == "`jobyard attach` can show how it ended"
        assert told[claim]["stays"]
    shown = who.run("status")
    assert re.search(r"^kept     claims .*, 1 run that has ended .*`jobyard clean`", shown.stdout)

    # Shown, and not asked for where nobody can answer.
    shown = who.run("clean", "--runs", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert re.search(rf"^run {name}  .*iB  GenericJob/train, ended$", shown.stdout, re.MULTILINE)
    assert "stays: claim default/saved  " in shown.stderr
    assert "it may hold checkpoints (--claim default/saved removes it)" in shown.stderr
    unasked = who.run("clean", "--runs")
    assert unasked.returncode == BAD_INPUT
    assert "nobody can be asked: --yes removes it" in unasked.stderr
    assert run_folder(who).name == name

    told = cleaned(who, "--runs", "--yes")
    assert told[run]["isRemoved"]
    assert told[run]["bytes"] > 0
    assert list((who.home / "jobyard/runs").iterdir()) == []
    assert saved(who), "checkpoints stay"
    assert cleaned(who, "--claims", "--yes")[claim]["isRemoved"]
    assert list(claim_of(who).parent.iterdir()) == []
    assert who.run("clean").stdout == "there is nothing to remove\n"
    assert who.processes() == {}


def test_a_run_that_is_named_is_stopped_and_removed(somebody: Person) -> None:
    """With its engine, and one whose engine was killed."""
    who = somebody
    runs = who.home / "jobyard/runs"
    assert who.run("run", "-d", steps_job(who)).returncode == 0
    goes_on(who)
    done = who.run("clean", "--run", "train", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(runs.iterdir()) == []
    until_it_holds(lambda: not who.processes(), "nothing runs any more")

    claim_of(who).joinpath("train-worker-0").unlink()
    with started(who, steps_job(who)) as running:
        goes_on(who)
        attended = who.run("clean", "--run", "train", "--yes")
        assert attended.returncode == BAD_INPUT
        assert "another command shows it" in attended.stderr
        engine = engine_of(who)
        os.kill(running.pid, signal.SIGKILL)
        os.kill(engine, signal.SIGKILL)
        running.wait()
    name = run_folder(who).name
    assert cleaned(who, "--runs", "--claims", "--yes")[f"run {name}"]["stays"] == "it goes on"
    goes_on(who)
    assert cleaned(who, "--run", name, "--yes")[f"run {name}"]["isRemoved"]
    assert list(runs.iterdir()) == []
    assert who.processes() == {}
    assert saved(who)
    unknown = who.run("clean", "--run", "train")
    assert unknown.returncode == BAD_INPUT
    assert "there is no run train" in unknown.stderr


def test_on_a_terminal_it_asks() -> None:
    with person(is_ordinary=False) as who:
        dead = who.home / "jobyard/runs/dead-1"
        dead.mkdir(parents=True)
        (dead / "engine.log").write_text("x" * 5000)
        for answer, is_gone in (("n", False), ("", False), ("y", True)):
            terminal = Terminal(100, 30)
            try:
                terminal.start(who, "clean")
                terminal.until(lambda at=terminal: "iB? [y/N]" in "\n".join(at.text))
                terminal.type(f"{answer}\n")
                assert terminal.wait() == 0
            finally:
                terminal.close()
            assert dead.exists() is not is_gone


def test_what_is_no_folder_of_ours_or_another_disk_is_left(tmp_path: Path) -> None:
    """A link that stands for a claim goes; what it leads to stays."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "model").write_text("mine")
    claims = tmp_path / "claims"
    (claims / "default").mkdir(parents=True)
    (claims / "default" / "link").symlink_to(own)
    store = ClaimStore((claims,), list)
    (item,) = store.items(Wanted(all_claims=True), set(), Measure(5))
    assert store.remove(item.folder) == ""
    assert (own / "model").read_text() == "mine"
    assert list((claims / "default").iterdir()) == []
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk")
    disk = claims / "default" / "large" / "a disk"
    disk.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "jobyard-test", disk], check=True)
    try:
        (disk / "model").write_text("mine")
        (item,) = store.items(Wanted(claims=("large",)), set(), Measure(5))
        assert item.stays == f"something is mounted at {disk}"
        assert store.remove(item.folder) == item.stays
        assert (disk / "model").read_text() == "mine"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_pod_that_comes_meanwhile_keeps_its_claim(tmp_path: Path) -> None:
    claims = tmp_path / "claims"
    with new_run(tmp_path, "job") as run:
        folders = ClaimFolders(run.path, {}, claims)
        path = folders.folder("v", "default", "data")
        (path / "model").write_text("of before")
        store = ClaimStore((claims,), lambda: [DataFolder(run.path)])
        (item,) = store.items(Wanted(claims=("data",)), set(), Measure(5))
        assert item.stays == ""
        # Between the question and the answer a pod is given the claim.
        folders.bind("v", "default", "data", "uid-1")
        assert store.remove(item.folder) == "a pod that uses it is about to start"
        assert (path / "model").exists()
    # The run is over, and gone with its folder.
    assert store.remove(item.folder) == ""


# Claims that are deleted and recreated.


def test_the_claims_of_two_engines_are_no_deleted_and_new_one(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("first", "second"))
    first.mkdir(), second.mkdir()
    one = ClaimFolders(first, {}, tmp_path / "claims")
    path = one.folder("v", "default", "data")
    assert one.bind("v", "default", "data", "a") is None
    (path / "model").write_text("saved")
    other = ClaimFolders(second, {}, tmp_path / "claims")
    assert other.bind("v", "default", "data", "b") is None
    assert (other.folder("v", "default", "data") / "model").read_text() == "saved"
    # In the first one it was deleted since; but it isn't the one who used it last.
    assert one.bind("v", "default", "data", "c") is None
    binding = Binding.read(path)
    assert binding is not None
    assert binding.folders == (str(first), str(second))
    # Deleted and recreated where it was used last.
    aside = one.bind("v", "default", "data", "d")
    assert aside == path.with_name("data~1")
    assert (aside / "model").read_text() == "saved"
    assert list(path.iterdir()) == []
    # An empty one is no reason to put anything aside.
    assert one.bind("v", "default", "data", "e") is None


def claim(name: str) -> JSON:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": name}
    about = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**about, "metadata": metadata, "spec": spec}


def claiming(name: str) -> JSON:
    return {
        "main": {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
    }


def test_a_claim_that_is_deleted_and_made_anew_begins_empty_and_nothing_is_lost(
    room: Room,
) -> None:
    room.create("persistentvolumeclaims", claim("data"))
    room.pod("first", "sh", "-c", "echo saved >/v/model; until [ -e /v/over ]; do sleep 0.1; done",
             **claiming("data"))  # fmt: skip
    room.running("first")
    engine = room.engine
    path = room.path("persistentvolumeclaims", "data")
    assert engine.ask("DELETE", path).status in (200, 202)
    room.create("persistentvolumeclaims", claim("data"))
    room.pod("second", "sh", "-c", "ls -A /v", **claiming("data"))
    # While the first still uses it, the second waits.
    folder = engine.folder / "claims" / room.name
    events = f"{room.path('events')}?fieldSelector=involvedObject.name%3Dsecond"

    def told() -> str:
        return " ".join(each["message"] for each in engine.ask("GET", events).json["items"])

    until_it_holds(lambda: "still uses what it held before" in told(), "it waits")
    (folder / "data" / "over").touch()
    assert room.ended("first")[0] == 0
    assert room.ended("second") == (0, "")
    assert (folder / "data~1" / "model").read_text() == "saved\n"
    until_it_holds(lambda: f"it held is in {folder / 'data~1'}" in told(), "where it is, is told")
    # Once more with the same one: what it holds stays.
    room.pod("third", "sh", "-c", "echo more >/v/model", **claiming("data"))
    assert room.ended("third")[0] == 0
    room.pod("fourth", "cat", "/v/model", **claiming("data"))
    assert room.ended("fourth") == (0, "more\n")


# What goes by itself.


TWICE = """
echo x >/etc/jy-written
[ -e /v/again ] || { touch /v/again; exit 1; }
touch /v/second
until [ -e /v/over ]; do sleep 0.1; done
"""


def test_volumes_and_layers_go_with_the_end_of_a_pod(room: Room) -> None:
    pod = room.pod(
        "box",
        *("sh", "-c", TWICE),
        main={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "emptyDir": {}}],
        restartPolicy="OnFailure",
    )
    folder = PodFolder(room.engine.folder, pod["metadata"]["uid"])
    volume, layers = folder.volumes / "v", folder.path / "scratch"
    until_it_holds((volume / "second").exists, "its second run")
    # The layer of the run that is over isn't kept; that of the other is, and the volume.
    until_it_holds(lambda: [each.name for each in layers.iterdir()] == ["2"], "the first one goes")
    (volume / "over").touch()
    assert room.ended("box")[0] == 0
    until_it_holds(lambda: not folder.volumes.exists(), "its volumes go")
    until_it_holds(lambda: not layers.exists(), "its layers go")
    assert folder.log("main", 0).exists()
    assert folder.log("main", 1).exists()


def a_pod(data: Path, uid: str, size: int, at: float, *, is_over: bool = True) -> PodFolder:
    folder = PodFolder(data, uid)
    folder.log("main", 0).parent.mkdir(parents=True)
    folder.log("main", 0).write_bytes(b"2026-01-01T00:00:00.000000000Z stdout F x\n" * (size // 42))
    (folder.volumes / "v").mkdir(parents=True)
    write_state(folder, PodState(uid=uid, is_over=is_over))
    os.utime(folder.state, (at, at))
    return folder


def kept(data: Path, name: str, size: int, at: float) -> Path:
    path = data / "kept" / "default" / name / "pods" / "0"
    (path / "logs" / "main").mkdir(parents=True)
    (path / "logs" / "main" / "0.log").write_bytes(b"x" * size)
    os.utime(path, (at, at))
    return path


def test_the_oldest_logs_go_until_the_rest_is_within_the_budget(tmp_path: Path) -> None:
    size = 100 * KIB
    old, young = kept(tmp_path, "a", size, 10), kept(tmp_path, "b", size, 30)
    ended = a_pod(tmp_path, "a1", size, 20)
    last = a_pod(tmp_path, "a2", size, 40)
    running = a_pod(tmp_path, "a3", size, 1, is_over=False)
    # One whose supervisor is there although it has told the end.
    held = a_pod(tmp_path, "a4", size, 2)
    lock = locked_by_another(held)
    try:
        tidy(tmp_path, 4 * size)
        assert all(path.exists() for path in (old, young))
        assert not ended.volumes.exists()
        assert running.volumes.exists()
        assert held.volumes.exists()
        tidy(tmp_path, 2 * size + 50 * KIB)
        assert not old.exists()
        assert young.exists()
        assert b"removed to keep within the disk budget" in ended.log("main", 0).read_bytes()
        assert ended.log("main", 0).stat().st_size < KIB
        for folder in (last, running, held):
            assert folder.log("main", 0).stat().st_size > 90 * KIB
        # The last one stays however small the budget is.
        tidy(tmp_path, 1)
        assert not young.exists()
        assert last.log("main", 0).stat().st_size > 90 * KIB
    finally:
        os.kill(lock, signal.SIGKILL)
        os.waitpid(lock, 0)


def locked_by_another(folder: PodFolder) -> int:
    """A process that holds the lock of a pod, as its supervisor does."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        assert take_lock(folder) is not None
        os.write(tell, b".")
        signal.pause()
        os._exit(0)
    assert os.read(told, 1) == b"."
    return pid


CHATTY = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: chatty}
spec:
  replicaSpecs:
  - type: worker
    replicas: 1
    restartPolicy: {policy: OnFailure, limit: 3}
    template:
      spec:
        containers:
        - name: main
          image: any
          command: [sh, -c, "yes a line of some length | head -c 30000; exit 3"]
"""


def test_an_engine_keeps_within_its_budget_and_clean_takes_the_rest() -> None:
    with person(is_ordinary=False) as who:
        who.write("chatty.yaml", CHATTY)
        up = who.run("up", "-d", "--disk-budget", "256Ki", "--runtime", "host")
        assert up.returncode == 0, up.stderr
        data = who.home / "jobyard" / "engine"
        try:
            assert who.run("apply", "-f", "chatty.yaml").returncode == 0
            assert who.run("wait", "chatty", "--for", "failed", "--timeout", "60s").returncode == 0
            until_it_holds(lambda: 0 < logs_in(data) < 300 * KIB, "the oldest logs go")
            (told,) = json.loads(who.run("status", "-o", "json").stdout)
            assert told["disk"]["budgetBytes"] == 256 * KIB
            assert told["disk"]["logsBytes"] > 100 * KIB
            assert told["disk"]["storeBytes"] > 0
            assert told["disk"]["isWhole"]
            text = who.run("status").stdout
            assert re.search(r"  disk     store .*iB, logs .*256.0 KiB at most\), scratch ", text)
            assert list((data / "kept").glob("*/*/pods/*"))
            told = cleaned(who, "--yes")
            (logs,) = (each for each in told.values() if each["kind"] == "logs")
            assert logs["isRemoved"]
            assert list((data / "kept").glob("*/*/pods/*")) == []
            # The job is there as before, with the log of its last attempt.
            assert "a line of some length" in who.run("logs", "chatty").stdout
        finally:
            assert who.run("down").returncode == 0


def logs_in(data: Path) -> int:
    """The bytes of all logs; some may go while they are counted."""
    found = 0
    for folder, _, names in os.walk(data):
        for name in names:
            if ".log" in name and Path(folder) != data:
                with suppress(FileNotFoundError):
                    found += os.stat(os.path.join(folder, name)).st_size
    return found


# How much it is.


def test_sizes_are_found_out_within_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        folder = tmp_path / str(n)
        folder.mkdir()
        for number in range(500):
            (folder / str(number)).touch()
    (tmp_path / "large").write_bytes(b"x" * 4096)
    os.link(tmp_path / "large", tmp_path / "same")
    begun = time.monotonic()
    measure = Measure(0)
    with monkeypatch.context() as no_moment:
        # A quick machine is done with all of it in the moment that everybody has.
        no_moment.setattr("jobyard.node.agent.disk_use._LEAST_SECONDS", 0.0)
        cut = measure.of(tmp_path)
    assert time.monotonic() - begun < 0.5
    assert not cut.is_whole
    assert str(cut).startswith("more than ")
    # The time is over, but not for what is small.
    small = measure.of(tmp_path / "large")
    assert small == Use(4096)
    whole = Measure(60).of(tmp_path)
    assert whole.is_whole
    folders = sum(
        path.stat().st_blocks * 512 for path in (tmp_path, *map(Path, tmp_path.glob("[0-9]*")))
    )
    assert whole.bytes == 4096 + folders
    assert Measure(1).of(tmp_path / "nothing") == Use()
    assert [spelled(n) for n in (0, 1023, 1536, 3 * 2**30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "3.0 GiB",
    ]
