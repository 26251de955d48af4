"""A standalone Spark cluster: one master, and workers with the program's Python beside them.

Called by `plan.kinds.beamjob`. Spark's classes are started directly, in the foreground, from
the place where the official image has them, or by the command that came with pip. What runs
on the cluster, and where its driver is, is Beam's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobyard.api.beamjob import SparkClusterSpec, SparkWorker
from jobyard.plan.lowering.beam.cluster import (
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
    with_resources,
    without_program,
)
from jobyard.plan.lowering.description import JSON
from jobyard.schema.finding import Path

MASTER = "sparkcluster-master"
WORKER = "sparkcluster-worker"
_PLACE: Path = ("spec", "sparkClusterTemplate", "spec")

_PORT = 7077
_REST_PORT = 6066
_MASTER_UI_PORT = 8080
_WORKER_UI_PORT = 8081
_GIBIBYTE_IN_MEBIBYTES = 1024
_DRIVER_OPTION = "--job_server_jvm_properties"

# Beam starts the driver itself, not by Spark's scripts, and before 2.77 without these: Spark asks
# for them on any Java since 17.
_DRIVER_JAVA_OPTIONS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("sun.nio.ch", "java.nio", "java.util", "java.lang.invoke")
)

_SCRIPT = f"""\
{AWAIT_NAME}\
spark=${{SPARK_HOME:-/opt/spark}}/bin/spark-class
[ -x "$spark" ] || spark=spark-class
exec "$spark" "$@"
"""


def spark_cluster(spec: SparkClusterSpec, master: str, companion: Companion) -> Cluster:
    """`master` is the master's host name."""
    properties = in_order(spec.spark_properties)
    return Cluster(
        roles=(
            cluster_role(MASTER, 1, _master(spec), (*_PLACE, "master"), without_program(companion)),
            cluster_role(
                WORKER,
                spec.worker.replicas,
                _worker(spec, master),
                (*_PLACE, "worker"),
                companion,
            ),
        ),
        runner_options=(
            "--runner=SparkRunner",
            f"--spark_master_url=spark://{master}:{_PORT}",
            # Beam wants the major version alone.
            f"--spark_version={spec.spark_version.partition('.')[0]}",
            # For --spark_submit_uber_jar, which needs no Java beside the program.
            f"--spark_rest_url=http://{master}:{_REST_PORT}",
            # Without it, Beam's own Java is the driver; that is who reads most settings.
            *(f"{_DRIVER_OPTION}={option}" for option in _DRIVER_JAVA_OPTIONS),
            *(f"{_DRIVER_OPTION}=-D{key}={value}" for key, value in properties.items()),
        ),
    )


def _master(spec: SparkClusterSpec) -> JSON:
    settings = {"spark.master.rest.enabled": "true", **in_order(spec.spark_properties)}
    address = ("--host", HOST, "--port", str(_PORT), "--webui-port", str(_MASTER_UI_PORT))
    arguments = ("org.apache.spark.deploy.master.Master", *address)
    container = _container("master", spec, arguments, ("SPARK_MASTER_OPTS", settings)) | {
        "ports": ports(spark=_PORT, rest=_REST_PORT, ui=_MASTER_UI_PORT),
        "readinessProbe": ready_when(httpGet={"path": "/", "port": _MASTER_UI_PORT}),
    }
    return with_resources(container, spec.master.resources)


def _worker(spec: SparkClusterSpec, master: str) -> JSON:
    arguments = (
        "org.apache.spark.deploy.worker.Worker",
        *("--host", HOST, "--webui-port", str(_WORKER_UI_PORT)),
        # Spark's own folder need not be writable.
        *("--work-dir", SCRATCH),
        *_offered(spec.worker),
        f"spark://{master}:{_PORT}",
    )
    settings = in_order(spec.spark_properties)
    container = _container("worker", spec, arguments, ("SPARK_WORKER_OPTS", settings)) | {
        "ports": ports(ui=_WORKER_UI_PORT),
        "readinessProbe": ready_when(httpGet={"path": "/", "port": _WORKER_UI_PORT}),
    }
    return with_resources(container, spec.worker.resources)


def _offered(worker: SparkWorker) -> tuple[str, ...]:
    """What executors may take; left out, Spark offers what it finds."""
    cores = ("--cores", str(worker.cores)) if worker.cores is not None else ()
    limit = memory_limit_mebibytes(worker.resources)
    if limit is None:
        return cores
    # The worker's own Java needs some. Spark keeps a gibibyte back from what the machine has;
    # of a container so small that little would be left, it is half.
    offered = max(1, limit - min(_GIBIBYTE_IN_MEBIBYTES, limit // 2))
    return (*cores, "--memory", f"{offered}m")


def _container(
    name: str,
    spec: SparkClusterSpec,
    arguments: tuple[str, ...],
    options: tuple[str, Mapping[str, str]],
) -> dict[str, Any]:
    variable, settings = options
    container: dict[str, Any] = {
        "name": name,
        "image": spec.image.name,
        "command": ["sh", "-c", _SCRIPT, "spark"],
        "args": list(arguments),
    }
    words = (TEMPORARY_FILES, *(_java_option(key, value) for key, value in settings.items()))
    container["env"] = [
        {"name": variable, "value": " ".join(words)},
        # Of a worker's executors.
        {"name": "SPARK_LOCAL_DIRS", "value": SCRATCH},
    ]
    return container


def _java_option(key: str, value: str) -> str:
    """Quoted if need be: Spark's launcher splits the variable as a shell would."""
    text = f"-D{key}={value}"
    if not any(c.isspace() or c in "\"'\\" for c in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
