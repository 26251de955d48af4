"""What a supervisor is told to run: a pod with everything looked up, as one JSON file.

The agent writes it once, before the supervisor starts; no field of it needs the API server to
be understood. Paths are the machine's own unless they say otherwise.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from jobyard.node.shared.capabilities import DEFAULT_CAPABILITIES

# How much of the log of one run of a container is kept, and in how many files.
LOG_BYTES_DEFAULT = 50 * 2**20
LOG_FILES = 5


class MountType(StrEnum):
    """How something comes to stand at a path of the container."""

    BIND = "bind"
    TMPFS = "tmpfs"


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One path of the container; mounts are made in their order, parents before children."""

    target: str
    type: MountType = MountType.BIND
    # Of a bind: a folder or file that exists on the machine.
    source: str = ""
    read_only: bool = False
    # Of a tmpfs: its size, 0 for the kernel's default.
    size_bytes: int = 0
    # What `source` must not leave, symbolic links included; empty for host paths.
    within: str = ""


class HttpGet(msgspec.Struct, frozen=True, kw_only=True):
    """A GET to a port of the pod; 200 to 399 is good."""

    port: int
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    headers: tuple[tuple[str, str], ...] = ()


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe or a hook does: exactly one of the three is set."""

    argv: tuple[str, ...] = ()
    http: HttpGet | None = None
    tcp_port: int = 0


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """A check that is made again and again, with Kubernetes' figures."""

    check: Check
    initial_delay_seconds: float = 0
    period_seconds: float = 10
    timeout_seconds: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    # Of a liveness or startup probe: what the pod's own is replaced by when it kills.
    grace_seconds: float | None = None


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """Those a container has."""

    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None


class Privileges(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of a container may do, if root; a sandbox sees to it."""

    # Without the prefix CAP_.
    capabilities: tuple[str, ...] = DEFAULT_CAPABILITIES
    no_new_privileges: bool = True
    # Whether system calls that no container should need are denied.
    is_filtered: bool = True
    # Everything that root may do, all devices, nothing denied.
    is_privileged: bool = False


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One container: the command is complete, variables are expanded."""

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    # Empty: the folder that the engine was started in.
    working_folder: str = ""
    mounts: tuple[Mount, ...] = ()
    # Another root folder than the machine's, when an image is mapped to one.
    root_folder: str = ""
    # Of an init container: it goes on beside the others (restartPolicy Always).
    is_sidecar: bool = False
    # Only with real uids (strict, as root); None: as the engine itself.
    uid: int | None = None
    gid: int | None = None
    privileges: Privileges = Privileges()
    tty: bool = False
    stdin: bool = False
    # The input ends when the first who attached leaves.
    stdin_once: bool = False
    memory_limit_bytes: int = 0
    cpu_limit_millis: int = 0
    termination_message_path: str = "/dev/termination-log"
    # FallbackToLogsOnError: the end of the log stands in for a missing message.
    message_from_logs: bool = False
    post_start: Check | None = None
    pre_stop: Check | None = None
    probes: Probes = Probes()


class RestartPolicy(StrEnum):
    """When a container that ended runs again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class PortGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Where pods share the machine's network: the number that stands for somebody's port."""

    # namespace/name of a service or pod.
    owner: str
    port: int
    number: int
    # Whether this pod is the one to listen there.
    is_own: bool = False


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """A port at which a service is called, and the one on which the pod listens.

    No part of an order: services come and go while the pod runs.
    """

    protocol: str
    port: int
    target: int


class PodOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    uid: str
    namespace: str
    name: str
    host_name: str
    # Which attempt of its replica it is: the next may have the same name.
    attempt: int = 0
    # Of the pod on the private network, with the length of the prefix; empty on the host.
    address: str = ""
    prefix_length: int = 16
    gateway: str = ""
    # Bound over /etc/hosts and /etc/resolv.conf; the agent changes the former in place.
    hosts_file: str = ""
    resolver_file: str = ""
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    grace_seconds: float = 30
    # Seconds after the pod's start at which it ends as DeadlineExceeded; 0: none.
    deadline_seconds: float = 0
    init_containers: tuple[ContainerOrder, ...] = ()
    containers: tuple[ContainerOrder, ...] = ()
    # The first delay before a container runs again; doubled each time up to five minutes.
    restart_delay_seconds: float = 10
    # Logs: how large a file grows before it is put aside, and how many are kept.
    log_bytes_max: int = LOG_BYTES_DEFAULT // LOG_FILES
    log_files_max: int = LOG_FILES
    # Folders of the machine that containers see as they are, beside their volumes; all else is
    # below a layer of their own. None: where the engine was started, its home and /tmp.
    kept_folders: tuple[str, ...] | None = None
    # Folders of the machine that no container sees; the engine's own is one of them anyway.
    hidden_folders: tuple[str, ...] = ()
    # What its variables and commands were told; only on the machine's own network.
    ports: tuple[PortGrant, ...] = ()
