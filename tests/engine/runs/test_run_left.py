"""A run that is left to itself loses no step: whoever prints may block, be closed or be killed, and
the engine too. It is told of, and taken up again."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rig.engine import RunningEngine
from rig.person import MARK, Person, person
from rig.script_job import script_job
from rig.selection import all_is_asked_for
from rig.waiting import until_it_holds

# Each replica goes on with its steps until the file `enough` is there, and says so.
STEPS = """
step=0
until [ -e enough ]; do
  step=$((step + 1)); echo step $step; echo $step >> /saved/$HOSTNAME; sleep 0.1
done
echo $step steps; exit ${CODE:-0}
"""
# A step takes a tenth of a second at least: for so many of them a pipe is blocked, a disk full.
BLOCKED_STEPS, FULL_STEPS = (300, 50) if all_is_asked_for() else (3, 3)
STEPS_SECONDS = 300
FILLS = "yes a line that is long enough to fill a pipe before long & " + STEPS
pytestmark = pytest.mark.sample(2)


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    with person(is_ordinary=request.param == "as an ordinary user") as who:
        yield who


def steps_job(who: Person, script: str = STEPS, name: str = "train") -> str:
    claim = {"persistentVolumeClaim": {"claimName": "saved"}}
    text = script_job(
        name,
        ["sh", "-c", script],
        replicas=2,
        container={
            "env": [{"name": MARK, "value": who.mark}],
            "volumeMounts": [{"name": "saved", "mountPath": "/saved"}],
        },
        pod={"terminationGracePeriodSeconds": 5, "volumes": [{"name": "saved", **claim}]},
    )
    return str(who.write(f"{name}.yaml", text))


def saved(who: Person, replica: int = 0, name: str = "train") -> list[int]:
    """The steps of a replica, as its claim has them."""
    file = who.home / "jobyard/claims/default/saved" / f"{name}-worker-{replica}"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def goes_on(who: Person, name: str = "train", steps: int = 3) -> None:
    """Until each replica has done some more steps than by now."""
    before = [len(saved(who, replica, name)) for replica in (0, 1)]
    until_it_holds(
        lambda: all(len(saved(who, n, name)) > before[n] + steps for n in (0, 1)),
        "they go on",
        STEPS_SECONDS,
    )


def let_end(who: Person) -> None:
    who.write("enough", "")


def no_step_was_lost(who: Person, name: str = "train") -> None:
    for replica in (0, 1):
        steps = saved(who, replica, name)
        assert steps == list(range(1, len(steps) + 1)), "none is missing, none was done twice"


def lines_of(replica: str, told: str) -> list[str]:
    front = f"{replica} | "
    return [line.removeprefix(front) for line in told.splitlines() if line.startswith(front)]


def all_was_shown(who: Person, told: str) -> None:
    for replica in (0, 1):
        count = len(saved(who, replica))
        steps = [f"step {n}" for n in range(1, count + 1)]
        assert lines_of(f"worker-{replica}", told) == [*steps, f"{count} steps"]


def nothing_is_left(who: Person) -> None:
    assert who.processes() == {}
    assert list((who.home / "jobyard" / "runs").iterdir()) == []


def run_folder(who: Person) -> Path:
    (folder,) = (who.home / "jobyard" / "runs").iterdir()
    return folder


def engine_of(who: Person) -> int:
    """The pid of the engine of the only run."""

    def holder() -> int:
        folders = list((who.home / "jobyard" / "runs").glob("*/engine.json"))
        return int(json.loads(folders[0].read_text())["pid"]) if folders else 0

    return until_it_holds(holder, "the engine has announced itself")


@contextmanager
def started(who: Person, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    running = who.start("run", *words, **env)
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


def on_terminal(who: Person, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """`jobyard` on a terminal of its own, and the other end of it."""
    here, there = pty.openpty()
    running = subprocess.Popen(
        who.command("setsid", "-c", *who.jobyard(*words)[len(who.command()) :]),
        cwd=who.work,
        env=who.environment | {"TERM": "xterm"},
        stdin=there,
        stdout=there,
        stderr=there,
    )
    os.close(there)
    return running, here


def test_a_closed_terminal_leaves_the_run_and_attach_takes_it_up(somebody: Person) -> None:
    running, terminal = on_terminal(somebody, "run", steps_job(somebody))
    goes_on(somebody)
    # What the kernel does when a terminal goes: SIGHUP, and EIO for whoever still writes.
    os.close(terminal)
    # By the signal, or by what it could not write any more: which comes first is open.
    assert running.wait(60) in (129, 1)
    goes_on(somebody)
    told = somebody.run("status").stderr
    name = run_folder(somebody).name
    assert re.search(
        rf"run {name} \(GenericJob/train; started .* in .*\) is still running:", told
    ), told
    assert f"`jobyard attach {name}` shows it" in told
    let_end(somebody)
    done = somebody.run("attach")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GenericJob/train succeeded" in done.stdout
    all_was_shown(somebody, done.stdout)
    no_step_was_lost(somebody)
    nothing_is_left(somebody)


def test_a_pipe_that_nobody_reads_holds_up_nobody_but_the_run_that_prints(
    somebody: Person,
) -> None:
    with started(somebody, steps_job(somebody, FILLS)) as running:
        goes_on(somebody)
        # Nobody has read anything: the pipe is full by now, and whoever writes to it stands.
        until_it_holds(lambda: "pipe_write" in stack_of(running.pid), "the run is blocked")
        engine_of(somebody)
        assert "GenericJob" in somebody.run("get", "jobs").stdout
        goes_on(somebody, steps=BLOCKED_STEPS)
        assert "pipe_write" in stack_of(running.pid), "it was, all the while"
        let_end(somebody)
    # The reader left without having read it all, which is no reason to end anything.
    until_it_holds(lambda: not somebody.processes(), "it ends by itself")
    no_step_was_lost(somebody)


def stack_of(pid: int) -> str:
    """Where in the kernel a process waits."""
    return Path(f"/proc/{pid}/wchan").read_text()


def test_an_engine_that_is_killed_is_started_again(somebody: Person) -> None:
    with started(somebody, steps_job(somebody)) as running:
        goes_on(somebody)
        for _ in range(2):
            killed = engine_of(somebody)
            os.kill(killed, signal.SIGKILL)
            goes_on(somebody)
            until_it_holds(
                lambda before=killed: engine_of(somebody) != before, "another one is there"
            )
        let_end(somebody)
        told, errors = running.communicate(timeout=60)
    assert running.returncode == 0, told + errors
    assert (
        told.count("the engine of this run has ended unexpectedly: the replicas keep running") == 2
    )
    no_step_was_lost(somebody)
    all_was_shown(somebody, told)
    nothing_is_left(somebody)


def test_another_run_leaves_what_a_killed_one_left_alone(somebody: Person) -> None:
    with started(somebody, steps_job(somebody)) as running:
        goes_on(somebody)
        engine = engine_of(somebody)
        os.kill(running.pid, signal.SIGKILL)
        os.kill(engine, signal.SIGKILL)
        running.wait()
    other = somebody.write(
        "other.yaml", Path(steps_job(somebody, "echo other", "other")).read_text()
    )
    done = somebody.run("run", str(other))
    assert done.returncode == 0, done.stderr
    assert "has lost its engine, its replicas keep running: `jobyard attach train-" in done.stderr
    goes_on(somebody)
    let_end(somebody)
    done = somebody.run("attach", "train")
    assert done.returncode == 0, done.stdout + done.stderr
    all_was_shown(somebody, done.stdout)
    no_step_was_lost(somebody)
    nothing_is_left(somebody)


def test_another_run_beside_it_takes_nothing_from_a_run(somebody: Person) -> None:
    with started(somebody, steps_job(somebody)) as running:
        goes_on(somebody)
        # It writes into the same claim, and ends.
        script = "echo 1 >> /saved/$HOSTNAME; echo other"
        done = somebody.run("run", steps_job(somebody, script, "other"))
        assert done.returncode == 0, done.stderr
        assert saved(somebody, 0, "other") == [1]
        goes_on(somebody)
        let_end(somebody)
        told, errors = running.communicate(timeout=60)
    assert running.returncode == 0, told + errors
    all_was_shown(somebody, told)
    no_step_was_lost(somebody)
    nothing_is_left(somebody)


def test_a_run_that_ended_while_nobody_looked_tells_how(somebody: Person) -> None:
    script = STEPS.replace("${CODE:-0}", "3")
    with started(somebody, steps_job(somebody, script)) as running:
        goes_on(somebody)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    let_end(somebody)
    until_it_holds(lambda: not somebody.processes(), "the engine ends when the jobs are over")
    told = somebody.run("get", "jobs")
    assert "has ended while nobody looked: `jobyard attach train-" in told.stderr
    done = somebody.run("attach", "-o", "json")
    assert done.returncode == 1, done.stderr
    (job,) = json.loads(done.stdout)["jobs"]
    assert (job["name"], job["phase"]) == ("train", "Failed")
    # The one that failed first; the other was stopped.
    ends = [line for n in (0, 1) for line in lines_of(f"worker-{n}", done.stderr)]
    assert any(line.endswith("steps") for line in ends)
    nothing_is_left(somebody)
    assert somebody.run("status").stderr.startswith("no engine is running")


def test_a_run_in_the_background(somebody: Person) -> None:
    done = somebody.run("run", "-d", steps_job(somebody))
    assert done.returncode == 0, done.stderr
    name = run_folder(somebody).name
    assert f"GenericJob/train runs: `jobyard attach {name}` shows it\n" in done.stdout
    goes_on(somebody)
    # Leaving is no stopping.
    looking = somebody.start("attach", "train")
    assert looking.stdout is not None
    next(line for line in looking.stdout if "step 2" in line)
    os.killpg(looking.pid, signal.SIGINT)
    _, errors = looking.communicate(timeout=60)
    assert looking.returncode == 130
    assert f"the jobs keep running: `jobyard attach {name}` shows them again" in errors
    goes_on(somebody)
    assert somebody.run("delete", "train").returncode == 0
    until_it_holds(lambda: not somebody.processes(), "without jobs the engine ends")
    no_step_was_lost(somebody)


def test_a_reader_that_has_seen_enough_ends_no_job(somebody: Person) -> None:
    with started(somebody, steps_job(somebody)) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "step 2" in line)
        running.stdout.close()
        assert running.wait(60) == 1
        goes_on(somebody)
        assert running.stderr is not None
        assert "the jobs keep running: `jobyard attach train-" in running.stderr.read()
        running.stdout = None
    let_end(somebody)
    assert somebody.run("attach").returncode == 0
    no_step_was_lost(somebody)
    nothing_is_left(somebody)


def is_closed(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_who_comes_while_an_engine_closes_its_doors_ends_the_run(somebody: Person) -> None:
    assert somebody.run("run", "-d", steps_job(somebody)).returncode == 0
    engine_of(somebody)
    engine = RunningEngine(somebody, run_folder(somebody))
    # One who says that more is to come, and is waited for when the jobs are over.
    slow = engine.connection()
    slow.putrequest("POST", "/api/v1/namespaces/default/configmaps")
    for header in (("Authorization", f"Bearer {engine.token}"), ("Content-Length", "100")):
        slow.putheader(*header)
    slow.endheaders()
    goes_on(somebody)
    let_end(somebody)
    until_it_holds(lambda: is_closed(engine.port), "nobody else is let in")
    done = somebody.run("attach")
    slow.close()
    assert done.returncode == 0, done.stderr
    nothing_is_left(somebody)


def test_what_is_saved_in_a_claim_stays(somebody: Person) -> None:
    folder = somebody.home / "jobyard/claims/default/saved"
    let_end(somebody)
    for times in (1, 2):
        script = "echo $HOSTNAME >> /saved/who; " + STEPS
        done = somebody.run("run", steps_job(somebody, script))
        assert done.returncode == 0, done.stderr
        assert f"claim default/saved: its files are in {folder}, and stay there" in done.stdout
        assert sorted((folder / "who").read_text().split()) == sorted(
            ["train-worker-0", "train-worker-1"] * times
        )
    nothing_is_left(somebody)


def test_a_run_is_the_same_with_an_engine_up_in_another_folder(somebody: Person) -> None:
    elsewhere = somebody.home / "elsewhere"
    elsewhere.mkdir()
    os.chown(elsewhere, somebody.uid, somebody.uid)
    up = subprocess.run(
        somebody.jobyard("up", "-d"),
        cwd=elsewhere,
        env=somebody.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert up.returncode == 0, up.stderr
    somebody.write("mine", "of this folder\n")
    done = somebody.run("run", steps_job(somebody, "cat mine"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines_of("worker-0", done.stdout) == ["of this folder"]
    assert somebody.run("get", "jobs").stdout == ""
    kept = somebody.run("run", "--keep", steps_job(somebody, "cat mine"))
    assert kept.returncode == 2
    assert f"the engine that is running would keep the jobs, but runs them in {elsewhere}" in (
        kept.stderr
    )
    assert somebody.run("down").returncode == 0


def test_attach_says_what_there_is(somebody: Person) -> None:
    nothing = somebody.run("attach")
    assert nothing.returncode == 2
    assert "no run is left to itself" in nothing.stderr
    for name in ("one", "two"):
        assert somebody.run("run", "-d", steps_job(somebody, name=name)).returncode == 0
    which = somebody.run("attach")
    assert which.returncode == 2
    assert "several runs are left to themselves: say which\n  run one-" in which.stderr
    goes_on(somebody, "one")
    let_end(somebody)
    for name in ("one", "GenericJob/two"):
        done = somebody.run("attach", name)
        assert done.returncode == 0, done.stderr
    nothing_is_left(somebody)


@contextmanager
def small_disk(who: Person, size: str) -> Iterator[Path]:
    """The person's Jobyard home on a file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    home = who.home / "jobyard"
    home.mkdir()
    options = f"size={size},uid={who.uid},gid={who.uid},mode=700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "jobyard-test", home], check=True)
    try:
        yield home
    finally:
        # Whatever still runs there has it open.
        who.end_all()
        subprocess.run(["umount", "--lazy", home], check=True)


def test_a_full_disk_is_waited_out(somebody: Person) -> None:
    kept = somebody.work / "saved"
    kept.mkdir()
    os.chown(kept, somebody.uid, somebody.uid)
    with small_disk(somebody, "24m") as home:
        with started(somebody, "--pvc", f"saved={kept}", steps_job(somebody)) as running:
            goes_on_in(kept)
            filler = home / "filler"
            # Nothing is held back: what a buffer still had, closing would try to write again.
            with suppress(OSError), filler.open("wb", buffering=0) as full:
                while full.write(b"x" * 65536):
                    pass
            assert os.statvfs(home).f_bavail == 0
            goes_on_in(kept, FULL_STEPS)
            # Meanwhile the engine would write this; it waits for room, and so does who asks.
            asking = somebody.start("delete", "no-such-job")
            goes_on_in(kept)
            filler.unlink()
            asking.communicate(timeout=60)
            goes_on_in(kept)
            let_end(somebody)
            told, errors = running.communicate(timeout=60)
        assert running.returncode == 0, told + errors
        assert "GenericJob/train succeeded" in told
        for replica in (0, 1):
            steps = [int(line) for line in (kept / f"train-worker-{replica}").read_text().split()]
            assert steps == list(range(1, len(steps) + 1))


def goes_on_in(folder: Path, steps: int = 3) -> None:
    def count() -> int:
        return min((len(file.read_text().split()) for file in folder.iterdir()), default=0)

    before = count()
    until_it_holds(lambda: count() > before + steps, "they go on", STEPS_SECONDS)


def test_modules_of_the_users_folder_are_not_the_engines() -> None:
    """A script of theirs may be called random.py; Python would look there first."""
    with person(is_ordinary=False) as who:
        who.write("random.py", 'raise SystemExit("this is not for you")')
        program = str(Path(sys.executable).with_name("jobyard"))

        def does(*words: str) -> str:
            done = subprocess.run(
                [program, *words], cwd=who.work, env=who.environment,
                capture_output=True, text=True, timeout=60,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        does("run", "-d", steps_job(who))
        goes_on(who)
        os.kill(engine_of(who), signal.SIGKILL)
        let_end(who)
        assert "GenericJob/train succeeded" in does("attach", "train")
        does("up", "-d")
        does("down")
