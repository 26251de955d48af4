"""DeepSpeedJob: workers with sshd, the first of which also runs deepspeed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from jobyard.api.deepspeedjob import Autotune, DeepSpeedConfig, DeepSpeedJobSpec, DeepSpeedRun
from jobyard.api.parts.launching import DEFAULT_AUTH_MOUNT_PATH, DEFAULT_SSHD_PATH
from jobyard.api.parts.run_mode import Elastic
from jobyard.plan.lowering.description import (
    Command,
    Description,
    Ending,
    Identity,
    Restart,
    Role,
    Start,
    main_container,
    only,
)
from jobyard.plan.lowering.launching import overruled
from jobyard.plan.lowering.listing import training_description
from jobyard.plan.lowering.names import host_name
from jobyard.plan.lowering.ssh import (
    FILES_PATH,
    file_mount,
    launcher_start,
    printable_variable_names,
    scripts,
    worker_start,
)
from jobyard.schema.finding import Finding, Path, warning

HOSTFILE = "/t9k/hostfile"
_ENV_FILE = f"{DEFAULT_AUTH_MOUNT_PATH}/deepspeed_env"
_SSHD = ("sh", f"{FILES_PATH}/worker.sh")


def lower(spec: DeepSpeedJobSpec, identity: Identity) -> Description:
    workers = _workers(spec)
    hosts = [host_name(identity, workers, rank) for rank in range(workers.replicas)]
    slots = spec.config.slots_per_worker or spec.config.slot_per_worker or 1
    description = training_description(
        spec,
        identity,
        (workers,),
        ending=Ending(success=(only("worker", 0),), failure=(only("worker", 0),)),
        start=partial(_start, spec, identity, hosts[0]),
        elastic=spec.scaling,
    )
    return msgspec.structs.replace(
        description,
        warnings=(*description.warnings, *_config_advice(spec.config)),
        recreates_first=spec.scaling is not None,
        ssh_files={
            **scripts(with_first=True),
            "hostfile": "".join(f"{host} slots={slots}\n" for host in hosts),
        },
    )


def _config_advice(config: DeepSpeedConfig) -> Iterator[Finding]:
    place: Path = ("spec", "config")
    yield from overruled(
        (*place, "slotPerWorker"),
        config.slot_per_worker,
        "slotsPerWorker",
        config.slots_per_worker,
    )
    run = config.run or DeepSpeedRun()
    said = {
        "run": run.python or run.module or run.exec,
        "localRank": not config.local_rank,
        "autotune": _is_tuned(config),
        "otherArgs": config.other_args,
    }
    for field, is_said in said.items():
        if config.custom_command and is_said:
            yield warning((*place, field), "has no effect: customCommand is run instead")


def _workers(spec: DeepSpeedJobSpec) -> Role:
    count = spec.worker.replicas
    if spec.scaling is not None:
        assert spec.scaling.expected_replicas is not None
        count = spec.scaling.expected_replicas
    return Role(
        type="worker",
        replicas=count,
        template=spec.worker.template,
        place=("spec", "worker", "template"),
        main_container=main_container(spec.worker.template, "worker"),
        command=Command.REPLACED_BY_SSHD,
        debug_command=_SSHD,
        restart=Restart(spec.worker.restart_policy),
        clean_up=spec.run_policy.clean_up_policy,
    )


def _start(
    spec: DeepSpeedJobSpec, identity: Identity, first_host: str, role: Role, rank: int
) -> Start:
    if rank > 0:
        start = worker_start(identity, DEFAULT_SSHD_PATH, DEFAULT_AUTH_MOUNT_PATH)
        # A resume command is for deepspeed's program; these workers only wait for logins.
        return msgspec.structs.replace(start, is_fixed=True)
    env = (
        ("JOBYARD_SSHD", DEFAULT_SSHD_PATH),
        ("PDSH_RCMD_TYPE", "ssh"),
        ("PDSH_SSH_ARGS_APPEND", f"-F {DEFAULT_AUTH_MOUNT_PATH}/config"),
        *(() if spec.disable_custom_env else _handed_on(role)),
    )
    launch, program = _launch(spec.config, spec.scaling, first_host)
    start = launcher_start(
        identity, DEFAULT_AUTH_MOUNT_PATH, launch, program, env=env, script="first.sh"
    )
    # Another number of workers makes this pod anew, with the hosts of that day.
    mounts = (*start.mounts, file_mount("hostfile", HOSTFILE))
    return msgspec.structs.replace(start, mounts=mounts)


def _handed_on(role: Role) -> tuple[tuple[str, str], ...]:
    return (("DS_ENV_FILE", _ENV_FILE), ("JOBYARD_HANDED_ON", printable_variable_names(role)))


def _launch(
    config: DeepSpeedConfig, elastic: Elastic | None, first_host: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is launched, and the program that it starts."""
    if config.custom_command:
        # All of it is the program: a resume command stands by itself, with no shell to read it.
        return (), ("sh", "-c", config.custom_command)
    options, program = _program(config.run or DeepSpeedRun())
    return (
        "deepspeed",
        "--hostfile",
        HOSTFILE,
        "--master_addr",
        first_host,
        *_elastic(elastic),
        *(() if config.local_rank else ("--no_local_rank",)),
        *(("--autotuning", str(config.autotune)) if _is_tuned(config) else ()),
        *config.other_args,
        *options,
    ), program


def _is_tuned(config: DeepSpeedConfig) -> bool:
    return config.autotune in (Autotune.RUN, Autotune.TUNE)


def _program(run: DeepSpeedRun) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if run.module:
        return ("--module",), run.module
    if run.exec:
        return ("--no_python",), run.exec
    return (), run.python


def _elastic(elastic: Elastic | None) -> tuple[str, ...]:
    if elastic is None:
        return ()
    return (
        "--elastic_training",
        "--min_elastic_nodes",
        str(elastic.min_replicas),
        "--max_elastic_nodes",
        str(elastic.max_replicas),
    )
