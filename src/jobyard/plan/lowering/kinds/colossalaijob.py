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
from jobyard.api.parts.launching import DEFAULT_AUTH_MOUNT_PATH, DEFAULT_SSHD_PATH, LauncherType
from jobyard.plan.lowering.description import JSON, Description, Identity, Naming, Role, Start
from jobyard.plan.lowering.gangs import gang_of
from jobyard.plan.lowering.launching import (
    LAUNCHED,
    cleaned_workers,
    launcher_role,
    launching_advice,
    listed_launcher,
    listed_workers,
    main_of,
    overruled,
    worker_role,
)
from jobyard.plan.lowering.names import host_name
from jobyard.plan.lowering.ssh import (
    FILES_PATH,
    PORT,
    PREPARED_SLEEP,
    REACHABLE_SLEEP,
    launcher_start,
    names_of,
    printable_variable_names,
    scripts,
    worker_start,
)
from jobyard.schema.finding import Finding, Path, warning

# What the launcher's pod takes over from the workers' template.
_SHARED = ("volumes", "nodeSelector", "tolerations", "imagePullSecrets", "securityContext")
_LAUNCHER: Path = ("spec", "launcher")


def lower(spec: ColossalAIJobSpec, identity: Identity) -> Description:
    launcher, workers = _roles(spec)
    # All sleep, as the original has it; so that somebody can start `colossalai run` by hand, the
    # launcher has its keys, and sshd runs beside the sleep of a worker.
    launcher = msgspec.structs.replace(launcher, debug_command=PREPARED_SLEEP)
    workers = msgspec.structs.replace(workers, debug_command=REACHABLE_SLEEP)
    workers = cleaned_workers(workers, spec.run_policy)
    ssh = _ssh(spec)
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
        warnings=(
            *_shape_advice(spec, launcher),
            *_env_advice(launcher, workers),
            *launching_advice(spec.replica_specs, launcher),
        ),
    )


def _config(spec: ColossalAIJobSpec) -> TorchConfig:
    """Both shapes as one: what either says, and where they differ the second.

    A number of 1 says nothing: it is the default, which an API server fills in.
    """
    second, worker = spec.torch_config or TorchConfig(), spec.worker
    counts = [second.proc_per_worker]
    if worker is not None:
        counts += [worker.proc_per_worker, worker.proc_per_node or 1]
    return TorchConfig(
        proc_per_worker=next((count for count in counts if count != 1), 1),
        script=second.script or (worker.command if worker is not None else ()),
        torch_args=(
            *(worker.torch_args if worker is not None else ()),
            *second.torch_args,
            *(second.extra_args if second.extra_args != second.torch_args else ()),
        ),
    )


def _ssh(spec: ColossalAIJobSpec) -> ColossalAISsh:
    said = spec.ssh or ColossalAISsh()
    paths = [path for path in (said.auth_mount_path, said.ssh_auth_mount_path) if path]
    return ColossalAISsh(
        # The default says nothing: an API server fills it in.
        auth_mount_path=next(
            (path for path in paths if path != DEFAULT_AUTH_MOUNT_PATH), DEFAULT_AUTH_MOUNT_PATH
        ),
        sshd_path=said.sshd_path or DEFAULT_SSHD_PATH,
    )


def _shape_advice(spec: ColossalAIJobSpec, launcher: Role) -> Iterator[Finding]:
    second, worker, ssh = spec.torch_config or TorchConfig(), spec.worker, spec.ssh
    if ssh is not None and ssh.auth_mount_path != DEFAULT_AUTH_MOUNT_PATH:
        yield from overruled(
            ("spec", "ssh", "sshAuthMountPath"),
            ssh.ssh_auth_mount_path,
            "ssh.authMountPath",
            ssh.auth_mount_path,
        )
    if spec.launcher is not None and launcher.place != _LAUNCHER:
        yield warning(_LAUNCHER, "has no effect: replicaSpecs has a launcher with containers")
    for n, listed in enumerate(spec.replica_specs):
        says = any((listed.template or {}).get("spec", {}).values())
        if says and listed.type is LauncherType.LAUNCHER and launcher.place == _LAUNCHER:
            text = "has no effect: it has no containers, and spec.launcher has one"
            yield warning(("spec", "replicaSpecs", n, "template"), text)
    if worker is None:
        return
    place: Path = ("spec", "worker")
    yield from overruled((*place, "command"), worker.command, "torchConfig.script", second.script)
    counts = (
        ("procPerNode", worker.proc_per_node, "worker.procPerWorker", worker.proc_per_worker),
        ("procPerNode", worker.proc_per_node, "torchConfig.procPerWorker", second.proc_per_worker),
        (
            "procPerWorker",
            worker.proc_per_worker,
            "torchConfig.procPerWorker",
            second.proc_per_worker,
        ),
    )
    for field, count, by, other in counts:
        if count != 1 and other != 1:
            yield from overruled((*place, field), count, by, other)


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
    env = (("JOBYARD_KEPT", printable_variable_names(role)),)
    return launcher_start(identity, ssh.auth_mount_path, launch, config.script, env=env)


def _env_advice(launcher: Role, workers: Role) -> Iterator[Finding]:
    """Other launchers' variables reach the processes; these don't, unless the workers have them."""
    known = {*printable_variable_names(launcher).split(), *names_of(workers)}
    kept_back = [name for name in names_of(launcher) if name not in known]
    if kept_back:
        yield warning(
            launcher.place,
            f"gives {', '.join(kept_back)} to the launcher alone, and colossalai run would print"
            " it: to reach the processes it must stand in the workers' template",
        )


def _roles(spec: ColossalAIJobSpec) -> tuple[Role, Role]:
    worker = spec.worker
    if worker is None:
        workers = listed_workers(spec.replica_specs, "worker")
    else:
        workers = worker_role(
            worker.replicas, worker.template, ("spec", "worker", "template"), "worker"
        )
    listed = listed_launcher(spec.replica_specs, workers, "worker")
    # In the first shape a launcher of which nothing is said is a pod of one container.
    is_said = worker is None or any(
        each.type is LauncherType.LAUNCHER and each.template for each in spec.replica_specs
    )
    if listed.place != workers.place or (spec.launcher is None and is_said):
        return (listed, workers)
    template = _launcher_template(spec.launcher or ColossalAILauncher(), workers)
    return (launcher_role(template, _LAUNCHER, "launcher"), workers)


def _launcher_template(launcher: ColossalAILauncher, workers: Role) -> JSON:
    """A pod of one container, `launcher`, placed and mounted like the workers."""
    pod, main = workers.template["spec"], main_of(workers)
    container: dict[str, Any] = {
        "name": "launcher",
        "image": launcher.image or main.get("image", ""),
    }
    for field in ("volumeMounts", "securityContext"):
        # Whoever logs in has to be the one whom the workers know.
        if field in main:
            container[field] = main[field]
    # `colossalai run` starts its processes in the folder of the same name on the workers.
    folder = launcher.working_dir or ("" if launcher.image else main.get("workingDir", ""))
    if folder:
        container["workingDir"] = folder
    if launcher.env:
        container["env"] = list(launcher.env)
    if launcher.resources is not None:
        container["resources"] = launcher.resources
    shared = {field: pod[field] for field in _SHARED if field in pod}
    return {"spec": {**shared, "containers": [container]}}
