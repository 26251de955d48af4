"""Bring the locks in `tools/locks/` up to date with what they are made of.

    python tools/make_locks.py                  what has changed; other versions stay as they are
    python tools/make_locks.py --raise torch    this package to the newest that fits, in all locks
    python tools/make_locks.py --raise all      everything
    python tools/make_locks.py --check          which are not current, without a network

A lock lists every file that may be installed, by hash, so that a set-up is the same tomorrow and
needs no search. What is wanted stands in `pyproject.toml` and `tools/frameworks/`; the first line
of a lock has a digest of that. `make locks` calls it, with the uv of the virtualenv. It knows no
index: locks name none, so that any mirror will do.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from locked_install import find_uv, lock_file, uv_environment

TREE = Path(__file__).resolve().parents[1]
PYPROJECT = TREE / "pyproject.toml"
LISTS = TREE / "tools" / "frameworks"
# For all versions of Python that the package supports, and all machines.
SCOPE = ("--universal", "--python-version", "3.11")


@dataclass(frozen=True, slots=True)
class Lock:
    """A file of `tools/locks/`, and what is wanted in it."""

    name: str
    # Dependency groups of pyproject.toml; "" is the package itself.
    groups: tuple[str, ...] = ()
    # Files of tools/frameworks/.
    lists: tuple[str, ...] = ()
    # Locks whose versions it must share.
    within: tuple[str, ...] = ()
    # What has no wheel: its needs are locked here, and it in the lock NAME-built.
    built: tuple[str, ...] = ()
    # Just these, without what they ask for.
    is_alone: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """Every requirement, as it is written."""
        project = tomllib.loads(PYPROJECT.read_text())
        found = []
        for group in self.groups:
            if group:
                found += project["dependency-groups"][group]
            else:
                found += project["project"]["dependencies"]
        for name in self.lists:
            lines = (LISTS / name).read_text().splitlines()
            found += filter(None, (line.partition("#")[0].strip() for line in lines))
        return tuple(found)

    @property
    def digest(self) -> str:
        """Changes with anything that decides what is locked."""
        others = (lock_file(name).read_text() for name in self.within if lock_file(name).is_file())
        facts = (*SCOPE, *self.built, str(self.is_alone), *sorted(self.wanted), *others)
        return hashlib.sha256("\0".join(facts).encode()).hexdigest()

    @property
    def first_line(self) -> str:
        return f"# Made of what has the digest {self.digest}\n"

    @property
    def is_current(self) -> bool:
        path = lock_file(self.name)
        return path.is_file() and path.read_text().startswith(self.first_line)


# In this order, since some have to follow others.
LOCKS = (
    # What brings the rest, by pip.
    Lock("uv", groups=("setup",)),
    # What the package needs, also in its image.
    Lock("package", groups=("",)),
    # What makes its wheel.
    Lock("build", groups=("build",)),
    Lock("development", groups=("", "dev", "setup", "build"), within=("uv", "package", "build")),
    Lock("go", groups=("go",)),
    Lock("mpi", lists=("mpi.txt",)),
    Lock("xgboost", lists=("xgboost.txt",)),
    Lock("torch", lists=("torch.txt", "deepspeed.txt", "building.txt"), built=("deepspeed",)),
    Lock("torch-built", lists=("deepspeed.txt", "colossalai.txt"), is_alone=True),
    Lock("tensorflow", lists=("tensorflow.txt",)),
    Lock("beam", lists=("beam.txt",)),
    Lock("flink", lists=("building.txt",)),
    Lock("flink-built", lists=("flink.txt",), is_alone=True),
    Lock("spark", lists=("spark.txt", "building.txt"), built=("pyspark",)),
    Lock("spark-built", lists=("spark.txt",), is_alone=True),
)


def words_for(lock: Lock, raised: str) -> list[str]:
    """What uv is asked for."""
    words = ["pip", "compile", *SCOPE, "--generate-hashes", "--no-emit-index-url"]
    words += ["--quiet", "--custom-compile-command", "make locks"]
    # Paths in the lock are then those of the tree, wherever that is.
    words += ["--output-file", str(lock_file(lock.name).relative_to(TREE))]
    words += [word for name in lock.built for word in ("--no-emit-package", name)]
    for name in lock.within:
        words += ["--constraints", str(lock_file(name).relative_to(TREE))]
    if lock.is_alone:
        words += ["--no-deps"]
    if raised:
        words += ["--upgrade"] if raised == "all" else ["--upgrade-package", raised]
    words += [PYPROJECT.name] if "" in lock.groups else []
    words += [word for group in lock.groups if group for word in ("--group", group)]
    words += [str((LISTS / name).relative_to(TREE)) for name in lock.lists]
    return words


def pins(text: str) -> set[str]:
    """Every `name==version` of a lock."""
    return set(re.findall(r"^[\w.-]+==[^\s;\\]+", text, re.MULTILINE))


def make(lock: Lock, raised: str) -> str:
    """Write the lock anew; what has changed in it."""
    path = lock_file(lock.name)
    before = path.read_text() if path.is_file() else ""
    subprocess.run(
        [find_uv(os.environ), *words_for(lock, raised)],
        cwd=TREE,
        env=uv_environment(os.environ),
        check=True,
    )
    text = path.read_text()
    path.write_text(lock.first_line + text)
    gone, come = pins(before) - pins(text), pins(text) - pins(before)
    return " ".join([*(f"-{pin}" for pin in sorted(gone)), *(f"+{pin}" for pin in sorted(come))])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raise", dest="raised", default="", metavar="PACKAGE", help="or `all`")
    parser.add_argument("--check", action="store_true", help="change nothing")
    asked = parser.parse_args()
    if asked.check:
        old = [lock.name for lock in LOCKS if not lock.is_current]
        if old:
            print(f"locks: not current: {', '.join(old)}; run `make locks`", file=sys.stderr)
        return 1 if old else 0
    for lock in LOCKS:
        if asked.raised or not lock.is_current:
            print(f"locks: {lock.name}: {make(lock, asked.raised) or 'as before'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
