"""The one place where a supervisor waits: descriptors, timers and children, in one selector.

It decides nothing. Callbacks run one at a time and must not wait. A timer that was cancelled,
and a descriptor that was let go, call nobody any more, even if they were due already. What a
callback raises is written down and ends nothing else: a pod is worth more than one request.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE
# Meant for a terminal or for somebody else. They are caught, not ignored: what is ignored
# would stay ignored in the commands that are started.
_NOT_FOR_US: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
# Longer is more than the system takes; to wake for nothing now and then costs nothing.
_WAIT_SECONDS_MAX: Final = 3600.0
_REST_SECONDS: Final = 1.0
# So many are kept before those that were cancelled are looked for.
_TIMERS_MIN: Final = 64


class Timer:
    """One call at one time."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    @property
    def is_set(self) -> bool:
        return self._call is not None

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Loop:
    """Waits; made in the main thread, because signals are."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._timers_max = _TIMERS_MIN
        self._count = itertools.count()
        self._children: dict[int, Callable[[int], None]] = {}
        self._childless: Callable[[], None] | None = None
        self._woken, self._waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_NOT_FOR_US):
            signal.signal(number, _noted)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self.watch(self._woken, READ, self._wake)

    def watch(self, descriptor: int, events: int, call: Callable[[], None]) -> None:
        """Calls whenever the descriptor is ready; again to change what for."""
        try:
            self._selector.modify(descriptor, events, call)
        except KeyError:
            self._selector.register(descriptor, events, call)

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is closed; harmless if it isn't watched."""
        try:
            self._selector.unregister(descriptor)
        except KeyError:
            return

    def at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        if len(self._timers) >= self._timers_max:
            self._timers = [entry for entry in self._timers if entry[2].is_set]
            heapq.heapify(self._timers)
            self._timers_max = max(_TIMERS_MIN, 2 * len(self._timers))
        heapq.heappush(self._timers, (when, next(self._count), timer))
        return timer

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self.at(self.now() + seconds, call)

    def child(self, pid: int, call: Callable[[int], None]) -> None:
        """Calls with the wait status, once; the process is gone by then."""
        self._children[pid] = call
        # It may have ended before it was known here.
        os.write(self._waking, b"\0")

    def has_children(self) -> bool:
        return bool(self._children)

    def when_childless(self, call: Callable[[], None]) -> None:
        """Calls once, after the last child that is there now has ended."""
        self._childless = call

    def turn(self) -> None:
        """Waits for the next things to happen and does what they call for."""
        timeout = None
        if self._timers:
            timeout = min(max(0.0, self._timers[0][0] - self.now()), _WAIT_SECONDS_MAX)
        ready = self._selector.select(timeout)
        watched = self._selector.get_map()
        for key, _ in ready:
            if watched.get(key.fd) is key and not _is_done(key.data):
                self._rest(key)
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            _is_done(heapq.heappop(self._timers)[2].fire)

    def _rest(self, key: selectors.SelectorKey) -> None:
        """What failed may fail again at once: the descriptor is left alone for a moment."""
        if self._selector.get_map().get(key.fd) is not key:
            return
        self.forget(key.fd)

        def resume() -> None:
            # It may be closed, or somebody else's, by now.
            if key.fd not in self._selector.get_map():
                with contextlib.suppress(OSError):
                    self.watch(key.fd, key.events, key.data)

        self.after(_REST_SECONDS, resume)

    def let_go(self) -> None:
        """In a forked process: closes the descriptors there, and does nothing to this one's."""
        self._selector.close()
        os.close(self._woken)
        os.close(self._waking)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self.let_go()

    def _wake(self) -> None:
        try:
            os.read(self._woken, 4096)
        except BlockingIOError:
            return
        for pid in list(self._children):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else took it, who should not have: nobody will ever know the code.
                ended, status = pid, signal.SIGKILL
            if ended:
                _is_done(partial(self._children.pop(pid), status))
        call = self._childless
        if call is not None and not self._children:
            self._childless = None
            call()


def _is_done(call: Callable[[], None]) -> bool:
    try:
        call()
    except Exception:
        traceback.print_exc()
        return False
    return True


def _noted(_number: int, _frame: Any) -> None:
    """The wake-up descriptor carries the news; nothing else is to be done."""
