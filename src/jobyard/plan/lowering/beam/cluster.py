"""What the pods of a Flink and of a Spark cluster have in common.

Decides on restarts, names and the companion container; `flink` and `spark` say what runs.
It doesn't know when a pod is made, nor what the program does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from jobyard.api.parts.quantity import Quantity, QuantityError
from jobyard.api.parts.replicas import RestartPolicy
from jobyard.plan.lowering.description import JSON, Restart, Role
from jobyard.schema.finding import Path

# Where the cluster's own name for itself is; set in its pods before their other variables.
HOST_VARIABLE = "JOBYARD_HOST"
HOST = f"$({HOST_VARIABLE})"

# A daemon resolves its own name when it starts, and the name's record may come a moment after
# the pod has its address.
AWAIT_NAME = f"""\
n=0
while command -v getent >/dev/null && ! getent hosts "${HOST_VARIABLE}" >/dev/null; do
  n=$((n + 1))
  if [ $n -gt 60 ]; then echo "${HOST_VARIABLE} does not resolve" >&2; break; fi
  sleep 1
done
"""

# The engine makes a pod of the cluster anew when it ended by itself: running programs survive
# a lost worker, and a new try of the program finds a whole cluster. A wrong setting doesn't get
# better by that; with delays that double, six tries take about a minute, as many as a batch Job
# gives its pod.
_RESTART = Restart(RestartPolicy.ON_FAILURE, limit=6)

# For logs, spilled data and the jars of programs, which go with the pod: on one machine /tmp is
# everybody's, and would keep them.
SCRATCH = "/run/jobyard/scratch"
TEMPORARY_FILES = f"-Djava.io.tmpdir={SCRATCH}"
_VOLUME = "jobyard-scratch"
# Of the program, where a volume of the cluster has the same name.
_PROGRAM = "jobyard-program-"

_MEBIBYTE = 2**20


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """The container that runs the program's Python beside each worker.

    `pod` is what the pod must have for it: volumes, groups, a service account. `pulling` is
    what any pod of the cluster needs to get its images.
    """

    containers: tuple[JSON, ...] = ()
    pod: JSON = {}
    pulling: JSON = {}


class Fittings(msgspec.Struct, frozen=True, kw_only=True):
    """What else the user says of the pods of one role.

    `pod` is for the pod as it is; of lists that the pod has already, these are added.
    """

    metadata: JSON = {}
    pod: JSON = {}
    volumes: tuple[JSON, ...] = ()
    mounts: tuple[JSON, ...] = ()
    init_containers: tuple[JSON, ...] = ()
    sidecars: tuple[JSON, ...] = ()
    pull_secrets: tuple[JSON, ...] = ()


NO_FITTINGS = Fittings()


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The roles of a cluster, and the options by which Beam finds it."""

    roles: tuple[Role, ...]
    runner_options: tuple[str, ...]


def cluster_role(
    type_: str,
    replicas: int,
    container: JSON,
    place: Path,
    companion: Companion,
    fittings: Fittings = NO_FITTINGS,
) -> Role:
    """A role whose main container is the given one, with the companion's beside it."""
    mounts = [*fittings.mounts, {"name": _VOLUME, "mountPath": SCRATCH}]
    companion = _beside(companion, fittings.volumes)
    taken = {volume["name"] for volume in fittings.volumes}
    shared = [v for v in companion.pod.get("volumes", ()) if v["name"] not in taken]
    pod: dict[str, Any] = {
        # A service called spark-master would set SPARK_MASTER_PORT, which Spark reads otherwise.
        "enableServiceLinks": False,
        **companion.pulling,
        **companion.pod,
        **fittings.pod,
        "volumes": [*fittings.volumes, *shared, {"name": _VOLUME, "emptyDir": {}}],
        "containers": [
            {**container, "volumeMounts": mounts},
            *fittings.sidecars,
            *companion.containers,
        ],
    }
    if fittings.pull_secrets:
        known = [*fittings.pull_secrets, *companion.pulling.get("imagePullSecrets", ())]
        pod["imagePullSecrets"] = [s for n, s in enumerate(known) if s not in known[:n]]
    if "securityContext" in companion.pod:
        both = {**companion.pod["securityContext"], **fittings.pod.get("securityContext", {})}
        pod["securityContext"] = both
    if fittings.init_containers:
        pod["initContainers"] = list(fittings.init_containers)
    metadata = {"metadata": fittings.metadata} if fittings.metadata else {}
    return Role(
        type=type_,
        replicas=replicas,
        template={**metadata, "spec": pod},
        place=place,
        main_container=container["name"],
        serves=True,
        restart=_RESTART,
    )


def _beside(companion: Companion, volumes: tuple[JSON, ...]) -> Companion:
    """The companion, whose volumes have other names where the cluster's own have theirs."""
    own = {volume["name"]: volume for volume in volumes}
    names = {
        volume["name"]: f"{_PROGRAM}{n}"
        for n, volume in enumerate(companion.pod.get("volumes", ()))
        if own.get(volume["name"], volume) != volume
    }
    if not names:
        return companion

    def renamed(listed: Iterable[JSON]) -> list[JSON]:
        return [{**each, "name": names.get(each["name"], each["name"])} for each in listed]

    return msgspec.structs.replace(
        companion,
        containers=tuple(
            {**each, "volumeMounts": renamed(each.get("volumeMounts", ()))}
            for each in companion.containers
        ),
        pod={**companion.pod, "volumes": renamed(companion.pod["volumes"])},
    )


def without_program(companion: Companion) -> Companion:
    """For the pods that coordinate: they run none of the program's Python."""
    return Companion(pulling=companion.pulling)


def ports(**numbers: int) -> list[JSON]:
    return [{"name": name, "containerPort": number} for name, number in numbers.items()]


def ready_when(**check: JSON) -> JSON:
    """A readiness probe; quick, since the program waits for all of them."""
    return {**check, "periodSeconds": 2, "timeoutSeconds": 2}


def with_resources(container: JSON, resources: JSON | None) -> JSON:
    return {**container, "resources": resources} if resources is not None else container


def whole_cores(resources: JSON | None) -> int | None:
    """The cores that the container may use, at least one; None when nothing is said."""
    found = _amount(resources, "cpu", "limits", "requests")
    return max(1, math.trunc(found.amount)) if found is not None else None


def memory_limit_mebibytes(resources: JSON | None) -> int | None:
    found = _amount(resources, "memory", "limits")
    return math.trunc(found.amount) // _MEBIBYTE if found is not None else None


def _amount(resources: JSON | None, name: str, *places: str) -> Quantity | None:
    given: Mapping[str, Any] = resources or {}
    for place in places:
        if name in given.get(place, {}):
            try:
                return Quantity.of(given[place][name])
            except QuantityError:
                # The API server tells, with the pod that has it.
                return None
    return None


def in_order(properties: Mapping[str, str] | None) -> dict[str, str]:
    """A map as an API server gives it back: it keeps no order, so neither does anything here."""
    return dict(sorted((properties or {}).items()))
