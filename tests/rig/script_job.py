"""The job that tests of the command line run: a GenericJob, each of its replicas one program."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def script_job(
    name: str,
    command: Sequence[str],
    *,
    replicas: int = 1,
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
) -> str:
    """Its file; what `container` and `pod` have comes to the rest, or in its place."""
    main = {"name": "main", "image": "any", "command": [*command], **(container or {})}
    template = {"spec": {"containers": [main], **(pod or {})}}
    worker = {"type": "worker", "replicas": replicas, "template": template}
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [worker]},
    }
    return yaml.safe_dump(job, sort_keys=False, allow_unicode=True, width=sys.maxsize)
