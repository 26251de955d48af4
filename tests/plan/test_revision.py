"""The digest of a spec that pods carry: the same for the same spec, however it was read."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import msgspec
import pytest
from rig.places import ROOT

from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.table import JOB_KINDS, lowered
from jobyard.schema.admission import admitted

FILES = sorted((ROOT / "examples").rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_spec_has_one_digest_however_it_was_read(path: Path) -> None:
    for document in read(path.read_text(), str(path)):
        result = checked(document)
        if result.kind is None or result.kind not in JOB_KINDS or result.has_errors:
            continue
        offline = lowered(result.kind, msgspec.convert(result.value, result.kind.type))
        raw = json.dumps(dict(reversed(result.value.items()))).encode()
        stored = lowered(result.kind, msgspec.json.decode(raw, type=result.kind.type))
        assert offline.revision == stored.revision
        assert len(offline.revision) == 12


def test_what_may_change_at_any_time_makes_no_other_revision() -> None:
    kind = kind_of("batch.tensorstack.dev/v1beta1", "GenericJob")
    assert kind is not None
    container = {"name": "main", "image": "i"}
    spec = {"replicaSpecs": [{"type": "worker", "template": {"spec": {"containers": [container]}}}]}
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "job"},
        "spec": spec,
    }

    def revision(**changed: object) -> str:
        value = copy.deepcopy({**job, "spec": {**spec, **changed}})
        verdict = admitted(value, schema_node(kind))
        assert not verdict.errors
        return lowered(kind, msgspec.convert(verdict.value, kind.type)).revision

    assert revision(cleanUpPolicy="All", ttlSecondsAfterFinished=5) == revision()
    assert revision(runMode={"pause": {"enabled": True}}) == revision()
    assert revision(successRules=[{"worker": [0]}]) != revision()


# Digests that pods of running jobs may carry. If one of these changes, an upgrade would restart
# every running job: then the digest needs another word (`_SPEC` in plan/lowering/modes.py).
KNOWN = {
    "colossalaijob": "4aa814901f3d",
    "genericjob-rules": "f3cdd3928c91",
    "mpijob": "d9df519a8ca7",
}


@pytest.mark.parametrize("name", KNOWN)
def test_an_upgrade_restarts_no_running_job(name: str) -> None:
    path = ROOT / "tests/originals" / f"{name}.yaml"
    (result,) = [checked(document) for document in read(path.read_text(), str(path))]
    assert result.kind is not None
    job = msgspec.convert(result.value, result.kind.type)
    assert lowered(result.kind, job).revision == KNOWN[name]
