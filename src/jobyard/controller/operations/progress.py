"""Whether the controller's work goes on, for `/healthz`.

It stands still when a fault of our own holds it up, so that a new process would be better off:

* jobs are due, and for a long time no pass has ended and no request has been sent, answered or
  given up. A request that nobody answers is given up sooner than that, and tried again: an API
  server that is away, or slow, or refuses us, is no standstill, and to start anew would only cost
  the caches. Nor is much work: passes end and requests come and go.
* a watch has told nothing for much longer than the silence after which a connection counts as
  dead: neither a change nor how far it has come, nor that it failed.

Who stands by for another leader has no work. That the event loop turns is shown by the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# More than twice the time after which the client gives up a request, or a watch that is silent.
# (It isn't imported for that: an engine on one machine does without it.)
WORK_SECONDS: Final = 180.0
WATCH_SECONDS: Final = 360.0


class Progress:
    """What was last heard of the work."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        work_seconds: float = WORK_SECONDS,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._clock = clock
        self._work_seconds = work_seconds
        self._watch_seconds = watch_seconds
        self._moved_at = clock()
        self._heard_at: dict[str, float] = {}

    def moved(self) -> None:
        """A pass has ended, or a request was sent or has come to something."""
        self._moved_at = self._clock()

    def heard(self, watch: str) -> None:
        """A watch was begun, has told something, or has failed."""
        self._heard_at[watch] = self._clock()

    def ended(self) -> None:
        """Nothing is watched any more."""
        self._heard_at.clear()

    def standstill(self, due_since: float | None) -> str:
        """What stands still, in words; empty if all goes on. `due_since`: the oldest due job's."""
        now = self._clock()
        if due_since is not None:
            seconds = now - max(due_since, self._moved_at)
            if seconds > self._work_seconds:
                return f"jobs are due, and nothing was done for {seconds:.0f} s"
        for watch, heard_at in self._heard_at.items():
            if now - heard_at > self._watch_seconds:
                return f"nothing was heard of {watch} for {now - heard_at:.0f} s"
        return ""
