"""What agent and supervisor say to each other: one JSON document a line, in both directions.

The supervisor says how the pod stands when somebody connects and at every change. Commands
carry a number of the client's own, and the answer repeats it. Descriptors that belong to an
answer travel with it (SCM_RIGHTS); `streams` names them, in their order. `since` is the protocol
that a command came with. Only values are here.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from jobyard.node.shared.order import Redirect
from jobyard.node.shared.state import PodState

LINE_BYTES_MAX: Final = 4 * 2**20


class StopPod(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """End the pod; answered when it was understood, not when it is done."""

    since: ClassVar[int] = 0

    number: int
    grace_seconds: float
    # Because the machine or the engine goes: that says nothing about the pod.
    is_shutdown: bool = False


class StartInside(msgspec.Struct, frozen=True, kw_only=True, tag="inside"):
    """One more process in a running container; answered with its streams and `status`."""

    since: ClassVar[int] = 0

    number: int
    container: str
    argv: tuple[str, ...]
    stdin: bool = False
    tty: bool = False


class SignalInside(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """To a process that was started inside; one that ended already is no problem."""

    since: ClassVar[int] = 0

    number: int
    pid: int
    signal: int


class AttachTo(msgspec.Struct, frozen=True, kw_only=True, tag="attach"):
    """Where the container's own command reads from, if it has a `stdin` at all.

    Its output is in its log.
    """

    since: ClassVar[int] = 0

    number: int
    container: str


class ConnectTo(msgspec.Struct, frozen=True, kw_only=True, tag="connect"):
    """A connection to a TCP port of the pod, its loopback first; answered with `socket`."""

    since: ClassVar[int] = 0

    number: int
    port: int


class ForwardPorts(msgspec.Struct, frozen=True, kw_only=True, tag="forward"):
    """What comes to these ports of the pod arrives at others; in place of what was so before."""

    since: ClassVar[int] = 0

    number: int
    redirects: tuple[Redirect, ...]


Command = StopPod | StartInside | SignalInside | AttachTo | ConnectTo | ForwardPorts


class StateTold(msgspec.Struct, frozen=True, kw_only=True, tag="state"):
    """How the pod stands; it is stored already. `protocol` is the supervisor's."""

    state: PodState
    protocol: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """To one command. `problem` is empty if it was done."""

    number: int
    problem: str = ""
    streams: tuple[str, ...] = ()
    pid: int = 0


Word = StateTold | Answer

decode_command = msgspec.json.Decoder(Command).decode
decode_word = msgspec.json.Decoder(Word).decode


def encode_line(value: Command | Word) -> bytes:
    return msgspec.json.encode(value) + b"\n"
