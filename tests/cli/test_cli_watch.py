"""`get --watch`: the rows of one table, or objects one after the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import Room

from jobyard.cli.output.tables import Column, GrowingTable, Layout, Meta, Row, Whose


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


@contextmanager
def watching(yard: Yard, *words: str) -> Iterator[Callable[[Callable[[str], bool]], list[str]]]:
    """A `get` that goes on; call it for the lines up to the one that is waited for."""
    process = yard.start("get", *words, "-w")

    def until(is_last: Callable[[str], bool]) -> list[str]:
        lines: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if is_last(lines[-1]):
                return lines
        raise AssertionError(f"it ended after {lines}: {process.communicate()[1]}")

    try:
        yield until
    finally:
        _interrupt(process)


def _interrupt(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=30)


def test_changes_are_rows_of_the_same_table(yard: Yard) -> None:
    for name in ("stays", "other", "third"):
        yard.apply(name, STAYS.replace("name: stays", f"name: {name}"))
        yard.does("wait", name, "--for", "running", "--timeout", "60s")
    with watching(yard, "gj/stays", "gj/other") as until:
        head, *first = until(lambda line: line.startswith("stays"))
        assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
        assert [row.split()[0] for row in first] == ["other", "stays"]
        for name in ("third", "stays"):
            yard.does("pause", name)
            yard.does("wait", name, "--for", "paused", "--timeout", "60s")
        paused = until(lambda line: "Paused" in line and "0/2" in line)
        assert {row.split()[0] for row in paused} == {"stays"}, "only those that were named"
        at = head.index("PHASE")
        assert paused[-1][at:].startswith("Paused    0/2"), "in its columns"
        yard.does("delete", "other")
        assert until(lambda line: line.endswith("(deleted)"))[-1].split()[0] == "other"


def test_changes_as_json_are_an_object_per_line(yard: Yard, room: Room) -> None:
    yard.apply("stays", STAYS)
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    with watching(yard, "stays", "-o", "json") as until:
        (first,) = until(lambda _line: True)
        assert (json.loads(first)["kind"], json.loads(first)["metadata"]["namespace"]) == (
            "GenericJob",
            room.name,
        )
        yard.does("pause", "stays")
        until(lambda line: json.loads(line)["status"]["phase"] == "Paused")
    with watching(yard, "gj", "-o", "yaml") as until:
        assert until(lambda line: "phase: Paused" in line)[0] == "---"
    with watching(yard, "gj", "-o", "name") as until:
        assert until(lambda _line: True) == ["genericjob/stays"]


def test_what_cant_be_watched_is_told(yard: Yard) -> None:
    several = yard("get", "jobs", "-w")
    assert several.returncode == 2
    assert "--watch needs one kind" in several.stderr
    missing = yard("get", "gj", "nobody", "-w")
    assert (missing.returncode, missing.stderr) == (2, 'Error: genericjobs "nobody" not found\n')


def test_columns_only_widen() -> None:
    columns = (Column("Name"), Column("Phase"), Column("Node", 1))
    table = GrowingTable(Layout(columns=columns, is_wide=False, everywhere=True))

    def row(name: str, phase: str | None) -> Row:
        return Row((name, phase, "here"), Whose(Meta(name=name, namespace="ns")))

    assert table.lines([]) == []
    assert table.lines([row("a", "Running"), row("bcdef", None)]) == [
        "NAMESPACE   NAME    PHASE",
        "ns          a       Running",
        "ns          bcdef",
    ]
    assert table.lines([row("much-longer", "Running")]) == ["ns          much-longer   Running"]
    assert table.lines([row("a", "Failed")]) == ["ns          a             Failed"]
