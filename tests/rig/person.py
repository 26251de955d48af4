"""Somebody at a terminal of this machine: root, or an ordinary user without any rights.

Tests of the command line run `jobyard` as one of them, with a home of their own, and can tell
afterwards whether anything of theirs is still running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from rig.preloaded import Preloaded, preloaded
from rig.users import free_uid

MARK = "JOBYARD_TEST_MARK"


class Person:
    """Runs commands with a mark in the environment, by which all that comes of them is found."""

    def __init__(self, home: Path, uid: int, readable: Path | None = None) -> None:
        self.home = home
        self.uid = uid
        self.readable = readable
        self.mark = uuid.uuid4().hex
        self._preloaded: Preloaded | None = None
        self.work = home / "work"
        self.work.mkdir()
        if uid != os.geteuid():
            for path in (home, self.work):
                os.chown(path, uid, uid)

    def write(self, name: str, text: str) -> Path:
        """A file in the person's working folder."""
        path = self.work / name
        path.write_text(text)
        if self.uid != os.geteuid():
            os.chown(path, self.uid, self.uid)
        return path

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "JOBYARD_HOME": str(self.home / "jobyard"),
            "TMPDIR": str(self.home),
            MARK: self.mark,
        }

    def command(self, *words: str) -> list[str]:
        """The words as this person would run them."""
        if self.uid == os.geteuid():
            return list(words)
        opened = [Path(sys.base_prefix), *([self.readable] if self.readable else [])]
        return [*_as_somebody_else(self.uid, self.home, opened), *words]

    def jobyard(self, *words: str) -> list[str]:
        return self.command(sys.executable, "-m", "jobyard", *words)

    def run(self, *words: str, seconds: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """`jobyard` with these words, to its end."""
        return subprocess.run(
            self.jobyard(*words),
            cwd=self.work,
            env=self.environment | env,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )

    def ask(self, *words: str, seconds: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """The same for a command that only speaks to an engine, without its imports.

        Whoever waits for something asks again and again, and each real command has a core busy
        for a second, just while what is waited for wants it.
        """
        if self.uid == os.geteuid():
            asked = preloaded()
        else:
            asked = self._preloaded = self._preloaded or Preloaded(self.command())
        return asked.run([*words], self.work, self.environment | env, seconds)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """`jobyard` with these words, left running."""
        return subprocess.Popen(
            self.jobyard(*words),
            cwd=self.work,
            env=self.environment | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own: Ctrl-C of a terminal goes to the whole group.
            start_new_session=True,
        )

    def processes(self) -> dict[int, str]:
        """What is running with the person's mark, in any namespace."""
        found = {}
        wanted = f"{MARK}={self.mark}".encode()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    words = (
                        (path / "cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode(errors="replace")
                    )
                    found[int(path.name)] = (
                        words or (path / "comm").read_text(errors="replace").strip()
                    )
            except OSError:
                continue
        return found

    def end_all(self) -> None:
        """Ends what is still there: only processes with the mark."""
        for pid in self.processes():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue

    def close(self) -> None:
        if self._preloaded is not None:
            self._preloaded.close()
        self.end_all()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Person:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def person(*, is_ordinary: bool, readable: Path | None = None) -> Iterator[Person]:
    """Root (or whoever runs the tests), or an ordinary user; without root that one is skipped.

    `readable` is a folder that an ordinary user is to see even if it is in one of root's.
    """
    with ExitStack() as stack:
        uid = stack.enter_context(free_uid()) if is_ordinary else os.geteuid()
        # Not below pytest's own folder, which is for its owner only.
        home = Path(tempfile.mkdtemp(prefix="jy-"))
        home.chmod(0o755)
        yield stack.enter_context(Person(home, uid, readable))


def _as_somebody_else(uid: int, home: Path, opened: list[Path]) -> list[str]:
    """What is in a folder of root's, such as the interpreter: a mount namespace opens a way."""
    keeping, placing = "", ""
    covered: set[Path] = set()
    for n, path in enumerate(opened):
        closed = [each for each in reversed(path.parents) if not each.stat().st_mode & 0o001]
        if not closed:
            continue
        inside = home / f"opened-{n}"
        keeping += f"mkdir -p {inside}; mount --bind {path} {inside}\n"
        if closed[0] not in covered:
            covered.add(closed[0])
            placing = f"mount -t tmpfs -o mode=755 tmpfs {closed[0]}\n" + placing
        placing += f"mkdir -p {path}; mount --bind {inside} {path}; umount {inside}\n"
    return [
        *("unshare", "--mount", "--propagation", "private", "sh", "-ec"),
        *(f'{keeping}{placing}exec "$@"', "sh"),
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"),
    ]
