"""Which Flink and Spark fit the Apache Beam that is current.

Beam publishes a job server for each minor version of Flink and refuses others by
`--flink_version`'s own choices. What an image really holds nobody knows here: the versions
that the spec names are all that is looked at. Called by `plan.kinds.beamjob`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobyard.api.beamjob import BeamJobSpec
from jobyard.schema.finding import Finding, warning

BEAM = "2.77"
FLINK_VERSIONS = ("1.19", "1.20", "2.0", "2.1", "2.2")
SPARK_MAJOR = "3"


def version_advice(spec: BeamJobSpec) -> Iterator[Finding]:
    """The versions that don't fit."""
    if spec.flink_cluster_template is not None:
        version = spec.flink_cluster_template.spec.flink_version
        if major_minor(version) not in FLINK_VERSIONS:
            known = ", ".join(FLINK_VERSIONS[:-1])
            yield warning(
                ("spec", "flinkClusterTemplate", "spec", "flinkVersion"),
                f"asks for Flink {version}, for which Beam {BEAM} has no runner: use {known} or"
                f" {FLINK_VERSIONS[-1]}, or a Beam that knows {major_minor(version)}",
            )
    if spec.spark_cluster_template is not None:
        version = spec.spark_cluster_template.spec.spark_version
        if version.partition(".")[0] != SPARK_MAJOR:
            yield warning(
                ("spec", "sparkClusterTemplate", "spec", "sparkVersion"),
                f"asks for Spark {version}, for which Beam {BEAM} has no runner: use"
                f" {SPARK_MAJOR}.x",
            )


def major_minor(version: str) -> str:
    """`1.19` of `1.19.1`."""
    return ".".join(version.split(".")[:2])
