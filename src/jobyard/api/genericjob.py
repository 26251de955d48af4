"""GenericJob: any set of replica types, with rules of its own for success and failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import RigidJobSpec
from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.run_mode import Mode
from jobyard.api.parts.run_policy import CleanUpPolicy, TimeToLive
from jobyard.api.parts.status import JobStatus
from jobyard.api.parts.value import (
    JSON,
    REPLICAS_MAX,
    TYPES_MAX,
    Count,
    Name,
    PodTemplate,
    Resource,
    ServicePort,
    Value,
)
from jobyard.api.rules import (
    JOB_NAME,
    LISTED_TYPES,
    REPLICAS_IN_ALL,
    UNIQUE_TYPES,
    guarded,
    lacking,
    pod_name_length,
)
from jobyard.schema.derive import Spelled, described
from jobyard.schema.rule import Rule, formatted

RULES_MAX = 256
RANKS_MAX = 1024
PORTS_MAX = 32

# A number, or the same as a text: the originals' type is Kubernetes' IntOrString.
Rank = (
    Annotated[int, described(ge=0, le=REPLICAS_MAX - 1)]
    | Annotated[str, described(pattern="^[0-9]{1,4}$", max_length=4)]
)
Ranks = Annotated[tuple[Rank, ...], described(min_length=1, max_length=RANKS_MAX)]
# Replicas by type: {"master": [2], "worker": [0, 1]}.
GivenReplicas = Annotated[dict[str, Ranks], described(min_length=1, max_length=TYPES_MAX)]


class GenericRestartPolicy(Spelled):
    """When a replica that ended is started again."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"

    @classmethod
    def other_spellings(cls) -> Mapping[str, Self]:
        return {"": cls.ON_FAILURE}


class Restart(Value):
    """When and how often one replica restarts."""

    policy: Annotated[
        GenericRestartPolicy, described("When a replica that ended is started again.")
    ] = GenericRestartPolicy.ON_FAILURE
    limit: Annotated[
        Count | None,
        described(
            "How often one replica may restart; absent: not at all with OnFailure,"
            " without limit with Always."
        ),
    ] = None


class GenericReplica(Value):
    """One type of replicas."""

    type: Annotated[Name, described("The type's name, part of its pods' names.")]
    replicas: ReplicaCount = 1
    restart_policy: Annotated[
        Restart | None, described("When and how often a replica of this type restarts.")
    ] = None
    template: Annotated[
        PodTemplate,
        described("The pod each replica runs in; its first container is the main one."),
    ]


class Service(Value):
    """Gives each replica a name and ports that the others can reach."""

    ports: Annotated[
        tuple[ServicePort, ...],
        described(
            "The ports of each replica, as in a core/v1 Service; none: there is no service.",
            max_length=PORTS_MAX,
            rules=(
                Rule(
                    cel="self.all(p, !has(p.nodePort) || p.nodePort == 0)",
                    message="nodePort can't be set: the services of a job are reached inside the"
                    " cluster only; remove it",
                ),
                Rule(
                    cel="self.size() <= 1 || self.all(p, has(p.name)"
                    " && self.exists_one(q, has(q.name) && q.name == p.name))",
                    message="with several ports each needs a name of its own",
                ),
                Rule(
                    cel="self.all(p, p.port >= 1 && p.port <= 65535)",
                    message="port must be from 1 to 65535",
                ),
            ),
        ),
    ] = ()


# So many types at once: more would take a rule beyond what CEL's estimate lets it cost.
_TYPES_AT_ONCE = 4


def _known_replicas(listed: str) -> tuple[Rule, ...]:
    """Rules that name only replicas which are there; several, to stay within CEL's budget."""
    here = "self.replicaSpecs.exists(s, s.type == t)"
    known = f"self.{listed}.all(r, r.all(t, {here}))"
    return (
        Rule(
            cel=guarded(f"self.{listed}", known),
            message=f"{listed} names a type that is not among replicaSpecs",
            message_cel=formatted(
                "names the type %s, which is not there; the types of this job are %s",
                f"self.{listed}.map(r, r.filter(t, !{here})).filter(u, u.size() > 0)[0][0]",
                LISTED_TYPES,
            ),
            field=f".{listed}",
        ),
        *(_known_ranks(listed, first) for first in range(0, TYPES_MAX, _TYPES_AT_ONCE)),
    )


def _known_ranks(listed: str, first: int) -> Rule:
    """The ranks of some of the types, from the `first` on, are there."""
    numbers = list(range(first, first + _TYPES_AT_ONCE))
    specs = f"{numbers}.filter(n, n < self.replicaSpecs.size()).map(n, self.replicaSpecs[n])"
    # Which rule names it would cost as much again to find out.
    counts = f"self.replicaSpecs.map(s, {formatted('%s of %s', 's.replicas', 's.type')})"
    return Rule(
        cel=guarded(
            f"self.{listed}",
            f"{specs}.all(s, self.{listed}.all(r, !(s.type in r)"
            " || r[s.type].all(n, int(n) < s.replicas)))",
        ),
        message=f"{listed} names a rank that is not there",
        message_cel=formatted(
            "names a rank that is not there: ranks go from 0, and the replicas are %s", counts
        ),
        field=f".{listed}",
    )


class GenericJobSpec(RigidJobSpec):
    """The replicas of the job and what their ends mean."""

    replica_specs: Annotated[
        tuple[GenericReplica, ...],
        described(
            "The replicas, by type.",
            min_length=1,
            max_length=TYPES_MAX,
            rules=(UNIQUE_TYPES, REPLICAS_IN_ALL),
        ),
    ]
    success_rules: Annotated[
        tuple[GivenReplicas, ...],
        described(
            "The job succeeds once all replicas of any one rule have succeeded;"
            " absent: all replicas of all types.",
            max_length=RULES_MAX,
        ),
    ] = ()
    failure_rules: Annotated[
        tuple[GivenReplicas, ...],
        described(
            "The job fails once all replicas of any one rule have failed for good;"
            " absent: any replica.",
            max_length=RULES_MAX,
        ),
    ] = ()
    service: Annotated[
        Service | None,
        described("Gives each replica a service of its own, named like its pod."),
    ] = None
    clean_up_policy: Annotated[
        CleanUpPolicy,
        described(
            "Which pods are deleted at the end: none, all, or those that haven't ended; in lower"
            " case it is the same."
        ),
    ] = CleanUpPolicy.NONE
    ttl_seconds_after_finished: TimeToLive = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        *_known_replicas("successRules"),
        *_known_replicas("failureRules"),
        *lacking("GenericJob", Mode.ELASTIC),
    )

    @property
    def ports(self) -> tuple[dict[str, JSON], ...]:
        """Those of each replica's service; without any there is none."""
        return self.service.ports if self.service is not None else ()


class GenericJob(Resource):
    """Any set of replica types, with your own rules for what success and failure mean."""

    spec: Annotated[GenericJobSpec, described("What the job runs.")]
    status: Annotated[JobStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (
        JOB_NAME,
        pod_name_length("self.spec.replicaSpecs", "r.type", "r.replicas"),
        *change_rules(GenericJobSpec),
    )
