"""The order for one pod: `order_of` is what the agent calls once everything was looked up.

Decides commands, variables, folders, limits and whom a container runs as. Refuses to know
where config maps and volumes come from and how anything is started.

A pod is ordered as a whole: unlike kubelet, which starts containers one by one, a container
whose config map is missing keeps those beside it waiting too.
"""

from __future__ import annotations

import math

from jobyard.api.parts.quantity import Quantity
from jobyard.node.objects.attempts import attempt_of
from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.objects.surroundings import Found, ImageConfig, ImageTarget, Setup
from jobyard.node.objects.volume_source import Amount
from jobyard.node.ordering.checks import hook_of, probes_of
from jobyard.node.ordering.environment import device_variables, pod_variables
from jobyard.node.ordering.expansion import Room, TooLongError, expanded
from jobyard.node.ordering.images import base_variables, rule_for, script_variables
from jobyard.node.ordering.mounts import mounts_of
from jobyard.node.ordering.privileges import privileges_of
from jobyard.node.ordering.problems import NeverError
from jobyard.node.ordering.way_out import with_way_out
from jobyard.node.shared.order import LOG_FILES, ContainerOrder, PodOrder, RestartPolicy
from jobyard.numerals import INT64_MAX

GRACE_SECONDS_DEFAULT = 30


def order_of(pod: PodObject, setup: Setup, found: Found) -> PodOrder:
    """What a supervisor is told. Raises NotYetError or NeverError.

    `hostNetwork` is not honoured: replicas that each had a node of their own would fight
    over their ports on one machine.
    """
    if pod.problem:
        raise NeverError(f"the pod can't be read: {pod.problem}", reason="PodUnreadable")
    spec = pod.spec
    grace = spec.termination_grace_period_seconds
    return PodOrder(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        host_name=pod.host_name,
        attempt=attempt_of(pod.metadata.annotations),
        address=found.address,
        prefix_length=setup.prefix_length,
        gateway=setup.gateway,
        hosts_file=found.hosts_file,
        resolver_file=setup.resolver_file,
        restart_policy=RestartPolicy(spec.restart_policy),
        grace_seconds=GRACE_SECONDS_DEFAULT if grace is None else grace,
        deadline_seconds=spec.active_deadline_seconds or 0,
        init_containers=tuple(_container(pod, each, setup, found) for each in spec.init_containers),
        containers=tuple(_container(pod, each, setup, found) for each in spec.containers),
        restart_delay_seconds=setup.restart_delay_seconds,
        kept_folders=(setup.start_folder, *setup.kept_folders),
        hidden_folders=setup.hidden_folders,
        log_bytes_max=max(setup.log_bytes // LOG_FILES, 1),
        log_files_max=LOG_FILES,
    )


def _container(pod: PodObject, container: Container, setup: Setup, found: Found) -> ContainerOrder:
    try:
        return _ordered(pod, container, setup, found)
    except TooLongError as error:
        raise NeverError(str(error), container=container.name) from error


def _ordered(pod: PodObject, container: Container, setup: Setup, found: Found) -> ContainerOrder:
    own = pod_variables(pod, container, setup, found)
    rule = rule_for(container.image, setup)
    root = rule.folder if rule is not None and rule.type is ImageTarget.ROOT else ""
    config = rule.config if rule is not None else ImageConfig()
    env = {
        **with_way_out(base_variables(rule, setup), own, pod.metadata.namespace, found),
        "HOSTNAME": pod.host_name,
        **script_variables(rule, own),
        **own,
        **device_variables(pod, container, setup, own),
    }
    limits = container.resources.limits
    uid, gid = _identity(pod, container, setup, config)
    policy = container.termination_message_policy
    return ContainerOrder(
        name=container.name,
        argv=_argv(container, own, config),
        env=env,
        working_folder=container.working_dir
        or ((config.working_folder or "/") if root else setup.start_folder),
        mounts=mounts_of(container, found.volumes, own),
        root_folder=root,
        is_sidecar=container.is_sidecar,
        uid=uid,
        gid=gid,
        privileges=privileges_of(pod, container),
        tty=container.tty,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        memory_limit_bytes=_whole(limits.get("memory")),
        cpu_limit_millis=_whole(limits.get("cpu"), 1000),
        termination_message_path=container.termination_message_path,
        message_from_logs=policy == "FallbackToLogsOnError",
        post_start=hook_of(container, container.lifecycle.post_start),
        pre_stop=hook_of(container, container.lifecycle.pre_stop),
        probes=probes_of(container, own),
    )


def _argv(container: Container, values: dict[str, str], config: ImageConfig) -> tuple[str, ...]:
    """As Kubernetes puts it together: `command` replaces entrypoint and command of the image."""
    if container.command:
        words = (*container.command, *container.args)
    else:
        words = (*config.entrypoint, *(container.args or config.cmd))
    if not words:
        raise NeverError(
            f"image {container.image} is not pulled here: give the container a command",
            container=container.name,
        )
    room = Room("the command")
    argv = tuple(
        room.take(expanded(word, values, f"word {n} of the command"), f"word {n} of the command")
        for n, word in enumerate(words)
    )
    if not argv[0]:
        raise NeverError("the first word of the command is empty", container=container.name)
    if any("\0" in word for word in argv):
        raise NeverError("a word of the command has a null byte", container=container.name)
    return argv


def _identity(
    pod: PodObject, container: Container, setup: Setup, config: ImageConfig
) -> tuple[int | None, int | None]:
    if not setup.has_real_uids:
        return None, None
    own, shared = container.security_context, pod.spec.security_context
    uid = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    gid = own.run_as_group if own.run_as_group is not None else shared.run_as_group
    if uid is None and config.user:
        # As container engines have it, another group leaves the user as it is.
        return config.uid, config.gid if gid is None else gid
    return uid, gid


def _whole(amount: Amount | None, parts: int = 1) -> int:
    """The amount in so many parts of one; no machine has more than 63 bits can say."""
    return 0 if amount is None else min(math.trunc(Quantity.of(amount).amount * parts), INT64_MAX)
