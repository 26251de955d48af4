"""ColossalAIJob: a launcher that runs `colossalai run`, and workers that run sshd."""

from __future__ import annotations

from typing import Any

from jobyard.api.colossalaijob import ColossalAIJobSpec, ColossalAILauncher
from jobyard.plan.description import JSON, Description, Identity, Naming, Role
from jobyard.plan.gangs import gang_of
from jobyard.plan.launching import launched_roles, launcher_role, worker_role

# What the launcher's pod takes over from the workers' template.
_SHARED = ("volumes", "nodeSelector", "tolerations", "imagePullSecrets", "securityContext")


def lower(spec: ColossalAIJobSpec, identity: Identity) -> Description:
    roles = _roles(spec)
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.JOB,
        gang=gang_of(spec.scheduler, roles),
    )


def _roles(spec: ColossalAIJobSpec) -> tuple[Role, ...]:
    worker = spec.worker
    if worker is None:
        return launched_roles(spec.replica_specs, "worker")
    workers = worker_role(
        worker.replicas, worker.template, ("spec", "worker", "template"), "worker"
    )
    launcher = _launcher_template(spec.launcher, workers)
    return (launcher_role(launcher, ("spec", "launcher"), "launcher"), workers)


def _launcher_template(launcher: ColossalAILauncher | None, workers: Role) -> JSON:
    """A pod of one container, `launcher`, placed and mounted like the workers."""
    pod = workers.template["spec"]
    main = next(c for c in workers.containers if c["name"] == workers.main_container)
    container: dict[str, Any] = {"name": "launcher", "image": main.get("image", "")}
    if "volumeMounts" in main:
        container["volumeMounts"] = main["volumeMounts"]
    if launcher is not None:
        container["image"] = launcher.image
        if launcher.working_dir:
            container["workingDir"] = launcher.working_dir
        if launcher.env:
            container["env"] = list(launcher.env)
        if launcher.resources is not None:
            container["resources"] = launcher.resources
    shared = {field: pod[field] for field in _SHARED if field in pod}
    return {"spec": {**shared, "containers": [container]}}
