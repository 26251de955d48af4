"""A pod as the agent reads it: of the object on the API server, what decides how it runs.

Decoded from raw JSON once per version. What isn't named here (affinity, tolerations, images'
pull secrets) is the scheduler's business or has no meaning on one machine. Decides nothing.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.node.objects.volume_source import Amount, FieldRef, ResourceRef, Volume
from jobyard.numerals import UINT64_MAX, whole_number


class _Camel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Kubernetes spells its fields in camelCase."""


class Reference(_Camel, frozen=True):
    """One key of a config map or secret; of a source of all keys only the name is set."""

    name: str = ""
    key: str = ""
    optional: bool = False


class ValueSource(_Camel, frozen=True):
    """Where the value of a variable comes from; one of them is set."""

    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None
    config_map_key_ref: Reference | None = None
    secret_key_ref: Reference | None = None


class Variable(_Camel, frozen=True):
    """One entry of `env`."""

    name: str
    value: str = ""
    value_from: ValueSource | None = None


class VariableSource(_Camel, frozen=True):
    """One entry of `envFrom`."""

    prefix: str = ""
    config_map_ref: Reference | None = None
    secret_ref: Reference | None = None


class VolumeMount(_Camel, frozen=True):
    """Where a volume stands in a container."""

    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str = ""
    sub_path_expr: str = ""


class Port(_Camel, frozen=True):
    """A port that a container says it has."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class ExecAction(_Camel, frozen=True):
    """A command to run inside."""

    command: tuple[str, ...] = ()


class Header(_Camel, frozen=True):
    """One header of a probe's request."""

    name: str
    value: str = ""


class HttpAction(_Camel, frozen=True):
    """A GET to make; ports may be named."""

    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[Header, ...] = ()


class TcpAction(_Camel, frozen=True):
    """A port to connect to."""

    port: int | str


class GrpcAction(_Camel, frozen=True):
    """A gRPC health check."""

    port: int
    service: str | None = None


class SleepAction(_Camel, frozen=True):
    """A hook that only lets time pass."""

    seconds: int


class Action(_Camel, frozen=True):
    """What a hook does; one of them is set."""

    exec: ExecAction | None = None
    http_get: HttpAction | None = None
    tcp_socket: TcpAction | None = None
    sleep: SleepAction | None = None


class ProbeSpec(Action, frozen=True):
    """A probe with Kubernetes' defaults."""

    grpc: GrpcAction | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    timeout_seconds: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class Lifecycle(_Camel, frozen=True):
    """Hooks of a container."""

    post_start: Action | None = None
    pre_stop: Action | None = None


class Resources(_Camel, frozen=True):
    """What a container may use and what it asks for."""

    limits: dict[str, Amount] = {}
    requests: dict[str, Amount] = {}


class CapabilityChanges(_Camel, frozen=True):
    """By name, with or without CAP_; or ALL."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SeccompProfile(_Camel, frozen=True):
    """Unconfined, RuntimeDefault or Localhost."""

    type: str = ""


class SecurityContext(_Camel, frozen=True):
    """Of it, whom the command runs as and what it may do."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: CapabilityChanges = CapabilityChanges()
    seccomp_profile: SeccompProfile | None = None


class Container(_Camel, frozen=True):
    """One container, or one init container."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[Variable, ...] = ()
    env_from: tuple[VariableSource, ...] = ()
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()
    volume_mounts: tuple[VolumeMount, ...] = ()
    startup_probe: ProbeSpec | None = None
    liveness_probe: ProbeSpec | None = None
    readiness_probe: ProbeSpec | None = None
    lifecycle: Lifecycle = Lifecycle()
    security_context: SecurityContext = SecurityContext()
    restart_policy: str = ""
    tty: bool = False
    stdin: bool = False
    stdin_once: bool = False
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: whether it goes on beside the others."""
        return self.restart_policy == "Always"


class PodSpec(_Camel, frozen=True):
    """How a pod should run."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    enable_service_links: bool | None = None
    security_context: SecurityContext = SecurityContext()

    @property
    def side_by_side(self) -> tuple[Container, ...]:
        """All that run at the same time: the sidecars, then the containers."""
        sidecars = (each for each in self.init_containers if each.is_sidecar)
        return (*sidecars, *self.containers)


class Metadata(_Camel, frozen=True):
    """Who a pod is."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class PodObject(_Camel, frozen=True):
    """One pod. The status stays JSON: what others wrote into it must not get lost."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: dict[str, Any] = {}
    # No fields of Kubernetes': why the spec can't be read, which is then left empty; and what of
    # the spec is left out on this machine, in a sentence.
    problem: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    @property
    def host_name(self) -> str:
        # What the kernel takes; kubelet cuts at the same length.
        return (self.spec.hostname or self.metadata.name)[:63].rstrip("-.")

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def has_ended(self) -> bool:
        """Whether the status says that it is over, for good."""
        return self.status.get("phase") in ("Succeeded", "Failed")

    @property
    def version(self) -> int:
        return whole_number(self.metadata.resource_version, UINT64_MAX) or 0


_decoder: Final = msgspec.json.Decoder(PodObject)


class _Bare(_Camel, frozen=True):
    metadata: Metadata
    status: dict[str, Any] = {}


def pod_of(raw: bytes) -> PodObject:
    """Reads what an API server sent; one that makes no sense to us has a `problem`."""
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError:
        return pod_from(msgspec.json.decode(raw))


def pod_from(value: Any) -> PodObject:
    """Reads a pod that is a JSON value already."""
    plain = without_nulls(value)
    try:
        return msgspec.convert(plain, PodObject)
    except msgspec.ValidationError as error:
        # One odd pod must not stop the agent: it is known by name, and refused.
        bare = msgspec.convert(plain, _Bare)
        return PodObject(metadata=bare.metadata, status=bare.status, problem=str(error))


def without_nulls(value: Any) -> Any:
    """Servers and users write nulls where nothing is said; they mean nothing."""
    match value:
        case dict():
            return {key: without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [without_nulls(each) for each in value]
    return value
