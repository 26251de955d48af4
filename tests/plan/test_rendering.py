"""The children of every example: golden files, and a real API server that takes them.

`JOBYARD_WRITE_GOLDEN=1 make test PYTEST_ARGS='-k golden'` writes the files anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rig.kube.kubectl import Kubectl
from rig.manifests import EXAMPLES, ORIGINALS, ROOT, documents
from rig.places import TESTS

from jobyard.cli.output.printing import as_yaml, print_objects
from jobyard.manifest.checking import checked
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.rendering import children

GOLDEN = TESTS / "golden"
MANIFESTS = [*ORIGINALS, *EXAMPLES]


def title(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


def rendered(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for result in map(checked, documents(path)):
        if result.kind is None or result.has_errors:
            continue
        description = described(result.kind, result.value)
        if description is not None:
            found += children(description)
    return found


def without_scripts(child: dict[str, Any]) -> dict[str, Any]:
    """The start scripts are the same in every job, and have tests of their own."""
    if child["kind"] != "ConfigMap" or "data" not in child:
        return child
    data = {k: f"(plan/ssh/{k})" if k.endswith(".sh") else v for k, v in child["data"].items()}
    return {**child, "data": data}


@pytest.mark.parametrize("path", MANIFESTS, ids=title)
def test_children_are_as_in_the_golden_file(path: Path) -> None:
    golden = GOLDEN / f"{title(path)}.yaml"
    header = f"# jobyard render {path.relative_to(ROOT)}\n"
    now = header + "---\n".join(as_yaml(without_scripts(child)) for child in rendered(path))
    if os.environ.get("JOBYARD_WRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(now)
    assert now == golden.read_text()


def test_there_is_no_golden_file_without_a_manifest() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {title(path) for path in MANIFESTS}


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", [p for p in MANIFESTS if rendered(p)], ids=title)
def test_the_api_server_takes_every_child(path: Path, kubectl: Kubectl, crds: None) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": rendered(path)}
    taken = kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(listed)).stdout
    assert len(taken.splitlines()) == len(listed["items"])


HUGE = f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {{name: {"n" * 51}}}
spec:
  replicaSpecs:
  - type: worker
    replicas: 1030
    template: {{spec: {{containers: [{{name: tensorflow, image: i}}]}}}}
"""
# All of it at once would be some hundred megabytes; a command that does nothing takes a fifth.
MEMORY_KB = 120_000


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_the_children_of_a_large_job_come_one_after_the_other(output: str, tmp_path: Path) -> None:
    manifest = tmp_path / "huge.yaml"
    manifest.write_text(HUGE)
    jobyard = Path(sys.executable).parent / "jobyard"
    limited = f'ulimit -d {MEMORY_KB} && exec "$0" "$@"'
    with (tmp_path / "children").open("wb") as out:
        subprocess.run(
            ["sh", "-c", limited, str(jobyard), "render", "-o", output, str(manifest)],
            stdout=out,
            check=True,
        )
    text = (tmp_path / "children").read_text()
    assert len(text) > 100_000_000
    assert text.count("TF_CONFIG") == 1030


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_objects_one_by_one_are_written_as_all_at_once(
    count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'two\nlines and a "quote"'
    objects = [{"kind": "A", "n": n, "text": text, "b": []} for n in range(count)]
    print_objects(iter(objects), "json")
    whole: Any = {"apiVersion": "v1", "kind": "List", "items": objects}
    wanted = json.dumps(whole if count != 1 else objects[0], indent=2)
    assert capsys.readouterr().out == f"{wanted}\n"
    print_objects(iter(objects), "yaml")
    assert capsys.readouterr().out == "---\n".join(map(as_yaml, objects))
