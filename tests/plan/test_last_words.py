"""The line that names the error, in the ends of real logs and in hostile ones.

`last_words/` has logs of real frameworks with a fault put in, cut as a kubelet cuts them (80 lines,
2048 bytes). Each begins with what it is of, how it was made, how the container ended, and the line
that is wanted. Where there was no GPU to make it with, `made` says in whose form it is written.
Paths are those of usual images.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from controller.controller_stage import Stage, Staging
from hypothesis import given
from hypothesis import strategies as st
from rig.cli_yard import Yard
from rig.engine import Room
from rig.job_manifests import generic, xgboost
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.person import person
from rig.waiting import until_it_holds

from jobyard.api.parts.status import ContainerState
from jobyard.plan.facts.failure_signs import Kind, kind_of
from jobyard.plan.facts.last_words import WORDS_LENGTH_MAX, last_words, shortened
from jobyard.plan.facts.pod_facts import Container, PodPhase
from plan.deciding.job_world import World
from plan.taskset_world import World as TaskSetWorld
from plan.taskset_world import retry, role, started

FOLDER = Path(__file__).parent / "last_words"
CPU_SECONDS_MAX = 0.05


class Sample(NamedTuple):
    """One file."""

    framework: str
    exit_code: int
    reason: str
    want: str
    said: str


def sample(path: Path) -> Sample:
    head, _, said = path.read_bytes().partition(b"---\n")
    rows = dict(line.partition(": ")[::2] for line in head.decode().splitlines())
    assert list(rows) == ["framework", "made", "exit code", "reason", "want"], path
    # As the node has it when it puts a text into a status.
    return Sample(
        rows["framework"],
        int(rows["exit code"]),
        rows["reason"],
        rows["want"],
        said.decode(errors="replace"),
    )


SAMPLES = {path.stem: sample(path) for path in sorted(FOLDER.glob("*.txt"))}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_line_that_names_the_error_is_found(name: str) -> None:
    one = SAMPLES[name]
    assert last_words(one.said, one.exit_code, one.reason) == one.want


def test_there_are_logs_of_all_frameworks() -> None:
    assert len(SAMPLES) >= 200
    frameworks = {one.framework for one in SAMPLES.values()}
    assert frameworks >= {
        *("torch", "tensorflow", "xgboost", "DeepSpeed", "ColossalAI", "Open MPI", "mpi4py"),
        *("Beam", "Beam on Flink", "Spark", "Java", "Horovod", "Accelerate", "Python", "shell"),
    }


def test_what_is_said_last_is_mostly_not_the_error() -> None:
    """What the samples are for: by the last line alone, half of them would be told wrongly."""
    last = [
        one.said.rstrip().rpartition("\n")[2].strip() == one.want
        for one in SAMPLES.values()
        if one.want
    ]
    assert sum(last) < len(last) / 2


# Signals


@pytest.mark.parametrize(
    ("exit_code", "reason", "words"),
    [
        (137, "Error", "killed by signal 9, not by its memory limit"),
        (137, "", "killed by signal 9, not by its memory limit"),
        (137, "OOMKilled", ""),
        (137, "ContainerStatusUnknown", ""),
        (137, "Evicted", ""),
        (139, "Error", "killed by signal 11 (SIGSEGV)"),
        (143, "Error", "killed by signal 15 (SIGTERM)"),
        (134, "Error", "killed by signal 6 (SIGABRT)"),
        (159, "Error", "killed by signal 31 (SIGSYS)"),
        (128, "StartError", ""),
        (128, "Error", ""),
        (255, "Error", ""),
        (1, "Error", ""),
        (0, "Error", ""),
        (None, "Error", ""),
    ],
)
def test_a_signal_is_told_where_nothing_was_said(
    exit_code: int | None, reason: str, words: str
) -> None:
    assert last_words("", exit_code, reason) == words


RAISED = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: 3\n'


def test_a_program_that_was_killed_may_have_said_why() -> None:
    killed = "killed by signal 9, not by its memory limit"
    assert last_words(RAISED, 137, "Error") == f"{killed}; before that: ValueError: 3"
    assert last_words("step 1\nstep 2\n", 137, "Error") == f"{killed}; last line: step 2"
    # A crash on the way out: the exception is why it went.
    assert last_words(f"{RAISED}Segmentation fault\n", 139, "Error") == "ValueError: 3"
    assert last_words("step 1\nSegmentation fault (core dumped)\n", 139, "Error") == (
        "killed by signal 11 (SIGSEGV); last line: step 1"
    )
    # The limit is told by the reason.
    assert last_words("step 1\n", 137, "OOMKilled") == "step 1"


def test_an_exit_code_that_a_launcher_passes_on_is_no_signal_of_its_own() -> None:
    ruler = "-" * 74
    said = f"{ruler}\nmpirun noticed that process rank 1 exited on signal 9 (Killed).\n{ruler}\n"
    want = "mpirun noticed that process rank 1 exited on signal 9 (Killed)."
    assert last_words(said, 137, "Error") == want


# What an error is, and what it isn't


def test_an_error_that_the_program_lived_with_is_not_its_end() -> None:
    steps = "".join(f"step {n}\n" for n in range(100))
    assert last_words(f"{RAISED}{steps}", 3) == "step 99"
    assert last_words(f"{RAISED}{steps[:40]}", 3) == "ValueError: 3"


def test_an_error_of_a_peer_is_told_if_there_is_no_other() -> None:
    gone = RAISED.replace("ValueError: 3", "RuntimeError: Connection closed by peer [10.0.0.1]:1")
    assert last_words(gone, 1) == "RuntimeError: Connection closed by peer [10.0.0.1]:1"
    assert last_words(RAISED + gone, 1) == "ValueError: 3"
    assert last_words(gone + RAISED, 1) == "ValueError: 3"


def test_other_processes_may_write_between_a_traceback_and_its_error() -> None:
    said = (
        '[rank0]: Traceback (most recent call last):\n[rank0]:   File "a.py", line 1, in <module>\n'
        "rank 1: step 7\n[rank0]:     train()\n[rank0]: ValueError: 3\nrank 1: step 8\n"
    )
    assert last_words(said, 1) == "ValueError: 3"


@pytest.mark.parametrize(
    "line",
    [
        "error: 0.331",
        "epoch 3: train error: 0.2, 0 errors",
        "no error",
        "errors=0 failures=0",
        "the exception proves the rule",
        "Checking if files exist: not found yet, waiting",
        "12 tests passed, 0 failed",
        "INFO Connection reset by peer, trying again",
        "killed 3 mosquitoes",
        "loading Error.py",
    ],
)
def test_a_line_that_only_sounds_like_an_error_is_none(line: str) -> None:
    assert kind_of(line) is Kind.PLAIN
    assert last_words(f"start\n{line}\n", 3) == line


def test_what_nobody_recognises_stays_as_it_is() -> None:
    assert last_words("one\n  [rank0]: -- two: 2 --  \n\n", 3) == "[rank0]: -- two: 2 --"
    long = "x" * 1000 + "the end"
    assert last_words(long, 3) == f"…{long[1 - WORDS_LENGTH_MAX :]}"


def test_last_words_are_cut_where_they_say_least() -> None:
    assert shortened("ValueError: " + "x" * 100, 20) == "ValueError: xxxxxxx…"
    assert shortened("…" + "x" * 100 + "the end", 20).endswith("xthe end")
    assert shortened("short", 20) == "short"


# Hostile texts


HOSTILE = {
    "a line of a megabyte": "x" * 10**6,
    "an error of a megabyte": "ValueError: " + "x" * 10**6,
    "a ruler of a megabyte": "-" * 10**6,
    "a million lines": "\n" * 10**6,
    "a million returns": "\r" * 10**6,
    "blanks": " " * 10**6,
    "tabs": "\t" * 10**5,
    "escapes": "\x1b[" * 500_000,
    "parameters of an escape": "\x1b[" + "0;" * 10**5,
    "titles": "\x1b]" * 500_000,
    "a title without end": "\x1b]0;" + "a" * 10**6,
    "colons": "a: " * 10**5,
    "lines of colons": "\n".join(["a: " * 600] * 30),
    "errors that announce": "\n".join(["ERROR: x:"] * 2000),
    "groups": "\n".join(["XError: x (2 sub-exceptions)"] * 500),
    "parts of groups": "\n".join(["    | XError: x (2 sub-exceptions)"] * 500),
    "frames": "\n".join(['  File "a", line 3, in x'] * 600),
    "tracebacks": "\n".join(['  File "a", line 3, in x\nValueError: y:'] * 300),
    "causes": "\n".join(
        [
            '  File "a", line 3, in x\nValueError: y\nThe above exception was the direct cause of'
            " the following exception:"
        ]
        * 300
    ),
    "assertions": "\n".join(["Assertion `" * 180] * 8),
    "rulers": "\n".join(["-" * 30] * 500),
    "blocks of mpirun": "\n".join(["-" * 30 + "\nmpirun x:\n\ny"] * 200),
    "names with dots": "a." * 10**5 + "Error",
    "names": "A" * 10**5,
    "a frame without end": '  File "' + "a" * 10**5,
    "brackets": "[" * 10**5,
    "ranks": "[rank1]: " * 2000,
    "times": "2026-01-01 00:00:00 " * 800,
    "hosts": "a-1: " * 3000 + "X",
    "causes of torchrun": "Root Cause (first observed failure):\n" * 400,
    "nodes of TensorFlow": "{{function_node " * 1000,
    "places of XGBoost": "XGBoostError: " + "[1:2] " * 2000,
    "zeros": "\x00" * 10**6,
    "half characters": "\udc80" * 10**5,
    "wide characters": "🏖️" * 10**5,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("exit_code", [1, 137])
def test_a_hostile_text_is_read_in_time(name: str, exit_code: int) -> None:
    taken = []
    for _ in range(3):
        last_words.cache_clear()
        started = time.thread_time()
        words = last_words(HOSTILE[name], exit_code, "Error")
        taken.append(time.thread_time() - started)
        assert is_showable(words)
    assert min(taken) < CPU_SECONDS_MAX


def is_showable(words: str) -> bool:
    is_one_line = len(words.splitlines()) <= 1 and words == words.strip()
    return (
        is_one_line and len(words) <= WORDS_LENGTH_MAX and not re.search(r"[\x00-\x1f\x7f]", words)
    )


PIECES = st.sampled_from(
    [
        *(
            "Traceback (most recent call last):",
            '  File "a.py", line 3, in f',
            "    x()",
            "    ^^^",
        ),
        *(
            "ValueError: x",
            "ValueError: x:",
            "KeyError",
            "[rank0]: ",
            "[1,0]<stderr>:",
            "  | ",
            "+-+--- 1 ---",
        ),
        *("-" * 60, "=" * 60, "mpirun noticed that", "MPI_ABORT was invoked on rank 1", "Killed"),
        *("Root Cause (first observed failure):", "  rank      : 0", "  exitcode  : -9 (pid: 3)"),
        *(
            "  traceback : Signal 9 (SIGKILL)",
            "a.py FAILED",
            "Caused by: java.lang.X: y",
            "\tat a(b)",
        ),
        *("terminate called after throwing an instance of 'X'", "  what():  y", "step 3", ":", "…"),
        *(
            "Exception ignored in: <x>",
            "X: y (2 sub-exceptions)",
            "ERROR x",
            "\x1b[31m",
            "\r",
            "\u202e",
        ),
        *(
            "The above exception was the direct cause of the following exception:",
            "Check failed: 1",
        ),
    ]
)
ENDS = st.sampled_from(["\n", "", " ", "\n\n"])


@given(
    st.lists(st.tuples(PIECES | st.text(max_size=20), ENDS), max_size=40),
    st.none() | st.integers(0, 255),
    st.sampled_from(["", "Error", "OOMKilled", "Evicted"]),
)
def test_any_text_gives_one_line_that_can_be_shown(
    parts: list[tuple[str, str]], exit_code: int | None, reason: str
) -> None:
    words = last_words("".join(f"{text}{end}" for text, end in parts), exit_code, reason)
    assert is_showable(words)


# Where people see it


TORCHRUN = SAMPLES["torchrun1-value"]
FAILS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: fails}
spec:
  cleanUpPolicy: None
  replicaSpecs:
  - type: worker
    replicas: 1
    template:
      spec:
        containers: [{name: main, image: x, command: [sh, -c, "cat $FILE; exit 1"]}]
"""


def test_rows_and_events_have_the_error_of_a_replica() -> None:
    world = World(xgboost()).started()
    world.end("job-worker-0", TORCHRUN.exit_code, message=TORCHRUN.said)
    (event,) = world.step().events
    failure = world.rows["job-worker-0"].last_failure
    assert failure is not None
    assert failure.message == TORCHRUN.want
    assert event.message.endswith(f": {TORCHRUN.want}")


def test_a_taskset_has_the_error_of_a_replica() -> None:
    world = started(TaskSetWorld(role("w", retryPolicy=retry(1, delay=10))))
    world.exit("t-w-0-0-0", TORCHRUN.exit_code, message=TORCHRUN.said)
    world.settle()
    info = world.row("w").terminated_info
    assert info is not None
    assert info.exit_message == TORCHRUN.want
    assert world.told("ReplicaFailed")[0].endswith(f": {TORCHRUN.want}")


def test_a_failed_init_container_has_its_error_too() -> None:
    world = World(generic({"worker": 1}))
    world.settle()
    broken = Container(
        name="fetch",
        state=ContainerState.TERMINATED,
        exit_code=1,
        reason="Error",
        message=TORCHRUN.said,
        finished_at=world.now,
    )
    world._update("job-worker-0", phase=PodPhase.FAILED, node="node-1", init_containers=(broken,))
    world.step()
    failure = world.rows["job-worker-0"].last_failure
    assert failure is not None
    assert failure.message == f"init container fetch: {TORCHRUN.want}"


def test_what_a_pod_that_succeeded_wrote_is_left_alone() -> None:
    world = started(TaskSetWorld(role("w")))
    world.exit("t-w-0-0-0", 0, message=RAISED)
    world.settle()
    info = world.row("w").terminated_info
    assert info is not None
    assert info.exit_message == RAISED.strip()


def test_commands_show_the_error_of_a_replica_that_ran(room: Room) -> None:
    """On the engine: the log is cut by its node, and read by the same controller."""
    yard = Yard(room)
    log = room.engine.who.write(f"{room.name}.log", TORCHRUN.said)
    yard.apply("fails", FAILS.replace("$FILE", str(log)))
    assert yard("wait", "fails", "--timeout", "60s").returncode == 1
    job = json.loads(yard.does("get", "gj/fails", "-o", "json"))
    (row,) = job["status"]["tasks"][0]["status"]
    assert row["lastFailure"]["message"] == TORCHRUN.want
    assert f"worker-0   Failed   1      0          {TORCHRUN.want}" in yard.does(
        "describe", "fails"
    )
    until_it_holds(lambda: TORCHRUN.want in yard.does("events", "fails"), "an event tells it")


def test_the_end_of_a_run_shows_the_error() -> None:
    with person(is_ordinary=False) as who:
        log = who.write("fails.log", TORCHRUN.said)
        job = who.write("fails.yaml", FAILS.replace("$FILE", str(log)))
        done = who.run("run", str(job))
    assert done.returncode == 1
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last == f"worker-0   Failed   1      0          {TORCHRUN.want}", done.stdout


def test_on_a_cluster_a_job_has_the_error_of_a_replica(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None
) -> None:
    manifest = yaml.safe_load(FAILS)

    async def play(stage: Stage) -> None:
        await stage.apply(manifest)
        await stage.kubelet.running("fails-worker-0")
        await stage.kubelet.finish("fails-worker-0", 1, message=TORCHRUN.said)
        status = await stage.until_phase("fails", "Failed")
        (row,) = status["tasks"][0]["status"]
        assert row["lastFailure"]["message"] == TORCHRUN.want
        await stage.until_told("fails", "ReplicaFailed", TORCHRUN.want)

    Staging(control_plane, namespace, kubectl).play(play, manual=True)
