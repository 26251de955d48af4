"""The seam at which a transport can be swapped: something that sends requests.

`transport.Transport` is the real one; a simulation puts its own in its place, with faults.
Whatever is above (retrying, watching, the controller) knows only this.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from jobyard.client.request import Answer, Request


class Sender(Protocol):
    """Sends requests to one API server."""

    async def send(self, request: Request) -> Answer:
        """The answer, also to an error status; ConnectionFailedError when there is none."""
        ...

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch; RefusedError for an error status. Use `contextlib.aclosing`."""
        ...

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The same for what isn't made of objects, such as a log: bytes as they come."""
        ...
