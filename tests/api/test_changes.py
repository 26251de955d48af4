"""What may change after creation: a table, tried on a real API server and offline.

Each row is tried in every state that a stored object can be in: it names the states in
which the change is allowed, and where the others' refusal points. The requests are dry
runs, so that all rows of a table meet the same stored object.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rig.kube import namespaces
from rig.kube.api import Answer, ApiCaller
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane

from api.change_tables import ELASTIC, ELASTIC_DEEPSPEED, TABLES, Row, State, Table
from api.wrong_manifests.address import address
from api.wrong_manifests.edits import Edit, Manifest, drop, edited, put
from jobyard.api.kinds import KINDS
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.schema.finding import dotted, is_error

CASES = [
    pytest.param(table, state, row, id=f"{table.title}, {state.title}: {row.title}")
    for table in TABLES
    for state in table.states
    for row in table.rows
]
# The objects as the API server has stored them, by the titles of table and state.
Stored = dict[tuple[str, str], Manifest]


async def store(api: ApiCaller, namespace: str, table: Table, state: State) -> Manifest:
    """Creates the object in the state, its status written through the door of its own."""
    wanted = edited(table.base, *state.edits)
    wanted["metadata"]["name"] = namespaces.fresh_name(wanted["metadata"]["name"])
    place = address(wanted, namespace)
    answer = await api.request("POST", place, body=wanted)
    assert answer.status == 201, answer.text
    if state.status:
        answer = await api.request(
            "PUT",
            f"{place}/{wanted['metadata']['name']}/status",
            body={**answer.body, "status": state.status},
        )
        assert answer.status == 200, answer.text
        assert answer.body["status"]["phase"] == state.status["phase"]
    return answer.body


@dataclass(frozen=True)
class Line:
    """One connection for all rows: a handshake for each would take longer than its question."""

    runner: asyncio.Runner
    api: ApiCaller

    def ask(self, method: str, path: str, **rest: Any) -> Answer:
        return self.runner.run(self.api.request(method, path, **rest))


@pytest.fixture(scope="module")
def line(control_plane: ControlPlane) -> Iterator[Line]:
    with asyncio.Runner() as runner:
        api = ApiCaller(control_plane)
        runner.run(api.__aenter__())
        yield Line(runner, api)
        runner.run(api.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def stored(control_plane: ControlPlane, line: Line, crds: None) -> Iterator[Stored]:
    """Every table's object in every one of its states."""
    namespace = namespaces.fresh_name("changes")

    async def fill() -> Stored:
        await namespaces.create(control_plane, namespace)
        return {
            (table.title, state.title): await store(line.api, namespace, table, state)
            for table in TABLES
            for state in table.states
        }

    yield line.runner.run(fill())
    line.runner.run(namespaces.delete(control_plane, namespace))


@pytest.mark.sample(4)
@pytest.mark.parametrize(("table", "state", "row"), CASES)
def test_a_change_has_one_verdict_on_the_api_server_and_offline(
    table: Table, state: State, row: Row, line: Line, stored: Stored
) -> None:
    old = stored[table.title, state.title]
    new = edited(table.base, *state.edits, *row.edits)
    new["metadata"]["name"] = old["metadata"]["name"]
    expected = [] if state in row.allowed else [row.refused_at]

    # Nothing of the table would say where, if a row without a path were refused.
    assert expected != [""], "the row needs the path of its refusal"
    assert told(refusals_of(line, old, new), expected) == expected
    (document,) = read(json.dumps(new), "new.json")
    findings = [finding for finding in checked(document, old).findings if is_error(finding)]
    assert told([dotted(finding.path) for finding in findings], expected) == expected


def told(paths: list[str], expected: list[str]) -> list[str]:
    """The expected path, if it is one of several: a change can break two rules."""
    return expected if expected and set(expected) <= set(paths) else paths


def refusals_of(line: Line, old: Manifest, new: Manifest) -> list[str]:
    """The paths at which the API server refuses to put `new` in the place of `old`."""
    metadata = old["metadata"]
    body = {
        **new,
        "metadata": {**new["metadata"], "resourceVersion": metadata["resourceVersion"]},
    }
    answer = line.ask(
        "PUT",
        f"{address(old, metadata['namespace'])}/{metadata['name']}",
        body=body,
        query={"dryRun": "All", "fieldValidation": "Strict"},
    )
    assert answer.status in (200, 422), answer.text
    if answer.status == 200:
        return []
    return [cause["field"] for cause in answer.body["details"]["causes"]]


@dataclass(frozen=True, slots=True)
class Scaling:
    """`kubectl scale` to a number of replicas, and what comes of it."""

    title: str
    edits: tuple[Edit, ...]
    replicas: int
    # What the refusal says; empty: allowed.
    words: str = ""
    # Where offline tools refuse the same change.
    refused_at: str = "spec.elastic.expectedReplicas"


BOUNDS = "must be from 1 to 4 (minReplicas to maxReplicas)"
NOT_ELASTIC = "can't be changed in a job that isn't elastic: it would have no effect"
SCALINGS = (
    Scaling("up to the upper bound", (), 4),
    Scaling("down to the lower bound", (), 1),
    Scaling("above the upper bound", (), 5, f"is 5; {BOUNDS}"),
    Scaling("to nothing", (), 0, "is 0; must be at least 1 in an elastic job"),
    Scaling("a job without elastic", (drop("spec.elastic"),), 3, NOT_ELASTIC),
    Scaling(
        "a job with elastic switched off",
        (put("spec.elastic.enabled", False), drop("spec.elastic.expectedReplicas")),
        3,
        NOT_ELASTIC,
    ),
)


@pytest.mark.parametrize(
    "base", [ELASTIC.base, ELASTIC_DEEPSPEED.base], ids=lambda base: base["kind"]
)
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.title)
def test_kubectl_scale(base: Manifest, scaling: Scaling, kubectl: Kubectl, crds: None) -> None:
    job = edited(base, *scaling.edits)
    name = f"{job['kind'].lower()}/{job['metadata']['name']}"
    kubectl("create", "-f", "-", stdin=json.dumps(job))
    old = json.loads(kubectl("get", name, "-o", "json").stdout)

    done = kubectl("scale", name, f"--replicas={scaling.replicas}", check=False)

    new = json.loads(kubectl("get", name, "-o", "json").stdout)
    if scaling.words:
        assert done.returncode != 0
        assert scaling.words in done.stderr
        assert new["spec"] == old["spec"]
    else:
        assert done.returncode == 0, done.stderr
        assert new["spec"]["elastic"]["expectedReplicas"] == scaling.replicas

    job["spec"].setdefault("elastic", {})["expectedReplicas"] = scaling.replicas
    (document,) = read(json.dumps(job), "new.json")
    errors = [dotted(f.path) for f in checked(document, old).findings if is_error(f)]
    assert errors == ([scaling.refused_at] if scaling.words else [])


def test_every_kind_has_a_table() -> None:
    """A kind that comes later is looked at too: what may change in it is part of what it is."""
    jobs = {kind.name for kind in KINDS} - {"Queue", "PodGroup"}
    assert {table.base["kind"] for table in TABLES} == jobs
