"""Get everything that the tests need beyond the virtualenv, all at once.

    python tools/get_parts.py           all that this user can have
    python tools/get_parts.py --list    what that is, and what it waits for

Decides what runs beside what: builds, which keep all cores busy, one after the other; what mostly
waits for the network beside them. Each part is a tool that can be run alone, and knows itself what
it has already. `make parts` and CI call it. Lines of a part begin with its name; the table at the
end tells what took how long. If a part fails, the others are ended and its command is shown. It
refuses to know how anything is got. Standard library only.
"""

import argparse
import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from cache_folder import cache_root
from get_frameworks import FRAMEWORKS, folder_of, megabytes

TOOLS = Path(__file__).resolve().parent
# How long a part that is told to end may take before it is made to.
GRACE_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Part:
    """Something to get, and the command that gets it."""

    name: str
    command: tuple[str, ...]
    # Names of parts that have to be there first.
    needs: tuple[str, ...] = ()
    # Whether it keeps all cores busy.
    is_build: bool = False
    # Where what it got is, for the table.
    folder: Path | None = None


@dataclass(slots=True)
class Progress:
    """How the parts stand."""

    waiting: list[Part]
    running: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    began: dict[str, float] = field(default_factory=dict)
    took: dict[str, float] = field(default_factory=dict)
    failed: Part | None = None


def all_parts(environment: Mapping[str, str], is_root: bool) -> tuple[Part, ...]:
    """In the order in which they should begin: what takes longest, and what others wait for."""
    cache = cache_root(environment)

    def by(tool: str, *words: str) -> tuple[str, ...]:
        return (sys.executable, str(TOOLS / tool), *words)

    purposes = ("tests", "frameworks", *(("cluster", "images") if is_root else ()))
    kube = Part("kube", by("get_kube.py", "--all"), ("go",), True, cache / "kube")
    packages = ("sh", str(TOOLS / "system_packages.sh"), *purposes)
    # The longest first; the small ones fill the gaps.
    by_size = ("torch", "beam", "tensorflow", "spark", "flink", "xgboost", "mpi")
    known = {framework.name: framework for framework in FRAMEWORKS}
    frameworks = tuple(
        Part(
            name,
            by("get_frameworks.py", name),
            ("system",),
            folder=folder_of(known[name], environment),
        )
        for name in sorted(known, key=by_size.index)
    )
    parts = (
        Part("go", by("get_go.py"), folder=cache / "go"),
        Part("system", packages),
        kube,
        *frameworks,
        Part("coredns", by("get_coredns.py"), ("go",), True, cache / "coredns"),
    )
    if not is_root:
        return parts
    # Trees with owners and mounts, which only root can make; of packages, so mostly downloads.
    return (*parts, Part("images", by("get_images.py"), ("system",), folder=cache / "images"))


# The ends of parts; or the exit code of who was told to end.
Ended = queue.SimpleQueue[tuple[Part, int] | int]


def can_begin(part: Part, progress: Progress, parts: Iterable[Part]) -> bool:
    if not all(name in progress.took for name in part.needs):
        return False
    builds = {each.name for each in parts if each.is_build}
    return not (part.is_build and builds & set(progress.running))


def get(
    parts: Sequence[Part], environment: Mapping[str, str], ended: Ended | None = None
) -> Progress:
    """Run them all; what was running when one failed has ended when this returns.

    Whoever wants an end before puts the exit code into `ended`.
    """
    progress = Progress(waiting=list(parts))
    ended = queue.SimpleQueue() if ended is None else ended
    readers: list[threading.Thread] = []
    try:
        while progress.waiting or progress.running:
            for part in list(progress.waiting):
                if can_begin(part, progress, parts):
                    progress.waiting.remove(part)
                    readers.append(_begin(part, progress, environment, ended))
            if not progress.running:
                raise ValueError(
                    f"nothing gets {', '.join(each.name for each in progress.waiting)}"
                )
            end = ended.get()
            if isinstance(end, int):
                sys.exit(end)
            part, code = end
            del progress.running[part.name]
            progress.took[part.name] = monotonic() - progress.began[part.name]
            if code != 0:
                progress.failed = part
                break
    finally:
        _end(progress.running.values())
        for reader in readers:
            reader.join(GRACE_SECONDS)
    return progress


def _begin(
    part: Part,
    progress: Progress,
    environment: Mapping[str, str],
    ended: Ended,
) -> threading.Thread:
    process = subprocess.Popen(
        part.command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # So that whatever it starts can be ended with it.
        start_new_session=True,
    )
    progress.running[part.name] = process
    progress.began[part.name] = monotonic()

    def follow() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                # One write for a line, so that those of two parts don't run into each other.
                sys.stderr.write(f"{part.name:>10} | {line}")
                sys.stderr.flush()
        ended.put((part, process.wait()))

    # Not waited for at the end, should something that was not ended hold its output.
    reader = threading.Thread(target=follow, name=part.name, daemon=True)
    reader.start()
    return reader


def _end(processes: Iterable["subprocess.Popen[str]"]) -> None:
    still = list(processes)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in still:
            if process.poll() is None:
                os.killpg(process.pid, number)
        limit = monotonic() + GRACE_SECONDS
        for process in still:
            try:
                process.wait(max(0, limit - monotonic()))
            except subprocess.TimeoutExpired:
                continue
        still = [process for process in still if process.poll() is None]


def table(parts: Iterable[Part], progress: Progress, seconds: float) -> str:
    """What took how long, and how big it is."""
    lines = []
    for part in parts:
        if part.name not in progress.took:
            lines.append(f"{part.name:<11} {'not got':>18}")
            continue
        is_kept = part.folder is not None and part.folder.is_dir()
        size = f"{megabytes(part.folder):8.0f} MB" if part.folder and is_kept else " " * 11
        verdict = "  FAILED" if part is progress.failed else ""
        lines.append(f"{part.name:<11}{size} {progress.took[part.name]:6.0f} s{verdict}")
    lines.append(f"{'together':<11}{'':11} {seconds:6.0f} s")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="get nothing")
    parts = all_parts(os.environ, os.geteuid() == 0)
    if parser.parse_args().list:
        for part in parts:
            print(f"{part.name:<11} {', '.join(part.needs):<11} {shlex.join(part.command)}")
        return 0
    if os.geteuid() != 0:
        print("parts: without images, and what else only root can have", file=sys.stderr)
    ended: Ended = queue.SimpleQueue()
    # Told and not raised: between the start of a part and its place in the books it would go on.
    signal.signal(signal.SIGTERM, lambda *_: ended.put(143))
    signal.signal(signal.SIGINT, lambda *_: ended.put(130))
    began = monotonic()
    progress = get(parts, os.environ, ended)
    print(table(parts, progress, monotonic() - began), flush=True)
    if progress.failed is not None:
        command = shlex.join(progress.failed.command)
        print(f"parts: {progress.failed.name} failed; alone: {command}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
