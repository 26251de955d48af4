"""`jobyard exec` and `jobyard shell`, as a user has them: real terminals, pipes, exit codes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from server.streaming_stage import DEADLINE_SECONDS, Stage, streaming_stage

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.plan.lowering.names import JOB_NAME, REPLICA_RANK, REPLICA_TYPE

JOBYARD = str(Path(sys.executable).parent / "jobyard")
JOBS = "/apis/batch.tensorstack.dev/v1beta1/namespaces/default/genericjobs"


@contextmanager
def job_stage(folder: Path) -> Iterator[Stage]:
    """A job of two workers, of which the second hasn't started."""
    with streaming_stage(folder) as made:

        async def installed() -> None:
            made.server.install((crd(kind) for kind in KINDS if kind.name == "GenericJob"), "test")

        made.in_loop(installed())
        box = {"name": "main", "image": "none", "command": ["true"]}
        replicas = {"type": "worker", "replicas": 2, "template": {"spec": {"containers": [box]}}}
        made.call(
            "POST",
            JOBS,
            {
                "apiVersion": "batch.tensorstack.dev/v1beta1",
                "kind": "GenericJob",
                "metadata": {"name": "train"},
                "spec": {"replicaSpecs": [replicas]},
            },
        )
        for rank in (0, 1):
            labels = {
                "genericjob": "train",
                JOB_NAME: "train",
                REPLICA_TYPE: "worker",
                REPLICA_RANK: str(rank),
            }
            made.make_pod(f"train-worker-{rank}", "main", "side", metadata={"labels": labels})
        made.call(
            "PATCH",
            "/api/v1/namespaces/default/pods/train-worker-1/status",
            {"status": {"phase": "Pending"}},
            "application/merge-patch+json",
        )
        yield made


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with job_stage(tmp_path) as made:
        yield made


def arguments(stage: Stage, command: str, *more: str) -> tuple[str, ...]:
    return (JOBYARD, command, "--kubeconfig", str(stage.kubeconfig), *more)


def run(stage: Stage, *more: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        arguments(stage, "exec", "train", *more),
        input=data,
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )


def test_output_errors_and_the_exit_code(stage: Stage) -> None:
    done = run(stage, "worker-0", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 42)


def test_a_signal_is_128_and_its_number(stage: Stage) -> None:
    assert run(stage, "worker-0", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_piped_input_reaches_the_command_and_ends(stage: Stage) -> None:
    data = os.urandom(5_000_000)
    done = run(stage, "train-worker-0", "--", "cat", data=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_a_file_is_an_input_too(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(b"x" * 300_000)
    with file.open("rb") as handle:
        command = arguments(stage, "exec", "train", "worker-0", "--", "wc", "-c")
        done = subprocess.run(command, stdin=handle, capture_output=True, timeout=DEADLINE_SECONDS)
    assert done.stdout.split() == [b"300000"], done.stderr


def test_a_container_can_be_named(stage: Stage) -> None:
    assert run(stage, "worker-0", "-c", "side", "--", "true").returncode == 0
    assert getattr(stage.kubelet.options, "container", "") == "side"
    done = run(stage, "worker-0", "-c", "none", "--", "true")
    assert done.returncode == 2
    assert done.stderr == b"Error: container none is not valid for pod train-worker-0\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(
            ("worker-8", "--", "true"),
            "GenericJob/train has no replica worker-8 (did you mean worker-1?); it has worker-0,"
            " worker-1",
            id="no such replica",
        ),
        pytest.param(
            ("worker-1", "--", "true"),
            "GenericJob/train: replica worker-1 is Pending; only one that is running can be"
            " entered",
            id="a replica that doesn't run",
        ),
        pytest.param(
            ("worker-0", "--", "/no/such/program"),
            "/no/such/program: no such file",
            id="no such program",
        ),
    ],
)
def test_what_cant_be_done_is_told(stage: Stage, words: tuple[str, ...], told: str) -> None:
    done = run(stage, *words)
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_an_unknown_job_is_told(stage: Stage) -> None:
    command = arguments(stage, "exec", "tran", "worker-0", "--", "true")
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert "there is no such job in namespace default (did you mean train?)" in done.stderr


class Terminal:
    """A terminal with a command in it, and what it has shown so far."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self.master = master
        self.process = process
        self.shown = b""

    def until(self, text: bytes) -> None:
        while text not in self.shown:
            ready, _, _ = select.select((self.master,), (), (), DEADLINE_SECONDS)
            assert ready, self.shown
            data = os.read(self.master, 4096)
            assert data, self.shown
            self.shown += data

    def write(self, data: bytes) -> None:
        """Lines end with a line feed: a return typed ahead means nothing to a raw terminal."""
        os.write(self.master, data)

    def resize(self, rows: int, columns: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)


@contextmanager
def terminal(*command: str) -> Iterator[tuple[Terminal, int]]:
    master, slave = pty.openpty()
    # A user's shell, in that its terminal outlives the command.
    process = subprocess.Popen(
        ("setsid", "--ctty", *command),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", "SHELL": "/bin/sh"},
    )
    try:
        yield Terminal(master, process), slave
    finally:
        process.kill()
        process.wait()
        os.close(slave)
        os.close(master)


def settings(slave: int) -> list[Any]:
    return termios.tcgetattr(slave)[:4]


def test_a_shell_in_a_terminal(stage: Stage) -> None:
    command = arguments(stage, "shell", "train", "worker-0")
    with terminal(*command) as (shown, slave):
        before = settings(slave)
        shown.write(b"echo $((40 + 2)) on $TERM; tty\n")
        shown.until(b"42 on xterm-256color")
        shown.until(b"/dev/pts/")
        assert settings(slave) != before, "raw while the shell has it"
        shown.resize(41, 123)
        shown.write(b"while [ \"$(stty size)\" != '41 123' ]; do :; done; echo resi''zed\n")
        shown.until(b"resized")
        # A key that would end a command of this machine goes to the program there.
        shown.write(b"PS1=rea''dy:\n")
        shown.until(b"ready:")
        shown.write(b"sed -u s/in/out/\ninside\n")
        shown.until(b"outside")
        shown.shown = b""
        shown.write(b"\x03")
        # Not before the prompt: a shell may lose what is typed while it is interrupted.
        shown.until(b"ready:")
        shown.write(b"exit 6\n")
        assert shown.process.wait(DEADLINE_SECONDS) == 6
        assert settings(slave) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_put_right_after_a_signal(stage: Stage, number: int) -> None:
    command = arguments(stage, "exec", "-it", "train", "worker-0", "--", "sh", "-c")
    with terminal(*command, "echo he''re; exec sleep 600") as (shown, slave):
        before = settings(slave)
        shown.until(b"here")
        assert settings(slave) != before
        os.kill(shown.process.pid, number)
        assert shown.process.wait(DEADLINE_SECONDS) == 128 + number
        assert settings(slave) == before
    # And the process there has lost its client.
    assert stage.kubelet.processes[-1].wait(DEADLINE_SECONDS) != 0


def test_the_terminal_is_put_right_when_the_connection_breaks(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with job_stage(tmp_path) as made:
            command = arguments(made, "shell", "train", "worker-0")
            shown, slave = stack.enter_context(terminal(*command))
            before = settings(slave)
            shown.write(b"echo he''re\n")
            shown.until(b"here\r\n")
            assert settings(slave) != before
        # The server has stopped.
        shown.until(b"the connection broke")
        assert shown.process.wait(DEADLINE_SECONDS) == 2
        assert settings(slave) == before


def test_without_t_there_is_no_terminal(stage: Stage) -> None:
    command = arguments(stage, "exec", "train", "worker-0", "--", "sh", "-c", "test -t 1; echo $?")
    with terminal(*command) as (shown, _):
        shown.until(b"1\r\n")
        assert shown.process.wait(DEADLINE_SECONDS) == 0


def test_a_shell_takes_commands_from_a_pipe(stage: Stage) -> None:
    done = subprocess.run(
        arguments(stage, "shell", "train", "worker-0"),
        input=b"echo piped; exit 3",
        capture_output=True,
        timeout=DEADLINE_SECONDS,
    )
    assert (done.stdout, done.returncode) == (b"piped\n", 3), done.stderr
