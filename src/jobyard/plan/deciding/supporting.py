"""The supporting objects of a job: which are missing, and which are no longer as wanted.

Each carries a digest of what it was made from. One whose digest differs is deleted and made
anew: that works for every kind of object, and only happens while no pod depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from jobyard.plan.deciding.cleanup import outlives
from jobyard.plan.facts.decision import Child, ChildKey, Delete, Observed, Wanted
from jobyard.plan.lowering.description import JSON, Description
from jobyard.plan.lowering.names import DIGEST
from jobyard.plan.objects.manifests import Build, Manifests
from jobyard.plan.objects.supporting import supporting_objects

_DIGEST_LENGTH = 16


class Supporting(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done about the supporting objects."""

    creates: Sequence[JSON]
    deletes: tuple[Delete, ...]
    # All that pods need is there.
    is_ready: bool


def wanted_objects(description: Description) -> Mapping[ChildKey, Wanted]:
    """Once per version of a spec: thousands of services are too much for every decision."""
    out: dict[ChildKey, Wanted] = {}
    for key, build in supporting_objects(description).recipes.items():
        encoded = msgspec.json.encode(build(), order="sorted")
        digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_LENGTH]
        out[key] = Wanted(digest, partial(_noted, build, digest))
    return out


def _noted(build: Build, digest: str) -> JSON:
    manifest = build()
    metadata = manifest["metadata"]
    noted = {**metadata, "annotations": {**metadata.get("annotations", {}), DIGEST: digest}}
    return {**manifest, "metadata": noted}


def supporting_of(seen: Observed, *, only_outliving: bool = False) -> Supporting:
    creates: dict[ChildKey, Build] = {}
    deletes: list[Delete] = []
    is_ready = True
    for key, wanted in seen.wanted.items():
        lasting = outlives(seen, key)
        if only_outliving and not lasting:
            continue
        child = seen.children.get(key)
        if child is None:
            creates[key] = wanted.build
        elif child.digest != wanted.digest and not child.is_terminating:
            deletes.append(_delete(child))
        elif child.digest == wanted.digest and not child.is_terminating:
            continue
        # A TensorBoard doesn't hold up the job.
        is_ready = is_ready and lasting
    for key, child in seen.children.items():
        if key in seen.wanted or child.is_terminating:
            continue
        # A TensorBoard that was suspended goes after the end too.
        if not only_outliving or outlives(seen, key):
            deletes.append(_delete(child))
    return Supporting(creates=Manifests(creates), deletes=tuple(deletes), is_ready=is_ready)


def _delete(child: Child) -> Delete:
    return Delete(kind=child.kind, name=child.name, uid=child.uid)
