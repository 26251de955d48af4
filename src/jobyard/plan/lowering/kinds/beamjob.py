"""BeamJob: a Flink or Spark cluster, and the pod that submits once that is ready.

The cluster's pods restart by themselves and decide nothing: the job ends as the submitting
pod does, or when a pod of the cluster can't be kept up.
"""

from __future__ import annotations

from functools import partial

import msgspec

from jobyard.api.beamjob import BeamJobSpec
from jobyard.api.parts.run_policy import CleanUpPolicy
from jobyard.plan.lowering.beam.cluster import HOST_VARIABLE, Cluster
from jobyard.plan.lowering.beam.flink import JOB_MANAGER, flink_advice, flink_cluster
from jobyard.plan.lowering.beam.job_page import job_page
from jobyard.plan.lowering.beam.spark import MASTER, spark_cluster
from jobyard.plan.lowering.beam.submitting import (
    ENVIRONMENT_OPTIONS,
    OPTIONS_VARIABLE,
    SUBMITTING,
    options_text,
    sdk_workers,
    submitting_advice,
    submitting_role,
)
from jobyard.plan.lowering.beam.versions import version_advice
from jobyard.plan.lowering.description import (
    Description,
    Ending,
    Identity,
    Naming,
    Role,
    Start,
    only,
)
from jobyard.plan.lowering.gangs import gang_of
from jobyard.plan.lowering.names import host_name


def lower(spec: BeamJobSpec, identity: Identity) -> Description:
    cluster = _cluster(spec, identity)
    options = (*cluster.runner_options, *ENVIRONMENT_OPTIONS)
    clean_up = CleanUpPolicy.ALL if spec.run_policy.clean_up_cluster else CleanUpPolicy.NONE
    roles = tuple(msgspec.structs.replace(role, clean_up=clean_up) for role in cluster.roles)
    job = spec.job_template["spec"]
    ttl_seconds = spec.run_policy.ttl_seconds_after_finished
    return Description(
        identity=identity,
        roles=(*roles, submitting_role(spec.job_template, options)),
        naming=Naming.JOB,
        ending=Ending(
            success=(only(SUBMITTING, 0),),
            failure=(only(SUBMITTING, 0),),
            vital_roles=frozenset(role.type for role in roles),
        ),
        start=partial(_start, identity, options),
        gang=gang_of(spec.scheduler, roles),
        page=job_page(identity, roles[0]),
        active_deadline_seconds=job.get("activeDeadlineSeconds"),
        ttl_seconds_after_finished=(
            ttl_seconds if ttl_seconds is not None else job.get("ttlSecondsAfterFinished")
        ),
        warnings=(
            *version_advice(spec),
            *(flink_advice(spec.flink_cluster_template) if spec.flink_cluster_template else ()),
            *submitting_advice(spec.job_template),
        ),
    )


def _cluster(spec: BeamJobSpec, identity: Identity) -> Cluster:
    workers = sdk_workers(spec.job_template)
    if spec.flink_cluster_template is not None:
        master = f"{identity.name}-{JOB_MANAGER}-0.{identity.name}"
        return flink_cluster(spec.flink_cluster_template, master, workers)
    assert spec.spark_cluster_template is not None
    master = f"{identity.name}-{MASTER}-0.{identity.name}"
    return spark_cluster(spec.spark_cluster_template.spec, master, workers)


def _start(identity: Identity, options: tuple[str, ...], role: Role, rank: int) -> Start:
    if role.type == SUBMITTING:
        return Start(env=((OPTIONS_VARIABLE, options_text(options)),))
    return Start(env=((HOST_VARIABLE, host_name(identity, role, rank)),))
