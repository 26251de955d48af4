"""A Flink cluster: one job manager, and task managers with the program's Python beside them.

Called by `plan.kinds.beamjob`. Settings go through `FLINK_PROPERTIES`, as Flink's official
image takes them; a Flink that is only unpacked (or came with pip) is started with the same
settings as options. It doesn't know which versions fit Beam: `versions` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobyard.api.parts.flink_cluster import FlinkClusterSpec, FlinkClusterTemplate, FlinkPods
from jobyard.numerals import port_number
from jobyard.plan.lowering.beam.cluster import (
    AWAIT_NAME,
    HOST,
    SCRATCH,
    TEMPORARY_FILES,
    Cluster,
    Companion,
    Fittings,
    cluster_role,
    in_order,
    memory_limit_mebibytes,
    ports,
    ready_when,
    whole_cores,
    with_resources,
    without_program,
)
from jobyard.plan.lowering.beam.flink_files import given_files
from jobyard.plan.lowering.beam.versions import major_minor
from jobyard.plan.lowering.description import JSON
from jobyard.schema.finding import Finding, Path, warning

JOB_MANAGER = "flinkcluster-jobmanager"
TASK_MANAGER = "flinkcluster-taskmanager"
_PLACE: Path = ("spec", "flinkClusterTemplate", "spec")

_REST_PORT = 8081
_RPC_PORT = 6123
_BLOB_PORT = 6124
_TASK_MANAGER_RPC_PORT = 6122
# A pod's own network, which the other pods must reach it through.
_ANYWHERE = "0.0.0.0"  # noqa: S104

# The image's entry point puts the settings in Flink's file and leaves root behind. Elsewhere the
# folder of Flink need not be writable, so its logs go to the pod's own; and an option is two words,
# since the job manager's script takes any other first word for a host name.
_SCRIPT = f"""\
{AWAIT_NAME}\
role=$1
shift
if [ -x /docker-entrypoint.sh ]; then exec /docker-entrypoint.sh "$role" "$@"; fi
home=${{FLINK_HOME:-/opt/flink}}
if [ ! -d "$home" ]; then home=$(python -m pyflink.find_flink_home) || exit; fi
export FLINK_LOG_DIR="${{FLINK_LOG_DIR:-{SCRATCH}}}" FLINK_PID_DIR={SCRATCH}
while IFS= read -r line; do
  set -- "$@" -D "${{line%%: *}}=${{line#*: }}"
done <<END
$FLINK_PROPERTIES
END
exec "$home/bin/$role.sh" start-foreground "$@"
"""

# Flink's scripts read these before its Java does, so an option would come too late. As variables
# they are added to what Flink's own file says, without which it fails on newer Javas.
_JAVA_OPTIONS = ("env.java.opts", "env.java.opts.all")
_PROPERTIES = "FLINK_PROPERTIES"
_JAVA_OPTIONS_OF = {
    "jobmanager": ("env.java.opts.jobmanager", "FLINK_ENV_JAVA_OPTS_JM"),
    "taskmanager": ("env.java.opts.taskmanager", "FLINK_ENV_JAVA_OPTS_TM"),
}
_JAVA_VARIABLES = tuple(variable for _, variable in _JAVA_OPTIONS_OF.values())


def flink_cluster(template: FlinkClusterTemplate, master: str, companion: Companion) -> Cluster:
    """`master` is the job manager's host name."""
    spec = template.spec
    rest = _port(_given(spec), "rest.port", _REST_PORT)
    return Cluster(
        roles=(
            cluster_role(
                JOB_MANAGER,
                spec.job_manager.replicas,
                _job_manager(spec, master),
                (*_PLACE, "jobManager"),
                without_program(companion),
                _fittings(template, spec.job_manager),
            ),
            cluster_role(
                TASK_MANAGER,
                spec.task_manager.replicas,
                _task_manager(spec, master),
                (*_PLACE, "taskManager"),
                companion,
                _fittings(template, spec.task_manager),
            ),
        ),
        runner_options=(
            "--runner=FlinkRunner",
            f"--flink_master={master}:{rest}",
            f"--flink_version={major_minor(spec.flink_version)}",
        ),
    )


def _job_manager(spec: FlinkClusterSpec, master: str) -> JSON:
    given = _given(spec)
    resources = spec.job_manager.resources
    settings = {
        **_shared(master),
        "jobmanager.bind-host": _ANYWHERE,
        "rest.address": master,
        "rest.bind-address": _ANYWHERE,
        **_memory("jobmanager", resources),
        **given,
    }
    rest = _port(given, "rest.port", _REST_PORT)
    numbers = ports(
        rpc=_port(given, "jobmanager.rpc.port", _RPC_PORT),
        blob=_port(given, "blob.server.port", _BLOB_PORT),
        rest=rest,
    )
    ready = ready_when(httpGet={"path": "/overview", "port": rest})
    return _container("jobmanager", spec, settings, resources) | {
        "ports": [*numbers, *spec.job_manager.extra_ports],
        "readinessProbe": ready,
    }


def _task_manager(spec: FlinkClusterSpec, master: str) -> JSON:
    given = _given(spec)
    resources = spec.task_manager.resources
    settings = {
        **_shared(master),
        "taskmanager.host": HOST,
        "taskmanager.bind-host": _ANYWHERE,
        "taskmanager.rpc.port": str(_TASK_MANAGER_RPC_PORT),
        # Flink's own rule of thumb: a slot for each core.
        "taskmanager.numberOfTaskSlots": str(whole_cores(resources) or 1),
        **_memory("taskmanager", resources),
        **given,
    }
    rpc = _port(given, "taskmanager.rpc.port", _TASK_MANAGER_RPC_PORT)
    return _container("taskmanager", spec, settings, resources) | {
        "ports": [*ports(rpc=rpc), *spec.task_manager.extra_ports],
        "readinessProbe": ready_when(tcpSocket={"port": rpc}),
    }


def _shared(master: str) -> dict[str, str]:
    return {
        "jobmanager.rpc.address": master,
        "jobmanager.rpc.port": str(_RPC_PORT),
        "blob.server.port": str(_BLOB_PORT),
        "rest.port": str(_REST_PORT),
        "io.tmp.dirs": SCRATCH,
    }


def _memory(role: str, resources: JSON | None) -> dict[str, str]:
    """All of the limit, since Flink reckons its heap, its stacks and its buffers from that."""
    limit = memory_limit_mebibytes(resources)
    return {f"{role}.memory.process.size": f"{limit}m"} if limit is not None else {}


def _container(
    role: str, spec: FlinkClusterSpec, settings: Mapping[str, str], resources: JSON | None
) -> dict[str, Any]:
    own, variable = _JAVA_OPTIONS_OF[role]
    given = [settings[key] for key in (*_JAVA_OPTIONS, own) if key in settings]
    others = {key: value for key, value in settings.items() if not key.startswith("env.java.opts")}
    # The entry point drops all white space in a line (from Flink 1.19 on): such values go as
    # options, which Flink reads last.
    spaced = {key: value for key, value in others.items() if len(value.split()) > 1}
    lines = [f"{key}: {value}" for key, value in others.items() if key not in spaced]
    theirs = [each for each in spec.env_vars if each["name"] not in (_PROPERTIES, variable)]
    more = [each["value"] for each in spec.env_vars if each["name"] == variable and "value" in each]
    env = [
        {"name": _PROPERTIES, "value": "\n".join(lines)},
        {"name": variable, "value": " ".join((TEMPORARY_FILES, *given, *more))},
        *(files.variable for files in given_files(spec)),
        *theirs,
    ]
    container: dict[str, Any] = {
        "name": role,
        "image": spec.image.name,
        "command": ["sh", "-c", _SCRIPT, "flink"],
        "args": [role, *(word for key in spaced for word in ("-D", f"{key}={spaced[key]}"))],
        "env": env,
    }
    if spec.image.pull_policy:
        container["imagePullPolicy"] = spec.image.pull_policy
    if spec.env_from:
        container["envFrom"] = list(spec.env_from)
    return dict(with_resources(container, resources))


def _given(spec: FlinkClusterSpec) -> dict[str, str]:
    """All settings of the user's: lines of the configuration win over ports and variables."""
    of_manager, of_workers = spec.job_manager.ports, spec.task_manager.ports
    numbers = {
        "jobmanager.rpc.port": of_manager and of_manager.rpc,
        "blob.server.port": of_manager and of_manager.blob,
        "rest.port": of_manager and of_manager.ui,
        "queryable-state.proxy.ports": of_manager and of_manager.query,
        "taskmanager.data.port": of_workers and of_workers.data,
        "taskmanager.rpc.port": of_workers and of_workers.rpc,
        "queryable-state.server.ports": of_workers and of_workers.query,
    }
    said = {key: str(number) for key, number in numbers.items() if number}
    for each in spec.env_vars:
        if each["name"] == _PROPERTIES:
            lines = (line.partition(":") for line in each.get("value", "").splitlines())
            said |= {key.strip(): value.strip() for key, colon, value in lines if colon}
    return in_order({**said, **(spec.flink_properties or {})})


def _fittings(template: FlinkClusterTemplate, pods: FlinkPods) -> Fittings:
    spec, metadata = template.spec, template.metadata or {}
    labels = {**metadata.get("labels", {}), **(pods.pod_labels or {})}
    annotations = {**metadata.get("annotations", {}), **(pods.pod_annotations or {})}
    pod = {
        "serviceAccountName": spec.service_account_name,
        "nodeSelector": pods.node_selector,
        "tolerations": list(pods.tolerations),
        "securityContext": pods.security_context,
    }
    return Fittings(
        metadata={k: v for k, v in (("labels", labels), ("annotations", annotations)) if v},
        pod={key: value for key, value in pod.items() if value},
        volumes=(*pods.volumes, *(files.volume for files in given_files(spec))),
        mounts=(*pods.volume_mounts, *(files.mount for files in given_files(spec))),
        init_containers=tuple(_with_mounts(each, pods) for each in pods.init_containers),
        sidecars=pods.sidecars,
        pull_secrets=spec.image.pull_secrets,
    )


def _with_mounts(container: JSON, pods: FlinkPods) -> JSON:
    """An init container sees what its manager will, as the operator has it."""
    own = container.get("volumeMounts", ())
    paths = {mount["mountPath"] for mount in own}
    mounts = [*own, *(each for each in pods.volume_mounts if each["mountPath"] not in paths)]
    return {**container, "volumeMounts": mounts} if mounts else container


def flink_advice(template: FlinkClusterTemplate) -> Iterator[Finding]:
    """What of the cluster isn't done."""
    for field, value in (template.metadata or {}).items():
        if field not in ("labels", "annotations", "creationTimestamp") and value:
            yield warning(
                (*_PLACE[:-1], "metadata", field),
                "has no effect: labels and annotations go to the cluster's pods, and no more",
            )
    spec = template.spec
    unheeded: tuple[tuple[Path, object, str], ...] = (
        (("logConfig",), spec.log_config, "Flink logs as its image has it"),
        (
            ("batchSchedulerName",),
            spec.batch_scheduler_name,
            "say spec.scheduler, which is for all pods of the job",
        ),
        (("revisionHistoryLimit",), spec.revision_history_limit, "there are no revisions"),
        (("recreateOnUpdate",), spec.recreate_on_update, "a job's cluster isn't updated"),
        (
            ("jobManager", "ingress"),
            spec.job_manager.ingress,
            "no ingress is made; `kubectl port-forward` reaches the page",
        ),
    )
    memory = "Flink divides the container's memory itself; flinkProperties can say how"
    for name, pods in (("jobManager", spec.job_manager), ("taskManager", spec.task_manager)):
        unheeded += (
            ((name, "memoryOffHeapRatio"), pods.memory_off_heap_ratio, memory),
            ((name, "memoryOffHeapMin"), pods.memory_off_heap_min, memory),
        )
    for path, value, why in unheeded:
        if value:
            yield warning((*_PLACE, *path), f"has no effect: {why}")
    for n, each in enumerate(spec.env_vars):
        if each["name"] in (_PROPERTIES, *_JAVA_VARIABLES) and "valueFrom" in each:
            yield warning(
                (*_PLACE, "envVars", n, "valueFrom"),
                "has no effect: Jobyard sets this variable; say it in flinkProperties",
            )


def _port(properties: Mapping[str, str], key: str, default: int) -> int:
    """A port that the user's settings may have moved; of a range the first, as Flink tries it."""
    first = properties.get(key, "").partition("-")[0].strip()
    return port_number(first) or default
