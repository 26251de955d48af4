"""A kind that isn't there is added to a copy of the project: in the files that CONTRIBUTING names.

Nothing else has to know it: CRD, reference, columns, checking, rendering, the decisions and the
engine follow from the rows. A core that names a kind shows here as a toy that doesn't run, or as
one file more that has to be touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from rig.manifests import ROOT

KIND: Final = "toyjob"
TYPES: Final = '''"""ToyJob: replicas that are all alike."""

from __future__ import annotations

from typing import Annotated, ClassVar

from jobyard.api.changes import change_rules
from jobyard.api.parts.job_spec import JobSpec
from jobyard.api.parts.replicas import ReplicaCount
from jobyard.api.parts.status import JobStatus
from jobyard.api.parts.value import PodTemplate, Resource
from jobyard.api.rules import JOB_NAME
from jobyard.schema.derive import described
from jobyard.schema.rule import Rule


class ToyJobSpec(JobSpec):
    """Replicas that are all alike."""

    replicas: ReplicaCount = 1
    template: Annotated[PodTemplate, described("The pod each toy runs in.")]


class ToyJob(Resource):
    """Toys that play side by side."""

    spec: Annotated[ToyJobSpec, described("What the job runs.")]
    status: Annotated[JobStatus | None, described("What is observed of the job.")] = None

    RULES: ClassVar[tuple[Rule, ...]] = (JOB_NAME, *change_rules(ToyJobSpec))
'''
LOWERING: Final = '''"""ToyJob: one role."""

from __future__ import annotations

from jobyard.api.toyjob import ToyJobSpec
from jobyard.plan.lowering.description import (
    Description, Ending, Identity, Naming, Role, Start, main_container,
)
from jobyard.plan.lowering.gangs import gang_of


def lower(spec: ToyJobSpec, identity: Identity) -> Description:
    role = Role(
        type="toy",
        replicas=spec.replicas,
        template=spec.template,
        place=("spec", "template"),
        main_container=main_container(spec.template),
    )
    return Description(
        identity=identity,
        roles=(role,),
        naming=Naming.JOB,
        ending=Ending(
            success=({"toy": tuple(range(spec.replicas))},), vital_roles=frozenset({"toy"})
        ),
        start=lambda _role, rank: Start(env=(("TOY", str(rank)),)),
        gang=gang_of(spec.scheduler, (role,)),
        run_mode=spec.run_mode,
    )
'''
EXAMPLE: Final = """# Two toys.
apiVersion: batch.tensorstack.dev/v1beta1
kind: ToyJob
metadata:
  name: toys
spec:
  replicas: 2
  template:
    spec:
      containers:
        - name: toy
          image: debian
          command: [sh, -c, 'echo this is toy $TOY']
"""
# What is written by hand; a text is put before the line that begins with the second.
NEW: Final = {
    f"src/jobyard/api/{KIND}.py": TYPES,
    f"src/jobyard/plan/lowering/kinds/{KIND}.py": LOWERING,
    f"examples/{KIND}/two.yaml": EXAMPLE,
    f"docs/howto/{KIND}.md": "# Playing with a ToyJob\n",
}
ROWS: Final = {
    "src/jobyard/api/kinds.py": (
        ("from jobyard.api.taskset ", "from jobyard.api.toyjob import ToyJob\n"),
        ('    _job(BeamJob, "bj"', '    _job(ToyJob, "toy", Mode.DEBUG, Mode.PAUSE),\n'),
    ),
    "src/jobyard/plan/lowering/table.py": (
        ("    xgboosttrainingjob,", "    toyjob,\n"),
        ('    "XGBoostTrainingJob"', '    "ToyJob": toyjob.lower,\n'),
    ),
    "src/jobyard/cli/arguments/needs.py": (
        ('    Need(what="TaskSet")', '    Need(what="ToyJob"),\n'),
    ),
    "docs/README.md": (("| [Manifests]", "| [ToyJob](howto/toyjob.md) | playing |\n"),),
}
TOUCHED: Final = {*NEW, *ROWS}
# What `make docs` makes of them.
GENERATED: Final = re.compile(r"docs/reference/|crds/|src/jobyard/engine/crds\.json$")
GENERATE: Final = """
import sys
from pathlib import Path
sys.path.insert(0, "tools")
from make_docs import crd_files, packed_crds, reference_files
for name, text in {**crd_files(), **packed_crds(), **dict(reference_files())}.items():
    Path(name).write_text(text)
"""


def documented() -> set[str]:
    """The files of CONTRIBUTING's row on adding a kind."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (row,) = re.findall(r"^\| a kind \|.*$", text, re.MULTILINE)
    paths = re.findall(r"`([^`]+/[^`]+)`", row)
    return {path.replace("<kind>", KIND).replace("<name>", "two") for path in paths}


def files(root: Path) -> Iterator[tuple[str, bytes]]:
    for folder in ("src", "docs", "crds", "examples", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix(), path.read_bytes()
    for path in sorted(root.glob("*.md")):
        yield path.name, path.read_bytes()


class Copy:
    """A copy of the project with one kind more."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ours = dict(files(ROOT))
        for name, content in ours.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        shutil.copy(ROOT / "pyproject.toml", root)
        for name, text in NEW.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name, rows in ROWS.items():
            lines = (root / name).read_text().splitlines(keepends=True)
            for start, row in rows:
                (at,) = [n for n, line in enumerate(lines) if line.startswith(start)]
                lines.insert(at, row)
            (root / name).write_text("".join(lines))

    def python(self, *words: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "JOBYARD_HOME": str(self.root / "home"),
        }
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def jobyard(self, *words: str) -> str:
        program = "import sys; from jobyard.cli.main import main; sys.exit(main())"
        return self.python("-c", program, *words)

    def changed(self) -> set[str]:
        ours = dict(files(ROOT))
        theirs = dict(files(self.root))
        return {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("toys"))


def test_the_files_to_touch_are_those_that_are_documented() -> None:
    assert documented() == TOUCHED


@pytest.mark.long
def test_a_kind_is_complete_with_the_documented_files(copy: Copy) -> None:
    copy.python("-c", GENERATE)
    assert {name for name in copy.changed() if not GENERATED.match(name)} == TOUCHED
    assert (copy.root / "crds" / f"{KIND}s.batch.tensorstack.dev.yaml").is_file()
    assert (copy.root / "docs" / "reference" / f"{KIND}.md").read_text().startswith("# ToyJob\n")
    # From file to end: checked, admitted, lowered, decided about, placed, run, and told of.
    example = f"examples/{KIND}/two.yaml"
    assert "toys-toy-1" in copy.jobyard("render", example)
    assert "replicas" in copy.jobyard("explain", f"{KIND}.spec")
    told = copy.jobyard("run", example, "--runtime", "host")
    assert "this is toy 0" in told
    assert "this is toy 1" in told
    assert "ToyJob/toys" in told
