"""`jobyard run` at a terminal: logs that scroll, a table that stays below them and then goes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rig.engine import JOBS, Room
from rig.person import Person, person
from rig.terminal import Terminal

from jobyard.cli.output.rows import Timed, last_lines, live_lines
from jobyard.cli.output.style import Palette
from jobyard.jobs.view import JobView, ReplicaView, view_of
from jobyard.terminal.sequences import RESET, finished, marked
from jobyard.terminal.widths import cut, one_line, printable, width_of

JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: job}}
spec:
  replicaSpecs:
  - type: worker
    replicas: {replicas}
    template:
      spec:
        terminationGracePeriodSeconds: 2
        containers:
        - name: main
          image: busybox
          command: [sh, -c, {script}]
"""
# What the replicas wait for, so that they run for as long as there is something to see.
WAIT = "until [ -e {go} ]; do sleep 0.1; done"
SPEAK_AND_WAIT = f"""
echo "line 1 of $HOSTNAME"
{WAIT}
for n in 2 3; do echo "line $n of $HOSTNAME"; done
"""
TITLE = re.compile(r"^GenericJob/job  (\w+)  ([\d.]+)[s…]")


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def job(who: Person, script: str, replicas: int = 2) -> str:
    script = json.dumps(script.replace("{go}", str(who.work / "go")))
    return str(who.write("job.yaml", JOB.format(script=script, replicas=replicas)))


def titles(frame: list[str]) -> list[re.Match[str]]:
    return [found for line in frame if (found := TITLE.match(line))]


def running_frames(terminal: Terminal, replica: str) -> list[list[str]]:
    """The frames in which the job and the replica are running."""
    row = f"  {replica}   Running"
    return [
        frame
        for frame in terminal.frames
        if any(title[1] == "Running" for title in titles(frame))
        and any(line.startswith(row) for line in frame)
    ]


def test_the_table_stays_below_the_logs_and_goes_at_the_end(somebody: Person) -> None:
    with closing(Terminal(90, 24)) as terminal:
        terminal.start(somebody, "run", job(somebody, SPEAK_AND_WAIT))
        # It goes on counting while nothing is said.
        terminal.until(
            lambda: len({titles(each)[0][2] for each in running_frames(terminal, "worker-1")}) > 1
        )
        somebody.write("go", "")
        assert terminal.wait() == 0, terminal.text
    live = [frame for frame in terminal.frames if titles(frame)]
    assert all(len(titles(frame)) == 1 for frame in live), "the one before is taken away"
    for frame in live:
        shown = [line for line in frame if line]
        (at,) = (n for n, line in enumerate(shown) if TITLE.match(line))
        assert not any(" | " in line for line in shown[at:]), "logs are above"
    text = terminal.text
    assert not titles(text), "nothing of it is left"
    end = next(n for n, line in enumerate(text) if line.startswith("GenericJob/job succeeded"))
    assert text[end + 1].split() == ["REPLICA", "PHASE", "EXIT", "RESTARTS", "MESSAGE"]
    assert [line.split()[:2] for line in text[end + 2 : end + 4]] == [
        ["worker-0", "Succeeded"],
        ["worker-1", "Succeeded"],
    ]
    assert text[end + 4 :] == [""], "the cursor is below, at the start of a line"
    for name in ("worker-0", "worker-1"):
        lines = [line for line in text if line.startswith(f"{name} | ")]
        assert lines == [f"{name} | line {n} of job-{name}" for n in (1, 2, 3)]
    assert b"\x1b[36m" in terminal.raw, "coloured"


def test_a_narrow_terminal_wraps_logs_but_no_table(somebody: Person) -> None:
    script = f'echo "0123456789 0123456789 0123456789 0123456789"; {WAIT}; exit 7'
    with closing(Terminal(28, 16)) as terminal:
        # Alone: of two the other may be stopped before it has said anything.
        terminal.start(somebody, "run", job(somebody, script, replicas=1), NO_COLOR="1")
        terminal.until(lambda: bool(running_frames(terminal, "worker-0")))
        somebody.write("go", "")
        assert terminal.wait() == 1, terminal.text
    assert "worker-0 | 0123456789 012345" in terminal.text
    live = [frame for frame in terminal.frames if titles(frame)]
    assert live
    for frame in live:
        shown = [line for line in frame if line]
        (at,) = (n for n, line in enumerate(shown) if TITLE.match(line))
        rows = shown[at + 1 :]
        assert all(line.startswith("  ") for line in rows), f"no row goes on in the next: {rows}"
    assert not re.search(rb"\x1b\[[\d;]*m", terminal.raw), "NO_COLOR"
    assert any(re.match(r"worker-0   Failed +7 .*…$", line) for line in terminal.text)


def test_a_low_terminal_counts_replicas(somebody: Person) -> None:
    with closing(Terminal(80, 12)) as terminal:
        terminal.start(somebody, "run", job(somebody, WAIT, replicas=12), NO_COLOR="1")
        terminal.until(
            lambda: any(
                TITLE.match(line) and "12 running" in line
                for frame in terminal.frames
                for line in frame
            )
        )
        somebody.write("go", "")
        assert terminal.wait() == 0, terminal.text


BAR = f"printf 'loading\\r10%%|#'; {WAIT}; printf '\\r50%%|#####\\r100%%|##########\\n'"


def test_a_progress_bar_is_seen_while_it_grows(somebody: Person) -> None:
    with closing(Terminal(80, 24)) as terminal:
        terminal.start(somebody, "run", job(somebody, BAR), NO_COLOR="1")
        for rank in (0, 1):
            row = f"  worker-{rank}   Running   10%|#"
            terminal.until(lambda row=row: any(row in frame for frame in terminal.frames))  # type: ignore[misc]
        somebody.write("go", "")
        assert terminal.wait() == 0, terminal.text
    lines = [line for line in terminal.text if line.startswith("worker-0 | ")]
    assert lines == ["worker-0 | 100%|##########"]
    assert not any("10%|#" in line for line in terminal.text if " | " not in line)


def test_a_progress_bar_is_seen_in_logs_that_are_followed(room: Room) -> None:
    who = room.engine.who
    options = ("-n", room.name, "--kubeconfig", str(room.engine.kubeconfig))
    done = who.run("apply", "-f", job(who, BAR.replace("{go}", f"{{go}}-{room.name}")), *options)
    assert done.returncode == 0, done.stderr
    room.until("genericjobs", "job", is_running, JOBS)
    with closing(Terminal(80, 24)) as terminal:
        terminal.start(who, "logs", "-f", "job", *options, NO_COLOR="1")
        wanted = ["worker-0 | 10%|#", "worker-1 | 10%|#"]
        terminal.until(lambda: any(set(wanted) <= set(frame) for frame in terminal.frames))
        who.write(f"go-{room.name}", "")
        assert terminal.wait() == 0, terminal.text
    assert sorted(filter(None, terminal.text)) == [
        "worker-0 | 100%|##########",
        "worker-1 | 100%|##########",
    ]


def is_running(job: dict[str, Any]) -> bool:
    return bool((job.get("status") or {}).get("phase") == "Running")


RANKS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: ranks}
spec:
  replicaSpecs:
  - type: worker
    replicas: 4
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: pytorch
          image: x
          command: [sh, -c, 'case $RANK in 3) exec sleep 1000;; *) sleep 0.$((RANK * 4));; esac']
"""


def test_ranks_that_end_just_after_the_first_were_not_stopped(somebody: Person) -> None:
    """The job is over with rank 0; those that end by themselves then are shown as they ended."""
    with closing(Terminal(90, 24)) as terminal:
        terminal.start(somebody, "run", str(somebody.write("ranks.yaml", RANKS)), NO_COLOR="1")
        assert terminal.wait() == 0, terminal.text
    rows = [line.split()[:2] for line in terminal.text if line.startswith("worker-")]
    assert rows == [
        ["worker-0", "Succeeded"],
        ["worker-1", "Succeeded"],
        ["worker-2", "Succeeded"],
        ["worker-3", "Stopped"],
    ]


def test_ctrl_c_takes_the_table_away_and_stops_the_job(somebody: Person) -> None:
    with closing(Terminal(80, 24)) as terminal:
        terminal.start(somebody, "run", job(somebody, "echo up; sleep 1000"), NO_COLOR="1")
        terminal.until(lambda: sum(" | up" in line for line in terminal.text) == 2)
        terminal.type("\x03")
        assert terminal.wait() == 130, terminal.text
    text = terminal.text
    assert not titles(text)
    assert any("interrupted: stopping the jobs" in line for line in text)
    assert any(re.match(r"worker-0   Stopped", line) for line in text)
    assert somebody.processes() == {}


def test_a_dumb_terminal_gets_plain_lines(somebody: Person) -> None:
    with closing(Terminal(80, 24)) as terminal:
        terminal.start(somebody, "run", job(somebody, "echo hello"), TERM="dumb")
        assert terminal.wait() == 0, terminal.text
    assert b"\x1b" not in terminal.raw
    assert "worker-0 | hello" in terminal.text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        pytest.param(b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", id="colours stay"),
        pytest.param(b"\x1b[31mred", "\x1b[31mred\x1b[0m", id="colours end with their line"),
        pytest.param(b"10%\r50%\r100%\r", "100%", id="a progress bar shows its last state"),
        pytest.param(b"\x1b[2K\x1b[1Aup", "up", id="nothing moves the cursor"),
        pytest.param(b"\x1b]0;title\x07text", "text", id="no title is set"),
        pytest.param(b"a\x07b\x00c\td", "abc\td", id="no bell"),
        pytest.param(b"\xff\xe4\xb8\xad", "\ufffd中", id="what is no text is marked"),
    ],
)
def test_what_is_shown_of_a_log_line(raw: bytes, shown: str) -> None:
    assert finished(printable(raw), is_coloured=True) == shown


def test_wide_characters_take_two_columns_and_colours_none() -> None:
    assert width_of(f"a中{marked('31')}b{RESET}") == 4
    assert cut("训练失败", 5) == "训练…"
    assert cut(f"{marked('31')}abcdef{RESET}", 4) == f"{marked('31')}abc…{RESET}"
    assert cut("abcd", 4) == "abcd"


def test_a_message_of_many_lines_is_told_on_one() -> None:
    assert one_line("worker-1: OOMKilled: step 1\n step 2\n\nstep 3\n") == (
        "worker-1: OOMKilled: step 1 … step 3"
    )
    assert one_line("first\nlast") == "first … last"
    assert (one_line(" alone "), one_line("")) == ("alone", "")
    assert one_line("-----\n the reason\n-----\n") == "the reason"


def test_the_end_of_a_failed_job_names_who_failed_and_why() -> None:
    failure = {"attempt": 0, "exitCode": 137, "reason": "OOMKilled", "message": "step 1\nstep 2"}
    cause = "worker-1: OOMKilled (exit code 137)"
    conditions = [
        {"type": "ReplicaFailure", "status": "True", "message": cause},
        {"type": "Failed", "status": "True", "message": "The job exited with an error code."},
    ]
    rows = [
        {"name": "job-worker-0", "phase": "Deleted"},
        {"name": "job-worker-1", "phase": "Failed", "lastFailure": failure},
    ]
    status = {"phase": "Failed", "conditions": conditions, "tasks": [{"status": rows}]}
    view = view_of({"metadata": {"name": "job"}, "status": status}, "GenericJob")
    assert last_lines(Timed(view, 2.0), Palette(is_coloured=False), None) == [
        "GenericJob/job failed after 2.0s",
        "The job exited with an error code.",
        cause,
        "REPLICA    PHASE     EXIT   RESTARTS   MESSAGE",
        "worker-0   Deleted          0",
        "worker-1   Failed    137    0          OOMKilled, out of memory: step 2",
    ]
    # A replica in error is no cause of anything while the job goes on.
    running = view_of({"metadata": {"name": "job"}, "status": status | {"phase": "Running"}}, "X")
    assert running.cause == ""


def test_many_jobs_on_a_low_terminal_are_counted() -> None:
    rows = tuple(ReplicaView(name=f"worker-{n}", phase="Running") for n in range(3))
    views = [
        JobView(kind="GenericJob", namespace="d", name=f"job-{n}", phase=phase, replicas=rows)
        for n, phase in enumerate(("Succeeded", *["Running"] * 5))
    ]
    jobs = [Timed(view, 61.0) for view in views]
    palette = Palette(is_coloured=False)
    assert len(live_lines(jobs, palette, 30)) == 30, "all rows"
    counted = live_lines(jobs, palette, 12)
    assert counted[1] == "GenericJob/job-1  Running  1m01s  3 running"
    assert len(counted) == 6
    assert live_lines(jobs, palette, 4)[3:] == ["2 more, 1 over"]
