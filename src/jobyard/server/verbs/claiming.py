"""Fields that the server fills in on its own: nobody manages them, unless a client sent them.

A real server tracks managed fields before it allocates addresses and adds what its controllers
want; here strategies do both at once, so what they add is left out of the tracking again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobyard.server.apply import tracked
from jobyard.server.messages.options import WriteOptions
from jobyard.server.resource import Object, Part, ServedResource
from jobyard.server.site import Site
from jobyard.server.verbs.writing import Track

# By kind, names below `spec`.
_FILLED_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "namespaces": ("finalizers",),
    "services": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
    "pods": (
        *("serviceAccount", "serviceAccountName", "priority", "preemptionPolicy"),
        *("tolerations", "volumes"),
    ),
}


def tracking(
    site: Site,
    resource: ServedResource,
    options: WriteOptions,
    part: Part = Part.WHOLE,
    sent: Object | None = None,
) -> Track:
    """How an ordinary write is tracked; `sent` is what a client wants to create."""

    def track(old: Object | None, new: Object) -> Object:
        claimed = new if old is not None or sent is None else _claimed(new, sent, resource)
        done = tracked(
            old,
            claimed,
            manager=options.manager,
            time=site.timestamp(),
            part=part,
            resource=resource,
            resolve=site.catalogue.resolved,
        )
        return done if claimed is new else {**new, "metadata": done["metadata"]}

    return track


def _claimed(new: Object, sent: Object, resource: ServedResource) -> Object:
    names = _FILLED_IN.get(resource.storage_key)
    if names is None:
        return new
    wanted = sent.get("spec") or {}
    left_out = {name for name in names if name not in wanted}
    spec = {name: item for name, item in new["spec"].items() if name not in left_out}
    if spec or "spec" in sent:
        return {**new, "spec": spec}
    return {name: item for name, item in new.items() if name != "spec"}
