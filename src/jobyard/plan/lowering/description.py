"""The common description that every kind is lowered onto."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from jobyard.api.parts.replicas import RestartPolicy
from jobyard.api.parts.run_mode import RunMode
from jobyard.api.parts.run_policy import CleanUpPolicy
from jobyard.api.parts.tensorboard import TensorboardSpec
from jobyard.schema.finding import Finding, Path

JSON = Mapping[str, Any]


class Command(StrEnum):
    """What becomes of the command in a role's template."""

    KEPT = "kept"
    REPLACED_BY_SSHD = "replaced by sshd"
    REPLACED_BY_TORCHRUN = "replaced by torchrun"


class Naming(StrEnum):
    """How the replicas of a job find one another."""

    # One headless service for the whole job, with the pods' host names below it.
    JOB = "job"
    # One service per replica, named like its pod: GenericJob's documented way.
    REPLICA = "replica"
    NONE = "none"


class Restart(msgspec.Struct, frozen=True):
    """When a replica that ended is started again.

    `limit` is for each replica alone; None leaves it to the job's own limit, if it has one.
    """

    policy: RestartPolicy = RestartPolicy.NEVER
    limit: int | None = None


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """One type of replicas. `place` is where its template stands in the manifest."""

    type: str
    replicas: int
    template: JSON
    place: Path
    main_container: str
    command: Command = Command.KEPT
    # There is only one by nature, so its pod's name has no rank.
    is_single: bool = False
    # Each attempt has a pod of its own, with its number in the name; ended ones are kept.
    is_numbered: bool = False
    # Its pods are made once those of all other roles are ready.
    waits_for_others: bool = False
    # A replica that serves others: when it ends by itself, whatever its exit code, it failed.
    serves: bool = False
    restart: Restart = Restart()
    # Which of its pods go once the job has ended.
    clean_up: CleanUpPolicy = CleanUpPolicy.NONE
    # What the main container runs in debug mode, unless the job says otherwise.
    debug_command: tuple[str, ...] = ("sleep", "inf")
    # Its pods start with the job's gang, if there is one.
    in_gang: bool = True

    @property
    def containers(self) -> tuple[JSON, ...]:
        return tuple(self.template.get("spec", {}).get("containers", ()))


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica starts, as far as its kind has a say.

    `env` goes before the user's own in every container. `command` takes the place of the
    main container's. A `program`, if there is one, is the rest of it: that is what a resume
    or debug command replaces, and the container's args then count no longer.
    """

    env: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    program: tuple[str, ...] | None = None
    # Nothing that a user says takes the program's place.
    is_fixed: bool = False
    # For the pod, and for its main container.
    volumes: tuple[JSON, ...] = ()
    mounts: tuple[JSON, ...] = ()
    # Replaces the job's own variables in commands and in the user's environment.
    expand: Callable[[str], str] = str


class Identity(msgspec.Struct, frozen=True):
    """Which job it is. Offline its uid isn't known, and reads so."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = "<uid>"


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that start together or not at all."""

    queue: str
    priority: int
    min_member: int
    roles: tuple[tuple[str, int], ...] = ()


# Replicas by role: {"master": (2,), "worker": (0, 1)}.
ReplicaSet = Mapping[str, tuple[int, ...]]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What the ends of replicas mean for the job. Success is looked at first.

    The job succeeds once all replicas of any one success rule have, and fails once all
    those of any one failure rule have failed for good, or any replica of a vital role.
    """

    success: tuple[ReplicaSet, ...]
    failure: tuple[ReplicaSet, ...] = ()
    vital_roles: frozenset[str] = frozenset()
    # As long as this many replicas live, only a failure rule ends an elastic job.
    enough_alive: int | None = None
    # Whether the message of a failure names the rule, as GenericJob's does.
    names_rule: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a job's program in its cluster's own UI, and which pod is asked for it."""

    pod: str
    port: int
    path: str
    # The page by what was answered, or where it will be as long as nothing was.
    url: Callable[[bytes | None], str]
    # Whether a page is the program's, and needn't be asked for again.
    is_known: Callable[[str], bool]


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a job of any kind comes down to.

    `start` tells for a role and a rank how that replica starts; it is a function because
    what it tells (TF_CONFIG, say) would be too much to hold for thousands of replicas.
    """

    identity: Identity
    roles: tuple[Role, ...]
    naming: Naming
    ending: Ending
    start: Callable[[Role, int], Start]
    ports: tuple[JSON, ...] = ()
    gang: Gang | None = None
    run_mode: RunMode | None = None
    tensorboard: TensorboardSpec | None = None
    page: Page | None = None
    # The object that owns the pods in the job's stead, and is made again for each attempt.
    control_unit: str = ""
    # Scripts and host names for a job that logs in over ssh; such a job also needs keys.
    ssh_files: Mapping[str, str] = {}
    # How many restarts all replicas together may use up.
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    # The fewest replicas that an elastic job runs with.
    min_replicas: int | None = None
    # The replicas work together: when one fails or is lost, others fail for want of it.
    is_collective: bool = True
    # A single pod can't be taken back in: when one is lost, all are recreated together.
    is_rigid: bool = False
    # The first replica learns the hosts at its start, so another number makes it anew.
    recreates_first: bool = False
    # Which spec this is, as far as pods depend on it: pods of two specs never run side by side.
    revision: str = ""
    # Why no pod can be made of this spec, each about the field that says it.
    faults: tuple[Finding, ...] = ()
    # What won't do as its author may think, each about the field that says it.
    warnings: tuple[Finding, ...] = ()

    @property
    def replicas(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def main_type(self) -> str:
        """The type of rank 0: the one that the job ends with, or the first where users say that."""
        return self.roles[0].type if self.ending.names_rule else next(iter(self.ending.success[0]))


def main_container(template: JSON, *preferred: str) -> str:
    """The first of the preferred names that the template has, else its first container's."""
    names = [c.get("name", "") for c in template.get("spec", {}).get("containers", ())]
    return next((name for name in preferred if name in names), names[0] if names else "")


def only(role: str, *ranks: int) -> ReplicaSet:
    return {role: ranks}
