"""`jobyard` commands from a process that has imported the command line already.

Most of what a short command takes is imports, and tests run hundreds of them. A process of its own,
started once for each pytest worker (and for an ordinary user who asks), has done them; each command
is a fork of it, with streams, folder and environment of its own, and runs the same `main`. For
commands that speak to an engine (`Person.ask`): whoever tests how a command starts, what it leaves
behind, or what it does when it is interrupted, starts a real one (`Person.run`).
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rig.places import TESTS

PR_SET_PDEATHSIG = 1
MESSAGE_BYTES_MAX = 1 << 18


class Preloaded:
    """The process, as tests see it."""

    def __init__(self, wrapper: Sequence[str] = ()) -> None:
        """`wrapper` is what comes before the command line of who becomes somebody else."""
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = ["-m", "rig.preloaded", str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                [*wrapper, sys.executable, *words],
                cwd=TESTS,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self.close)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._line.close()
        self._process.wait()

    def run(
        self, words: list[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> subprocess.CompletedProcess[str]:
        """One command to its end; what it said is in memory, so that nobody waits for a reader."""
        said, complained = (os.memfd_create(name) for name in ("stdout", "stderr"))
        told, tells = os.pipe()
        try:
            asked = json.dumps([words, str(folder), dict(environment)]).encode()
            assert len(asked) <= MESSAGE_BYTES_MAX
            socket.send_fds(self._line, [asked], [said, complained, tells])
            os.close(tells)
            code = _code(told, words, seconds)
            texts = [os.pread(each, os.fstat(each).st_size, 0) for each in (said, complained)]
        finally:
            for descriptor in (said, complained, told):
                os.close(descriptor)
        out, errors = (text.decode() for text in texts)
        return subprocess.CompletedProcess(words, code, out, errors)


@functools.cache
def preloaded() -> Preloaded:
    """The one of this worker; it ends with it."""
    return Preloaded()


def _code(told: int, words: list[str], seconds: float) -> int:
    """What was told at the end, after the pid; the command is killed if that takes too long."""
    poller = select.poll()
    poller.register(told, select.POLLIN)
    text = ""
    while poller.poll(seconds * 1000):
        piece = os.read(told, 64).decode()
        text += piece
        if not piece:
            pid, _, code = text.strip().partition(" ")
            assert code, f"the process that runs {words} is gone (pid {pid})"
            return int(code)
    os.kill(int(text.split()[0]), signal.SIGKILL)
    raise subprocess.TimeoutExpired(words, seconds)


def main(descriptor: int, parent: int) -> None:
    """Forks for each message; ends with the worker."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    _import_all()
    # Nobody waits for those who wait for commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=descriptor) as line:
        while True:
            asked, streams, _, _ = socket.recv_fds(line, MESSAGE_BYTES_MAX, 3)
            if not asked:
                return
            if os.fork() == 0:
                line.close()
                _wait_for(asked, streams)
            for each in streams:
                os.close(each)


def _import_all() -> None:
    import jobyard.cli.main
    import jobyard.client.transport
    import jobyard.client.websockets

    program = jobyard.cli.main.cli
    for name in jobyard.cli.main.COMMANDS:
        program.get_command(None, name)  # type: ignore[arg-type]


def _wait_for(asked: bytes, streams: list[int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    said, complained, tells = streams
    pid = os.fork()
    if pid == 0:
        os.close(tells)
        _be(asked, said, complained)
    os.write(tells, f"{pid} ".encode())
    _, status = os.waitpid(pid, 0)
    os.write(tells, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _be(asked: bytes, said: int, complained: int) -> NoReturn:
    code = 1
    try:
        words, folder, environment = json.loads(asked)
        os.dup2(said, 1)
        os.dup2(complained, 2)
        os.closerange(3, 1024)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["jobyard", *words]
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
        errors = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(errors, errors="backslashreplace", line_buffering=True)
        from jobyard.cli.main import main as jobyard_main

        jobyard_main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
