"""A pod as the controller reads it: the part of the object that facts are taken from.

Decoded from raw JSON once per version; `pod_facts` makes of it what decisions are about. Texts stay
texts here: an API server looks at few of them more closely.
"""

from __future__ import annotations

import msgspec


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an object's metadata that is read of children."""

    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[dict[str, str | bool], ...] = ()


class Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int
    reason: str = ""
    message: str = ""
    signal: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class State(msgspec.Struct, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    state: State = State()
    container_id: str = msgspec.field(name="containerID", default="")


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Status(msgspec.Struct, frozen=True, rename="camel"):
    # Any text: an API server looks no closer at what somebody writes there.
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    host_ip: str = msgspec.field(name="hostIP", default="")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class PodObject(msgspec.Struct, frozen=True):
    """The part of a core/v1 Pod that is read at all."""

    metadata: Meta
    spec: Spec = Spec()
    status: Status = Status()
