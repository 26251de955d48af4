"""A Flink cluster as the users of Flink's operator for Kubernetes describe it.

The platform's BeamJob embeds that operator's FlinkCluster. What it says of pods is honoured; what
only that operator could do is known here and has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

import msgspec

from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.value import (
    DNS_LABEL_LENGTH_MAX,
    JSON,
    AbsolutePath,
    EnvVar,
    Quantity,
    Resources,
    Value,
)
from jobyard.schema import core
from jobyard.schema.core import CONTAINERS_MAX, VOLUME_MOUNTS_MAX
from jobyard.schema.derive import Core, Spelled, described

PROPERTIES_MAX = 256
VOLUMES_MAX = 64
LISTED_MAX = 256
DEFAULT_HADOOP_PATH = "/etc/hadoop/conf"
DEFAULT_GCP_PATH = "/etc/gcp-key"
Properties = Annotated[dict[str, str], described(max_length=PROPERTIES_MAX)]
Version = Annotated[str, described(pattern="^[0-9]{1,3}([.][0-9]{1,3}){1,2}$", max_length=11)]
# Programs write 0 for what nobody has set.
PortNumber = Annotated[int, described(ge=0, le=65535)]
ObjectName = Annotated[str, described(max_length=253)]
Labels = Annotated[dict[str, str], described(max_length=PROPERTIES_MAX)]


def _of(name: str) -> msgspec.Meta:
    return described(core=Core(name=name))


Metadata = Annotated[dict[str, JSON], _of(core.OBJECT_META)]
Volumes = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.VOLUME)], ...], described(max_length=VOLUMES_MAX)
]
VolumeMounts = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.VOLUME_MOUNT)], ...],
    described(max_length=VOLUME_MOUNTS_MAX),
]
Containers = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.CONTAINER)], ...],
    described(max_length=CONTAINERS_MAX),
]
ContainerPorts = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.CONTAINER_PORT)], ...],
    described(max_length=LISTED_MAX),
]
Tolerations = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.TOLERATION)], ...], described(max_length=LISTED_MAX)
]
EnvVars = Annotated[tuple[EnvVar, ...], described(max_length=LISTED_MAX)]
EnvSources = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.ENV_FROM)], ...], described(max_length=LISTED_MAX)
]
References = Annotated[
    tuple[Annotated[dict[str, JSON], _of(core.LOCAL_REFERENCE)], ...],
    described(max_length=LISTED_MAX),
]
PodSecurity = Annotated[dict[str, JSON], _of(core.POD_SECURITY)]


class AccessScope(Spelled):
    """Who may reach the cluster's own page."""

    CLUSTER = "Cluster"
    VPC = "VPC"
    EXTERNAL = "External"
    NODE_PORT = "NodePort"
    HEADLESS = "Headless"

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        return {"": cls.CLUSTER}


class FlinkImage(Value):
    """An image, and how it is pulled."""

    name: Annotated[str, described("The image's name with its tag.", min_length=1)]
    pull_policy: Annotated[
        Annotated[str, described(max_length=DNS_LABEL_LENGTH_MAX)] | None,
        described("When the image is pulled: Always, IfNotPresent or Never."),
    ] = None
    pull_secrets: Annotated[References, described("Secrets that the image is pulled with.")] = ()


class Ingress(Value):
    """An ingress for the job manager's page. Not made: no effect."""

    host_format: Annotated[str | None, described("The ingress's host; no effect.")] = None
    annotations: Annotated[Labels | None, described("The ingress's annotations; no effect.")] = None
    use_tls: Annotated[bool | None, described("Whether it speaks TLS; no effect.")] = None
    tls_secret_name: Annotated[str | None, described("Its certificate; no effect.")] = None


class FlinkPods(Value):
    """What can be said of the pods of either manager."""

    resources: Annotated[Resources | None, described("Resources of each.")] = None
    extra_ports: Annotated[ContainerPorts, described("More ports of its container.")] = ()
    volumes: Annotated[Volumes, described("Volumes of its pods.")] = ()
    volume_mounts: Annotated[
        VolumeMounts, described("Mounts in its container, and in its init containers.")
    ] = ()
    init_containers: Annotated[Containers, described("Init containers of its pods.")] = ()
    sidecars: Annotated[Containers, described("More containers of its pods.")] = ()
    node_selector: Annotated[Labels | None, described("Labels of the nodes it runs on.")] = None
    tolerations: Annotated[Tolerations, described("Taints of nodes it may run on.")] = ()
    pod_labels: Annotated[Labels | None, described("Labels of its pods.")] = None
    pod_annotations: Annotated[Labels | None, described("Annotations of its pods.")] = None
    security_context: Annotated[PodSecurity | None, described("Who its pods run as.")] = None
    memory_off_heap_ratio: Annotated[
        Annotated[int, described(ge=0, le=100)] | None,
        described("No effect: Flink divides the container's memory itself."),
    ] = None
    memory_off_heap_min: Annotated[
        Quantity | None, described("No effect: Flink divides the container's memory itself.")
    ] = None


class JobManagerPorts(Value):
    """Where the job manager listens."""

    rpc: Annotated[PortNumber | None, described("For task managers.")] = None
    blob: Annotated[PortNumber | None, described("For large data.")] = None
    query: Annotated[PortNumber | None, described("For queries of a job's state.")] = None
    ui: Annotated[PortNumber | None, described("For its page and for programs.")] = None


class TaskManagerPorts(Value):
    """Where a task manager listens."""

    data: Annotated[PortNumber | None, described("For other task managers.")] = None
    rpc: Annotated[PortNumber | None, described("For the job manager.")] = None
    query: Annotated[PortNumber | None, described("For queries of a job's state.")] = None


class JobManager(FlinkPods):
    """Flink's job manager."""

    access_scope: Annotated[
        AccessScope,
        described("Who may reach the job manager; Jobyard offers it inside the cluster only."),
    ] = AccessScope.CLUSTER
    replicas: Annotated[int, described("How many job managers run; there is one.", ge=1, le=1)] = 1
    ports: Annotated[JobManagerPorts | None, described("Where it listens.")] = None
    ingress: Annotated[Ingress | None, described("An ingress for its page; no effect.")] = None


class TaskManager(FlinkPods):
    """Flink's task managers."""

    replicas: ReplicaCount = 1
    ports: Annotated[TaskManagerPorts | None, described("Where each listens.")] = None


class HadoopConfig(Value):
    """A config map with Hadoop's configuration."""

    config_map_name: Annotated[ObjectName, described("The config map's name.")] = ""
    mount_path: Annotated[
        AbsolutePath, described("Where its files appear; HADOOP_CONF_DIR says so.")
    ] = DEFAULT_HADOOP_PATH


class GcpServiceAccount(Value):
    """A secret with a key of Google's cloud."""

    secret_name: Annotated[ObjectName, described("The secret's name.")] = ""
    key_file: Annotated[str, described("The key's name in the secret.")] = ""
    mount_path: Annotated[
        AbsolutePath,
        described("Where the secret appears; GOOGLE_APPLICATION_CREDENTIALS names the key there."),
    ] = DEFAULT_GCP_PATH


class GcpConfig(Value):
    """How both managers log in to Google's cloud."""

    service_account: Annotated[GcpServiceAccount | None, described("The account's key.")] = None


class FlinkClusterSpec(Value):
    """A Flink cluster."""

    flink_version: Annotated[
        Version, described("Flink's version as a string, such as \"1.19\"; must fit Beam's.")
    ]
    image: Annotated[FlinkImage, described("Flink's image.")]
    service_account_name: Annotated[
        str | None, described("The service account of the cluster's pods.")
    ] = None
    job_manager: Annotated[JobManager, described("The job manager.")] = JobManager()
    task_manager: Annotated[TaskManager, described("The task managers.")] = TaskManager()
    env_vars: Annotated[EnvVars, described("Variables of both managers.")] = ()
    env_from: Annotated[
        EnvSources, described("Config maps and secrets with variables of both managers.")
    ] = ()
    flink_properties: Annotated[Properties | None, described("Lines of Flink's configuration.")] = (
        None
    )
    hadoop_config: Annotated[
        HadoopConfig | None, described("Hadoop's configuration for both managers.")
    ] = None
    gcp_config: Annotated[
        GcpConfig | None, described("How both managers log in to Google's cloud.")
    ] = None
    recreate_on_update: Annotated[
        bool | None, described("No effect: a job's cluster isn't updated.")
    ] = None
    log_config: Annotated[
        Properties | None, described("No effect: Flink logs as its image has it.")
    ] = None
    batch_scheduler_name: Annotated[
        str | None, described("No effect: say spec.scheduler of the BeamJob.")
    ] = None
    revision_history_limit: Annotated[
        Annotated[int, described(ge=0)] | None, described("No effect: there are no revisions.")
    ] = None


class FlinkClusterTemplate(Value):
    """The Flink cluster made for the job."""

    metadata: Annotated[
        Metadata | None,
        described("Its labels and annotations are those of the cluster's pods; no effect else."),
    ] = None
    spec: Annotated[FlinkClusterSpec, described("The cluster.")]
