"""`jobyard run` on a terminal, as a picture: a real run, and the table as it stood in the middle.

Like the blocks of `docs_pages.runs` it is made by `make howto`, where the file that ran has
changed since; the SVG carries the digest of that file.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from docs_pages.picture import COLUMNS, picture
from docs_pages.runs import WRITE_VARIABLE, BadRunError, digest

COMMAND = "jobyard run examples/genericjob/allreduce.yaml"
PLACE = "docs/images/run.svg"
_LINES = 60
# What takes back the table before lines and the table's next version are written.
_TAKEN_BACK = re.compile(r"\x1b\[(\d+)F\x1b\[J")
_FRAME_END = "\x1b[?2026l"
_FRAME_BEGIN = "\x1b[?2026h"


def run_picture(root: Path) -> str:
    """The file as it stands, or as it comes out now if that is asked for and needed."""
    wish = os.environ.get(WRITE_VARIABLE)
    if not wish or (is_current(root) and wish != "all"):
        return _there(root)
    print(COMMAND, file=sys.stderr, flush=True)
    drawn = picture("jobyard run in a terminal", [(COMMAND, _screen(_typed_out(root)))])
    return drawn + _mark(root)


def is_current(root: Path) -> bool:
    """Whether the file that ran is still the same."""
    return _there(root).endswith("</svg>\n" + _mark(root))


def _there(root: Path) -> str:
    place = root / PLACE
    return place.read_text() if place.is_file() else ""


def _mark(root: Path) -> str:
    return f"<!-- ran: {digest(COMMAND, root)} -->\n"


def _typed_out(root: Path) -> str:
    """All that the command wrote to a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-m", *COMMAND.split()],
        cwd=root,
        env=environment | {"TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    written = b""
    try:
        while piece := os.read(master, 65536):
            written += piece
    except OSError:
        # What a terminal says when the last one who wrote to it has gone.
        pass
    finally:
        os.close(master)
    if (code := process.wait()) != 0:
        raise BadRunError(f"{COMMAND} ended with {code}")
    return written.decode().replace("\r\n", "\n")


def _screen(written: str) -> str:
    """What stood there in the middle of the run: lines of replicas, and the table below them."""
    frames: list[list[str]] = []
    lines: list[str] = []
    for frame in written.split(_FRAME_END):
        before, _, drawn = frame.partition(_FRAME_BEGIN)
        lines += before.splitlines()
        taken = _TAKEN_BACK.match(drawn)
        if taken:
            del lines[-int(taken[1]) :]
            drawn = drawn[taken.end() :]
        lines += drawn.splitlines()
        frames.append(list(lines))
    # The last with a table in it: the next one took the table away.
    return "\n".join(frames[-3])
