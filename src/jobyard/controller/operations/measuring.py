"""What the controller tells about its own work, whoever counts it.

`metrics.Metrics` counts for Prometheus; an engine on one machine has nobody who asks.
"""

from __future__ import annotations


class Meter:
    """Told of one thing each time it happens; this one counts nothing."""

    def waited(self, seconds: float) -> None: ...

    def queued(self, depth: int) -> None: ...

    def reconciled(self, kind: str, seconds: float) -> None: ...

    def failed(self, kind: str) -> None: ...

    def created_pods(self, kind: str, count: int) -> None: ...

    def restarted(self, kind: str, count: int) -> None: ...

    def started(self, kind: str, seconds: float) -> None: ...
