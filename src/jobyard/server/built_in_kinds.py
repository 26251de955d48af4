"""The rows of Kubernetes' own kinds: names, verbs, subresources, schema, strategy.

What a kind defaults and checks is in the module named after it. Columns and storage are
others' business.
"""

from __future__ import annotations

from typing import Final

import msgspec

from jobyard.server.crds.definitions import crd_strategy
from jobyard.server.kinds.claims import claim_strategy
from jobyard.server.kinds.configuration import configmap_strategy, secret_strategy
from jobyard.server.kinds.endpoints import endpoints_strategy, slice_strategy
from jobyard.server.kinds.events import core_event_strategy, event_strategy
from jobyard.server.kinds.namespaces import namespace_strategy
from jobyard.server.kinds.plain import (
    lease_strategy,
    node_strategy,
    priority_class_strategy,
    service_account_strategy,
)
from jobyard.server.kinds.pods.strategy import pod_strategy
from jobyard.server.kinds.services import service_strategy
from jobyard.server.kinds.surroundings import Alone, Surroundings
from jobyard.server.kinds.types.kubernetes_schemas import EXTENSIONS, reference
from jobyard.server.resource import ServedResource, Strategy, Subresource
from jobyard.server.verbs.reviews import review_resources

STATUS: Final = Subresource(name="status", verbs=("get", "patch", "update"))
_GET, _CREATE = ("get",), ("create",)
# What `kubectl get all` shows.
_ALL: Final = ("all",)
_CONNECT = ("create", "get")
_POD_SUBRESOURCES: Final = (
    Subresource(name="attach", verbs=_CONNECT, kind="PodAttachOptions"),
    Subresource(name="binding", verbs=_CREATE, kind="Binding"),
    Subresource(name="eviction", verbs=_CREATE, group="policy", version="v1", kind="Eviction"),
    Subresource(name="exec", verbs=_CONNECT, kind="PodExecOptions"),
    Subresource(name="log", verbs=_GET),
    Subresource(name="portforward", verbs=_CONNECT, kind="PodPortForwardOptions"),
    Subresource(
        name="proxy",
        verbs=("create", "delete", "get", "patch", "update"),
        kind="PodProxyOptions",
    ),
    STATUS,
)


def builtin_resources(surroundings: Surroundings | None = None) -> tuple[ServedResource, ...]:
    """All rows. `surroundings` answers what a strategy must ask, see there."""
    around = surroundings or Alone()
    return (
        _core("ConfigMap", configmap_strategy(), "cm"),
        msgspec.structs.replace(
            _core("Endpoints", endpoints_strategy(), "ep", plural="endpoints"),
            deprecation="v1 Endpoints is deprecated in v1.33+;"
            " use discovery.k8s.io/v1 EndpointSlice",
        ),
        _core("Event", core_event_strategy(), "ev"),
        msgspec.structs.replace(
            _core(
                "Namespace", namespace_strategy(), "ns", namespaced=False, subresources=(STATUS,)
            ),
            # All at once is more than anyone may want to delete.
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        _core("Node", node_strategy(), "no", namespaced=False, subresources=(STATUS,)),
        _core("PersistentVolumeClaim", claim_strategy(), "pvc", subresources=(STATUS,)),
        _core("Pod", pod_strategy(around), "po", subresources=_POD_SUBRESOURCES, categories=_ALL),
        _core("Secret", secret_strategy()),
        _core("Service", service_strategy(around), "svc", subresources=(STATUS,), categories=_ALL),
        _core("ServiceAccount", service_account_strategy(), "sa"),
        ServedResource(
            group="apiextensions.k8s.io",
            version="v1",
            plural="customresourcedefinitions",
            singular="customresourcedefinition",
            kind="CustomResourceDefinition",
            namespaced=False,
            strategy=crd_strategy(),
            schema=reference(EXTENSIONS + "CustomResourceDefinition"),
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(STATUS,),
        ),
        _grouped("coordination.k8s.io", "Lease", lease_strategy()),
        _grouped("discovery.k8s.io", "EndpointSlice", slice_strategy()),
        _grouped("events.k8s.io", "Event", event_strategy(), short_names=("ev",)),
        _grouped(
            "scheduling.k8s.io",
            "PriorityClass",
            priority_class_strategy(),
            short_names=("pc",),
            plural="priorityclasses",
            namespaced=False,
        ),
        *review_resources(),
    )


def _core(
    kind: str,
    strategy: Strategy,
    *short_names: str,
    plural: str = "",
    namespaced: bool = True,
    subresources: tuple[Subresource, ...] = (),
    categories: tuple[str, ...] = (),
) -> ServedResource:
    row = _grouped(
        "", kind, strategy, short_names=short_names, plural=plural, namespaced=namespaced
    )
    return msgspec.structs.replace(row, categories=categories, subresources=subresources)


def _grouped(
    group: str,
    kind: str,
    strategy: Strategy,
    *,
    short_names: tuple[str, ...] = (),
    plural: str = "",
    namespaced: bool = True,
) -> ServedResource:
    singular = kind.lower()
    return ServedResource(
        group=group,
        version="v1",
        plural=plural or f"{singular}s",
        singular=singular,
        kind=kind,
        namespaced=namespaced,
        strategy=strategy,
        schema=reference(f"io.k8s.api.{group.removesuffix('.k8s.io') or 'core'}.v1.{kind}"),
        short_names=short_names,
    )
