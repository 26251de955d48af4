"""What a pod may be told about itself: fields and amounts of resources, as text.

Used for variables and for files; the latter may also hold all labels or annotations at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from jobyard.api.parts.quantity import Quantity
from jobyard.node.objects.pod_object import Container, PodObject
from jobyard.node.objects.surroundings import Setup
from jobyard.node.objects.volume_source import Amount
from jobyard.node.ordering.problems import NeverError
from jobyard.numerals import INT64_MAX

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
# Where a container has no limit of its own, it may use what the machine has.
_OF_THE_MACHINE: Final = ("cpu", "memory", "ephemeral-storage")


def field_text(pod: PodObject, address: str, setup: Setup, path: str) -> str:
    """The value of a field, as kubelet writes it; NeverError for one that it doesn't know."""
    found = _SUBSCRIPT.fullmatch(path)
    if found is not None:
        of = pod.metadata.labels if found[1] == "labels" else pod.metadata.annotations
        return of.get(found[2], "")
    own = address or setup.host_address
    match path:
        case "metadata.name":
            return pod.metadata.name
        case "metadata.namespace":
            return pod.metadata.namespace
        case "metadata.uid":
            return pod.metadata.uid
        case "metadata.labels":
            return _quoted(pod.metadata.labels)
        case "metadata.annotations":
            return _quoted(pod.metadata.annotations)
        case "spec.nodeName":
            return setup.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP" | "status.hostIPs":
            return setup.host_address
        case "status.podIP" | "status.podIPs":
            return own
    raise NeverError(
        f"fieldRef {path!r}: not a field that a pod can be told; see Kubernetes' downward API"
    )


def resource_text(container: Container, setup: Setup, resource: str, divisor: Amount) -> str:
    """A limit or request, divided and rounded up."""
    table, _, name = resource.partition(".")
    resources = container.resources
    if table not in ("limits", "requests") or not name:
        raise NeverError(
            f"resourceFieldRef {resource!r}: must be limits.<name> or requests.<name>",
            container=container.name,
        )
    amount = (resources.limits if table == "limits" else resources.requests).get(name)
    if amount is None and table == "limits" and name in _OF_THE_MACHINE:
        amount = setup.allocatable.get(name)
    by = Quantity.of(divisor).amount or Decimal(1)
    whole = Quantity.of(amount or 0).amount / by
    # As much as kubelet can say.
    return str(min(math.ceil(whole), INT64_MAX))


def _quoted(values: Mapping[str, str]) -> str:
    """One line for each, sorted, the values as Go quotes them."""
    return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(values.items()))


_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escaped(text: str) -> str:
    return "".join(
        _ESCAPES.get(char) or (char if char.isprintable() else f"\\u{ord(char):04x}")
        for char in text
    )
