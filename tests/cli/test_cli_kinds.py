"""Commands with objects that aren't jobs: those of no namespace, and what jobs are made of."""

from __future__ import annotations

import json
import re

import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import Room
from rig.waiting import until_it_holds

QUEUE = """
apiVersion: scheduler.tensorstack.dev/v1beta1
kind: Queue
metadata: {name: NAME}
spec: {}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: key, labels: {of: mine}}
stringData: {word: xyzzy}
"""


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def test_what_is_in_no_namespace_is_shown_by_its_name(yard: Yard, room: Room) -> None:
    name = room.name
    assert yard.apply("queue", QUEUE.replace("NAME", name)) == f"Queue/{name} created\n"
    for words in ((f"q/{name}",), ("queue", name)):
        assert yard.does("get", *words, "-o", "name") == f"queue/{name}\n"
        assert f"Name:        {name}\nKind:        Queue" in yard.does("describe", *words)
    assert yard.does("get", f"ns/{name}").splitlines()[1].split()[:2] == [name, "Active"]
    (node,) = yard.does("get", "nodes", "-o", "name").split()
    assert yard.does("get", node, "-o", "name") == f"{node}\n"
    assert "Status\n" in yard.does("describe", node)
    assert yard.does("wait", f"ns/{name}", "--for", "active") == f"Namespace/{name} active\n"
    ready = yard.does("wait", node, "--for", "condition=Ready")
    assert ready == f"Node/{node.partition('/')[2]} has condition=Ready\n"
    assert yard.does("delete", f"q/{name}") == f"Queue/{name} deleted\n"
    for words in (("get", f"q/{name}"), ("describe", f"q/{name}"), ("wait", f"q/{name}")):
        gone = yard(*words)
        assert (gone.returncode, gone.stdout) == (2, ""), words


@pytest.mark.parametrize(
    "words",
    [("logs", "q/x"), ("pause", "q/x"), ("debug", "no/x"), ("exec", "pod/x", "w", "--", "true")],
    ids=lambda words: " ".join(words[:2]),
)
def test_commands_for_jobs_say_that_it_is_none(yard: Yard, words: tuple[str, ...]) -> None:
    # `exec` takes everything after -- for its own.
    where = words.index("--") if "--" in words else len(words)
    room = yard.options
    done = yard.plain(*words[:where], *room, *words[where:])
    assert done.returncode == 2
    assert re.search(r"(Queue|Node|Pod) is no kind of job; those are GenericJob,", done.stderr)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "command",
    ["logs", "get", "describe", "delete", "wait", "events", "pause", "resume", "debug", "scale 2"],
)
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", '"": not the name of an object'),
        ("..", '"..": not the name of an object'),
        ("gj/", "a name is missing after gj/"),
        ("gj/..", '"..": not the name of an object'),
        ("/a", "a kind is missing before /a; it would be KIND/NAME"),
        ("gj/a/b", "gj/a/b: has more than one slash; it would be KIND/NAME"),
    ],
)
def test_a_word_that_names_no_object_is_refused(
    yard: Yard, command: str, name: str, told: str
) -> None:
    verb, *rest = command.split()
    done = yard(verb, name, *rest)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"Error: {told}\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("get", "gj", ".."), '"..": not the name of an object'),
        (("delete", "pods", ""), '"": not the name of an object'),
        (("describe", "gj", "a/b"), '"a/b": not the name of an object'),
        (("get", "gj/a", "b"), "b: either a kind and names, or KIND/NAME each time; not both"),
        (("wait", "pod/"), "a name is missing after pod/"),
    ],
)
def test_so_is_one_after_a_kind(yard: Yard, words: tuple[str, ...], told: str) -> None:
    done = yard(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"Error: {told}\n")


def test_so_is_a_namespace_that_none_can_have(yard: Yard) -> None:
    for name in ("..", "a/b", "A", "a" * 64):
        done = yard.plain("get", *yard.options, "gj", "-n", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"'{name}' can't be a namespace: lower-case letters" in done.stderr


@pytest.mark.parametrize("verb", ["apply", "delete"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("metadata: {name: ..}", 'metadata.name: is "..", which is no name'),
        ("metadata: {name: a/b}", 'metadata.name: is "a/b", which is no name'),
        ("metadata: {name: a, namespace: ..}", 'metadata.namespace: is "..", which is no name'),
    ],
)
def test_so_is_a_file_that_names_no_object(yard: Yard, verb: str, text: str, told: str) -> None:
    path = yard.write("hostile", f"apiVersion: v1\nkind: ConfigMap\n{text}\n")
    done = yard(verb, "-f", path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{path}:3: {told}\n")


def test_exec_refuses_it_too(yard: Yard) -> None:
    done = yard.plain("exec", *yard.options, "gj/", "worker-0", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: a name is missing after gj/\n")


@pytest.mark.parametrize("verb", ["run", "logs"])
def test_a_reader_that_leaves_what_is_followed_gets_no_traceback(yard: Yard, verb: str) -> None:
    ticks = STAYS.replace("exec sleep 600", "while sleep 0.1; do echo tick; done")
    if verb == "logs":
        yard.apply("stays", ticks)
        assert yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    words = ("run", yard.write("stays", ticks)) if verb == "run" else ("logs", "stays", "-f")
    with yard.start(*words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == ("", 1)


def test_what_a_job_is_made_of_is_described(yard: Yard) -> None:
    yard.apply("stays", STAYS)
    assert yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    # Events come after the status.
    until_it_holds(
        lambda: yard.does("events", "stays").count("Started container main") == 2,
        "both starts are told",
    )
    page = yard.does("describe", "pod/stays-worker-0")
    assert "Owner:       GenericJob/stays\n" in page
    assert "\nStatus\n  phase: Running\n" in page
    assert re.search(r"Normal   Started   pod/stays-worker-0   Started container main", page)
    assert "stays-worker-1" not in page
    both = yard.does("describe", "pods")
    assert re.findall(r"^Name: +(\S+)", both, re.MULTILINE) == ["stays-worker-0", "stays-worker-1"]
    told = json.loads(yard.does("describe", "po", "stays-worker-1", "-o", "json"))
    assert (told["object"]["kind"], told["object"]["status"]["phase"]) == ("Pod", "Running")
    assert {each["involvedObject"]["name"] for each in told["events"]} == {"stays-worker-1"}
    ready = ("wait", "pod/stays-worker-1", "--for", "condition=ready")
    assert yard.does(*ready) == "Pod/stays-worker-1 has condition=ready\n"
    other = yard("wait", "pod/stays-worker-1", "--for", "paused")
    assert other.returncode == 2
    assert "there is no phase paused of a Pod; there are pending, running" in other.stderr


def test_the_end_of_a_pod_is_waited_for(yard: Yard, room: Room) -> None:
    room.pod(
        "deaf", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done",
        terminationGracePeriodSeconds=500,
    )  # fmt: skip
    room.running("deaf")
    log = room.path("pods", "deaf") + "/log"
    until_it_holds(lambda: room.engine.ask("GET", log).text == "up\n", "it is deaf by now")
    yard.does("delete", "pod/deaf", "--no-wait")
    late = yard("wait", "pod/deaf", "--for", "deleted", "--timeout", "0.2s")
    assert (late.returncode, late.stderr) == (124, "pod/deaf: not deleted after 0.2 s\n")
    yard.does("delete", "pod/deaf", "--no-wait", "--grace-period", "3")
    gone = yard.does("wait", "pod/deaf", "--for", "delete", "--timeout", "60s")
    # What is gone already is called as it was asked for.
    assert gone in ("Pod/deaf deleted\n", "pod/deaf deleted\n")
    room.pod("short", "sh", "-c", "exit 3")
    failed = yard("wait", "pod/short", "--timeout", "60s", "-o", "json")
    assert failed.returncode == 1
    told = {"kind": "Pod", "namespace": room.name, "name": "short", "phase": "Failed"}
    assert json.loads(failed.stdout) == {**told, "isWanted": False}


def test_a_secret_is_described_without_its_words(yard: Yard) -> None:
    yard.apply("secret", SECRET)
    page = yard.does("describe", "secret/key")
    assert "Labels:      of=mine\n" in page
    assert "Data\n  word: 5 bytes\n" in page
    told = json.loads(yard.does("describe", "secret/key", "-o", "json"))
    assert told["object"]["data"] == {"word": "5 bytes"}


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("sa", "serviceaccount/default"),
        ("crds", "customresourcedefinition/queues.scheduler.tensorstack.dev"),
        ("namespaces", "namespace/default"),
    ],
)
def test_other_kinds_are_listed(yard: Yard, word: str, kind: str) -> None:
    assert kind in yard.does("get", word, "-o", "name").splitlines()


@pytest.mark.parametrize("word", ["endpoints", "ep", "leases"])
def test_kinds_that_may_have_no_objects(yard: Yard, word: str, room: Room) -> None:
    done = yard("get", word)
    assert (done.returncode, done.stderr) == (0, f"there are none in namespace {room.name}\n")


def test_all_namespaces_are_a_column(yard: Yard, room: Room) -> None:
    yard.apply("stays", STAYS)
    head, *rows = yard.does("get", "gj", "-A").splitlines()
    assert head.split()[:3] == ["NAMESPACE", "NAME", "PHASE"]
    assert [room.name, "stays"] in [row.split()[:2] for row in rows]
    # What is in none has no such column.
    assert yard.does("get", "nodes", "-A").split()[0] == "NAME"
    named = yard("get", "gj", "stays", "-A")
    assert named.returncode == 2
    assert "-A is for all objects of a kind" in named.stderr
