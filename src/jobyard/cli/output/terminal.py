"""The user's terminal while a process elsewhere has it: raw, and as it was before afterwards.

Also reads the standard input, whatever it is, without threads.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STDIN: Final = 0
BLOCK_BYTES: Final = 32 * 1024
DEFAULT_SIZE: Final = (80, 24)


@contextmanager
def raw_terminal(descriptor: int = STDIN) -> Iterator[None]:
    """Every key goes to the program, also those that would end or stop us."""
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor, termios.TCSANOW)
        yield
    finally:
        # Also what the program left in the queue is written before.
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def resized(told: Callable[[], None]) -> Iterator[None]:
    """Calls `told` whenever the window has another size."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, told)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def ended_gently() -> Iterator[list[int]]:
    """A signal that ends us cancels the running task, so that everything is put right.

    The list has the number of the signal afterwards.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None, "used in a task"
    numbers: list[int] = []

    def end(number: int) -> None:
        numbers.append(number)
        task.cancel()

    signals = (signal.SIGTERM, signal.SIGHUP)
    for each in signals:
        loop.add_signal_handler(each, end, each)
    try:
        yield numbers
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


def is_terminal(descriptor: int = STDIN) -> bool:
    return os.isatty(descriptor)


def size(descriptor: int = STDIN) -> tuple[int, int]:
    """Columns and rows."""
    try:
        found = os.get_terminal_size(descriptor)
    except OSError:
        return DEFAULT_SIZE
    return (found.columns or DEFAULT_SIZE[0], found.lines or DEFAULT_SIZE[1])


async def read_input(descriptor: int = STDIN) -> bytes:
    """What there is; nothing at the end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:
        # A plain file: there is always something, or the end.
        return os.read(descriptor, BLOCK_BYTES)
    try:
        await ready.wait()
        return os.read(descriptor, BLOCK_BYTES)
    except OSError:
        # A terminal that is gone.
        return b""
    finally:
        loop.remove_reader(descriptor)


def show(data: bytes, *, is_error: bool) -> None:
    """Writes all of it, at once."""
    stream = sys.stderr.buffer if is_error else sys.stdout.buffer
    stream.write(data)
    stream.flush()
