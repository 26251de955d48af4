"""A Flink cluster: one job manager, and task managers with the program's Python beside them.

Called by `plan.kinds.beamjob`. Settings go through `FLINK_PROPERTIES`, as Flink's official
image takes them; a Flink that is only unpacked (or came with pip) is started with the same
settings as options. It doesn't know which versions fit Beam: `versions` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.api.beamjob import FlinkClusterSpec
from jobyard.numerals import port_number
from jobyard.plan.beam.cluster import (
    AWAIT_NAME,
    HOST,
    SCRATCH,
    TEMPORARY_FILES,
    Cluster,
    Companion,
    cluster_role,
    in_order,
    memory_limit_mebibytes,
    ports,
    ready_when,
    whole_cores,
    with_resources,
    without_program,
)
from jobyard.plan.beam.versions import major_minor
from jobyard.plan.description import JSON
from jobyard.schema.finding import Path

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
_JAVA_OPTIONS_OF = {
    "jobmanager": ("env.java.opts.jobmanager", "FLINK_ENV_JAVA_OPTS_JM"),
    "taskmanager": ("env.java.opts.taskmanager", "FLINK_ENV_JAVA_OPTS_TM"),
}


def flink_cluster(spec: FlinkClusterSpec, master: str, companion: Companion) -> Cluster:
    """`master` is the job manager's host name."""
    properties = spec.flink_properties or {}
    rest = _port(properties, "rest.port", _REST_PORT)
    return Cluster(
        roles=(
            cluster_role(
                JOB_MANAGER,
                spec.job_manager.replicas,
                _job_manager(spec, master),
                (*_PLACE, "jobManager"),
                without_program(companion),
            ),
            cluster_role(
                TASK_MANAGER,
                spec.task_manager.replicas,
                _task_manager(spec, master),
                (*_PLACE, "taskManager"),
                companion,
            ),
        ),
        runner_options=(
            "--runner=FlinkRunner",
            f"--flink_master={master}:{rest}",
            f"--flink_version={major_minor(spec.flink_version)}",
        ),
    )


def _job_manager(spec: FlinkClusterSpec, master: str) -> JSON:
    given = in_order(spec.flink_properties)
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
        "ports": numbers,
        "readinessProbe": ready,
    }


def _task_manager(spec: FlinkClusterSpec, master: str) -> JSON:
    given = in_order(spec.flink_properties)
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
        "ports": ports(rpc=rpc),
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
    env = [
        {"name": "FLINK_PROPERTIES", "value": "\n".join(lines)},
        {"name": variable, "value": " ".join((TEMPORARY_FILES, *given))},
    ]
    container = {
        "name": role,
        "image": spec.image.name,
        "command": ["sh", "-c", _SCRIPT, "flink"],
        "args": [role, *(word for key in spaced for word in ("-D", f"{key}={spaced[key]}"))],
        "env": env,
    }
    return dict(with_resources(container, resources))


def _port(properties: Mapping[str, str], key: str, default: int) -> int:
    """A port that the user's settings may have moved; of a range the first, as Flink tries it."""
    first = properties.get(key, "").partition("-")[0].strip()
    return port_number(first) or default
