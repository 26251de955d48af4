"""What the how-to pages show: only runs that ended as promised, and not a word written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages.outputs import refreshed
from docs_pages.runs import WRITE_VARIABLE, BadRunError, out_of_date

JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: says}
spec:
  replicaSpecs:
    - type: worker
      restartPolicy: {policy: Never}
      template:
        spec:
          containers:
            - {name: main, image: python, command: [sh, -c, "echo SAYS; exit CODE"]}
"""
PAGE = "<!-- output of: jobyard run examples/job.yaml -->\n\n```text\n```\n"
PROMISE = "| [job.yaml](job.yaml) | GenericJob | immediate | {} | |\n"


def written(folder: Path, promise: str, code: int) -> None:
    """A job with that end, in the examples of a project whose table promises something."""
    examples = folder / "examples"
    examples.mkdir(exist_ok=True)
    (examples / "README.md").write_text(PROMISE.format(promise))
    (examples / "job.yaml").write_text(JOB.replace("CODE", str(code)))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(WRITE_VARIABLE, "1")
    monkeypatch.setenv("JOBYARD_HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_block_is_out_of_date_when_the_file_or_a_word_in_it_is_another(project: Path) -> None:
    written(project, "Succeeded, 1 s", 0)
    page = refreshed(PAGE, project)
    assert re.search(r"^worker-0 \| SAYS$", page, re.MULTILINE), page
    assert out_of_date(page, project) == []
    assert out_of_date(page.replace("| SAYS", "| says"), project), "somebody wrote in it"
    assert refreshed(page, project) == page, "what is current isn't run again"
    file = project / "examples" / "job.yaml"
    file.write_text(file.read_text().replace("SAYS", "says"))
    assert out_of_date(page, project) == ["jobyard run examples/job.yaml"]


@pytest.mark.parametrize(
    ("promise", "code"), [("Succeeded, 1 s", 3), ("Failed on purpose, by a rule, 1 s", 0)]
)
def test_a_run_that_ends_otherwise_than_promised_is_shown_nowhere(
    project: Path, promise: str, code: int
) -> None:
    written(project, promise, code)
    with pytest.raises(BadRunError, match="SAYS"):
        refreshed(PAGE, project)


def test_a_run_that_fails_on_purpose_is_shown(project: Path) -> None:
    written(project, "Failed on purpose, by a rule, 1 s", 3)
    assert "GenericJob/says failed after" in refreshed(PAGE, project)
