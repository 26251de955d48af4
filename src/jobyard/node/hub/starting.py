"""Bringing a hub up: exactly one per data folder, in namespaces of its own, detached.

Decides whether this process may be the hub, whether it needs a user namespace, and whether a
network from before can be taken over. `serving` does the rest.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from jobyard.node.hub.outside import LIFELINE_DESCRIPTOR, attach
from jobyard.node.hub.wire import LOCK_NAME, LOG_NAME, SOCKET_NAME
from jobyard.node.isolation import kernel
from jobyard.node.isolation.descriptors import close_all_but
from jobyard.node.shared import locks
from jobyard.node.shared.polling import until
from jobyard.node.shared.socket_paths import short_path

SANDBOX: Final = "sandbox"
HOST: Final = "host"
# Where every supervisor holds the hub's namespaces, for a hub that comes after.
NETWORK_DESCRIPTOR: Final = 100
USER_DESCRIPTOR: Final = 101
_READY: Final = b"ready"
# Said before it by a hub with a network of its own making, as root or mapped to root.
_PLAIN: Final = b"plain "
_MAPPED: Final = b"mapped "
_RETRY_SECONDS: Final = 0.005
# Less than anybody waits for a hub to start, so that the reason is told.
_LOCK_SECONDS: Final = 20.0
_PROBE_SECONDS: Final = 5.0


def start(kind: str, data: Path, gateway: str) -> None:
    """Returns in the calling process when the hub answers; OSError when there can't be one."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    read, write = os.pipe()
    lifeline, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.close(lifeline)
        _be_hub((kind, gateway), data, write, held)
    os.close(write)
    os.close(held)
    told = b""
    while part := os.read(read, 4096):
        told += part
    os.close(read)
    if not told.endswith(_READY):
        number, _, about = told.partition(b" ")
        code = int(number or errno.EIO)
        raise OSError(code, os.strerror(code), about.decode() or "hub")
    if told != _READY:
        attach(child, data, lifeline, is_mapped=told.startswith(_MAPPED))


def _be_hub(which: tuple[str, str], data: Path, told: int, lifeline: int) -> None:
    code = 1
    kind, gateway = which
    try:
        lock = os.open(data / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        _detach(data, told, lock, lifeline)
        if not _take(lock, data):
            os.write(told, _READY)
            os._exit(0)
        os.dup2(lifeline, LIFELINE_DESCRIPTOR, inheritable=False)
        os.close(lifeline)
        user = _enter_namespaces(data, told, gateway) if kind == SANDBOX else None
        listener = _listen(data)
        os.write(told, _READY)
        os.close(told)
        told = -1
        from jobyard.node.hub.serving import Hub

        Hub(which, data, listener, user).serve()
        code = 0
    except OSError as error:
        if told < 0:
            raise
        os.write(told, f"{error.errno or errno.EIO} {error.filename or kind}".encode())
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _detach(data: Path, *kept: int) -> None:
    """No terminal, no session and no file of who started us; the folder stays the same."""
    os.setsid()
    log = os.open(data / LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, number)
    close_all_but(*kept)
    os.umask(0o022)
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _take(lock: int, data: Path) -> bool:
    """False if another hub answers. One that is about to end is waited for, but not for ever."""

    def is_settled() -> bool:
        return _has_taken(lock) or _is_answering(data)

    # The holder is either not listening yet or about to exit; both are a matter of
    # milliseconds, and a lock can't be waited for together with a socket.
    if not until(is_settled, seconds=_LOCK_SECONDS, interval_seconds=_RETRY_SECONDS):
        about = f"{data / LOCK_NAME}: another hub has it and does not answer"
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), about)
    # Ours already, if it is: taken again it stays so.
    return _has_taken(lock)


def _has_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_answering(data: Path) -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_SECONDS)
        with short_path(data / SOCKET_NAME) as address:
            probe.connect(address)
        return True
    return False


def _listen(data: Path) -> socket.socket:
    path = data / SOCKET_NAME
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with short_path(path) as address:
        listener.bind(address)
    os.chmod(path, 0o600)
    listener.listen(1024)
    return listener


def _enter_namespaces(data: Path, told: int, gateway: str) -> tuple[int, int] | None:
    """Returns the ids of the user when a user namespace was needed; tells of a new network."""
    from jobyard.node.hub.network import extend, lay_out

    ids = (os.getuid(), os.getgid())
    if found := _found_namespaces(data):
        user, network = found
        is_mapped = user >= 0 and not _is_own(user, "user")
        if is_mapped:
            kernel.setns(user, kernel.CLONE_NEWUSER)
        kernel.setns(network, kernel.CLONE_NEWNET)
        extend(gateway)
        return ids if is_mapped else None
    is_mapped = ids[0] != 0
    if not is_mapped:
        try:
            lay_out(gateway, is_mapped=False)
        except PermissionError:
            # Root in name only, as in many containers.
            is_mapped = True
    if is_mapped:
        from jobyard.node.isolation.users import RealUser, enter_new_user_namespace

        real = RealUser(uid=ids[0], gid=ids[1])
        enter_new_user_namespace(inner=RealUser(uid=0, gid=0), outer=real)
        # Else who takes over could not read where this process keeps its namespaces.
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        lay_out(gateway, is_mapped=True)
    os.write(told, _MAPPED if is_mapped else _PLAIN)
    return ids if is_mapped else None


def _is_own(descriptor: int, kind: str) -> bool:
    return os.fstat(descriptor).st_ino == os.stat(f"/proc/self/ns/{kind}").st_ino


def _found_namespaces(data: Path) -> tuple[int, int] | None:
    """Those of a hub that died while pods were running, which their supervisors hold."""
    for folder in (data / "pods").glob("*"):
        pid = supervisor_of(folder)
        if not pid:
            continue
        with contextlib.suppress(OSError):
            base = f"/proc/{pid}/fd"
            network = os.open(f"{base}/{NETWORK_DESCRIPTOR}", os.O_RDONLY)
            user = os.open(f"{base}/{USER_DESCRIPTOR}", os.O_RDONLY)
            return user, network
    return None


def supervisor_of(folder: Path) -> int:
    """The pid of a pod's supervisor while it lives, else 0: who holds the lock of the folder."""
    with contextlib.suppress(OSError):
        return locks.holder_of(folder / "lock")
    return 0


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end of a Unix socket, as this user namespace calls it."""
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", packed)[1])
