"""The CRDs of Jobyard's own kinds, put into a store as they are after admission.

kube-batch's PodGroup is among them: files carry it, and here nobody else brings its CRD.
`crds.json` holds them ready-made (`make docs` writes it, a test proves it current): deriving and
checking eleven large schemas at every start would take longer than most jobs take to start.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any, Final

import msgspec

from jobyard.server.server import ApiServer
from jobyard.server.site import Site

DIGEST: Final = "jobyard.dev/digest"
_SHELF: Final = "customresourcedefinitions.apiextensions.k8s.io"


class _Known(msgspec.Struct, frozen=True):
    name: str
    digest: str
    crd: msgspec.Raw


def packed(crds: list[dict[str, Any]]) -> bytes:
    """The file's content, from CRDs that went through admission."""
    rows = []
    for crd in crds:
        encoded = msgspec.json.encode(crd)
        digest = hashlib.sha256(encoded).hexdigest()[:16]
        rows.append(_Known(crd["metadata"]["name"], digest, msgspec.Raw(encoded)))
    return msgspec.json.encode(rows)


def install_own_crds(server: ApiServer) -> None:
    """Makes sure that the store has today's CRDs; those that are there already stay untouched."""
    text = files("jobyard.engine").joinpath("crds.json").read_bytes()
    for known in msgspec.json.decode(text, type=list[_Known]):
        _install(server.site, known)


def _install(site: Site, known: _Known) -> None:
    there = site.store.get(_SHELF, known.name)
    annotations = there.metadata.get("annotations") or {} if there is not None else {}
    if annotations.get(DIGEST) == known.digest:
        return
    crd: dict[str, Any] = msgspec.json.decode(known.crd)
    moment = site.timestamp()
    born: dict[str, Any] = {"uid": site.new_uid(), "creationTimestamp": moment, "generation": 0}
    kept = there.metadata if there is not None else born
    metadata = {
        **crd["metadata"],
        **kept,
        "generation": kept["generation"] + 1,
        "annotations": {**annotations, DIGEST: known.digest},
    }
    conditions = [{**each, "lastTransitionTime": moment} for each in crd["status"]["conditions"]]
    status = {**crd["status"], "conditions": conditions}
    site.store.put(_SHELF, known.name, {**crd, "metadata": metadata, "status": status})
