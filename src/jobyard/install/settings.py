"""What a person may choose about an installation, and the names and labels that follow.

`jobyard install` makes a `Settings` from its options; `rbac`, `workload` and `bundle` read
it. Here is also decided which namespaces Jobyard refuses to move into.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import msgspec

from jobyard import __version__

DEFAULT_NAMESPACE: Final = "jobyard-system"
# A tag and a label's value may not hold a +, which a version may.
VERSION: Final = __version__.replace("+", "-")
DEFAULT_IMAGE: Final = f"jobyard:{VERSION}"
# The service account, roles and workload all have this name.
CONTROLLER: Final = "jobyard-controller"
# What a selector takes may never change, so the version is not among it.
SELECTOR: Final = {
    "app.kubernetes.io/name": "jobyard",
    "app.kubernetes.io/component": "controller",
}
LABELS: Final = {
    **SELECTOR,
    "app.kubernetes.io/part-of": "jobyard",
    # Not "jobyard", which is on the pods of jobs: whoever selects those must not get the
    # controller's own.
    "app.kubernetes.io/managed-by": "jobyard-install",
    "app.kubernetes.io/version": VERSION,
}

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class GangScheduler(StrEnum):
    """Who starts the pods of a gang together."""

    T9K = "t9k"
    NONE = "none"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One installation."""

    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE
    replicas: int = 2
    gang_scheduler: GangScheduler = GangScheduler.T9K
    crds: bool = True

    @property
    def cluster_wide_name(self) -> str:
        """Of what has no namespace: two installations must not overwrite one another's."""
        if self.namespace == DEFAULT_NAMESPACE:
            return CONTROLLER
        return f"{CONTROLLER}-{self.namespace}"


def namespace_fault(name: str) -> str | None:
    """Why Jobyard can't be installed in this namespace, if so."""
    if not _DNS_LABEL.fullmatch(name):
        return (
            "must have at most 63 lower-case letters, digits and '-',"
            " and begin and end with a letter or digit"
        )
    if name == "default" or name.startswith("kube-"):
        return (
            "is shared with others, whose pods would be refused by the pod-security level"
            f" 'restricted' that is set on it; choose one for Jobyard alone, as {DEFAULT_NAMESPACE}"
        )
    return None


def image_fault(image: str) -> str | None:
    """Why this can't be the name of an image, if so. Only a registry knows if it is there."""
    if not image or re.search(r"\s", image):
        return f"must be the name of an image without blanks, as {DEFAULT_IMAGE}"
    return None
