"""BeamJob: a program of the Apache Beam Python SDK on a Flink or Spark cluster of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from jobyard.api.changes import change_rules
from jobyard.api.parts.flink_cluster import FlinkClusterTemplate, Properties, Version
from jobyard.api.parts.job_spec import RigidJobSpec
from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.run_mode import Mode, RunMode
from jobyard.api.parts.run_policy import TimeToLive
from jobyard.api.parts.status import Observation, ReplicaSummary
from jobyard.api.parts.value import (
    JSON,
    REPLICAS_MAX,
    Resource,
    Resources,
    Value,
)
from jobyard.api.rules import JOB_NAME, lacking, pod_name_length
from jobyard.schema import core
from jobyard.schema.derive import Core, described
from jobyard.schema.rule import Rule


class Image(Value):
    """An image."""

    name: Annotated[str, described("The image's name with its tag.", min_length=1)]


class SparkMaster(Value):
    """Spark's master."""

    resources: Annotated[Resources | None, described("Its resources.")] = None


class SparkWorker(Value):
    """Spark's workers."""

    replicas: ReplicaCount = 1
    cores: Annotated[
        Annotated[int, described(ge=1, le=1024)] | None,
        described("Cores each worker offers; absent: what its container may use."),
    ] = None
    resources: Annotated[Resources | None, described("Resources of each.")] = None


class SparkClusterSpec(Value):
    """A Spark cluster."""

    spark_version: Annotated[
        Version,
        described(
            'Spark\'s version as a string, such as "3.5"; Beam has no runner for Spark 4.',
            rules=(
                Rule(
                    cel="self.startsWith('3.')",
                    message="must be 3.x: Beam has no runner for other versions of Spark",
                ),
            ),
        ),
    ]
    image: Annotated[Image, described("Spark's image.")]
    master: Annotated[SparkMaster, described("The master.")] = SparkMaster()
    worker: Annotated[SparkWorker, described("The workers.")] = SparkWorker()
    spark_properties: Annotated[Properties | None, described("Lines of Spark's configuration.")] = (
        None
    )


class SparkClusterTemplate(Value):
    """The Spark cluster made for the job."""

    spec: Annotated[SparkClusterSpec, described("The cluster.")]


class BeamRunPolicy(Value):
    """What is cleaned up at the end."""

    clean_up_cluster: Annotated[
        bool, described("Deletes the cluster at the end; the submitting pod stays for its log.")
    ] = False
    ttl_seconds_after_finished: TimeToLive = None


def _one(field: str) -> Rule:
    return Rule(
        cel=f"!has(self.spec.{field}) || self.spec.{field} == 1",
        message=f"one pod submits the program: {field} must be 1 or absent",
        field=f".spec.{field}",
    )


class BeamJobSpec(RigidJobSpec):
    """The cluster, and the pod that submits the program to it."""

    flink_cluster_template: Annotated[
        FlinkClusterTemplate | None, described("Runs the program on Flink.")
    ] = None
    spark_cluster_template: Annotated[
        SparkClusterTemplate | None, described("Runs the program on Spark.")
    ] = None
    job_template: Annotated[
        dict[str, JSON],
        described(
            "The pod that submits the program, as a batch/v1 JobTemplateSpec.",
            core=Core(
                name=core.JOB_TEMPLATE,
                required=("spec",),
                rules=(("", _one("parallelism")), ("", _one("completions"))),
            ),
        ),
    ]
    run_policy: Annotated[BeamRunPolicy, described("What is cleaned up at the end.")] = (
        BeamRunPolicy()
    )
    run_mode: Annotated[
        RunMode | None,
        described(
            "A BeamJob runs at once: a mode that is on is refused, one that is off has no effect."
        ),
    ] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.flinkClusterTemplate) != has(self.sparkClusterTemplate)",
            message="exactly one of flinkClusterTemplate and sparkClusterTemplate must be given",
        ),
        *lacking("BeamJob", Mode.DEBUG, Mode.PAUSE, Mode.ELASTIC),
    )


class BeamPhase(StrEnum):
    """Where a BeamJob is in its life."""

    INITIALIZING = "Initializing"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class BeamConditionType(StrEnum):
    """The two conditions of a BeamJob."""

    CLUSTER_RUNNING = "ClusterRunning"
    JOB_RUNNING = "JobRunning"


class BeamCondition(Observation):
    """One observation about the job."""

    type: Annotated[BeamConditionType, described("What is observed.")]


class PodReference(Value):
    """Which pod it is."""

    name: Annotated[str, described("The pod's name.")]
    uid: Annotated[str, described("The pod's uid.")] = ""


class PodStatus(Value):
    """The phase of one pod."""

    phase: Annotated[str, described("The pod's phase.")]
    reference: Annotated[PodReference, described("Which pod it is.")]


PodStatuses = Annotated[tuple[PodStatus, ...], described(max_length=REPLICAS_MAX)]


class FlinkClusterStatus(Value):
    """The pods of the Flink cluster."""

    job_manager_status: Annotated[PodStatuses, described("The job manager's pod.")] = ()
    task_manager_status: Annotated[
        PodStatuses, described("The pods of the first 100 task managers; `tasks` has all.")
    ] = ()


class BeamJobStatus(ReplicaSummary):
    """What is observed of a BeamJob."""

    phase: Annotated[BeamPhase | None, described("Where the job is in its life.")] = None
    conditions: Annotated[
        tuple[BeamCondition, ...],
        described("The two conditions.", max_length=2, listed_by="type"),
    ] = ()
    flink_cluster_status: Annotated[
        FlinkClusterStatus | None, described("The pods of the Flink cluster.")
    ] = None
    job_status: Annotated[PodStatuses, described("The submitting pods.")] = ()
    job_url: Annotated[str, described("The job's page in the cluster's own UI.")] = msgspec.field(
        name="jobURL", default=""
    )


class BeamJob(Resource):
    """A program of the Apache Beam Python SDK, on a Flink or Spark cluster made for it."""

    spec: Annotated[BeamJobSpec, described("What the job runs.")]
    status: Annotated[BeamJobStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length(
            "[self.spec].filter(r, has(r.flinkClusterTemplate))",
            "'flinkcluster-taskmanager'",
            "r.flinkClusterTemplate.spec.taskManager.replicas",
        ),
        pod_name_length(
            "[self.spec].filter(r, has(r.sparkClusterTemplate))",
            "'sparkcluster-worker'",
            "r.sparkClusterTemplate.spec.worker.replicas",
        ),
        *change_rules(BeamJobSpec, can_pause=False),
    )
