"""Cuts the types that Jobyard needs out of Kubernetes' published OpenAPI, into two data files.

`src/jobyard/schema/core_v1.json` has the core/v1 types that Jobyard's kinds embed: every
definition that is reachable from the ones in ROOTS, without descriptions, defaults and patch
hints. `src/jobyard/server/kinds/types/kubernetes.json` has the kinds that the embedded API server
serves (`served_schemas` says which). `make core-schema` runs this against the real API server of
the tests; a test proves that the files are what that API server publishes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import served_schemas

ROOTS = (
    "io.k8s.api.batch.v1.JobTemplateSpec",
    "io.k8s.api.core.v1.EnvVar",
    "io.k8s.api.core.v1.PodTemplateSpec",
    "io.k8s.api.core.v1.ResourceRequirements",
    "io.k8s.api.core.v1.ServicePort",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
)
# Where the definitions above are published.
DOCUMENTS = ("/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1")
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
KEPT = ("type", "format", "enum", "required")
REF = "#/components/schemas/"


def reduced(schema: dict[str, Any]) -> dict[str, Any]:
    """One OpenAPI schema with only what decides whether a value is valid."""
    refs = [part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part]
    if "$ref" in schema:
        refs.append(schema["$ref"])
    if refs:
        (ref,) = refs
        return {"$ref": ref.removeprefix(REF)}
    out: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        out["properties"] = {
            name: reduced(value) for name, value in sorted(schema["properties"].items())
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            out[key] = reduced(schema[key])
    return out


def references(schema: dict[str, Any]) -> set[str]:
    found = {schema["$ref"]} if "$ref" in schema else set()
    for value in schema.get("properties", {}).values():
        found |= references(value)
    for key in ("items", "additionalProperties"):
        if key in schema:
            found |= references(schema[key])
    return found


def cut(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Every definition that ROOTS need, by name; the two scalar types of Kubernetes by hand."""
    published: dict[str, Any] = {}
    for document in documents:
        published |= document["components"]["schemas"]
    wanted, out = list(ROOTS), {}
    while wanted:
        name = wanted.pop()
        if name in out:
            continue
        if name in (QUANTITY, INT_OR_STRING):
            # Published as a oneOf, which a structural schema has no room for.
            out[name] = {"x-kubernetes-int-or-string": True}
            continue
        out[name] = reduced(published[name])
        wanted.extend(references(out[name]))
    return dict(sorted(out.items()))


def text(documents: list[dict[str, Any]]) -> str:
    return json.dumps(cut(documents), indent=0, separators=(",", ":"), sort_keys=True) + "\n"


TARGET = Path(__file__).parent.parent / "src" / "jobyard" / "schema" / "core_v1.json"


def main() -> None:
    # Only here: the test that compares imports this module where `rig` is set up already.
    from rig.kube.api import ApiCaller
    from rig.kube.binaries import find_binaries
    from rig.kube.control_plane import Parts, running

    async def published(paths: Iterable[str]) -> list[dict[str, Any]]:
        async with ApiCaller(plane) as api:
            return [(await api.request("GET", path)).body for path in paths]

    found = find_binaries(lambda line: print(line, end="", file=sys.stderr))
    with (
        tempfile.TemporaryDirectory() as folder,
        running(found, Path(folder) / "plane", Parts(controllers=False)) as (plane, _),
    ):
        TARGET.write_text(text(asyncio.run(published(DOCUMENTS))))
        served = asyncio.run(published(served_schemas.DOCUMENTS))
        served_schemas.TARGET.write_text(served_schemas.text(served))
        for target in (TARGET, served_schemas.TARGET):
            print(f"{target.name}: as published by Kubernetes {plane.version}", file=sys.stderr)


if __name__ == "__main__":
    main()
