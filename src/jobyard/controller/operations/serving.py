"""The controller's own HTTP endpoints: is it alive, is it ready, and its metrics.

The controller's command opens them for as long as it runs. `/healthz` fails when the work
makes no progress, so that the kubelet starts the process anew; that it is answered at all shows
that the event loop turns. `/readyz` is for those who look at the Deployment. What alive and
ready mean is said by the two callables. There is nothing secret here, and nothing to change.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final, Self

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from jobyard.controller.operations.metrics import Metrics

# A client that never finishes its request would otherwise hold up our end for ten seconds.
SHUTDOWN_SECONDS: Final = 1.0
UNAVAILABLE: Final = 503
NOT_FILLED: Final = "the caches are not filled yet"

Check = Callable[[], bool]
_Answering = Callable[[web.Request], Awaitable[web.Response]]
_log = logging.getLogger(__name__)


class ServingError(Exception):
    """The endpoints can't be opened; the message says where and why."""


class Serving:
    """The endpoints: `async with Serving("0.0.0.0", 8080, metrics, is_ready) as serving`.

    `is_ready` holds once the caches are filled, and also while we stand by for another leader:
    a rolling update waits for the new pod to be ready while the old one still leads.
    """

    def __init__(
        self,
        host: str,
        port: int,
        metrics: Metrics,
        is_ready: Check,
        standstill: Callable[[], str] = str,
    ) -> None:
        """`standstill` says what holds up the work; an empty text: nothing does."""
        self._host = host
        # Once open, the real one where 0 was asked for.
        self.port = port
        self._metrics = metrics
        app = web.Application()
        app.router.add_get("/healthz", _answering(_logged(standstill)))
        app.router.add_get("/readyz", _answering(lambda: "" if is_ready() else NOT_FILLED))
        app.router.add_get("/metrics", self._tell_metrics)
        # A line for each probe would bury what matters.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self.port).start()
        except (OSError, OverflowError) as error:
            await self._runner.cleanup()
            raise ServingError(self._refusal(error)) from error
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _tell_metrics(self, _: web.Request) -> web.Response:
        body = self._metrics.exposition()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _refusal(self, error: OSError | OverflowError) -> str:
        number = error.errno if isinstance(error, OSError) else None
        why = os.strerror(number).lower() if number and number > 0 else "not an address of ours"
        return f"metrics and health at {self._host}:{self.port}: {why}; choose another --listen"


def _answering(complaint: Callable[[], str]) -> _Answering:
    async def answer(_: web.Request) -> web.Response:
        text = complaint()
        if not text:
            return web.Response(text="ok\n")
        return web.Response(status=UNAVAILABLE, text=f"{text}\n")

    return answer


def _logged(complaint: Callable[[], str]) -> Callable[[], str]:
    """Nobody would know why the kubelet started the process anew."""

    def told() -> str:
        text = complaint()
        if text:
            _log.error("/healthz fails: %s", text)
        return text

    return told
