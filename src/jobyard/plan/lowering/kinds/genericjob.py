"""GenericJob: its replica types are the roles; the first container is the main one."""

from __future__ import annotations

from functools import partial
from itertools import islice

from jobyard.api.genericjob import (
    GenericJobSpec,
    GenericReplica,
    GenericRestartPolicy,
    GivenReplicas,
)
from jobyard.api.parts.replicas import RestartPolicy
from jobyard.plan.lowering.description import (
    Description,
    Ending,
    Identity,
    Naming,
    ReplicaSet,
    Restart,
    Role,
    Start,
)
from jobyard.plan.lowering.gangs import gang_of
from jobyard.plan.lowering.listing import listed_roles
from jobyard.plan.lowering.variables import Facts, bad_variables, replaced
from jobyard.schema.finding import error

# A spec can have a hundred thousand of them, and the first few are what its author is told.
_FAULTS_MAX = 20


def lower(spec: GenericJobSpec, identity: Identity) -> Description:
    roles = listed_roles(
        spec.replica_specs,
        restarts=[_restart(replica) for replica in spec.replica_specs],
        clean_up=spec.clean_up_policy,
    )
    return Description(
        identity=identity,
        roles=roles,
        naming=Naming.REPLICA if spec.ports else Naming.NONE,
        ending=_ending(spec, roles),
        start=partial(_start, Facts.of(identity.name, spec)),
        ports=spec.ports,
        gang=gang_of(spec.scheduler, roles),
        run_mode=spec.run_mode,
        ttl_seconds_after_finished=spec.ttl_seconds_after_finished,
        is_collective=False,
        faults=tuple(
            error(bad.path, str(bad))
            for bad in islice(bad_variables(identity.name, spec), _FAULTS_MAX)
        ),
    )


def _restart(replica: GenericReplica) -> Restart:
    """Without a limit, OnFailure restarts nothing and Always goes on for ever."""
    given = replica.restart_policy
    if given is None:
        return Restart(RestartPolicy.ON_FAILURE, 0)
    if given.limit is None and given.policy is GenericRestartPolicy.ON_FAILURE:
        return Restart(RestartPolicy.ON_FAILURE, 0)
    return Restart(RestartPolicy(given.policy.value), given.limit)


def _ending(spec: GenericJobSpec, roles: tuple[Role, ...]) -> Ending:
    """The user's rules; absent: all must succeed, and any one failure fails the job."""
    everyone = {role.type: tuple(range(role.replicas)) for role in roles}
    return Ending(
        success=_by_number(spec.success_rules) or (everyone,),
        failure=_by_number(spec.failure_rules),
        vital_roles=frozenset() if spec.failure_rules else frozenset(everyone),
        names_rule=True,
    )


def _by_number(rules: tuple[GivenReplicas, ...]) -> tuple[ReplicaSet, ...]:
    """The rules with ranks as numbers, which a file may also have as texts."""
    return tuple({type_: tuple(map(int, ranks)) for type_, ranks in rule.items()} for rule in rules)


def _start(facts: Facts, role: Role, rank: int) -> Start:
    """As the template says, with the job's variables replaced."""
    return Start(expand=partial(replaced, facts=facts, type_=role.type, rank=rank))
