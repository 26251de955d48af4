"""A pod's lock and state file: who may run it, and what was once told about it.

A state is written beside its place and renamed, so a reader sees a whole one whenever the
writer is killed. It is not flushed to the disk: after a power cut no process is left that it
could be wrong about, and a file that can't be read counts as a pod that had started.
Both the supervisor and the agent use this; neither waits here.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec
from msgspec.structs import replace

from jobyard.node.shared import locks
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import PodOrder
from jobyard.node.shared.state import (
    TAKEN_AWAY_MESSAGE,
    TAKEN_AWAY_REASON,
    ContainerState,
    End,
    PodState,
    Stage,
)

LOST_REASON: Final = "ContainerStatusUnknown"
LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
LOST_EXIT_CODE: Final = 137

_decode_state = msgspec.json.Decoder(PodState).decode
_decode_order = msgspec.json.Decoder(PodOrder).decode


def take_lock(folder: PodFolder) -> int | None:
    """The pod's lock until this process ends or closes it; None if another process has it."""
    return locks.take(folder.lock)


def is_supervised(folder: PodFolder) -> bool:
    """Whether a process holds the lock."""
    return locks.is_taken(folder.lock)


def write_state(folder: PodFolder, state: PodState) -> None:
    """Replaces the state as a whole; only who has the lock may."""
    beside = folder.state.with_suffix(".new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(msgspec.json.encode(state))
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        os.close(descriptor)
    beside.rename(folder.state)


def was_started(folder: PodFolder) -> bool:
    """Whether the pod ever had a supervisor that got as far as its first state."""
    return folder.state.exists()


def read_state(folder: PodFolder) -> PodState | None:
    """What is stored; None if there is nothing, or nothing that can be read."""
    try:
        return _decode_state(folder.state.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def final_state(folder: PodFolder, at: float) -> PodState | None:
    """How a pod without a supervisor ended; None if it never started, so that it may.

    What the supervisor could not say any more is said as kubelet says it of containers that it
    lost, and stored, so that it is the same whenever it is asked. A pod that turns out to have a
    supervisor after all is told as it stands.
    """
    if not was_started(folder):
        return None
    lock = take_lock(folder)
    state = read_state(folder)
    if lock is None:
        return state
    try:
        if state is None:
            state = _unread(folder, at)
        if not state.is_over:
            state = lost(state, at)
            if folder.taken_away.exists():
                state = replace(state, reason=TAKEN_AWAY_REASON, message=TAKEN_AWAY_MESSAGE)
            write_state(folder, state)
        return state
    finally:
        os.close(lock)


def _unread(folder: PodFolder, at: float) -> PodState:
    try:
        order = _decode_order(folder.order.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        # Nothing is known of its containers, and it must not keep the others from starting.
        return PodState(uid=folder.uid, started_at=at)
    return PodState(
        uid=folder.uid,
        started_at=at,
        init_containers=tuple(ContainerState(name=c.name) for c in order.init_containers),
        containers=tuple(ContainerState(name=c.name) for c in order.containers),
    )


def lost(state: PodState, at: float) -> PodState:
    """The state of a pod whose supervisor vanished, together with all that ran in it.

    A container that waited may have been starting just then. Those behind the first init
    container that is not through can't have.
    """
    init = []
    is_behind = False
    for container in state.init_containers:
        is_through = container.end is not None and container.end.exit_code == 0
        if is_behind and container.stage is Stage.WAITING and container.last_end is None:
            init.append(container)
        else:
            init.append(_lost(container, at))
        is_behind = is_behind or not (is_through or container.has_started)
    return replace(
        state,
        init_containers=tuple(init),
        containers=tuple(
            c if is_behind and c.stage is Stage.WAITING and c.last_end is None else _lost(c, at)
            for c in state.containers
        ),
        is_over=True,
        message=state.message or "The process that supervised the pod ended before the pod did",
        revision=state.revision + 1,
    )


def _lost(container: ContainerState, at: float) -> ContainerState:
    if container.stage is Stage.ENDED:
        return container
    end = End(
        exit_code=LOST_EXIT_CODE,
        reason=LOST_REASON,
        message=LOST_MESSAGE,
        started_at=container.started_at,
        finished_at=at,
    )
    return replace(
        container,
        stage=Stage.ENDED,
        reason="",
        message="",
        pid=0,
        is_ready=False,
        has_started=False,
        end=end,
    )
