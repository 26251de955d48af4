"""The rows of the catalogue, sorted into groups and versions in the order that clients rely on.

kubectl takes the first group that knows a name, and the first version of it; so Kubernetes' own
groups come first, as a real server ranks them, and stable versions before beta and alpha ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from jobyard.numerals import whole_number
from jobyard.server.resource import Catalogue, ServedResource

_RANKED: Final = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_VERSION: Final = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES: Final = {None: 0, "beta": 1, "alpha": 2}


class ServedVersion(msgspec.Struct, frozen=True):
    """One version of a group, its resources by name."""

    name: str
    rows: tuple[ServedResource, ...]


class ServedGroup(msgspec.Struct, frozen=True):
    """A group with at least one version, the preferred one first; the core group has no name."""

    name: str
    versions: tuple[ServedVersion, ...]


def groups_of(catalogue: Catalogue, *, core: bool = False) -> Sequence[ServedGroup]:
    """Either the core group alone or all the others."""
    rows = [row for row in catalogue.resources() if (row.group == "") is core]
    rows.sort(key=lambda row: (_rank(row.group), age(row.version), row.plural))
    return [
        ServedGroup(
            name,
            tuple(
                ServedVersion(version, tuple(members))
                for version, members in groupby(group_rows, lambda row: row.version)
            ),
        )
        for name, group_rows in groupby(rows, lambda row: row.group)
    ]


def _rank(group: str) -> tuple[int, str]:
    return (_RANKED.index(group) if group in _RANKED else len(_RANKED), group)


def age(version: str) -> tuple[int, int, int, str]:
    """Sorts v2 before v1 before v1beta2 before v1beta1 before v1alpha1; any other word last."""
    match = _VERSION.fullmatch(version)
    major, minor = (whole_number(match[n] or "0") if match else None for n in (1, 3))
    if match is None or major is None or minor is None:
        return (len(_STAGES), 0, 0, version)
    return (_STAGES[match[2]], -major, -minor, version)
