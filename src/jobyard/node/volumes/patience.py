"""Work on files that may hang, as it does when a server of network files doesn't answer.

It runs in a thread of its own, not in one of those that all share: one that hangs is lost for
everything else, possibly for good. It is waited for a moment, once; who comes again while it
still hangs is told at once, so that nobody else has to wait for a pod's files. Which pod, and
what is to be done about it, is the caller's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from jobyard.node.volumes.contents import VolumeError

PATIENCE_SECONDS: Final = 3.0
Result = TypeVar("Result")
# Called with the name of the volume that comes next.
Begin = Callable[[str], None]


class Patience:
    """All pods of one node; each has at most one thread."""

    def __init__(self) -> None:
        self._hanging: dict[str, str] = {}

    async def do(self, uid: str, work: Callable[[Begin], Result]) -> Result:
        """What the work returns or raises; VolumeError when it takes too long."""
        if (volume := self._hanging.get(uid)) is not None:
            raise _waiting_for(volume)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        at = [""]

        def begin(volume: str) -> None:
            at[0] = volume

        def act() -> None:
            try:
                result = work(begin)
            except BaseException as error:
                tell(_fail, done, error)
            else:
                tell(_succeed, done, result)

        def tell(settle: Callable[..., None], *arguments: object) -> None:
            # The engine may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, *arguments)
                loop.call_soon_threadsafe(self._hanging.pop, uid, None)

        threading.Thread(target=act, daemon=True, name=f"volumes of {uid}").start()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.shield(done)
        except TimeoutError:
            self._hanging[uid] = at[0]
            # Nobody asks for what it may still come to.
            done.add_done_callback(lambda future: future.exception())
            raise _waiting_for(at[0]) from None


def _succeed(done: asyncio.Future[Result], result: Result) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Result], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)


def _waiting_for(volume: str) -> VolumeError:
    text = "its files don't answer; does the server that has them (NFS …) still run?"
    return VolumeError(volume, text, may_pass=True)
