"""Which of Kubernetes' own types the embedded API server knows, and what is kept of them.

`tools/core_schema.py` fetches the documents and writes what this module makes of them:
`src/jobyard/server/kinds/types/kubernetes.json`, every definition that is reachable from ROOTS, by
its published name. A `$ref` is the bare name and may stand beside other keywords. Descriptions
are left out: they are sentences, not facts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CORE = "io.k8s.api.core.v1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
ROOTS = (
    *(
        _CORE + kind
        for kind in (
            "Binding",
            "ConfigMap",
            "Endpoints",
            "Event",
            "Namespace",
            "Node",
            "PersistentVolumeClaim",
            "Pod",
            "Secret",
            "Service",
            "ServiceAccount",
        )
    ),
    "io.k8s.api.authentication.v1.SelfSubjectReview",
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.authentication.v1.TokenReview",
    "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "io.k8s.api.authorization.v1.SubjectAccessReview",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.coordination.v1.Lease",
    "io.k8s.api.discovery.v1.EndpointSlice",
    "io.k8s.api.events.v1.Event",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.scheduling.v1.PriorityClass",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    _META + "DeleteOptions",
    _META + "ListMeta",
    _META + "Status",
)
DOCUMENTS = (
    "/openapi/v3/api/v1",
    *(
        f"/openapi/v3/apis/{group}/v1"
        for group in (
            "apiextensions.k8s.io",
            "apps",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "coordination.k8s.io",
            "discovery.k8s.io",
            "events.k8s.io",
            "policy",
            "scheduling.k8s.io",
        )
    ),
)
TARGET = Path(__file__).parent.parent / "src/jobyard/server/kinds/types/kubernetes.json"

_DROPPED = ("description", "allOf", "$ref", "properties", "items", "additionalProperties")
_REF = "#/components/schemas/"


def kept(schema: dict[str, Any]) -> dict[str, Any]:
    """One OpenAPI schema without descriptions, with bare names for references."""
    out: dict[str, Any] = {key: value for key, value in schema.items() if key not in _DROPPED}
    refs = [part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part]
    if "$ref" in schema:
        refs.append(schema["$ref"])
    if refs:
        (ref,) = refs
        out["$ref"] = ref.removeprefix(_REF)
    if "properties" in schema:
        out["properties"] = {name: kept(sub) for name, sub in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = kept(schema[key])
    return out


def references(schema: Any) -> set[str]:
    """The names of all definitions that a schema mentions."""
    if isinstance(schema, list):
        return set().union(*map(references, schema))
    if not isinstance(schema, dict):
        return set()
    found = {schema["$ref"]} if isinstance(schema.get("$ref"), str) else set()
    return found.union(*map(references, schema.values()))


def cut(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Every definition that ROOTS need, by name."""
    published: dict[str, Any] = {}
    for document in documents:
        published |= document["components"]["schemas"]
    wanted, out = list(ROOTS), {}
    while wanted:
        name = wanted.pop()
        if name not in out:
            out[name] = kept(published[name])
            # DeleteOptions and the like are listed under every group that there is.
            if not name.startswith("io.k8s.api."):
                out[name].pop("x-kubernetes-group-version-kind", None)
            wanted.extend(references(out[name]))
    return out


def text(documents: list[dict[str, Any]]) -> str:
    return json.dumps(cut(documents), indent=0, separators=(",", ":"), sort_keys=True) + "\n"
