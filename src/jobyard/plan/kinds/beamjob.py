"""BeamJob: a Flink or Spark cluster; the submitting pod comes once that is ready."""

from __future__ import annotations

from typing import Any

from jobyard.api.beamjob import BeamJobSpec, Image
from jobyard.plan.description import JSON, Description, Ending, Identity, Naming, Role
from jobyard.plan.gangs import gang_of
from jobyard.schema.finding import Path

_FLINK: Path = ("spec", "flinkClusterTemplate", "spec")
_SPARK: Path = ("spec", "sparkClusterTemplate", "spec")


def lower(spec: BeamJobSpec, identity: Identity) -> Description:
    roles = _cluster(spec)
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        ending=Ending(success=()),
        gang=gang_of(spec.scheduler, roles),
    )


def _cluster(spec: BeamJobSpec) -> tuple[Role, ...]:
    if spec.flink_cluster_template is not None:
        flink = spec.flink_cluster_template.spec
        return (
            _role(
                "flinkcluster-jobmanager",
                flink.job_manager.replicas,
                _pod("jobmanager", flink.image, flink.job_manager.resources),
                (*_FLINK, "jobManager"),
            ),
            _role(
                "flinkcluster-taskmanager",
                flink.task_manager.replicas,
                _pod("taskmanager", flink.image, flink.task_manager.resources),
                (*_FLINK, "taskManager"),
            ),
        )
    assert spec.spark_cluster_template is not None
    spark = spec.spark_cluster_template.spec
    return (
        _role(
            "sparkcluster-master",
            1,
            _pod("master", spark.image, spark.master.resources),
            (*_SPARK, "master"),
        ),
        _role(
            "sparkcluster-worker",
            spark.worker.replicas,
            _pod("worker", spark.image, spark.worker.resources),
            (*_SPARK, "worker"),
        ),
    )


def _role(type_: str, replicas: int, template: JSON, place: Path) -> Role:
    name = template["spec"]["containers"][0]["name"]
    return Role(type=type_, replicas=replicas, template=template, place=place, main_container=name)


def _pod(name: str, image: Image, resources: JSON | None) -> JSON:
    container: dict[str, Any] = {"name": name, "image": image.name}
    if resources is not None:
        container["resources"] = resources
    return {"spec": {"containers": [container]}}
