"""Whether a pod may be placed on a machine that is closed to pods in general: taints, cordoning.

Only what keeps a pod from being placed counts. `PreferNoSchedule` has no meaning where there is no
other machine, and pods that run already are not this layer's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

_KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


class Taint(msgspec.Struct, frozen=True):
    """What pods have to tolerate on a machine, as its node object has it."""

    key: str
    value: str = ""
    effect: str = ""


# What `kubectl cordon` means, for pods that tolerate it all the same.
CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def untolerated(pod_spec: Mapping[str, Any], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps the pod out."""
    tolerations = pod_spec.get("tolerations") or ()
    for taint in taints:
        if taint.effect in _KEEPS_OUT and not any(_covers(each, taint) for each in tolerations):
            return taint
    return None


def _covers(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """As the API says: no effect means all effects, `Exists` without a key all taints."""
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if toleration.get("key") and toleration["key"] != taint.key:
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.get("key")) and toleration.get("value", "") == taint.value
        case _:
            # Gt and Lt are behind a feature gate on a cluster, too.
            return False
