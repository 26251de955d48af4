"""Which server a command speaks to: a cluster is named, or it is the engine of this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import Room
from rig.person import Person, person

NO_ENGINE = "Error: no engine is running: start one with `jobyard up`"


@pytest.fixture
def stranger() -> Iterator[Person]:
    """Somebody who has no engine."""
    with person(is_ordinary=False) as who:
        yield who


@pytest.fixture
def cluster(room: Room) -> Path:
    """A kubeconfig with a context of its own, which isn't the current one."""
    config = json.loads(room.engine.kubeconfig.read_text())
    (context,) = config["contexts"]
    there = {"name": "there", "context": {**context["context"], "namespace": room.name}}
    config["contexts"] = [{**context, "name": "elsewhere"}, there]
    config["current-context"] = "elsewhere"
    return room.engine.who.write("config.yaml", json.dumps(config))


def test_an_exported_kubeconfig_is_no_reason_to_go_there(
    stranger: Person, cluster: Path, room: Room
) -> None:
    Yard(room).apply("stays", STAYS)
    for words in (("get",), ("delete", "stays"), ("logs", "stays"), ("describe", "stays")):
        done = stranger.run(*words, KUBECONFIG=str(cluster))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(NO_ENGINE)
    ran = stranger.write("ran.yaml", STAYS.replace("exec sleep 600", "true"))
    assert stranger.run("run", str(ran), KUBECONFIG=str(cluster)).returncode == 0
    assert Yard(room).does("get", "gj", "-o", "name") == "genericjob/stays\n", "it ran here"


def test_a_context_is_named_by_an_option_or_a_variable(
    stranger: Person, cluster: Path, room: Room
) -> None:
    Yard(room).apply("stays", STAYS)
    exported = {"KUBECONFIG": str(cluster)}
    by_option = stranger.run("get", "--context", "there", "-o", "name", **exported)
    by_variable = stranger.run("get", "-o", "name", JOBYARD_CONTEXT="there", **exported)
    for done in (by_option, by_variable):
        assert (done.returncode, done.stdout) == (0, "genericjob/stays\n"), done.stderr
    # The option goes first.
    both = stranger.run("get", "--context", "elsewhere", JOBYARD_CONTEXT="there", **exported)
    assert both.stderr == "there are none in namespace default\n"
    wrong = stranger.run("get", JOBYARD_CONTEXT="nowhere", **exported)
    assert wrong.returncode == 2
    assert "nowhere" in wrong.stderr
    path = str(stranger.write("stays.yaml", STAYS))
    here = stranger.run("run", "--strict", path, JOBYARD_CONTEXT="there", **exported)
    assert here.returncode == 2
    assert "--pvc, --image, --strict and --runtime are for this machine" in here.stderr
