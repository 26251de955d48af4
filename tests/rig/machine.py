"""A machine of a test's own: this one's files below an overlay, so that every change to it shows.

What the overlay's upper folder holds afterwards is all that was written to the machine outside of
/tmp, deletions too. Tests change it as they like: close root's home, put a stranger's folder in the
way, mount disks. Only root can have one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rig.needs import AS_ROOT
from rig.person import Person
from rig.places import ROOT
from rig.users import free_uid

SITE = next((Path(sys.prefix) / "lib").glob("python3*/site-packages"))
# The interpreter may be in root's home, which is closed to others here.
PYTHON = Path("/opt/jobyard-test-python")
# How it is set up before anybody uses it; the rest of the words are a script of the test's own.
SETTING_UP = """
base=$1; script=$2; prefix=$3; python=$4; depth=$5
mkdir $base/upper $base/work $base/root $base/under $base/under-upper $base/under-work
lower=/
if [ $depth = 2 ]; then
    layers=lowerdir=/,upperdir=$base/under-upper,workdir=$base/under-work
    mount -t overlay overlay -o $layers $base/under
    lower=$base/under
fi
mount -t overlay overlay -o lowerdir=$lower,upperdir=$base/upper,workdir=$base/work $base/root
for name in proc sys dev tmp; do mount --rbind /$name $base/root/$name; done
mkdir -p $base/root$python
mount --bind $prefix $base/root$python
cd $base/root
pivot_root . .
umount -l .
cd /
eval "$script"
echo ready
exec sleep infinity
"""


class Machine:
    """One that is up; commands of a `Resident` run on it."""

    def __init__(self, base: Path, script: str, depth: int) -> None:
        self._upper = base / "upper"
        words = [SETTING_UP, "sh", str(base), script, sys.base_prefix, str(PYTHON), str(depth)]
        way = ("unshare", "--mount", "--propagation", "private")
        self._holder = subprocess.Popen(
            [*way, "sh", "-euc", *words], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        self._before = self._files()

    @property
    def way_in(self) -> list[str]:
        return ["nsenter", "--target", str(self._holder.pid), "--mount"]

    def _files(self) -> dict[str, tuple[int, ...]]:
        found = {}
        for folder, names, files in os.walk(self._upper):
            for name in (*names, *files):
                path = Path(folder, name)
                one = path.lstat()
                size = 0 if path.is_dir() else one.st_size
                what = (one.st_mode, one.st_uid, size, one.st_mtime_ns)
                found[f"/{path.relative_to(self._upper)}"] = what
        return found

    def changes(self) -> dict[str, tuple[int, ...] | None]:
        """What differs from the machine as it was when it came up."""
        after = self._files()
        return {
            path: after.get(path)
            for path in sorted(self._before.keys() | after.keys())
            if self._before.get(path) != after.get(path)
        }

    def close(self) -> None:
        self._holder.kill()
        self._holder.wait()
        assert self._holder.stdout is not None
        self._holder.stdout.close()


class Resident(Person):
    """Somebody on such a machine, who has a name there."""

    def __init__(self, home: Path, uid: int, machine: Machine) -> None:
        super().__init__(home, uid)
        self._machine = machine

    @property
    def environment(self) -> dict[str, str]:
        path = f"{PYTHON}/bin:{super().environment['PATH']}"
        return super().environment | {
            "PATH": path,
            "LD_LIBRARY_PATH": f"{PYTHON}/lib",
            "PYTHONPATH": f"{ROOT / 'src'}:{SITE}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def command(self, *words: str) -> list[str]:
        way = [*self._machine.way_in, "env", "-C", str(self.work)]
        if self.uid != 0:
            way += ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return [*way, *words]

    def jobyard(self, *words: str) -> list[str]:
        return self.command(f"{PYTHON}/bin/python3", "-m", "jobyard", *words)

    def ask(self, *words: str, seconds: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        """A real command: what is preloaded is on the machine of the tests."""
        return self.run(*words, seconds=seconds, **env)


@contextmanager
def machine(script: str = "", depth: int = 1) -> Iterator[Machine]:
    """Set up by a shell script, which runs on it as root.

    With a depth of 2 its files are below two overlays, and the kernel takes no third.
    """
    if os.geteuid() != 0:
        pytest.skip(f"only root can have a machine of its own{AS_ROOT}")
    base = Path(tempfile.mkdtemp(prefix="jy-machine-"))
    base.chmod(0o755)
    made = None
    try:
        made = Machine(base, script, depth)
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def resident(
    *, is_ordinary: bool, script: str = "", depth: int = 1
) -> Iterator[tuple[Machine, Resident]]:
    """Root or an ordinary user with a name, on a machine set up by a script; `$uid` is theirs."""
    with free_uid() as free:
        uid = free if is_ordinary else 0
        home = Path(tempfile.mkdtemp(prefix="jy-"))
        home.chmod(0o755)
        name = "somebody" if is_ordinary else pwd.getpwuid(0).pw_name
        account = f"echo '{name}:x:{uid}:{uid}::{home}:/bin/sh' >>/etc/passwd\n"
        naming = f"uid={uid}\n{account if is_ordinary else ''}"
        with machine(naming + script, depth) as made, Resident(home, uid, made) as who:
            yield made, who
