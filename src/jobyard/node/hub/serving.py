"""The hub at work: answers questions, forks supervisors, and ends when nothing is left to do.

One thread that never waits for a pod. A forked supervisor answers for itself, on the connection
of who asked, so that the hub is free again at once.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from jobyard.node.hub import network
from jobyard.node.hub.log_size import keep_small
from jobyard.node.hub.outside import LIFELINE_DESCRIPTOR, NO_WAY, chosen, has_way
from jobyard.node.hub.starting import (
    NETWORK_DESCRIPTOR,
    SANDBOX,
    USER_DESCRIPTOR,
    peer_uid,
    supervisor_of,
)
from jobyard.node.hub.wire import (
    LOG_NAME,
    OUTSIDE_LOG_NAME,
    SOCKET_NAME,
    answer,
    read_question,
)
from jobyard.node.isolation import init, kernel, processes
from jobyard.node.isolation.descriptors import close_all_but
from jobyard.node.isolation.host import HostCage
from jobyard.node.isolation.sandbox import SandboxCage
from jobyard.node.isolation.users import RealUser
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder
from jobyard.node.shared.polling import until
from jobyard.node.shared.protocol import PROTOCOL
from jobyard.node.supervisor.life import supervise

# What every supervisor holds on to, for hubs to come and for the way outside.
_SHARED: Final = (NETWORK_DESCRIPTOR, USER_DESCRIPTOR, LIFELINE_DESCRIPTOR)
_LOOK_SECONDS: Final = 5.0
_CLIENT_SECONDS: Final = 5.0
_QUIT_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.005
_ACCEPT_AGAIN_SECONDS: Final = 0.2
_decode_order: Final = msgspec.json.Decoder(PodOrder).decode


Ids = tuple[int, int]


class Hub:
    """One per data folder; `which`: its kind and its gateway.

    `user` are the ids of who started it, if it is in a user namespace.
    """

    def __init__(
        self, which: tuple[str, str], data: Path, listener: socket.socket, user: Ids | None
    ) -> None:
        kind, self._gateway = which
        self._kind = kind
        self._data = data
        self._listener = listener
        self._user = RealUser(uid=user[0], gid=user[1]) if user else None
        self._is_done = False
        # By uid of the pod; only those that this hub forked itself.
        self._supervisors: dict[str, int] = {}
        if kind == SANDBOX:
            for number, name in ((NETWORK_DESCRIPTOR, "net"), (USER_DESCRIPTOR, "user")):
                descriptor = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
                os.dup2(descriptor, number, inheritable=False)
                os.close(descriptor)

    def serve(self) -> None:
        """Until told to quit, or until the data folder is gone."""
        # What is there now stays for good; forked processes need not look at it again.
        gc.freeze()
        with contextlib.suppress(OSError):
            kernel.prctl(kernel.PR_SET_NAME, b"jobyard-hub")
            # What a supervisor that was killed leaves behind comes here to be reaped.
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        signals = init.listen()
        poll = select.poll()
        for descriptor in (signals, self._listener.fileno()):
            poll.register(descriptor, select.POLLIN)
        while not self._is_done and (self._data / SOCKET_NAME).exists():
            ready = {descriptor for descriptor, _ in poll.poll(_LOOK_SECONDS * 1000)}
            if signals in ready and signal.SIGTERM in os.read(signals, 512):
                break
            self._reap()
            for name in (LOG_NAME, OUTSIDE_LOG_NAME):
                keep_small(self._data / name)
            if self._listener.fileno() in ready and not self._accept():
                # No descriptors left, most likely: to try again at once would be to try for ever.
                poll.unregister(self._listener)
                poll.poll(_ACCEPT_AGAIN_SECONDS * 1000)
                poll.register(self._listener, select.POLLIN)
        (self._data / SOCKET_NAME).unlink(missing_ok=True)
        if self._is_done:
            # Whoever waits for the hub's end waits for that of all it ever started, also of what
            # has come to it because all who should have ended it were killed.
            processes.kill_descendants_of(os.getpid())
            until(self._reap, seconds=_QUIT_SECONDS, interval_seconds=_AGAIN_SECONDS)

    def _reap(self) -> bool:
        """Whether no child is left."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitpid(-1, os.WNOHANG)[0]:
                for uid, pid in list(self._supervisors.items()):
                    if pid == ended:
                        del self._supervisors[uid]
            return False
        return True

    def _accept(self) -> bool:
        """Answers one question, whatever it is; whether there was anybody to answer."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return False
        with connection:
            connection.settimeout(_CLIENT_SECONDS)
            try:
                if peer_uid(connection) == os.geteuid():
                    self._answer(connection, read_question(connection))
            except Exception as error:
                if not isinstance(error, ValueError | KeyError | OSError):
                    traceback.print_exc()
                answer(connection, {"problem": f"{type(error).__name__}: {error}"})
        return True

    def _answer(self, connection: socket.socket, question: dict[str, Any]) -> None:
        match question["do"]:
            case "start":
                self._start(connection, PodFolder(self._data, question["uid"]))
            case "socket":
                family = socket.AF_INET6 if question.get("v6") else socket.AF_INET
                with socket.socket(family, socket.SOCK_STREAM) as made:
                    answer(connection, {}, made.fileno())
            case "status":
                answer(connection, self._status())
            case "quit":
                for pid in self._supervisors.values():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self._is_done = True
                # Nobody else may be told that a hub answers.
                (self._data / SOCKET_NAME).unlink(missing_ok=True)
                answer(connection, {})
            case unknown:
                raise ValueError(f"don't know {unknown!r}")

    def _status(self) -> dict[str, Any]:
        way, resolver = NO_WAY, ""
        if self._kind == SANDBOX and has_way():
            way, resolver = chosen(is_mapped=self._user is not None)
        return {
            "pid": os.getpid(),
            "protocol": PROTOCOL,
            "kind": self._kind,
            "gateway": self._gateway,
            "mapped": self._user is not None,
            "outside": way,
            "resolver": resolver,
        }

    def _start(self, connection: socket.socket, folder: PodFolder) -> None:
        if folder.uid in self._supervisors or supervisor_of(folder.path):
            answer(connection, {"started": False})
            return
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_supervisor(connection, folder)
        self._supervisors[folder.uid] = pid

    def _be_supervisor(self, connection: socket.socket, folder: PodFolder) -> NoReturn:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            close_all_but(connection.fileno(), *_SHARED)
            with contextlib.suppress(OSError):
                kernel.prctl(kernel.PR_SET_NAME, b"jobyard-pod")
            order = _decode_order(folder.order.read_bytes())
            cage = self._cage(folder, order)
            answer(connection, {"started": True})
            connection.close()
            supervise(folder, order, cage)
        except BaseException as error:
            traceback.print_exc()
            answer(connection, {"problem": _told(error)})
            os._exit(1)
        os._exit(0)

    def _cage(self, folder: PodFolder, order: PodOrder) -> SandboxCage | HostCage:
        if self._kind != SANDBOX:
            return HostCage(folder, order)
        network.join(order)
        return SandboxCage(folder, order, self._user)


def _told(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.EEXIST:
        return f"{error.filename} is there already: is the address in use?"
    return f"{type(error).__name__}: {error}"
