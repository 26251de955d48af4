"""The process that owns the control plane of one test run: `python -m rig.kube.keeper`.

Started by the first pytest worker that needs a plane. Writes `plane.json` into its
folder when the plane works, closes its standard output to say "look now", and keeps
the plane until the watched process (the main pytest) ends, by whatever means, or
SIGTERM comes. It is a process of its own because a pytest that is killed can't clean
up. The parts in turn are killed by the kernel if the keeper is (see `component`).
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.kube.component import AbandonedError, StartError, await_ending
from rig.kube.control_plane import Parts, running
from rig.kube.plane import save


@contextmanager
def ending_of(watched_pid: int) -> Iterator[int]:
    """A file descriptor that turns readable when the run ends.

    An epoll descriptor can itself be polled, which makes one of two: the pidfd of the
    watched process, and the pipe that Python writes to when a signal arrives. It stays
    readable, so an ending that came during start-up isn't missed.
    """
    signal_reader, signal_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(signal_writer)
    for number in (signal.SIGTERM, signal.SIGINT):
        # The handler has nothing to do: the byte in the pipe is the message.
        signal.signal(number, lambda _number, _frame: None)
    with select.epoll() as either:
        either.register(signal_reader, select.EPOLLIN)
        either.register(os.pidfd_open(watched_pid), select.EPOLLIN)
        yield either.fileno()


def keep(binaries: Path, folder: Path, parts: Parts, ending: int) -> None:
    """Run a plane until `ending`; its description is in `folder`/plane.json meanwhile."""
    described = folder / "plane.json"
    try:
        with running(binaries, folder / "plane", parts, ending=ending) as (plane, components):
            save(plane, described)
            # Whoever started us waits for this; none of the components holds it open.
            os.close(sys.stdout.fileno())
            await_ending(components, ending)
    finally:
        described.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where plane.json goes")
    parser.add_argument("--binaries", type=Path, required=True, help="see tools/get_kube.py")
    parser.add_argument("--watch", type=int, default=os.getppid(), help="process whose end is ours")
    parser.add_argument("--controllers", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--scheduler", action="store_true")
    arguments = parser.parse_args()
    try:
        with ending_of(arguments.watch) as ending:
            keep(
                arguments.binaries,
                arguments.folder.resolve(),
                Parts(controllers=arguments.controllers, scheduler=arguments.scheduler),
                ending,
            )
    except StartError as problem:
        print(problem, file=sys.stderr)
        return 1
    except (AbandonedError, ProcessLookupError):
        return 0
    return 0


if __name__ == "__main__":
    # Skip the flush of a standard output that is closed.
    code = main()
    sys.stderr.flush()
    os._exit(code)
