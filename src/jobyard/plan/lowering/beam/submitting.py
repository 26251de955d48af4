"""The pod that submits the program, and the container that runs its Python on the cluster.

Both come from the jobTemplate, which is a batch Job's: what a Job would do with it is done
by the engine here, and what isn't done is told. Called by `plan.kinds.beamjob`; which
cluster it is doesn't matter here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from jobyard.api.parts.replicas import RestartPolicy
from jobyard.plan.lowering.beam.cluster import Companion, ready_when
from jobyard.plan.lowering.description import JSON, Restart, Role
from jobyard.schema.finding import Finding, Path, warning

SUBMITTING = "batchjob"
SDK_WORKER = "sdk-worker"
OPTIONS_VARIABLE = "BEAM_RUNNER_ARGS"
_POOL_PORT = 50000
# Where a worker of the cluster finds the program's Python: beside itself.
ENVIRONMENT_OPTIONS = (
    "--environment_type=EXTERNAL",
    f"--environment_config=localhost:{_POOL_PORT}",
)
# As a batch Job's own default.
_BACKOFF_LIMIT = 6

# Beam's images have a program that also installs what the pipeline brings along (packages, the
# main session); the module alone is there wherever the SDK is.
_POOL_SCRIPT = f"""\
if [ -x /opt/apache/beam/boot ]; then exec /opt/apache/beam/boot --worker_pool; fi
exec python -m apache_beam.runners.worker.worker_pool_main --service_port={_POOL_PORT}
"""

_RUNNER = re.compile(r"(?:^|\s)--runner(?:=|\s|$)")
_HEEDED = frozenset(
    {
        "template",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        # Refused at admission unless they are 1.
        "parallelism",
        "completions",
    }
)
# What of the submitting container its twin on the cluster needs, resources aside: those are
# for submitting.
_TWIN_FIELDS = ("image", "imagePullPolicy", "workingDir", "env", "envFrom", "volumeMounts")
# What a container can say itself, and what only its pod can.
_USER_FIELDS = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "seLinuxOptions")
_GROUP_FIELDS = ("fsGroup", "fsGroupChangePolicy", "supplementalGroups")


def submitting_role(job_template: JSON, options: tuple[str, ...]) -> Role:
    """A new pod follows each failed one, whether the template says OnFailure or Never."""
    job: JSON = job_template["spec"]
    template: JSON = job["template"]
    pod: Mapping[str, Any] = template.get("spec", {})
    containers: list[JSON] = list(pod.get("containers", ()))
    if containers and not names_runner(containers[0]):
        containers[0] = {**containers[0], "args": [*containers[0].get("args", ()), *options]}
    return Role(
        type=SUBMITTING,
        replicas=1,
        template={**template, "spec": {**pod, "containers": containers}},
        place=("spec", "jobTemplate", "spec", "template"),
        main_container=containers[0]["name"] if containers else "",
        is_single=True,
        is_numbered=True,
        waits_for_others=True,
        in_gang=False,
        restart=Restart(RestartPolicy.ON_FAILURE, job.get("backoffLimit", _BACKOFF_LIMIT)),
    )


def names_runner(container: JSON) -> bool:
    """Whether the user chose a runner; a shell's command line is one text, and is read too."""
    words = (*container.get("command", ()), *container.get("args", ()))
    return any(_RUNNER.search(word) for word in words)


def options_text(options: tuple[str, ...]) -> str:
    return shlex.join(options)


def sdk_workers(job_template: JSON) -> Companion:
    """The twin of the submitting container: that is where the program reads and writes."""
    pod: Mapping[str, Any] = job_template["spec"]["template"].get("spec", {})
    pulling = {k: pod[k] for k in ("imagePullSecrets",) if k in pod}
    if not pod.get("containers"):
        return Companion(pulling=pulling)
    submitting: JSON = pod["containers"][0]
    of_pod: Mapping[str, Any] = pod.get("securityContext", {})
    context = {
        **{key: of_pod[key] for key in _USER_FIELDS if key in of_pod},
        **submitting.get("securityContext", {}),
    }
    container: dict[str, Any] = {
        "name": SDK_WORKER,
        "command": ["sh", "-c", _POOL_SCRIPT],
        **{key: submitting[key] for key in _TWIN_FIELDS if key in submitting},
        "ports": [{"name": "sdk-worker", "containerPort": _POOL_PORT}],
        "readinessProbe": ready_when(tcpSocket={"port": _POOL_PORT}),
    }
    if context:
        container["securityContext"] = context
    shared: dict[str, Any] = {
        key: pod[key] for key in ("serviceAccountName", "volumes") if key in pod
    }
    groups = {key: of_pod[key] for key in _GROUP_FIELDS if key in of_pod}
    if groups:
        shared["securityContext"] = groups
    return Companion(containers=(container,), pod=shared, pulling=pulling)


def submitting_advice(job_template: JSON) -> Iterator[Finding]:
    """What of the jobTemplate isn't done."""
    job: JSON = job_template["spec"]
    place: Path = ("spec", "jobTemplate", "spec")
    for field in sorted(job):
        if field not in _HEEDED and job[field]:
            yield warning(
                (*place, field),
                "has no effect: one pod submits, and a failed one is followed by another up to"
                " backoffLimit",
            )
    containers = job["template"].get("spec", {}).get("containers", ())
    if containers and not containers[0].get("command") and not containers[0].get("args"):
        yield warning(
            (*place, "template", "spec", "containers", 0),
            "has neither command nor args: the runner's options then take the place of what its"
            " image runs, unless that has an entry point",
        )
