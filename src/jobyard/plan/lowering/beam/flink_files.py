"""Files that both managers of a Flink cluster are given: Hadoop's configuration, a key.

As the operator has it whose users describe the cluster so: a volume, where it appears, and the
variable that leads programs there. Says nothing of what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from jobyard.api.parts.flink_cluster import DEFAULT_GCP_PATH, DEFAULT_HADOOP_PATH, FlinkClusterSpec
from jobyard.plan.lowering.description import JSON


class GivenFiles(msgspec.Struct, frozen=True):
    """A volume, where it is mounted, and the variable that tells."""

    volume: JSON
    mount: JSON
    variable: JSON


def given_files(spec: FlinkClusterSpec) -> Iterator[GivenFiles]:
    hadoop = spec.hadoop_config
    if hadoop is not None and hadoop.config_map_name:
        source: JSON = {"configMap": {"name": hadoop.config_map_name}}
        path = hadoop.mount_path or DEFAULT_HADOOP_PATH
        yield _mounted("jobyard-hadoop", source, path, "HADOOP_CONF_DIR", path)
    account = spec.gcp_config.service_account if spec.gcp_config is not None else None
    if account is not None and account.secret_name:
        path = account.mount_path or DEFAULT_GCP_PATH
        key = f"{path.rstrip('/')}/{account.key_file}"
        source = {"secret": {"secretName": account.secret_name}}
        yield _mounted("jobyard-gcp", source, path, "GOOGLE_APPLICATION_CREDENTIALS", key)


def _mounted(name: str, source: JSON, path: str, variable: str, value: str) -> GivenFiles:
    return GivenFiles(
        volume={"name": name, **source},
        mount={"name": name, "mountPath": path, "readOnly": True},
        variable={"name": variable, "value": value},
    )
