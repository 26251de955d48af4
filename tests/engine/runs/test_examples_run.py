"""Every example and every original on this machine, to the end that examples/README.md promises.

What needs no more than Python and sshd runs here, as root and as an ordinary user; what needs a
framework is listed by its need, and the tests of that framework run it. Examples share an engine,
as the jobs of a team would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
import pytest
from rig.manifests import EXAMPLES, ORIGINALS, ROOT, documents
from rig.needs import lacks
from rig.person import Person, person
from rig.waiting import look_again

from jobyard.api.kinds import kind_of
from jobyard.plan.lowering.table import JOB_KINDS

# What a machine for tests has, or what only a cluster or a look at a page needs.
AT_HAND = ("", "sshd", "TensorBoard, to see it", "on a cluster: the T9k Scheduler")
# What the others need, one of these at least: they are left to the tests of frameworks.
FRAMEWORKS = ("Open MPI", "PyTorch", "TensorFlow", "xgboost", "DeepSpeed", "ColossalAI", "Beam")
CHECKPOINT = "genericjob/checkpoint.yaml"
# Not more often: what is waited for needs the machine.
LOOK_SECONDS = 0.3
ROW = re.compile(r"^\| \[([^]]+)\]\([^)]+\) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)


class End(StrEnum):
    """What the table says becomes of an example."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    RUNNING = "Running"
    PAUSED = "Paused"


class Promise(msgspec.Struct, frozen=True):
    """One row of the table in examples/README.md."""

    file: str
    mode: str
    expected: str
    needs: str

    @property
    def path(self) -> Path:
        return ROOT / "examples" / self.file

    @property
    def end(self) -> End:
        """The first of the phases that it names."""
        found = re.search("|".join(End), self.expected)
        assert found is not None, f"{self.file}: no end is promised: {self.expected}"
        return End(found[0])

    @property
    def runs_here(self) -> bool:
        return self.needs in AT_HAND

    @property
    def ready(self) -> str:
        """`3/3` of `Running, 3 of 3, until deleted`."""
        found = re.search(r"(\d+) of (\d+)", self.expected)
        assert found is not None, self.expected
        return f"{found[1]}/{found[2]}"


WAITING = (End.RUNNING, End.PAUSED)


def promises() -> list[Promise]:
    text = (ROOT / "examples" / "README.md").read_text()
    return [
        Promise(file, mode.strip(), expected.strip(), needs.strip())
        for file, _kind, mode, expected, needs in ROW.findall(text)
    ]


def original(name: str) -> Path:
    return ROOT / "tests" / "originals" / f"{name}.yaml"


def here(*ends: End) -> list[Promise]:
    return [each for each in promises() if each.runs_here and each.end in ends]


def name_of(path: Path) -> str:
    """KIND/NAME of the one job in a file."""
    (found,) = (
        f"{value['kind']}/{value['metadata']['name']}"
        for value in (document.value for document in documents(path))
        if kind_of(value["apiVersion"], value["kind"]) in JOB_KINDS
    )
    return found


# Who runs it differs in few lines: one of the two, another time the other.
pytestmark = pytest.mark.sample(2)


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    is_ordinary = request.param == "as an ordinary user"
    with person(is_ordinary=is_ordinary) as who:
        yield who


@pytest.fixture
def yard(somebody: Person) -> Iterator[Person]:
    """Somebody whose engine is up, and who leaves nothing behind."""
    started = somebody.run("up", "--detach", "--relaxed")
    assert started.returncode == 0, started.stderr
    try:
        yield somebody
    finally:
        stopped = somebody.run("down")
        assert stopped.returncode == 0, stopped.stderr
    assert somebody.processes() == {}


def said(who: Person, *words: str, code: int = 0) -> str:
    done = who.ask(*words)
    assert done.returncode == code, f"jobyard {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def standing(who: Person) -> dict[str, tuple[str, ...]]:
    """PHASE and READY of all jobs by KIND/NAME, as `get` shows them."""
    rows = (line.split() for line in said(who, "get").splitlines() if "/" in line)
    return {row[0]: tuple(row[1:3]) for row in rows}


def until_all(who: Person, wanted: dict[str, tuple[str, ...]], seconds: float = 120) -> None:
    """Until each job has the phase (and, if given, as many ready replicas)."""
    deadline = monotonic() + seconds
    while True:
        seen = standing(who)
        differ = {
            name: seen.get(name)
            for name, want in wanted.items()
            if seen.get(name, ())[: len(want)] != want
        }
        if not differ:
            return
        assert monotonic() < deadline, f"{differ}, not {wanted}"
        look_again(LOOK_SECONDS)


def until_logged(who: Person, job: str, wanted: str, seconds: float = 60) -> None:
    deadline = monotonic() + seconds
    while wanted not in (seen := who.ask("logs", job).stdout):
        assert monotonic() < deadline, f"{job}: the log has no {wanted!r}: {seen}"
        look_again(LOOK_SECONDS)


def ends_of(who: Person, paths: list[Path], code: int) -> dict[str, dict[str, Any]]:
    """All in one engine; the final status of each."""
    done = who.run("run", "-o", "json", "--timeout", "150s", *map(str, paths), seconds=180)
    assert done.returncode == code, done.stderr
    return {f"{one['kind']}/{one['name']}": one for one in json.loads(done.stdout)["jobs"]}


def test_the_table_has_every_example_and_each_is_run_here_or_left_to_a_framework() -> None:
    table = promises()
    assert sorted(each.path for each in table) == EXAMPLES
    for each in table:
        assert each.runs_here or any(name in each.needs for name in FRAMEWORKS), each
    # All kinds of ends are seen here.
    assert {each.end for each in table if each.runs_here} == set(End)


@pytest.mark.long
def test_examples_that_succeed(somebody: Person) -> None:
    chosen = [each for each in here(End.SUCCEEDED) if each.file != CHECKPOINT]
    ends = ends_of(somebody, [each.path for each in chosen], 0)
    assert set(ends) == {name_of(each.path) for each in chosen}
    assert {one["phase"] for one in ends.values()} == {"Succeeded"}
    assert somebody.processes() == {}


def test_examples_that_fail_on_purpose(somebody: Person) -> None:
    chosen = here(End.FAILED)
    ends = ends_of(somebody, [each.path for each in chosen], 1)
    assert set(ends) == {name_of(each.path) for each in chosen}
    assert {one["phase"] for one in ends.values()} == {"Failed"}
    assert somebody.processes() == {}


@pytest.mark.long
def test_examples_and_originals_that_wait_for_somebody(yard: Person) -> None:
    """Debug, pause, the one that is paused on its way, and originals; at once in one engine."""
    running, paused = here(End.RUNNING), [name_of(each.path) for each in here(End.PAUSED)]
    checkpoint = name_of(ROOT / "examples" / CHECKPOINT)
    files = [original("genericjob-rules"), original("taskset")]
    files += [each.path for each in promises() if each.runs_here and each.end in WAITING]
    # Until it is paused it takes only one step: it has so many, and the machine may be busy.
    example = (ROOT / "examples" / CHECKPOINT).read_text()
    step = "time.sleep(STEP_SECONDS)"
    assert example.count(step) == 1
    waiting = step.replace("S)", "S if step == 1 or '--resume' in sys.argv else 3600)")
    yard.write("checkpoint.yaml", example.replace(step, waiting))
    paths = ["checkpoint.yaml", *map(str, files)]
    said(yard, "apply", *(word for path in paths for word in ("-f", path)))
    until_logged(yard, checkpoint, "step 1 of 20")
    said(yard, "pause", checkpoint)
    # Waits for 30 s as the other original does; a `run` uses the engine that is up.
    yard.write("batch.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: batch}}")
    said(yard, "apply", "-f", "batch.yaml")
    kube_batch = yard.start("run", "-n", "batch", str(original("taskset-kube-batch")))
    until_all(yard, dict.fromkeys((checkpoint, *paused), ("Paused",)))
    for name in (checkpoint, *paused):
        said(yard, "resume", name)

    rules = name_of(original("genericjob-rules"))
    ready = {name_of(each.path): ("Running", each.ready) for each in running}
    until_all(yard, ready | {rules: ("Running", "4/4")})
    said(yard, "delete", *ready, rules)
    assert not {*ready, rules} & set(standing(yard))

    taskset = name_of(original("taskset"))
    until_all(yard, dict.fromkeys((checkpoint, taskset, *paused), ("Succeeded",)))
    begun = re.search(r"starting after step (\d+)", said(yard, "logs", checkpoint))
    assert begun is not None, "the log of the run after the pause"
    assert 1 <= int(begun[1]) < 20, "it went on where it was"
    told, problems = kube_batch.communicate(timeout=120)
    assert kube_batch.returncode == 0, told + problems


def test_originals_that_need_a_framework_say_what_is_missing(somebody: Person) -> None:
    """They get as far as a machine without it lets them."""
    paths = (str(original("mpijob")), str(original("colossalaijob")))
    done = somebody.run("run", "--timeout", "150s", *paths, seconds=180)
    assert done.returncode == 1, done.stdout + done.stderr
    # Its working folder isn't on this machine, nor what its image has in /usr/local.
    launched = [line for line in done.stdout.splitlines() if "/launcher" in line]
    instead = (
        "not found" if lacks("mpirun") else "this machine has no /usr/local/bin/mpirun: running"
    )
    assert any("spec.mpiHome says /usr/local" in line and instead in line for line in launched)
    assert any("exec: colossalai: not found" in line for line in launched)
    assert somebody.processes() == {}


def test_the_original_with_a_variable_that_nothing_defines_is_told_what_to_add(
    somebody: Person,
) -> None:
    done = somebody.run("run", str(original("genericjob-tf-config")))
    assert done.returncode == 2
    assert "genericjob-tf-config.yaml:19:" in done.stderr
    assert "add service.ports with a port named http" in done.stderr


def test_every_original_is_run() -> None:
    text = Path(__file__).read_text()
    assert all(f'"{path.stem}"' in text for path in ORIGINALS)
