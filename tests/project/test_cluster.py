"""CRDs, originals and examples on a real API server, through a real kubectl."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.namespaces import fresh_name
from rig.manifests import EXAMPLES, ORIGINALS, ROOT, documents, valid_manifests
from rig.waiting import until_it_holds

from jobyard.api.kinds import KINDS, Kind, kind_of

# The second TaskSet of the originals comes with one; on a cluster kube-batch brings the CRD.
KUBE_BATCH_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.incubator.k8s.io",
        # Kubernetes guards groups below k8s.io; kube-batch's CRD is older than that.
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    },
    "spec": {
        "group": "scheduling.incubator.k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def kube_batch(kubectl: Kubectl, run_folder: Path) -> None:
    # One worker at a time: two that create the same CRD would get in each other's way.
    with (run_folder / "kube-batch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kubectl("apply", "-f", "-", stdin=json.dumps(KUBE_BATCH_CRD))
    # Discovery is later than the CRD's own conditions.
    listed = ("get", "podgroups.v1alpha1.scheduling.incubator.k8s.io")
    until_it_holds(
        lambda: kubectl(*listed, check=False).returncode == 0, "kube-batch's groups are served"
    )


def example_of(kind: Kind) -> dict[str, Any]:
    return next(m for m in valid_manifests() if kind_of(m["apiVersion"], m["kind"]) == kind)


def test_a_plain_kubectl_apply_of_the_checked_in_crds_changes_nothing_the_second_time(
    kubectl: Kubectl, crds: None
) -> None:
    kubectl("apply", "-f", str(ROOT / "crds"))
    again = kubectl("apply", "-f", str(ROOT / "crds")).stdout.splitlines()
    assert len(again) == len(KINDS)
    assert all(line.endswith("unchanged") for line in again), again


@pytest.mark.parametrize("path", ORIGINALS, ids=lambda path: path.stem)
def test_every_manifest_of_the_originals_is_accepted(
    path: Path, kubectl: Kubectl, crds: None, kube_batch: None
) -> None:
    applied = kubectl("apply", "-f", str(path)).stdout.splitlines()
    assert len(applied) == len(documents(path))


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_example_is_accepted(path: Path, kubectl: Kubectl, crds: None) -> None:
    applied = kubectl("apply", "-f", str(path)).stdout.splitlines()
    assert len(applied) == len(documents(path))


def test_kubectl_explain_describes_our_fields(kubectl: Kubectl, crds: None) -> None:
    # A server publishes a new CRD's schema a little later than it serves the kind.
    told = until_it_holds(
        lambda: kubectl("explain", "pytorchtrainingjob.spec.elastic", check=False).stdout,
        "the schema is published",
    )
    assert "Lets the number of replicas change while the job runs" in told
    for field, sentence in (
        ("minReplicas", "The fewest replicas the job can work with; never changes."),
        ("expectedReplicas", "How many replicas there should be now; may change at any time."),
    ):
        assert field in told
        assert sentence in " ".join(told.split())


STATUSES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "TaskSet": (
        {"state": "Running", "phase": "TaskSetAttemptRunning", "totalRetriedCount": 2},
        ["Running", "TaskSetAttemptRunning", "2"],
    ),
    "Queue": ({"pods": {"running": 3, "pending": 4}}, ["false", "3", "4"]),
    "PodGroup": ({"running": 2}, ["2"]),
}
JOB_STATUS: tuple[dict[str, Any], list[str]] = (
    {"phase": "Running", "ready": "2/4", "restarts": 3},
    ["Running", "2/4", "3"],
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kubectl_get_shows_the_columns(kind: Kind, kubectl: Kubectl, crds: None) -> None:
    manifest = example_of(kind)
    # A queue is in no namespace, and other tests have that of the example.
    manifest["metadata"]["name"] = fresh_name(kind.name)
    status, shown = STATUSES.get(kind.name, JOB_STATUS)
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    target = f"{kind.plural}.{kind.group}/{manifest['metadata']['name']}"
    patch = json.dumps({"status": status})
    kubectl("patch", target, "--subresource=status", "--type=merge", "-p", patch)
    header, row = kubectl("get", target).stdout.splitlines()
    assert header.split() == ["NAME", *(column.name.upper() for column in kind.columns)]
    for word in shown:
        assert word in row.split(), row
    assert kubectl("get", f"{kind.short_name}.{kind.group}", "--no-headers").stdout
    kubectl("delete", target, "--wait=false")


@pytest.mark.parametrize("kind", [k for k in KINDS if k.scale], ids=lambda kind: kind.name)
def test_kubectl_scale_sets_the_expected_replicas(kind: Kind, kubectl: Kubectl, crds: None) -> None:
    elastic = next(
        m
        for m in valid_manifests()
        if m["kind"] == kind.name and m["spec"].get("elastic", {}).get("enabled")
    )
    most = elastic["spec"]["elastic"]["maxReplicas"]
    kubectl("apply", "-f", "-", stdin=json.dumps(elastic))
    target = f"{kind.plural}.{kind.group}/{elastic['metadata']['name']}"
    kubectl("scale", target, f"--replicas={most}")
    told = kubectl("get", target, "-o", "jsonpath={.spec.elastic.expectedReplicas}").stdout
    assert told == str(most)
    refused = kubectl("scale", target, f"--replicas={most + 1}", check=False)
    assert refused.returncode != 0
    assert "expectedReplicas: Invalid value: " in refused.stderr
    assert f"is {most + 1}; must be from" in refused.stderr
