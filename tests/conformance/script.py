"""Scripts of requests as values: what a case does, with no server and no answers in it.

Paths are short: `secrets/a` is that object in the case's own namespace, `/apis/...` is taken as
it is. `${name}` in a path, query or body stands for what an earlier step captured; `namespace`
is always there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]
Body = Json | list[Any] | str | None

JSON = "application/json"
YAML = "application/yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

WIDGETS_GROUP = "conformance.example.com"
# Where a resource lives when a path begins with its name; everything else is in the core group.
GROUPS = {
    "widgets": f"/apis/{WIDGETS_GROUP}/v1",
    "pytorchtrainingjobs": "/apis/batch.tensorstack.dev/v1beta1",
    "genericjobs": "/apis/batch.tensorstack.dev/v1beta1",
    "podgroups": "/apis/scheduler.tensorstack.dev/v1beta1",
    "tasksets": "/apis/octopus.openi.pcl.cn/v1alpha1",
    "leases": "/apis/coordination.k8s.io/v1",
}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request and what of its answer is written down."""

    method: str
    path: str
    body: Body = None
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    # Named places in the answer, for later steps: {"rv": "metadata.resourceVersion"}.
    capture: Mapping[str, str] = field(default_factory=dict)
    # Dotted places to write down instead of the whole body; `*` goes through a list.
    show: Sequence[str] | None = None
    # Ask again until this holds of status and body.
    until: Callable[[int, Json], bool] | None = None
    # Whether the answer is written down at all.
    silent: bool = False
    # Without the credentials that the server knows.
    stranger: bool = False


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A watch that is open while other steps are played, and the events that it tells."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    during: Sequence[Step] = ()
    # How many events are awaited; None: all, until the server ends the watch.
    count: int | None = None
    show: Sequence[str] | None = None


Script = Sequence[Step | Watch]


def get(path: str, **more: Any) -> Step:
    return Step(method="GET", path=path, **more)


def post(path: str, body: Body, **more: Any) -> Step:
    return Step(method="POST", path=path, body=body, **more)


def put(path: str, body: Body, **more: Any) -> Step:
    return Step(method="PUT", path=path, body=body, **more)


def delete(path: str, body: Body = None, **more: Any) -> Step:
    return Step(method="DELETE", path=path, body=body, **more)


def patch(path: str, content_type: str, body: Body, **more: Any) -> Step:
    return Step(method="PATCH", path=path, body=body, content_type=content_type, **more)


def merge(path: str, body: Body, **more: Any) -> Step:
    return patch(path, MERGE, body, **more)


def apply(path: str, body: Body, by: str = "one", force: bool = False, **more: Any) -> Step:
    query = {"fieldManager": by, **({"force": "true"} if force else {}), **more.pop("query", {})}
    return patch(path, APPLY, body, query=query, **more)


def watch(path: str, *during: Step, **more: Any) -> Watch:
    return Watch(path=path, during=during, **more)


def quiet(*steps: Step) -> tuple[Step, ...]:
    """Steps that only prepare: they must succeed, and their answers aren't written down."""
    return tuple(replace(step, silent=True) for step in steps)


def gone(path: str) -> Step:
    """Waits until there is no such object."""
    return get(path, until=lambda status, _: status == 404)


def version_of(path: str, name: str = "rv") -> Step:
    """Captures the version of an object or a list, and writes nothing down."""
    return get(path, capture={name: "metadata.resourceVersion"}, silent=True)
