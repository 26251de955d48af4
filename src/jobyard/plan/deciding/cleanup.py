"""What goes once a job has ended: pods by each role's policy, then what served them.

Ended pods stay for their logs unless the policy says All. A TensorBoard lives as long as the
job object does.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobyard.api.parts.run_policy import CleanUpPolicy
from jobyard.plan.facts.decision import ChildKey, Delete, Observed
from jobyard.plan.facts.pod_facts import Pod
from jobyard.plan.objects.tensorboard import tensorboard_name


def clean_up(seen: Observed) -> Iterator[Delete]:
    policies = {role.type: role.clean_up for role in seen.description.roles}
    if all(policy is CleanUpPolicy.NONE for policy in policies.values()):
        return
    replicas = [pod for pod in in_order(seen) if pod.role]
    going = [pod for pod in replicas if _goes(pod, policies.get(pod.role, CleanUpPolicy.ALL))]
    for pod in going:
        if not pod.is_terminating:
            yield Delete(kind="Pod", name=pod.name, uid=pod.uid)
    # Whoever saves its work before it goes may still need them.
    if not any(pod.still_runs for pod in replicas):
        yield from _supporting(seen)


def in_order(seen: Observed) -> list[Pod]:
    """By role, rank and attempt: people are told whose pods go."""
    order = {role.type: place for place, role in enumerate(seen.description.roles)}
    return sorted(
        seen.pods, key=lambda pod: (order.get(pod.role, len(order)), pod.rank, pod.attempt)
    )


def _goes(pod: Pod, policy: CleanUpPolicy) -> bool:
    match policy:
        case CleanUpPolicy.NONE:
            return False
        case CleanUpPolicy.ALL:
            return True
        case CleanUpPolicy.UNFINISHED:
            return pod.still_runs


def _supporting(seen: Observed) -> Iterator[Delete]:
    for key, child in seen.children.items():
        if not outlives(seen, key) and not child.is_terminating:
            yield Delete(kind=child.kind, name=child.name, uid=child.uid)


def outlives(seen: Observed, key: ChildKey) -> bool:
    """Whether a supporting object stays as long as the job object does."""
    name = tensorboard_name(seen.description.identity)
    return seen.description.tensorboard is not None and key[1] == name
