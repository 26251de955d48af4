"""The offline verdict and the API server's are the same, over random mutations.

Each request is a dry run with `fieldValidation=Warn`, so one answer tells both whether
the object is taken and which of its fields are unknown.
"""

from __future__ import annotations

import asyncio
import os
from http import HTTPStatus
from typing import Any

import pytest
from rig.kube.api import Answer, ApiCaller
from rig.kube.plane import ControlPlane
from rig.manifests import valid_manifests
from rig.selection import all_is_asked_for

from jobyard.api.crd import schema_node
from jobyard.api.kinds import Group, Kind, kind_of
from jobyard.cli.output.printing import as_yaml
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.manifest.spelling import respelled
from jobyard.schema.admission import Verdict, admitted
from manifest.mutation import Mutator

# Other ones in each run; more of them find what is rarer.
MUTATIONS = int(os.environ.get("JOBYARD_MUTATIONS", "20000" if all_is_asked_for() else "2000"))
# A chunk's manifests are in memory at once.
CHUNKS = max(20 if all_is_asked_for() else 4, MUTATIONS // 1000)
CHANGES = MUTATIONS // 5
CHANGE_CHUNKS = CHUNKS // 4
CONCURRENCY = 16
# k8s.io/apiserver/pkg/endpoints/filters/warning.go: one of them, and all together.
WARNING_LENGTH_MAX = 256
WARNINGS_LENGTH_MAX = 4096
# Chosen in conftest, once for all workers, and printed at the end of the run.
SEED = int(os.environ["JOBYARD_SEED"])


def kind_of_manifest(manifest: dict[str, Any]) -> Kind:
    kind = kind_of(manifest["apiVersion"], manifest["kind"])
    assert kind is not None
    return kind


def joined(path: tuple[str | int, ...]) -> str:
    """A path as the API server writes it in its warnings."""
    out = ""
    for step in path:
        out += f"[{step}]" if isinstance(step, int) else f".{step}"
    return out.removeprefix(".")


def as_sent(value: Any) -> Any:
    """A manifest as kubectl sends it: Go writes 1.0 as 1, and huge numbers as floats."""
    match value:
        case dict():
            return {key: as_sent(item) for key, item in value.items()}
        case list():
            return [as_sent(item) for item in value]
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case int() if not -(2**63) <= value < 2**63:
            return float(value)
        case _:
            return value


def url(kind: Kind, namespace: str) -> str:
    place = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"/apis/{kind.api_version}{place}/{kind.plural}"


def disagreement(verdict: Verdict, answer: Answer) -> str | None:
    # An object of this name may be there from another test; that is found out last of all.
    taken = answer.status in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.CONFLICT)
    if answer.status >= 500:
        return f"the API server failed: {answer.text}"
    if taken != (not verdict.errors):
        return f"offline {verdict.errors or 'takes it'}, API server {answer.status}: {answer.text}"
    if taken:
        prefix, suffix = 'unknown field "', '"'
        theirs = {w[len(prefix) : -len(suffix)] for w in answer.warnings if w.startswith(prefix)}
        ours = {joined(path) for path in verdict.unknown}
        # A real server stops when its warnings have become too long.
        is_cut = sum(map(len, answer.warnings)) + WARNING_LENGTH_MAX > WARNINGS_LENGTH_MAX
        if not (theirs < ours if is_cut and len(theirs) < len(ours) else theirs == ours):
            return f"unknown fields: offline {sorted(ours)}, API server {sorted(theirs)}"
    return None


def loss(manifest: dict[str, Any], kind: Kind, verdict: Verdict) -> str | None:
    """What of the verdict is lost on the way through a YAML file and `validate`'s checks."""
    (document,) = read(as_yaml(manifest), "job.yaml")
    if document.value != manifest:
        return f"read back from YAML as {document.value}"
    if respelled(manifest, kind)[1]:
        return None
    lost = set(verdict.errors) - set(checked(document).findings)
    return f"validate does not tell {lost}" if lost else None


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_offline_and_api_server_agree_on_random_mutations(
    chunk: int, control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    mutator = Mutator(valid_manifests(), SEED + chunk)
    drawn = [as_sent(mutator.draw()) for _ in range(MUTATIONS // CHUNKS)]

    async def compare() -> list[str]:
        gate = asyncio.Semaphore(CONCURRENCY)
        async with ApiCaller(control_plane) as api:

            async def one(manifest: dict[str, Any]) -> str | None:
                kind = kind_of_manifest(manifest)
                async with gate:
                    answer = await api.request(
                        "POST",
                        url(kind, namespace),
                        body=manifest,
                        query={"dryRun": "All", "fieldValidation": "Warn"},
                    )
                verdict = admitted(manifest, schema_node(kind))
                told = disagreement(verdict, answer) or loss(manifest, kind, verdict)
                return told and f"{told}\nmanifest: {manifest}"

            return [told for told in await asyncio.gather(*map(one, drawn)) if told]

    differences = asyncio.run(compare())
    assert not differences, (
        f"{len(differences)} of {len(drawn)} differ; repeat with JOBYARD_SEED={SEED}"
        f" -k 'mutations and {chunk}'\n" + "\n\n".join(differences[:5])
    )


# How far a stored job may have come, which decides what may still change.
STATUSES: tuple[dict[str, Any], ...] = (
    {},
    {"phase": "Running"},
    {"phase": "Failed"},
    {"conditions": [{"type": "Initialized", "status": "False"}]},
    {"conditions": [{"type": "Initialized", "status": "True"}]},
    {"phase": "Succeeded", "conditions": [{"type": "Initialized", "status": "False"}]},
)


async def stored(
    api: ApiCaller, manifest: dict[str, Any], status: dict[str, Any], namespace: str
) -> dict[str, Any] | None:
    """The manifest as an object of the namespace; None if another has its name."""
    kind = kind_of_manifest(manifest)
    created = await api.request("POST", url(kind, namespace), body=manifest)
    if created.status == HTTPStatus.CONFLICT:
        return None
    assert created.status == HTTPStatus.CREATED, created.text
    if kind.group != Group.BATCH or kind.name == "BeamJob":
        return created.body
    path = f"{url(kind, namespace)}/{manifest['metadata']['name']}/status"
    patched = await api.request(
        "PATCH",
        path,
        body={"status": status},
        content_type="application/merge-patch+json",
    )
    assert patched.status == HTTPStatus.OK, patched.text
    return patched.body


@pytest.mark.parametrize("chunk", range(CHANGE_CHUNKS))
def test_offline_and_api_server_agree_on_random_changes(
    chunk: int, control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    mutator = Mutator(valid_manifests(), SEED + chunk)
    namespaced = [m for m in valid_manifests() if kind_of_manifest(m).namespaced]

    async def compare() -> list[str]:
        gate = asyncio.Semaphore(CONCURRENCY)
        async with ApiCaller(control_plane) as api:
            made = [await stored(api, m, mutator.pick(*STATUSES), namespace) for m in namespaced]
            olds = [old for old in made if old is not None]

            async def one(old: dict[str, Any]) -> str | None:
                kind = kind_of_manifest(old)
                new = as_sent(mutator.changed(old))
                path = f"{url(kind, namespace)}/{old['metadata']['name']}"
                query = {"dryRun": "All", "fieldValidation": "Warn"}
                async with gate:
                    answer = await api.request("PUT", path, body=new, query=query)
                told = disagreement(admitted(new, schema_node(kind), old), answer)
                return told and f"{told}\nold: {old}\nnew: {new}"

            drawn = [mutator.pick(*olds) for _ in range(CHANGES // CHANGE_CHUNKS)]
            return [told for told in await asyncio.gather(*map(one, drawn)) if told]

    differences = asyncio.run(compare())
    assert not differences, (
        f"{len(differences)} of {CHANGES // CHANGE_CHUNKS} differ; repeat with"
        f" JOBYARD_SEED={SEED} -k 'changes and {chunk}'\n" + "\n\n".join(differences[:5])
    )
