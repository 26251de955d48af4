"""How a pod stands, as its supervisor tells it: one JSON file, replaced as a whole.

Written before the agent is told, so that what was once told is never taken back. Times are
seconds since the epoch.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

# Kubelet's words for a pod that ends because its node shuts down.
TAKEN_AWAY_REASON: Final = "Terminated"
TAKEN_AWAY_MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."


class Stage(StrEnum):
    """How far a container has come."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How one run of a container ended."""

    exit_code: int
    # 0: it ended by itself.
    signal: int = 0
    # Completed, Error, OOMKilled, ContainerCannotRun, ContainerStatusUnknown …
    reason: str
    message: str = ""
    started_at: float
    finished_at: float


class ContainerState(msgspec.Struct, frozen=True, kw_only=True):
    """One container. `run` counts its runs from 0, so it is the restart count too."""

    name: str
    stage: Stage = Stage.WAITING
    # Why it waits: PodInitializing, ContainerCreating, CrashLoopBackOff, CreateContainerError.
    reason: str = "ContainerCreating"
    message: str = ""
    run: int = 0
    # The process outside all namespaces.
    pid: int = 0
    started_at: float = 0
    is_ready: bool = False
    has_started: bool = False
    end: End | None = None
    # The run before this one, whatever the stage.
    last_end: End | None = None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something worth an event that no other field tells: Unhealthy, Killing, BackOff …"""

    # Counts from 1 for each pod, so that one that was told already is known again.
    number: int
    at: float
    container: str
    reason: str
    message: str
    is_warning: bool = True


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """One pod. `is_over`: nothing of it runs, nor will; the supervisor is about to exit."""

    uid: str
    supervisor_pid: int = 0
    started_at: float = 0
    init_containers: tuple[ContainerState, ...] = ()
    containers: tuple[ContainerState, ...] = ()
    is_over: bool = False
    # Of the pod as a whole: DeadlineExceeded, Terminated; empty for an ordinary end.
    reason: str = ""
    message: str = ""
    # Grows with each change.
    revision: int = 0
    # The newest few, oldest first.
    notes: tuple[Note, ...] = ()
