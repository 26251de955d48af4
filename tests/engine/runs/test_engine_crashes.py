"""The engine is killed without warning, again and again, while it runs jobs.

What must hold: every job that was accepted is there and ends as planned, every restart is counted
once, no attempt of a replica runs twice, every log is whole. And when it is told to stop, nothing
of it is left on the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from rig.engine import Room, RunningEngine
from rig.person import Person, person
from rig.places import TESTS
from rig.selection import all_is_asked_for
from rig.waiting import until_it_holds

from engine.runs.crash_stage import (
    JSON,
    Job,
    Playground,
    expected_log,
    faults,
    has_ended,
    inside,
    interfaces,
    mounts_below,
    namespaces_of,
)
from jobyard.engine.homes import DataFolder, HomeError
from jobyard.node.runtime.shutdowns import mark_all, notice_boot
from jobyard.node.runtime.supervisor_wire import final_state
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.keeping import read_state, write_state
from jobyard.node.shared.state import ContainerState, PodState, Stage

AT_ONCE = 8
# Each run kills at other moments than the last one.
KILLS = 200 if all_is_asked_for() else 24
# How long an engine lives at most, from its birth or from when it answers.
LIFE_SECONDS = 0.5
LOOK_SECONDS = 0.02
AWAY_SECONDS = 3600.0
START_SECONDS = 60.0
DEADLINE_SECONDS = 240.0


# Who runs it differs in few lines: one of the two, another time the other.
pytestmark = pytest.mark.sample(2)


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    is_ordinary = request.param == "as an ordinary user"
    with one_who(is_ordinary=is_ordinary) as one:
        yield one


@contextmanager
def one_who(*, is_ordinary: bool) -> Iterator[Person]:
    if is_ordinary and os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with person(is_ordinary=is_ordinary) as one:
        yield one


class Lives:
    """One engine after the other in the same folder, each killed by somebody."""

    def __init__(self, who: Person, runtime: str) -> None:
        self.who = who
        self.folder = who.home / "engine"
        self._log = (who.home / "engines.log").open("w")
        self._process = subprocess.Popen(
            who.command(
                *(sys.executable, "-m", "rig.reborn", "up"),
                *("--data-dir", str(self.folder), "--runtime", runtime),
            ),
            cwd=TESTS,
            env=who.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def next(self) -> int:
        """The pid of the engine that was just born."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"an engine ended by itself:\n{self.log}"
        return int(line)

    def answers(self, pid: int) -> bool:
        """Whether it has come so far that others may speak to it."""
        try:
            told = json.loads((self.folder / "engine.json").read_text())
        except (OSError, ValueError):
            return False
        return bool(told["pid"] == pid)

    def up(self, pid: int) -> None:
        """Waits until it answers."""
        until_it_holds(lambda: self.answers(pid), f"engine {pid} does not come up", START_SECONDS)

    @property
    def log(self) -> str:
        return (self.who.home / "engines.log").read_text()

    def over(self) -> None:
        """The last one has ended by itself, so that there will be no other."""
        self._process.wait(START_SECONDS)

    def close(self) -> None:
        """The engine is killed with whoever started it; safe to call twice."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@contextmanager
def lives_of(who: Person, runtime: str = "auto") -> Iterator[Lives]:
    lives = Lives(who, runtime)
    try:
        yield lives
    finally:
        lives.close()


class Driver:
    """Submits jobs, a few at a time, for as long as engines come and go."""

    def __init__(self, lives: Lives, ground: Playground) -> None:
        self._lives = lives
        self._ground = ground
        self._stopped = threading.Event()
        self.accepted: list[Job] = []
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        while not self._stopped.is_set():
            if self.open_jobs() >= AT_ONCE:
                self._stopped.wait(LOOK_SECONDS)
                continue
            job = self._ground.job(number)
            number += 1
            # To its end: an engine that was killed may have taken it.
            until_it_holds(lambda job=job: self._is_accepted(job), f"{job.name} is accepted")  # type: ignore[misc]
            self.accepted.append(job)

    def open_jobs(self) -> int:
        told = self._ground.told()
        ended = {(job, rank, attempt) for job, rank, attempt, _, what in told if what == "end"}
        return sum(not job.attempts <= ended for job in self.accepted)

    def _is_accepted(self, job: Job) -> bool:
        try:
            answer = RunningEngine(self._lives.who, self._lives.folder).ask(
                "POST", job.path, job.manifest
            )
        except (OSError, ValueError, EOFError, http.client.HTTPException):
            # Nobody there, or killed while it answered.
            return False
        # It may have been taken by an engine that didn't live to say so.
        assert answer.status in (201, 409), answer.text
        return True


def kill_often(
    lives: Lives, kills: int, dice: random.Random, running: Callable[[], int]
) -> Counter[str]:
    """Kills engines at random moments; tells how many of them were how far.

    Every third while it starts: how long that takes here, those before it have shown. Their
    moments are spread over that time, so that few kills see all parts of it too. Half of them
    while jobs run, which on a busy machine takes a while: that is waited for.
    """
    moments: Counter[str] = Counter()
    nobody = threading.Event()
    birth_seconds = 0.0
    parts = dice.sample(range(kills // 3), kills // 3)
    for number in range(kills):
        born = time.monotonic()
        pid = lives.next()
        if number % 3 == 2:
            part_seconds = birth_seconds / (kills // 3)
            nobody.wait((parts.pop() + dice.random()) * part_seconds)
        else:
            lives.up(pid)
            birth_seconds = time.monotonic() - born
            if number % 6:
                until_it_holds(lambda: running() > 0, "a job runs", DEADLINE_SECONDS)
            nobody.wait(dice.random() * LIFE_SECONDS)
        moments["answering" if lives.answers(pid) else "starting"] += 1
        moments["with jobs"] += running() > 0
        os.kill(pid, signal.SIGKILL)
    return moments


def statuses(engine: RunningEngine, jobs: list[Job]) -> dict[str, JSON]:
    found = {}
    for path in {job.path for job in jobs}:
        answer = engine.ask("GET", path)
        assert answer.status == 200, answer.text
        # One that was taken in the last moment may have no status yet.
        items = answer.json["items"]
        found |= {each["metadata"]["name"]: each.get("status", {}) for each in items}
    return found


def logs_are_whole(engine: RunningEngine, jobs: list[Job]) -> None:
    """Of the last attempt of every replica; a TaskSet's pods go when it has ended."""
    jobs = [job for job in jobs if job.kind != "TaskSet"]
    pods = engine.ask("GET", "/api/v1/namespaces/default/pods").json["items"]
    names = sorted(pod["metadata"]["name"] for pod in pods)
    planned = {
        (job.name, str(rank)): len(attempts) - 1
        for job in jobs
        for rank, attempts in enumerate(job.plan)
    }
    found = {(name.partition("-")[0], name.rpartition("-")[2]): name for name in names}
    assert found.keys() == planned.keys()
    for replica, name in found.items():
        log = engine.ask("GET", f"/api/v1/namespaces/default/pods/{name}/log").text
        assert log == expected_log(name, planned[replica]), name


def nothing_is_left(lives: Lives, before: set[str]) -> None:
    """`jobyard down`, and then the kernel knows nothing of it any more."""
    who = lives.who
    spaces = namespaces_of(set(who.processes()))
    residents = inside(spaces)
    done = who.run("down", "--data-dir", str(lives.folder))
    assert done.returncode == 0, done.stderr
    lives.over()
    assert who.processes() == {}
    assert mounts_below(who.home) == []
    assert interfaces() - before == set()
    # Only those that were there before: the kernel uses the numbers of namespaces again.
    left = inside(spaces)
    assert {process: left[process] for process in residents.keys() & left.keys()} == {}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kills", "is_ordinary", "runtime"),
    [
        pytest.param(KILLS, False, "auto", id=f"{KILLS} times as whoever runs the tests"),
        pytest.param(KILLS // 4, True, "auto", id=f"{KILLS // 4} times as an ordinary user"),
        pytest.param(KILLS // 4, False, "host", id=f"{KILLS // 4} times with plain processes"),
    ],
)
def test_nothing_is_lost_or_done_twice_when_the_engine_is_killed_at_random_moments(
    kills: int, is_ordinary: bool, runtime: str
) -> None:
    with one_who(is_ordinary=is_ordinary) as who:
        nothing_is_lost_or_done_twice(who, kills, runtime)


def nothing_is_lost_or_done_twice(who: Person, kills: int, runtime: str) -> None:
    seed = int(os.environ["JOBYARD_SEED"])
    dice = random.Random(seed)
    ground = Playground(who, dice)
    before = interfaces()
    with lives_of(who, runtime) as lives:
        driver = Driver(lives, ground)
        try:
            moments = kill_often(lives, kills, random.Random(seed), driver.open_jobs)
            # The next one is left alone.
            pid = lives.next()
        finally:
            driver.stop()
        lives.up(pid)
        jobs = driver.accepted
        print(f"JOBYARD_SEED={seed}: {len(jobs)} jobs, kills: {dict(moments)}")
        engine = RunningEngine(who, lives.folder)
        until_it_holds(
            lambda: all(map(has_ended, statuses(engine, jobs).values())),
            "all jobs are over",
            DEADLINE_SECONDS,
        )
        found = statuses(engine, jobs)
        assert found.keys() == {job.name for job in jobs}
        assert [fault for job in jobs for fault in faults(job, found[job.name])] == []
        told = ground.told()
        once = {
            (*attempt, what)
            for job in jobs
            for attempt in job.attempts
            for what in ("start", "end")
        }
        ran = Counter((*line[:3], line[4]) for line in told.elements())
        assert {line: count for line, count in ran.items() if count != 1} == {}
        assert set(ran) == once
        logs_are_whole(engine, jobs)
        nothing_is_left(lives, before)
    assert moments["starting"] >= kills // 10
    assert moments["with jobs"] >= kills // 2


def started(ground: Playground, jobs: list[Job]) -> Callable[[], bool]:
    """Whether each replica of the jobs has begun."""
    wanted = {attempt for job in jobs for attempt in job.attempts}
    return lambda: wanted <= {line[:3] for line in ground.told()}


def over(engine: RunningEngine, jobs: list[Job]) -> Callable[[], bool]:
    return lambda: all(has_ended(statuses(engine, jobs)[job.name]) for job in jobs)


def submit(engine: RunningEngine, jobs: list[Job]) -> None:
    for job in jobs:
        answer = engine.ask("POST", job.path, job.manifest)
        assert answer.status == 201, answer.text


def by_name(who: Person, name: str) -> list[int]:
    """Processes that call themselves so."""
    found = []
    for pid in who.processes():
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
        except OSError:
            continue
    return found


def kill(*victims: int) -> None:
    for victim in victims:
        # One may be gone with another.
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def test_pods_go_on_when_hub_and_engine_are_killed(somebody: Person) -> None:
    who = somebody
    ground = Playground(who, random.Random(1))
    before = interfaces()
    with lives_of(who) as lives:
        pid = lives.next()
        lives.up(pid)
        room = Room(RunningEngine(who, lives.folder), "default")
        listens = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
        words = ("python3", "-m", "http.server", "8000")
        room.pod("server", *words, main={"readinessProbe": listens})
        address = room.running("server")["status"]["podIP"]
        calm = ground.steady("calm", "GenericJob", 3.0)
        submit(room.engine, [calm])
        until_it_holds(started(ground, [calm]), "the job has begun")
        kill(*by_name(who, "jobyard-hub"), pid)
        lives.up(lives.next())
        # Its port is another one if somebody has taken that of the first.
        room = Room(RunningEngine(who, lives.folder), "default")
        # The network that the pods are in is the same as that of new ones.
        client = f"import urllib.request as u; u.urlopen('http://{address}:8000', timeout=20)"
        room.pod("client", "python3", "-c", client)
        assert room.ended("client") == (0, "")
        until_it_holds(over(room.engine, [calm]), "the job is over")
        assert faults(calm, statuses(room.engine, [calm])["calm"]) == []
        logs = room.engine.ask("GET", room.path("pods", "calm-worker-1/log")).text
        assert logs == expected_log("calm-worker-1", 0)
        # The engine finds out by itself that its hub is gone.
        (hub,) = by_name(who, "jobyard-hub")
        os.kill(hub, signal.SIGKILL)
        room.pod("later", "true")
        assert room.ended("later") == (0, "")
        assert set(ground.told().values()) == {1}
        nothing_is_left(lives, before)


def test_what_was_killed_with_the_engine_is_told_as_it_is(somebody: Person) -> None:
    who = somebody
    ground = Playground(who, random.Random(1))
    before = interfaces()
    with lives_of(who) as lives:
        pid = lives.next()
        lives.up(pid)
        engine = RunningEngine(who, lives.folder)
        job = ground.steady("struck", "GenericJob", 1000.0, replicas=1)
        submit(engine, [job])
        until_it_holds(started(ground, [job]), "the job has begun")
        kill(*by_name(who, "jobyard-hub"), *by_name(who, "jobyard-pod"), pid)
        lives.up(lives.next())
        engine = RunningEngine(who, lives.folder)
        until_it_holds(over(engine, [job]), "the job is over")
        status = statuses(engine, [job])["struck"]
        (row,) = status["tasks"][0]["status"]
        assert (status["phase"], row["containers"][0]["exitCode"]) == ("Failed", 137)
        assert row["containers"][0]["reason"] == "ContainerStatusUnknown"
        assert not any("sleep 1000" in words for words in who.processes().values())
        nothing_is_left(lives, before)


def let_time_pass(data: Path, seconds: float) -> None:
    """As if the pods had ended that much earlier; no engine is there to see it."""
    paths = list((data / "pods").glob("*"))
    assert paths
    for path in paths:
        folder = PodFolder(data, path.name)
        state = read_state(folder)
        assert state is not None
        assert state.is_over
        shifted = replace(state, containers=tuple(earlier(seconds, state.containers)))
        # In place: the file stays its owner's.
        folder.state.write_bytes(msgspec.json.encode(shifted))


def earlier(seconds: float, containers: tuple[ContainerState, ...]) -> Iterator[ContainerState]:
    for each in containers:
        assert each.end is not None
        finished_at = each.end.finished_at - seconds
        yield replace(each, end=replace(each.end, finished_at=finished_at))


def steady_ones(ground: Playground, seconds: float) -> list[Job]:
    """How long they take may be said anew: each pod reads it when it starts."""
    kinds = {"first": "GenericJob", "second": "TaskSet"}
    return [ground.steady(name, kind, seconds) for name, kind in kinds.items()]


@pytest.mark.parametrize("was_killed", [False, True], ids=["engine running", "engine killed"])
def test_jobs_do_not_fail_because_of_down(somebody: Person, was_killed: bool) -> None:
    who = somebody
    ground = Playground(who, random.Random(1))
    before = interfaces()
    # For as long as `down` may take.
    jobs = steady_ones(ground, 1000.0)
    with lives_of(who) as lives:
        lives.up(lives.next())
        engine = RunningEngine(who, lives.folder)
        submit(engine, jobs)
        Room(engine, "default").pod("alone", "sleep", "1000")
        until_it_holds(started(ground, jobs), "the jobs have begun")
        Room(engine, "default").running("alone")
        if was_killed:
            lives.close()
        nothing_is_left(lives, before)
    assert len(ground.told()) == 4, "nobody has come to an end"
    # The next engine comes much later than what the clocks of two machines may differ by.
    let_time_pass(lives.folder, AWAY_SECONDS)
    steady_ones(ground, 0.0)
    with lives_of(who) as lives:
        lives.up(lives.next())
        engine = RunningEngine(who, lives.folder)
        until_it_holds(over(engine, jobs), "the jobs are over")
        found = statuses(engine, jobs)
        assert [fault for job in jobs for fault in faults(job, found[job.name])] == []
        alone = Room(engine, "default").until(
            "pods", "alone", lambda pod: pod["status"]["phase"] == "Failed"
        )["status"]
        assert alone["reason"] == "Terminated"
        conditions = {each["type"]: each for each in alone["conditions"]}
        assert conditions["DisruptionTarget"]["status"] == "True"
        nothing_is_left(lives, before)
    told = ground.told()
    assert set(told.values()) == {1}, "no pod ran twice"
    kinds = Counter((*line[:3], line[4]) for line in told.elements())
    assert {count for (*_, what), count in kinds.items() if what == "start"} == {2}
    assert {count for (*_, what), count in kinds.items() if what == "end"} == {1}


def running_pod(data: Path, uid: str) -> PodFolder:
    """The folder of a pod whose supervisor is gone, and could not say why."""
    folder = PodFolder(data, uid)
    folder.path.mkdir(parents=True)
    running = ContainerState(name="main", stage=Stage.RUNNING, started_at=1.0)
    write_state(folder, PodState(uid=uid, containers=(running,), revision=3))
    return folder


def end_of(folder: PodFolder) -> tuple[bool, str]:
    state = final_state(folder)
    assert state is not None
    return state.is_over, state.reason


def test_a_pod_that_down_had_to_kill_was_taken_away(tmp_path: Path) -> None:
    lost, killed = running_pod(tmp_path, "a"), running_pod(tmp_path, "b")
    assert end_of(lost) == (True, "")
    mark_all(tmp_path)
    assert end_of(killed) == (True, "Terminated")
    assert end_of(lost) == (True, ""), "what was told once is not taken back"


def test_a_pod_that_ran_when_the_machine_went_down_was_taken_away(tmp_path: Path) -> None:
    notice_boot(tmp_path, "first")
    notice_boot(tmp_path, "first")
    lost = running_pod(tmp_path, "a")
    assert end_of(lost) == (True, "")
    running = running_pod(tmp_path, "b")
    notice_boot(tmp_path, "second")
    assert end_of(running) == (True, "Terminated")


def test_files_that_a_power_cut_emptied_do_not_keep_an_engine_from_starting(
    tmp_path: Path,
) -> None:
    folder = running_pod(tmp_path, "a")
    folder.state.write_bytes(b"")
    folder.order.write_bytes(b"")
    assert end_of(folder) == (True, "")


LOCKS_AND_FORKS = """
import os, sys
from pathlib import Path
from jobyard.engine.homes import DataFolder, Presence
with DataFolder(Path(sys.argv[1])) as folder:
    folder.announce(Presence(pid=os.getpid(), server="", runtime="", started_at=""))
    assert folder.is_in_use and DataFolder(folder.path).presence is not None
    if os.fork() == 0:
        sys.stdin.read()
    os._exit(0)
"""


def test_a_folder_is_free_once_its_engine_is_dead_whoever_it_forked(tmp_path: Path) -> None:
    forked = subprocess.Popen(
        [sys.executable, "-c", LOCKS_AND_FORKS, str(tmp_path / "data")], stdin=subprocess.PIPE
    )
    assert forked.wait(30) == 0
    folder = DataFolder(tmp_path / "data")
    try:
        assert not folder.is_in_use
        with folder:
            assert folder.presence is None, "what the dead one said is not taken for this one's"
            with pytest.raises(HomeError, match="an engine is running with"):
                DataFolder(folder.path).__enter__()
            assert folder.is_in_use
    finally:
        assert forked.stdin is not None
        forked.stdin.close()
