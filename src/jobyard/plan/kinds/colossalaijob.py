"""ColossalAIJob: a launcher that runs `colossalai run`, and workers that run sshd."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from jobyard.api.colossalaijob import (
    ColossalAIJobSpec,
    ColossalAILauncher,
    ColossalAISsh,
    TorchConfig,
)
from jobyard.api.launching import LauncherType
from jobyard.plan.description import JSON, Description, Identity, Naming, Role, Start
from jobyard.plan.gangs import gang_of
from jobyard.plan.launching import (
    LAUNCHED,
    cleaned_workers,
    launched_roles,
    launcher_role,
    worker_role,
)
from jobyard.plan.naming import host_name
from jobyard.plan.ssh import (
    FILES_PATH,
    PORT,
    PREPARED_SLEEP,
    launcher_start,
    names_in_the_open,
    names_of,
    scripts,
    worker_start,
)

# What the launcher's pod takes over from the workers' template.
_SHARED = ("volumes", "nodeSelector", "tolerations", "imagePullSecrets", "securityContext")


def lower(spec: ColossalAIJobSpec, identity: Identity) -> Description:
    launcher, workers = (
        msgspec.structs.replace(role, debug_command=PREPARED_SLEEP) for role in _roles(spec)
    )
    workers = cleaned_workers(workers, spec.run_policy)
    ssh = spec.ssh or ColossalAISsh()
    hosts = [host_name(identity, workers, rank) for rank in range(workers.replicas)]
    return Description(
        identity=identity,
        roles=(launcher, workers),
        naming=Naming.JOB,
        ending=LAUNCHED,
        start=partial(_start, _config(spec), ssh, identity, hosts[0]),
        gang=gang_of(spec.scheduler, (launcher, workers)),
        run_mode=spec.run_mode,
        ttl_seconds_after_finished=spec.run_policy.ttl_seconds_after_finished,
        is_rigid=True,
        ssh_files={**scripts(), "hostfile": "".join(f"{host}\n" for host in hosts)},
        warnings=tuple(_env_advice(launcher, workers)),
    )


def _config(spec: ColossalAIJobSpec) -> TorchConfig:
    """Both shapes as one."""
    if spec.worker is None:
        return spec.torch_config or TorchConfig()
    return TorchConfig(
        proc_per_worker=spec.worker.proc_per_worker,
        script=spec.worker.command,
        torch_args=spec.worker.torch_args,
    )


def _start(
    config: TorchConfig,
    ssh: ColossalAISsh,
    identity: Identity,
    first_host: str,
    role: Role,
    _rank: int,
) -> Start:
    if role.type == LauncherType.WORKER:
        return worker_start(identity, ssh.sshd_path, ssh.auth_mount_path)
    launch = (
        "colossalai",
        "run",
        "--nproc_per_node",
        str(config.proc_per_worker),
        "--hostfile",
        f"{FILES_PATH}/hostfile",
        "--master_addr",
        first_host,
        "--ssh-port",
        str(PORT),
        *config.torch_args,
    )
    # It exports its whole environment on a command line, and prints that when a process failed.
    env = (("JOBYARD_KEPT", names_in_the_open(role)),)
    return launcher_start(identity, ssh.auth_mount_path, launch, config.script, env=env)


def _env_advice(launcher: Role, workers: Role) -> Iterator[str]:
    """Other launchers' variables reach the processes; these don't, unless the workers have them."""
    known = {*names_in_the_open(launcher).split(), *names_of(workers)}
    kept_back = [name for name in names_of(launcher) if name not in known]
    if kept_back:
        yield (
            f"gives {', '.join(kept_back)} to the launcher alone, and colossalai run would print"
            " it: to reach the processes it must stand in the workers' template"
        )


def _roles(spec: ColossalAIJobSpec) -> tuple[Role, Role]:
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
    for field in ("volumeMounts", "securityContext"):
        # Whoever logs in has to be the one whom the workers know.
        if field in main:
            container[field] = main[field]
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
