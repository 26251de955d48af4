"""The way from the private network to the rest of the world, where a program for it is installed.

`pasta` and `slirp4netns` carry packets of a network namespace through ordinary sockets, without
rights and without a change to the machine; so root uses them too. Neither is let at the
machine's loopback. Without them pods reach nothing, unless the engine offers a proxy on the
gateway's address. It decides which one, and how long it lives: as long as anybody holds the
lifeline.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
from pathlib import Path
from typing import Final

from jobyard.node.hub.wire import OUTSIDE_LOG_NAME
from jobyard.node.shared.private_network import RESOLVER

# Held by the hub and all supervisors; the program ends when the last of them does.
LIFELINE_DESCRIPTOR: Final = 102
NO_WAY: Final = "none"
# The pid of the shell that ends the program.
KEEPER_NAME: Final = "outside-keeper"
# The resolver of slirp4netns, in its own network.
SLIRP_RESOLVER: Final = "10.0.2.3"
_TUN: Final = "/dev/net/tun"
_READY_SECONDS: Final = 3.0
# Descriptor 3 is the lifeline, 4 tells that the program is ready.
_PASTA: Final = """
"$@" 4>&- || exit 1
echo ready >&4; exec 4>&-
read -r _ <&3
pid=$(cat "$0")
kill "$pid"
# It is nobody's child, so it can't be waited for; one that does not listen is killed.
for _ in 0 1 2 3 4 5 6 7 8 9; do
  for _ in 0 1 2 3 4 5 6 7 8 9; do
    kill -0 "$pid" 2>/dev/null || exit 0
    sleep 0.05
  done
done
kill -KILL "$pid"
"""
_SLIRP: Final = """
"$@" 3<&- &
exec 4>&-
read -r _ <&3
kill $!
wait
"""


def chosen(*, is_mapped: bool) -> tuple[str, str]:
    """The name of the program and the address of its resolver; nothing if none is there."""
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return NO_WAY, ""
    # Started by root, pasta becomes nobody before it opens the namespace, which is root's.
    if is_mapped and shutil.which("pasta"):
        return "pasta", RESOLVER
    if shutil.which("slirp4netns"):
        return "slirp4netns", SLIRP_RESOLVER
    return NO_WAY, ""


def has_way() -> bool:
    """Whether this namespace has a default route, i.e. the program has got there."""
    with open("/proc/net/route") as file:
        return any(line.split()[1:2] == ["00000000"] for line in file)


def _command(program: str, hub: int, *, is_mapped: bool, pid_file: str) -> list[str]:
    network, user = f"/proc/{hub}/ns/net", f"/proc/{hub}/ns/user"
    if program == "pasta":
        # Ports of neither side are forwarded, and the gateway does not stand for the machine.
        closed = [word for option in "tuTU" for word in (f"-{option}", "none")]
        options = ["--config-net", "--no-map-gw", "-4", "-q", *closed, "-P", pid_file]
        options += ["--dns-forward", RESOLVER, "--netns", network, "--userns", user]
        return ["sh", "-c", _PASTA, pid_file, program, *options]
    options = ["--configure", "--disable-host-loopback", "--mtu=65520", "--ready-fd=4"]
    options += [f"--userns-path={user}"] if is_mapped else []
    options += ["--netns-type=path", network, "tap0"]
    return ["sh", "-c", _SLIRP, "sh", program, *options]


def attach(hub: int, data: Path, lifeline: int, *, is_mapped: bool) -> None:
    """From outside the hub's namespaces; returns when there is a way, or soon after if not."""
    program, _ = chosen(is_mapped=is_mapped)
    if program == NO_WAY:
        return
    words = _command(program, hub, is_mapped=is_mapped, pid_file=str(data / "outside.pid"))
    ready, told = os.pipe()
    log = os.open(data / OUTSIDE_LOG_NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        moved = [os.dup(one) for one in (null, log, log, lifeline, told)]
        for number, descriptor in enumerate(moved):
            os.dup2(descriptor, number)
        os.closerange(5, 1 << 16)
        try:
            os.execvp("sh", words)  # noqa: S606, S607 - the system's own shell
        finally:
            os._exit(127)
    (data / KEEPER_NAME).write_text(str(child))
    for descriptor in (told, log, null):
        os.close(descriptor)
    # A program that fails closes it, too.
    select.select([ready], [], [], _READY_SECONDS)
    os.close(ready)
