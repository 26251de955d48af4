"""The pod of one replica, from a job's description.

What the template says passes through; what is added is said here, in the order in which
it is added. Who calls this knows which attempt it is and whether the job was paused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from jobyard.plan.lowering.description import JSON, Description, Naming, Role, Start
from jobyard.plan.lowering.modes import (
    debug_override,
    in_debug,
    is_debugging,
    resume_override,
    revision,
    skips_init_containers,
    started,
)
from jobyard.plan.lowering.names import (
    ATTEMPT,
    JOB_ATTEMPT,
    OWN_ANNOTATIONS,
    PODS_BEFORE,
    REPLICA_RANK,
    REPLICA_TYPE,
    REVISION,
    job_labels,
    pod_name,
    replica_label,
    role_labels,
)

Env = tuple[tuple[str, str], ...]
_ORDER = ("name", "image", "workingDir", "command", "args", "env")
T9K_SCHEDULER = "t9k-scheduler"
_SCHEDULER_GROUP = "scheduler.tensorstack.dev"


class Replica(msgspec.Struct, frozen=True, kw_only=True):
    """Which replica a pod is for, and which try of it."""

    role: Role
    rank: int
    attempt: int = 0
    # The job's own.
    job_attempt: int = 0
    # How many pods it had before this one.
    pods_before: int = 0
    # The job has been paused before, so its resumeSpecs apply.
    is_resumed: bool = False

    def name_in(self, description: Description) -> str:
        """The name of the pod."""
        return pod_name(description.identity.name, self.role, self.rank, (0, self.attempt))


def replica_pod(description: Description, replica: Replica) -> dict[str, Any]:
    """The pod object of a replica of a T9k job."""
    start = description.start(replica.role, replica.rank)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(description, replica),
        "spec": _spec(description, replica, start),
    }


def _metadata(description: Description, replica: Replica) -> dict[str, Any]:
    identity, role = description.identity, replica.role
    name = replica.name_in(description)
    given = role.template.get("metadata", {})
    labels = {
        **given.get("labels", {}),
        **job_labels(identity),
        replica_label(identity): name,
        REPLICA_TYPE: role.type,
        REPLICA_RANK: str(replica.rank),
        **role_labels(description, role, replica.rank),
    }
    if description.gang is not None and role.in_gang:
        labels[f"{_SCHEDULER_GROUP}/group-name"] = identity.name
        labels[f"{_SCHEDULER_GROUP}/queue"] = description.gang.queue
        labels[f"{_SCHEDULER_GROUP}/role"] = role.type
    out: dict[str, Any] = {"name": name}
    if identity.namespace:
        out["namespace"] = identity.namespace
    out["labels"] = labels
    theirs = {k: v for k, v in given.get("annotations", {}).items() if k not in OWN_ANNOTATIONS}
    out["annotations"] = {**theirs, ATTEMPT: str(replica.attempt)}
    if replica.job_attempt:
        out["annotations"][JOB_ATTEMPT] = str(replica.job_attempt)
    if replica.pods_before:
        out["annotations"][PODS_BEFORE] = str(replica.pods_before)
    made_for = revision(description, role, replica.rank)
    if made_for:
        out["annotations"][REVISION] = made_for
    return out


def _spec(description: Description, replica: Replica, start: Start) -> dict[str, Any]:
    mode, role = description.run_mode, replica.role
    # Restarts are the job's to decide, so the kubelet must not.
    out: dict[str, Any] = {**role.template["spec"], "restartPolicy": "Never"}
    if description.naming is Naming.JOB:
        out |= {"hostname": replica.name_in(description), "subdomain": description.identity.name}
    if description.gang is not None and role.in_gang:
        out["schedulerName"] = T9K_SCHEDULER
    if start.volumes:
        out["volumes"] = [*out.get("volumes", ()), *start.volumes]
    env = _env(description, replica, start)
    if skips_init_containers(mode, role, is_resumed=replica.is_resumed):
        out.pop("initContainers", None)
    if "initContainers" in out:
        out["initContainers"] = [
            with_last_words(with_env(c, env, start)) for c in out["initContainers"]
        ]
    out["containers"] = [
        with_last_words(
            with_env(
                _main(c, description, replica, start) if c["name"] == role.main_container else c,
                env,
                start,
            )
        )
        for c in role.containers
    ]
    return out


def _main(
    container: JSON, description: Description, replica: Replica, start: Start
) -> dict[str, Any]:
    mode, role = description.run_mode, replica.role
    with_mounts = dict(container)
    if start.mounts:
        with_mounts["volumeMounts"] = [*container.get("volumeMounts", ()), *start.mounts]
    if is_debugging(mode):
        logs_in = bool(description.ssh_files)
        return in_debug(with_mounts, role, debug_override(mode, role), logs_in=logs_in)
    resume = resume_override(mode, role) if replica.is_resumed else None
    return started(with_mounts, role, start, resume)


def _env(description: Description, replica: Replica, start: Start) -> Env:
    """Ours, put before the user's own: theirs may refer to it, and wins."""
    return (
        *start.env,
        ("JOBYARD_JOB", description.identity.name),
        ("JOBYARD_REPLICA_TYPE", replica.role.type),
        ("JOBYARD_REPLICA_RANK", str(replica.rank)),
        ("JOBYARD_ATTEMPT", str(replica.attempt)),
        ("PYTHONUNBUFFERED", "1"),
    )


def with_env(container: JSON, env: Env, start: Start) -> dict[str, Any]:
    """The container with our environment before its own, and the job's variables replaced.

    The user's own comes last, so that it may refer to ours (`$(MASTER_ADDR)`) and wins.
    """
    out = dict(container)
    for field in ("command", "args"):
        if field in out:
            out[field] = [start.expand(text) for text in out[field]]
    own = [
        {**variable, "value": start.expand(variable["value"])} if "value" in variable else variable
        for variable in out.get("env", ())
    ]
    out["env"] = [{"name": name, "value": value} for name, value in env] + own
    # In the order in which a person would write them.
    return {field: out[field] for field in _ORDER if field in out} | out


def with_last_words(container: JSON) -> dict[str, Any]:
    """A container whose last words are kept: they go into the status when it fails."""
    kept = container.get("terminationMessagePolicy") or "FallbackToLogsOnError"
    return {**container, "terminationMessagePolicy": kept}
