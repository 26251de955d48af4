"""A terminal that somebody sits at: a real pty, and what its screen shows.

It knows the few control sequences that Jobyard writes and stumbles over any other, so that a
test sees what a person would see. Lines that left the top of the screen are kept.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Callable
from time import monotonic

from rig.person import Person

_SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9;]*)([A-Za-z])")
FRAME_END = (b"?", b"2026", b"l")


class Terminal:
    """One command on one terminal of a fixed size."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.lines = lines
        self.raw = b""
        # What stood on the screen each time a picture was complete.
        self.frames: list[list[str]] = []
        self._rows: list[list[str]] = [[]]
        self._row = 0
        self._column = 0
        self._held = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._slave = slave
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, who: Person, *words: str, **env: str) -> None:
        """`jobyard` with these words, with the terminal as its own."""
        without = {name: value for name, value in who.environment.items() if name != "NO_COLOR"}
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *who.jobyard(*words)],
            cwd=who.work,
            env=without | {"TERM": "xterm-256color"} | env,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
        )
        os.close(self._slave)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, seen: Callable[[], bool], seconds: float = 60) -> None:
        """Shows what comes until there is something to see."""
        deadline = monotonic() + seconds
        while not seen():
            left = deadline - monotonic()
            assert left > 0, "\n".join(self.text)
            ready, _, _ = select.select([self._master], [], [], left)
            assert not ready or self._read(), "it ended:\n" + "\n".join(self.text)

    def wait(self, seconds: float = 60) -> int:
        """To the end of the command; its exit code."""
        assert self.process is not None, "started before"
        deadline = monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._master], [], [], max(deadline - monotonic(), 0))
            assert ready, "\n".join(self.text)
            if not self._read():
                return self.process.wait(timeout=10)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> list[str]:
        """All lines, also those above the screen."""
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def screen(self) -> list[str]:
        return self.text[-self.lines :]

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # The last one who had it open is gone.
            return False
        self.raw += data
        self._show(self._held + data)
        return bool(data)

    def _show(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if data[at] == 0x1B:
                found = _SEQUENCE.match(data, at)
                if found is None:
                    assert len(data) - at < 16, f"not a sequence: {data[at : at + 16]!r}"
                    break
                self._act((found[1], found[2], found[3]))
                at = found.end()
                continue
            end = min(
                (e for e in (data.find(c, at + 1) for c in _ENDS) if e > 0), default=len(data)
            )
            piece = data[at:end]
            try:
                self._write(piece.decode())
            except UnicodeDecodeError:
                if end < len(data):
                    raise
                break
            at = end
        self._held = data[at:]

    def _act(self, sequence: tuple[bytes, bytes, bytes]) -> None:
        match sequence:
            case (b"", _, b"m") | (b"?", b"2026", b"h"):
                return
            case (b"?", b"2026", b"l"):
                self.frames.append(self.screen)
            case (b"", count, b"F"):
                self._row -= int(count or b"1")
                assert self._row >= max(len(self._rows) - self.lines, 0), "above the screen"
                self._column = 0
            case (b"", b"" | b"0", b"J"):
                del self._rows[self._row + 1 :]
                del self._rows[self._row][self._column :]
            case _:
                raise AssertionError(f"a terminal may not know {sequence}")

    def _write(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._down()
            elif character == "\r":
                self._column = 0
            elif character == "\a":
                continue
            else:
                assert character.isprintable(), f"{character!r} is no text"
                if self._column == self.columns:
                    self._down()
                    self._column = 0
                row = self._rows[self._row]
                row.extend(" " * (self._column - len(row)))
                row[self._column : self._column + 1] = [character]
                self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])


_ENDS = (b"\x1b", b"\n", b"\r")
