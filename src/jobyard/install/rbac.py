"""What the controller may do: exactly what it does, each permission with its reason.

`CLUSTER` and `OWN_NAMESPACE` are the one list. `bundle` makes roles of it, the page on
installing has it as a table, and a test compares it with the audit log of a controller that
does everything it ever does: neither more nor less may be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from jobyard.api.kinds import KINDS, Group
from jobyard.install.settings import CONTROLLER, LABELS, GangScheduler, Settings

RBAC_GROUP: Final = "rbac.authorization.k8s.io"


class Permission(msgspec.Struct, frozen=True):
    """Verbs on resources of one API group (the core group is ""), and why."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str


def _plurals(group: Group, subresource: str = "") -> tuple[str, ...]:
    return tuple(kind.plural + subresource for kind in KINDS if kind.group is group)


CLUSTER: Final[tuple[Permission, ...]] = (
    Permission(
        Group.BATCH,
        _plurals(Group.BATCH),
        ("list", "watch", "delete"),
        "follows the jobs; deletes one whose `ttlSecondsAfterFinished` has passed",
    ),
    Permission(Group.BATCH, _plurals(Group.BATCH, "/status"), ("patch",), "writes their status"),
    Permission(
        Group.BATCH,
        _plurals(Group.BATCH, "/finalizers"),
        ("update",),
        "makes objects that block the deletion of the job that owns them, where the admission"
        " plugin OwnerReferencesPermissionEnforcement asks for this",
    ),
    Permission(Group.OCTOPUS, _plurals(Group.OCTOPUS), ("list", "watch"), "follows the TaskSets"),
    Permission(
        Group.OCTOPUS, _plurals(Group.OCTOPUS, "/status"), ("patch",), "writes their status"
    ),
    Permission(
        Group.OCTOPUS,
        _plurals(Group.OCTOPUS, "/finalizers"),
        ("update",),
        "as for the jobs, for what a TaskSet owns",
    ),
    Permission(
        Group.SCHEDULER,
        ("podgroups",),
        ("get", "list", "watch", "create", "delete"),
        "the gang of a job in a queue; left out with `--gang-scheduler none`",
    ),
    Permission(
        "",
        ("pods",),
        ("get", "list", "watch", "create", "delete"),
        "the replicas: made, followed, restarted and cleaned up",
    ),
    Permission("", ("pods/proxy",), ("get",), "reads how a BeamJob fares from its cluster's page"),
    Permission(
        "",
        ("services", "configmaps"),
        ("get", "list", "watch", "create", "delete"),
        "the names and files by which replicas find one another",
    ),
    Permission(
        "",
        ("configmaps/finalizers",),
        ("update",),
        "as for the jobs: the pods of a TaskSet are owned by a config map",
    ),
    Permission(
        "",
        ("secrets",),
        ("get", "create", "delete"),
        "the ssh keys of a job, read by name only: secrets are never listed or watched",
    ),
    Permission(
        "",
        ("events",),
        ("create", "list"),
        "tells what happens to a job; asks why a pod of its doesn't start",
    ),
    Permission("", ("nodes",), ("get",), "learns whether the node of a silent pod is lost"),
)

OWN_NAMESPACE: Final[tuple[Permission, ...]] = (
    Permission(
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "patch"),
        "elects the one controller that works, in its own namespace only",
    ),
)


def cluster_permissions(scheduler: GangScheduler = GangScheduler.T9K) -> tuple[Permission, ...]:
    """What is needed in every namespace; without a gang scheduler nobody makes gangs."""
    if scheduler is GangScheduler.NONE:
        return tuple(each for each in CLUSTER if each.group != Group.SCHEDULER)
    return CLUSTER


def granted(permissions: Iterable[Permission]) -> Iterator[tuple[str, str, str]]:
    """One by one: group, resource and verb."""
    for each in permissions:
        for resource in each.resources:
            for verb in each.verbs:
                yield each.group, resource, verb


def cluster_role(
    name: str = CONTROLLER, permissions: Iterable[Permission] = CLUSTER
) -> dict[str, Any]:
    """What the controller may do everywhere."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": dict(LABELS)},
        "rules": [_rule(each) for each in permissions],
    }


def own_role(namespace: str) -> dict[str, Any]:
    """What the controller may do in its own namespace besides."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": CONTROLLER, "namespace": namespace, "labels": dict(LABELS)},
        "rules": [_rule(each) for each in OWN_NAMESPACE],
    }


def access(settings: Settings) -> tuple[dict[str, Any], ...]:
    """The service account, its roles, and the bindings between them."""
    place = {"name": CONTROLLER, "namespace": settings.namespace}
    everywhere = cluster_role(
        settings.cluster_wide_name, cluster_permissions(settings.gang_scheduler)
    )
    here = own_role(settings.namespace)
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {**place, "labels": dict(LABELS)},
        # The controller's pods ask for the token themselves; no other pod gets it by default.
        "automountServiceAccountToken": False,
    }
    return account, everywhere, _binding(everywhere, place), here, _binding(here, place)


def without(role: Mapping[str, Any], group: str, resource: str, verb: str) -> dict[str, Any]:
    """The role, or cluster role, less one verb on one resource; ValueError if it isn't in it."""
    rules: list[dict[str, Any]] = []
    found = False
    for rule in role["rules"]:
        if not (
            group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        ):
            rules.append(rule)
            continue
        found = True
        others = [each for each in rule["resources"] if each != resource]
        verbs = [each for each in rule["verbs"] if each != verb]
        if others:
            rules.append({**rule, "resources": others})
        if verbs:
            rules.append({**rule, "resources": [resource], "verbs": verbs})
    if not found:
        raise ValueError(
            f"{role['kind']} {role['metadata']['name']}: doesn't allow to {verb}"
            f" {resource}{'.' * bool(group)}{group}, so that can't be taken away"
        )
    return {**role, "rules": rules}


def _rule(permission: Permission) -> dict[str, Any]:
    return {
        "apiGroups": [str(permission.group)],
        "resources": list(permission.resources),
        "verbs": list(permission.verbs),
    }


def _binding(role: Mapping[str, Any], account: Mapping[str, str]) -> dict[str, Any]:
    """Gives a role to the service account, under the role's own name and in its place."""
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {
            "apiGroup": RBAC_GROUP,
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
