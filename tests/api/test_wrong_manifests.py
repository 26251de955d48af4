"""Every fault of the tables is refused, by a real API server and by `jobyard validate`.

Both must name the field and say what would be right; the command line must do so in
exactly one error. The tables are in `wrong_manifests`, one module per kind.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rig.kube import namespaces
from rig.kube.api import Answer, ApiCaller
from rig.kube.plane import ControlPlane

from api.wrong_manifests import TABLES
from api.wrong_manifests.address import address
from api.wrong_manifests.edits import Manifest, edited
from api.wrong_manifests.wrong import Wrong
from jobyard.api.kinds import KINDS
from jobyard.cli.main import cli

ROWS_PER_KIND_MIN = 8
REFUSED = 422
# The findings of `validate -o json`, and its exit code.
Validated = tuple[list[dict[str, Any]], int]
# Checks and answers as for a real request, but nothing is stored.
DRY_RUN = {"dryRun": "All", "fieldValidation": "Warn"}

BASES = [pytest.param(table.base, id=f"{table.base['kind']}, {table.title}") for table in TABLES]
ROWS = [
    pytest.param(table.base, row, id=f"{table.base['kind']}, {table.title}: {row.title}")
    for table in TABLES
    for row in table.rows
]


@pytest.fixture(scope="module")
def shared_namespace(control_plane: ControlPlane, crds: None) -> Iterator[str]:
    """One for all rows: nearly all requests are dry runs, and each object has its own name."""
    name = namespaces.fresh_name("wrong-manifests")
    asyncio.run(namespaces.create(control_plane, name))
    yield name
    asyncio.run(namespaces.delete(control_plane, name))


async def dry_create(api: ApiCaller, namespace: str, manifest: Manifest) -> Answer:
    return await api.request("POST", address(manifest, namespace), body=manifest, query=DRY_RUN)


async def dry_update(api: ApiCaller, namespace: str, before: Manifest, after: Manifest) -> Answer:
    """Creates `before` for real, under a name of its own, and tries to change it."""
    name = namespaces.fresh_name(before["metadata"]["name"])
    place = address(before, namespace)
    stored = await api.request("POST", place, body=named(before, name))
    assert stored.status == 201, stored.text
    try:
        wanted = named(after, name)
        wanted["metadata"]["resourceVersion"] = stored.body["metadata"]["resourceVersion"]
        return await api.request("PUT", f"{place}/{name}", body=wanted, query=DRY_RUN)
    finally:
        await api.request("DELETE", f"{place}/{name}")


def named(manifest: Manifest, name: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def validated(folder: Path, manifest: Manifest, before: Manifest | None = None) -> Validated:
    """What `jobyard validate` finds in a file with this manifest, and its exit code."""
    file, old = folder / "new.json", folder / "old.json"
    file.write_text(json.dumps(manifest))
    arguments = ["validate", "-o", "json", str(file)]
    if before is not None:
        old.write_text(json.dumps(before))
        arguments += ["--update-of", str(old)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    (document,) = json.loads(result.stdout)
    return document["findings"], result.exit_code


@pytest.mark.parametrize(("base", "row"), ROWS)
def test_the_api_server_refuses_it(
    base: Manifest, row: Wrong, control_plane: ControlPlane, shared_namespace: str
) -> None:
    wrong = edited(base, *row.edits)

    async def request() -> Answer:
        async with ApiCaller(control_plane) as api:
            if row.update:
                return await dry_update(api, shared_namespace, base, wrong)
            return await dry_create(api, shared_namespace, wrong)

    answer = asyncio.run(request())
    assert answer.status == REFUSED, answer.text
    told = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    at_path = [text for field, text in told if field == row.path]
    assert at_path, f"nothing is said of {row.path}: {told}"
    assert any(row.their_words in text for text in at_path), at_path
    assert row.their_words in answer.body["message"]


@pytest.mark.parametrize(("base", "row"), ROWS)
def test_validate_refuses_it_with_one_error(base: Manifest, row: Wrong, tmp_path: Path) -> None:
    wrong = edited(base, *row.edits)
    findings, exit_code = validated(tmp_path, wrong, base if row.update else None)
    errors = [found for found in findings if found["severity"] == "error"]
    assert [found["path"] for found in errors] == [row.path], errors
    assert row.our_words in errors[0]["text"]
    assert exit_code == 1


@pytest.mark.parametrize("base", BASES)
def test_the_api_server_takes_the_manifest_without_a_fault(
    base: Manifest, control_plane: ControlPlane, shared_namespace: str
) -> None:
    async def request() -> tuple[Answer, Answer]:
        async with ApiCaller(control_plane) as api:
            created = await dry_create(api, shared_namespace, base)
            return created, await dry_update(api, shared_namespace, base, base)

    created, updated = asyncio.run(request())
    assert created.status == 201, created.text
    assert updated.status == 200, updated.text
    assert not created.warnings


@pytest.mark.parametrize("base", BASES)
def test_validate_takes_the_manifest_without_a_fault(base: Manifest, tmp_path: Path) -> None:
    assert validated(tmp_path, base) == ([], 0)


@pytest.mark.parametrize("base", BASES)
def test_validate_takes_a_manifest_as_an_update_of_itself(base: Manifest, tmp_path: Path) -> None:
    assert validated(tmp_path, base, base) == ([], 0)


@pytest.mark.parametrize(("base", "row"), ROWS)
def test_the_row_changes_the_manifest(base: Manifest, row: Wrong) -> None:
    assert edited(base, *row.edits) != base


def test_every_kind_has_enough_rows() -> None:
    rows = Counter(table.base["kind"] for table in TABLES for _ in table.rows)
    few = {kind.name: rows[kind.name] for kind in KINDS if rows[kind.name] < ROWS_PER_KIND_MIN}
    assert not few, f"fewer than {ROWS_PER_KIND_MIN} rows: {few}"


def test_every_row_has_a_sentence_of_its_own() -> None:
    titles = Counter(
        (table.base["kind"], table.title, row.title) for table in TABLES for row in table.rows
    )
    assert not [title for title, times in titles.items() if times > 1]
