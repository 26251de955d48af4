"""Who stands at the door: connections that have not shown a token yet, and how many may.

Anybody on the machine can connect. Other users have a few places, and who finds none is sent away
at once. A connection that says nothing costs a descriptor and no more: TLS begins with its first
byte. Some say nothing, some are in their handshake, some have ended it and have a token to show: of
each the oldest goes when there are too many, so nobody is displaced by those who have done less.
Each has only a while; who has shown the token once stays as long as they like. So strangers don't
keep the owner out, whatever they do and however low the limit of descriptors is.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from jobyard.server.http.peers import Peers

Protocols = Callable[[], asyncio.Protocol]

# Of those that said nothing, of those in their handshake, and of those that were not let in yet;
# fewer where the process may have few descriptors. Some three thousand handshakes begin within a
# second, and the owner's has to end before as many others have begun as there are places: on a busy
# machine that takes a client a tenth of a second.
SILENT_MAX: Final = 256
GREETING_MAX: Final = 1024
WAITING_MAX: Final = 128
# Of those of other users, in either state, and of those that come within a second.
FOREIGN_MAX: Final = 32
STRANGER_SECONDS: Final = 10.0
# More than anybody can have waiting: what finds no place there comes again only after a second.
BACKLOG: Final = 4096
# How many connections are taken before others have their turn. Few: a handshake takes a few turns,
# and in these no more may come than there are places. Who is sent away at once takes no place, but
# fills the queue of those that wait to be taken.
_AT_ONCE: Final = 16
_SENT_AWAY_AT_ONCE: Final = 512
# How every TLS connection begins: a handshake record.
_HELLO: Final = b"\x16\x03"
# After a failure that time alone mends, such as no descriptor being free.
_PAUSE_SECONDS: Final = 0.5
_SAY_AGAIN_SECONDS: Final = 60.0
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger(__name__)


class _Stranger:
    """One connection before it is let in: a socket, then a handshake, then a transport."""

    def __init__(self, connection: socket.socket, since: float, *, is_foreign: bool) -> None:
        self.socket = connection
        self.since = since
        self.is_foreign = is_foreign
        self.handshake: asyncio.Task[None] | None = None
        self.transport: asyncio.BaseTransport | None = None

    @property
    def has_gone(self) -> bool:
        return self.transport is not None and self.transport.is_closing()

    def send_away(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.transport is not None:
            assert isinstance(self.transport, asyncio.Transport), "TLS is a stream"
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()
        else:
            loop.remove_reader(self.socket)
            self.socket.close()


class Door:
    """Accepts on one listening socket. Peers are known by their address and port."""

    def __init__(self, listening: socket.socket, tls: ssl.SSLContext, protocols: Protocols) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._tls = tls
        self._protocols = protocols
        self._loop = asyncio.get_running_loop()
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = 8 * GREETING_MAX
        self._silent_max = max(min(SILENT_MAX, descriptors // 4), 1)
        self._greeting_max = max(min(GREETING_MAX, descriptors * 3 // 8), 1)
        self._waiting_max = max(min(WAITING_MAX, descriptors // 16), 1)
        # By peer, in the order in which they came to be so.
        self._silent: dict[object, _Stranger] = {}
        self._greeting: dict[object, _Stranger] = {}
        self._waiting: dict[object, _Stranger] = {}
        self._peers = Peers()
        # When other users came lately.
        self._came: deque[float] = deque(maxlen=FOREIGN_MAX)
        self._said_at = -_SAY_AGAIN_SECONDS
        self._pause: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._is_closed = False

    def open(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Nobody else comes in, and who was not let in goes; the others stay. May be twice."""
        if self._is_closed:
            return
        self._is_closed = True
        for timer in (self._pause, self._sweep):
            if timer is not None:
                timer.cancel()
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._peers.close()
        for strangers in (self._silent, self._greeting, self._waiting):
            for stranger in tuple(strangers.values()):
                stranger.send_away(self._loop)
            strangers.clear()

    def let_in(self, peer: object) -> None:
        """This one has shown the token, maybe with the last word of its handshake."""
        self._greeting.pop(peer, None)
        self._waiting.pop(peer, None)

    def _accept(self) -> None:
        places, looks = _AT_ONCE, _SENT_AWAY_AT_ONCE
        while places and looks:
            looks -= 1
            try:
                connection, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                self._rest(problem)
                return
            is_foreign = not self._peers.is_own(connection, peer)
            if is_foreign and not self._has_place_for_foreign():
                connection.close()
                continue
            places -= 1
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stranger = _Stranger(connection, self._loop.time(), is_foreign=is_foreign)
            self._silent[peer] = stranger
            self._loop.add_reader(connection, self._heard, peer, stranger)
            self._bound()

    def _has_place_for_foreign(self) -> bool:
        """Nobody's handshakes are to keep the engine busy, however short they stay."""
        now = self._loop.time()
        if len(self._came) == FOREIGN_MAX and now - self._came[0] < 1:
            return False
        # Those that have gone by themselves don't stand there.
        gone = [peer for peer, each in self._waiting.items() if each.has_gone]
        for peer in gone:
            del self._waiting[peer]
        there = (*self._silent.values(), *self._greeting.values(), *self._waiting.values())
        has_place = sum(1 for stranger in there if stranger.is_foreign) < FOREIGN_MAX
        if has_place:
            self._came.append(now)
        return has_place

    def _rest(self, problem: OSError) -> None:
        """Until others have let go of something. Who says nothing goes first."""
        if problem.errno not in _EXHAUSTED:
            raise problem
        now = self._loop.time()
        if now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            _log.error("no connection can be taken: %s", problem.strerror)
        self._send_away(self._silent, len(self._silent) // 2 + 1)
        self._loop.remove_reader(self._listening)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)

    def _heard(self, peer: object, stranger: _Stranger) -> None:
        """It said something, or has gone."""
        self._loop.remove_reader(stranger.socket)
        self._silent.pop(peer, None)
        try:
            is_tls = stranger.socket.recv(len(_HELLO), socket.MSG_PEEK) in (_HELLO, _HELLO[:1])
        except OSError:
            is_tls = False
        if not is_tls:
            stranger.socket.close()
            return
        self._greeting[peer] = stranger
        stranger.handshake = self._loop.create_task(self._greet(stranger))
        stranger.handshake.add_done_callback(lambda _: self._greeted(peer, stranger))
        self._bound()

    async def _greet(self, stranger: _Stranger) -> None:
        # No TLS, or gone: whoever it was knows.
        with contextlib.suppress(OSError):
            stranger.transport, _ = await self._loop.connect_accepted_socket(
                self._protocols,
                stranger.socket,
                ssl=self._tls,
                ssl_handshake_timeout=STRANGER_SECONDS,
            )

    def _greeted(self, peer: object, stranger: _Stranger) -> None:
        # Not if it was let in, or sent away.
        is_there = self._greeting.get(peer) is stranger
        if is_there:
            del self._greeting[peer]
        if stranger.transport is None:
            # It may have been sent away before TLS was begun.
            stranger.socket.close()
        elif is_there:
            self._waiting[peer] = stranger
            self._bound()

    def _bound(self) -> None:
        self._send_away(self._silent, len(self._silent) - self._silent_max)
        self._send_away(self._greeting, len(self._greeting) - self._greeting_max)
        self._send_away(self._waiting, len(self._waiting) - self._waiting_max)
        if self._sweep is None and not self._is_closed:
            self._sweep = self._loop.call_later(STRANGER_SECONDS, self._sweep_out)

    def _send_away(self, strangers: dict[object, _Stranger], count: int) -> None:
        """The oldest, who had most time to say who they are."""
        for peer in list(islice(strangers, max(count, 0))):
            strangers.pop(peer).send_away(self._loop)

    def _sweep_out(self) -> None:
        self._sweep = None
        late = self._loop.time() - STRANGER_SECONDS
        for strangers in (self._silent, self._greeting, self._waiting):
            count = sum(1 for stranger in strangers.values() if stranger.since <= late)
            self._send_away(strangers, count)
        if self._silent or self._greeting or self._waiting:
            self._sweep = self._loop.call_later(STRANGER_SECONDS / 4, self._sweep_out)
