"""From a forked process to the user's command: what it inherits, and words for what goes wrong.

Called in the last process before `exec`. It refuses to know namespaces: whatever is to hold for
the command has been made before. Failures travel through a pipe as JSON to who forked.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import stat
import sys
import termios
from typing import Final, NoReturn, Protocol

import msgspec

from jobyard.node.isolation.cage import CannotRunError, NotNowError
from jobyard.node.shared.descriptor_limit import restore_limit
from jobyard.node.shared.order import ContainerOrder

_DEFAULT_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REPORT_BYTES_MAX: Final = 65536
# Does the same wherever a distribution puts it; others that share a name may differ.
_SAME_ANYWHERE: Final = frozenset({"sshd"})


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """The command's ends of its streams; with a terminal all three are the same."""

    stdin: int
    stdout: int
    stderr: int
    is_terminal: bool = False


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What is executed, as whom and where."""

    argv: tuple[str, ...]
    env: dict[str, str]
    folder: str
    uid: int | None = None
    gid: int | None = None
    # Nothing of an image is there: programs are where the machine has them.
    is_of_machine: bool = False

    @classmethod
    def of(cls, order: ContainerOrder, argv: tuple[str, ...] = ()) -> Command:
        """The container's own command, or another one in its place."""
        return cls(
            argv=argv or order.argv,
            env=order.env,
            folder=order.working_folder or os.getcwd(),
            uid=order.uid,
            gid=order.gid,
            is_of_machine=not order.root_folder,
        )


def start_error(message: str) -> CannotRunError:
    """What Kubernetes shows when the runtime could not start a process."""
    return CannotRunError("StartError", f"unable to start container process: {message}")


def start_failed(error: OSError) -> CannotRunError:
    """The same for what the kernel said; a lack of processes passes."""
    if error.errno == errno.EAGAIN:
        return NotNowError(
            "StartError", f"unable to start container process: {error.strerror or error}"
        )
    return start_error(str(error))


def words(number: int) -> str:
    """An error number in the spelling of Kubernetes' runtimes."""
    return os.strerror(number).lower()


def _standing_in(command: Command) -> str:
    """A program of the machine for one that an image would have elsewhere; empty for most."""
    name = os.path.basename(command.argv[0])
    if not command.is_of_machine or name not in _SAME_ANYWHERE:
        return ""
    places = f"{command.env.get('PATH', '')}:{_DEFAULT_PATH}"
    found = shutil.which(name, path=places) or ""
    if found:
        told = f"jobyard: there is no {command.argv[0]} on this machine: running {found}\n"
        os.write(2, told.encode(errors="replace"))
    return found


def _executable(command: Command) -> str:
    name = command.argv[0]
    if "/" in name:
        try:
            mode = os.stat(name).st_mode
        except OSError as error:
            if found := _standing_in(command):
                return found
            raise start_error(f'exec: "{name}": stat {name}: {words(error.errno or 0)}') from error
        if stat.S_ISDIR(mode):
            raise start_error(f'exec: "{name}": is a directory')
        if not os.access(name, os.X_OK):
            raise start_error(f'exec: "{name}": permission denied')
        return name
    for folder in command.env.get("PATH", _DEFAULT_PATH).split(":"):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise start_error(f'exec: "{name}": executable file not found in $PATH')


def _take_streams(streams: Streams) -> None:
    os.setsid()
    # All three are moved out of the way first: one may be where another has to go.
    safe = [
        fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10)
        for one in (streams.stdin, streams.stdout, streams.stderr)
    ]
    for number, descriptor in enumerate(safe):
        os.dup2(descriptor, number)
    if streams.is_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _become(command: Command) -> None:
    if command.gid is not None or command.uid is not None:
        gid = command.gid if command.gid is not None else 0
        os.setgroups([gid])
        os.setgid(gid)
    if command.uid is not None:
        os.setuid(command.uid)


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        reason = words(error.errno or 0)
        raise start_error(f'chdir to cwd ("{folder}") failed: {reason}') from error


def reset_signals() -> None:
    """Nothing ignored, nothing blocked. What is caught stops being so at `exec` by itself."""
    signal.set_wakeup_fd(-1)
    # Python ignores these two when it starts; nothing else is, since the hub took them all over.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Restraint(Protocol):
    """What a cage takes from a process on its way to the command."""

    def bound(self) -> None:
        """While it still is who it was."""
        ...

    def shed(self) -> None:
        """After it has become whom it runs as."""
        ...


def execute(
    command: Command, streams: Streams, report: int, restraint: Restraint | None = None
) -> NoReturn:
    """Becomes the command, or writes the reason to `report` and exits."""
    try:
        _take_streams(streams)
        if restraint is not None:
            restraint.bound()
        _become(command)
        if restraint is not None:
            restraint.shed()
        _enter(command.folder)
        path = _executable(command)
        os.umask(0o022)
        restore_limit()
        reset_signals()
        os.set_inheritable(report, False)
        os.closerange(3, report)
        os.closerange(report + 1, 1 << 20)
        try:
            # sshd starts itself again by the name that it was called by.
            name = path if "/" in command.argv[0] else command.argv[0]
            os.execve(path, (name, *command.argv[1:]), command.env)  # noqa: S606 - there is no shell
        except OSError as error:
            raise start_error(f"exec {path}: {words(error.errno or errno.EIO)}") from error
    except BaseException as error:
        tell(report, error)
    os._exit(128)


def tell(report: int, error: BaseException) -> None:
    """Sends a failure to who forked this process."""
    if isinstance(error, OSError) and error.errno == errno.EAGAIN:
        error = start_failed(error)
    elif not isinstance(error, CannotRunError):
        sys.excepthook(type(error), error, error.__traceback__)
        error = start_error(f"{type(error).__name__}: {error}")
    message = {
        "reason": error.reason,
        "message": str(error),
        "code": error.exit_code,
        "passes": isinstance(error, NotNowError),
    }
    with contextlib.suppress(OSError):
        os.write(report, json.dumps(message).encode()[:_REPORT_BYTES_MAX])


def await_start(report: int, pid: int) -> None:
    """Until the command runs; a process that could not become it is waited for."""
    try:
        await_report(report)
    except CannotRunError:
        os.waitpid(pid, 0)
        raise


def await_report(report: int) -> None:
    """Returns when the command runs; raises what kept it from that. Closes the descriptor."""
    text = b""
    try:
        while part := os.read(report, _REPORT_BYTES_MAX):
            text += part
    finally:
        os.close(report)
    if text:
        told = json.loads(text)
        kind = NotNowError if told["passes"] else CannotRunError
        raise kind(told["reason"], told["message"], told["code"])
