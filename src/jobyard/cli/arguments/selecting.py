"""What `get`, `delete` and the like are given: kinds, names, or both as KIND/NAME."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from jobyard.api.kinds import KINDS
from jobyard.client.resources import (
    CLAIMS,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
    may_name,
    resource_of,
)
from jobyard.plan.lowering.table import JOB_KINDS
from jobyard.schema.wording import suggestion

JOBS: Final = ("jobs", "job", "all")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CRDS: Final = Resource(
    *("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
    namespaced=False,
)
_SHORT: Final = {
    PODS: ("po",),
    SERVICES: ("svc",),
    CONFIG_MAPS: ("cm",),
    SECRETS: (),
    EVENTS: ("ev",),
    NODES: ("no",),
    NAMESPACES: ("ns",),
    CLAIMS: ("pvc",),
    ENDPOINTS: ("ep",),
    ENDPOINT_SLICES: (),
    SERVICE_ACCOUNTS: ("sa",),
    LEASES: (),
    CRDS: ("crd", "crds"),
}


class Choice(msgspec.Struct, frozen=True):
    """Objects of one resource: those with these names, or all."""

    resource: Resource
    names: tuple[str, ...] = ()


def chosen(words: tuple[str, ...]) -> list[Choice]:
    """`jobs`, `pods`, `genericjob a b`, `genericjob/a pod/b`."""
    if not words:
        return [Choice(resource_of(kind)) for kind in JOB_KINDS]
    if "/" in words[0]:
        pairs = [word.partition("/") for word in words]
        for kind, slash, name in pairs:
            if not slash:
                raise click.UsageError(
                    f"{kind}: either a kind and names, or KIND/NAME each time; not both"
                )
            check_pair(kind, name)
        return [Choice(_one(kind), (name,)) for kind, _, name in pairs]
    resources = [each for word in words[0].split(",") for each in resources_named(word)]
    for name in words[1:]:
        check_name(name)
    return [Choice(resource, words[1:]) for resource in resources]


def check_pair(kind: str, name: str) -> None:
    """Refuses a KIND/NAME of which a part is missing, or that has more than two."""
    if not kind:
        raise click.UsageError(f"a kind is missing before /{name}; it would be KIND/NAME")
    if not name:
        raise click.UsageError(f"a name is missing after {kind}/")
    if "/" in name:
        raise click.UsageError(f"{kind}/{name}: has more than one slash; it would be KIND/NAME")
    check_name(name)


def check_name(name: str) -> None:
    """Refuses what would ask a server for another object than it seems to."""
    if not may_name(name):
        raise click.UsageError(f'"{name}": not the name of an object')


def are_names(words: tuple[str, ...]) -> bool:
    """Whether these are names of jobs, with no kind before them."""
    return bool(words) and "/" not in words[0] and not named_resources(words[0].partition(",")[0])


def resources_named(text: str) -> list[Resource]:
    """The resources that a word means; `jobs` means all kinds of jobs."""
    if found := named_resources(text):
        return found
    raise click.UsageError(f"{unknown_kind(text)}; there are {', '.join(_known())}")


def unknown_kind(text: str) -> str:
    """That there is none, and which may have been meant."""
    return f"{text}: there is no such kind here{suggestion(text.lower(), _known())}"


def _known() -> list[str]:
    return [*(kind.singular for kind in KINDS), *(each.plural for each in _SHORT), "jobs"]


def named_resources(text: str) -> list[Resource]:
    """The same; nothing if there is no such kind."""
    wanted = text.lower().partition(".")[0]
    if wanted in JOBS:
        return [resource_of(kind) for kind in JOB_KINDS]
    for kind in KINDS:
        if wanted in (kind.singular, kind.plural, *kind.short_names):
            return [resource_of(kind)]
    for resource, short in _SHORT.items():
        if wanted in (resource.kind.lower(), resource.plural, *short):
            return [resource]
    return []


def _one(kind: str) -> Resource:
    found = resources_named(kind)
    if len(found) > 1:
        raise click.UsageError(f"{kind}/…: name one kind, such as genericjob/NAME")
    return found[0]
