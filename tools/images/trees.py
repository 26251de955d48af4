"""Trees of files: a Debian of its own, and what a script changes in one.

Packages come from where this machine's apt has them: its sources, keys and proxies count, and
none of them gets into a tree. Nothing that a script mounts or starts outlives it, since it
runs in namespaces of its own.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from images.layers import NEWEST_SECONDS

HERE = Path(__file__).resolve().parent
# Python's compiled files then hold a digest of the source, not its time, which layers change.
_REPRODUCIBLE = {"SOURCE_DATE_EPOCH": str(NEWEST_SECONDS)}
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# How this machine reaches its mirrors; what else apt is told here is its own business.
_REACHING = re.compile(r"Acquire::(https?::|Check-Valid-Until|ForceIPv4|Retries)")
_PROXIES = tuple(
    spelled
    for name in ("http_proxy", "https_proxy", "ftp_proxy", "no_proxy")
    for spelled in (name, name.upper())
)
_NOT_IN_IMAGES = (
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/lintian/*",
    # Waiting for the disk after each file makes it three times as long.
    "force-unsafe-io",
)


class ImageError(Exception):
    """An image can't be made; the text says why and what to do."""


def run(words: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """What it printed; when it fails, that is in the error."""
    done = subprocess.run(
        words,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ImageError(f"{' '.join(words)}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def codename() -> str:
    """Of the distribution of this machine, which is the one that images get."""
    path = Path("/etc/os-release")
    lines = path.read_text().splitlines() if path.is_file() else []
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    return facts.get("VERSION_CODENAME", "").strip('"')


def apt_sources(apt: Path = Path("/etc/apt")) -> list[Path]:
    parts = apt / "sources.list.d"
    found = [apt / "sources.list", *sorted(parts.glob("*.list")), *sorted(parts.glob("*.sources"))]
    return [path for path in found if path.is_file() and path.read_text().strip()]


def make_debian(tree: Path, packages: Sequence[str]) -> None:
    """The smallest Debian that can install packages, and these."""
    sources = apt_sources()
    if not codename() or not sources:
        raise ImageError("images are made of Debian's packages, and there is no apt here")
    told = run(["apt-config", "dump"]).splitlines()
    run(
        [
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            "--format=directory",
            f"--include={','.join(packages)}",
            *(f"--aptopt={line}" for line in told if _REACHING.match(line)),
            *(f"--dpkgopt={option}" for option in _NOT_IN_IMAGES),
            codename(),
            str(tree),
            *map(str, sources),
        ],
        _REPRODUCIBLE,
    )
    for path in [*(tree / "etc/apt/sources.list.d").iterdir(), tree / "etc/apt/sources.list"]:
        path.unlink(missing_ok=True)
    (tree / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    # A container gets its own; the files are there to be mounted over.
    for name in ("resolv.conf", "hostname", "hosts"):
        (tree / "etc" / name).write_text("")
    (tree / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    forget_traces(tree)


def change(lower: Sequence[Path], upper: Path, script: Path, given: Path) -> None:
    """Runs the script in the trees, the last on top; what it changes is in `upper` afterwards."""
    work = upper.with_name(upper.name + ".work")
    for folder in (upper, work):
        folder.mkdir(parents=True)
    try:
        _run_inside(lower, (upper, work), script, given)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    forget_traces(upper)


def check(lower: Sequence[Path], script: Path, given: Path) -> None:
    """Runs the script in the trees, none of which can be written to, without a network."""
    _run_inside(lower, None, script, given)


def _run_inside(
    lower: Sequence[Path], written: tuple[Path, Path] | None, script: Path, given: Path
) -> None:
    # overlayfs has the topmost first, and a colon between two.
    stack = [str(path) for path in reversed(lower)]
    at = given.with_name(given.name + ".at")
    at.mkdir()
    apart = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child"]
    if written is None:
        apart.append("--net")
    upper, work = map(str, written) if written is not None else ("", "")
    inside = ["sh", str(HERE / "inside.sh"), str(at), ":".join(stack), upper, work]
    plain = ["env", "-i", f"PATH={_SEARCHED}", "HOME=/root", "LANG=C.UTF-8"]
    # The way out is the machine's, as in /etc/apt; `check` has none.
    ways = {name: os.environ[name] for name in _PROXIES if name in os.environ}
    constant = [f"{name}={value}" for name, value in (_REPRODUCIBLE | ways).items()]
    try:
        run([*apart, *plain, *constant, *inside, str(given), str(script)])
    finally:
        at.rmdir()


def forget_traces(tree: Path) -> None:
    """What tells of the making only, and differs each time."""
    for pattern in ("var/log/**/*", "var/cache/**/*", "var/lib/apt/lists/**/*", "etc/*-", "tmp/*"):
        for path in tree.glob(pattern):
            if path.is_file() and not path.is_symlink():
                path.unlink()
