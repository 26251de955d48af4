"""Texts that would act on a terminal, through every command on a real one: nothing of them acts.

What arrives are words and colours, and from `run` what its live table needs. The colours of
objects, files and servers are none of ours; those of programs' logs stay.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import click
import pytest
from rig.engine import JOBS, Room
from rig.person import Person, person

from cli.hostile_sequences import BYTES, LINES, SEQUENCES, TEXT, colours, strays
from cli.terminal_stage import hostile_server, raw_of
from jobyard.cli.main import cli

# What can be typed: anything but NUL.
ODD = "x\x1b[2J\x1b]0;owned\x07\x9b2J\u202ey\x1b[\x016n"
# A program that writes a file byte by byte: every sequence is split.
WRITES = (
    "import os, sys\n"
    "for n in open(sys.argv[1], 'rb').read(): os.write(1, bytes([n]))\n"
    "sys.exit(int(sys.argv[2]))\n"
)
JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: hostile
  annotations: {{note: {text}}}
spec:
  cleanUpPolicy: None
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: main
          image: {text}
          command: [python3, {program}, {lines}, "{code}"]
          env: [{{name: NOTE, value: {odd}}}]
"""
# Of an object they show what it says of itself.
SHOW = ("get", "describe", "events", "logs", "why", "queues", "attach")
# The colours that Jobyard itself has, outside of logs.
OURS = {f"\x1b[{n}m" for n in ("31;1", 0, 1, 2, 31, 32, 33, 35, 36, 34, 92, 93, 94, 95, 96)}


@pytest.fixture(scope="module")
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def hostile_job(who: Person, code: int) -> str:
    program = who.write("writes.py", WRITES)
    lines = who.work / "lines"
    # The last line is what a failed replica is remembered by.
    lines.write_bytes(LINES + f"ValueError: {TEXT}\n".encode())
    texts = {"text": json.dumps(TEXT), "odd": json.dumps(ODD)}
    manifest = JOB.format(**texts, program=program, lines=lines, code=code)
    return str(who.write("hostile.yaml", manifest))


def words_stay(raw: bytes) -> None:
    """What stands around the sequences is shown."""
    text = raw.decode()
    assert text.count("before") > len(SEQUENCES) // 2, text[:2000]


SPOKEN = [
    ("get", "jobs"),
    ("get", "gj", "-A", "-o", "wide"),
    ("get", "gj,pods"),
    ("get", "gj", "job", "-o", "yaml"),
    ("get", "gj", "-o", "json"),
    ("get", "gj", "-o", "name"),
    ("describe", "gj/job"),
    ("describe", "pod/any"),
    ("describe", "pod/any", "-o", "json"),
    ("events", "gj/job"),
    ("events", "-o", "json"),
    ("logs", "gj/job"),
    ("logs", "gj/job", "--replica", ODD),
    ("logs", "gj/job", "-o", "json"),
    ("wait", "gj/job"),
    ("wait", "job"),
    ("pause", "gj/job"),
    ("resume", "gj/job"),
    ("debug", "gj/job"),
    ("scale", "gj/job", "3"),
    ("delete", "gj/job", "--no-wait"),
    ("attach", "gj/job"),
    ("why", "gj/job"),
    ("why", "gj/job", "-o", "json"),
    ("queues",),
    ("queues", "-o", "wide"),
    ("queues", "-o", "yaml"),
    ("queues", "-o", "json"),
    ("queue", "open", "job"),
    ("queue", "close", "job"),
    ("exec", "gj/job", "worker-0", "--", "true"),
    ("shell", "gj/job", "worker-0"),
]


def named(words: tuple[str, ...]) -> str:
    return " ".join(words).replace(ODD, "ODD")


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", SPOKEN, ids=named)
@pytest.mark.parametrize("refuses", [False, True], ids=["that lies", "that refuses"])
def test_a_server(words: tuple[str, ...], refuses: bool, somebody: Person) -> None:
    with hostile_server(somebody.work, refuses=refuses) as kubeconfig:
        options = ("--kubeconfig", str(kubeconfig))
        at = 2 if words[0] == "queue" else 1
        _, raw = raw_of(somebody, *words[:at], *options, *words[at:])
    assert strays(raw, has_table=words[0] == "attach") == []
    if words[0] not in ("logs", "attach"):
        assert colours(raw) <= OURS
    has_own_words = words[0] in ("queue", "queues")
    if not has_own_words if refuses else words[0] in SHOW and ODD not in words:
        assert b"before" in raw, raw[:2000]
    assert b"Traceback" not in raw
    assert b"fault of jobyard" not in raw, raw


@pytest.mark.parametrize("code", [0, 1], ids=["and succeeds", "and fails"])
@pytest.mark.parametrize(
    ("has_table", "words"),
    [
        pytest.param(True, (), id="with the live table"),
        pytest.param(False, ("-q",), id="quietly"),
        pytest.param(False, ("-o", "json"), id="as JSON"),
    ],
)
def test_a_replica_that_run_follows(
    has_table: bool, words: tuple[str, ...], code: int, somebody: Person
) -> None:
    path = hostile_job(somebody, code)
    ended, raw = raw_of(somebody, "run", path, *words)
    assert ended == code, raw
    # With JSON on standard output the table is on standard error: the same terminal here.
    assert strays(raw, has_table=has_table or "json" in words) == []
    if "-q" not in words:
        words_stay(raw)


def test_a_replica_that_run_follows_on_a_dumb_terminal(somebody: Person) -> None:
    path = hostile_job(somebody, 1)
    ended, raw = raw_of(somebody, "run", path, TERM="dumb")
    assert ended == 1, raw
    assert b"\x1b" not in raw
    assert strays(raw) == []
    words_stay(raw)


def test_a_replica_that_an_engine_runs(room: Room) -> None:
    who = room.engine.who
    options = ("-n", room.name, "--kubeconfig", str(room.engine.kubeconfig))
    _, raw = raw_of(who, "apply", "-f", hostile_job(who, 1), *options)
    assert strays(raw) == []
    job = room.until(
        "genericjobs", "hostile", lambda each: each["status"].get("phase") == "Failed", JOBS
    )
    about = {"kind": "GenericJob", "name": "hostile", "namespace": room.name}
    event = {
        "metadata": {"name": "hostile.1", "namespace": room.name},
        "involvedObject": {**about, "uid": job["metadata"]["uid"]},
        "type": "Warning",
        "reason": "Hostile",
        "message": TEXT,
        "lastTimestamp": job["metadata"]["creationTimestamp"],
        "source": {"component": TEXT},
    }
    room.create("events", event)
    room.create(
        "configmaps",
        {"metadata": {"name": "hostile", "annotations": {"note": TEXT}}, "data": {"text": TEXT}},
    )
    for words, has_colours in (
        (("get", "jobs"), False),
        (("get", "gj", "-o", "wide"), False),
        (("get", "events"), False),
        (("get", "pods", "-o", "wide"), False),
        (("get", "gj", "hostile", "-o", "yaml"), False),
        (("describe", "hostile"), False),
        (("describe", "cm/hostile"), False),
        (("describe", "pod/hostile-worker-0"), False),
        (("events", "hostile"), False),
        (("logs", "hostile"), True),
        (("logs", "hostile", "-f", "--timestamps"), True),
        (("wait", "hostile"), False),
        (("delete", "hostile"), False),
    ):
        _, raw = raw_of(who, *words, *options)
        assert strays(raw, has_table="-f" in words) == [], words
        assert has_colours or colours(raw) <= OURS, words
        if words[:2] != ("get", "jobs") and words[0] in ("describe", "events", "logs"):
            assert b"before" in raw, (words, raw)


FIELDS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: {name}}}
{field}: 1
spec:
  {field}: 1
  replicaSpecs:
  - type: {name}
    replicas: {name}
    template: {{spec: {{containers: [{{name: main, image: x, {field}: 1}}]}}}}
"""
OTHER_KIND = "apiVersion: {text}\nkind: {text}\nmetadata: {{name: {text}}}\n"
NO_YAML = "a: [\x1b[2J\nb"
BAD_YAML = 'kind: "x\ny: {text}\n'


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", [TEXT, *list(SEQUENCES.values())[::30]], ids=range(4))
@pytest.mark.parametrize("command", ["validate", "render", "run", "apply -f", "delete -f"])
def test_a_file(command: str, text: str, somebody: Person) -> None:
    quoted = json.dumps(text)
    texts = {
        "fields": FIELDS.format(name=quoted, field=quoted),
        "kind": OTHER_KIND.format(text=quoted),
        "bad": BAD_YAML.format(text=quoted),
        "raw": NO_YAML,
    }
    for name, content in texts.items():
        path = str(somebody.write(f"{name}.yaml", content))
        _, raw = raw_of(somebody, *command.split(), path)
        assert strays(raw) == [], (name, raw)
        assert colours(raw) <= OURS
        assert b"fault of jobyard" not in raw, raw


TYPED = [
    ("validate", ODD),
    ("render", ODD),
    ("run", ODD),
    ("apply", "-f", ODD),
    ("delete", "-f", ODD),
    ("explain", ODD),
    ("explain", f"gj.{ODD}"),
    ("explain", f"gj.spec.{ODD}[0]", "-o", "json"),
    ("get", ODD),
    ("get", f"gj/{ODD}"),
    ("describe", ODD),
    ("events", ODD),
    ("logs", ODD),
    ("wait", f"job/{ODD}"),
    ("wait", "x", "--for", ODD),
    ("delete", ODD),
    ("scale", ODD, "3"),
    ("exec", ODD, "--", "x"),
    ("shell", ODD),
    ("crds", ODD),
    ("install", "--image", ODD),
    ("status", "--data-dir", ODD),
    ("down", "--data-dir", ODD),
    ("up", "--port", ODD),
    ("get", "jobs", "--kubeconfig", ODD),
    ("get", "jobs", "--context", ODD),
    ("controller", "--kubeconfig", ODD),
    ("completion", ODD),
    (ODD,),
    (f"--{ODD}",),
    ("run", f"--{ODD}"),
    ("run", "x.yaml", "--set", ODD),
    ("run", "x.yaml", "--pvc", ODD),
    ("run", "x.yaml", "--timeout", ODD),
    ("attach", ODD),
    ("why", ODD),
    ("queues", ODD),
    ("queue", "open", ODD),
    ("queue", ODD),
    ("pause", ODD),
    ("resume", ODD),
    ("debug", ODD),
    ("clean", "--run", ODD),
    ("clean", "--claim", ODD),
    ("clean", "--claim", f"{ODD}/{ODD}", "--data-dir", ODD, "--dry-run"),
    ("doctor", ODD),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("words", TYPED, ids=named)
def test_a_word_on_the_command_line(words: tuple[str, ...], somebody: Person) -> None:
    _, raw = raw_of(somebody, *words)
    assert strays(raw) == []
    assert colours(raw) <= OURS
    assert b"Traceback" not in raw


def test_a_folder_with_such_a_name(somebody: Person) -> None:
    home = somebody.work / ODD
    home.mkdir()
    path = hostile_job(somebody, 0)
    # Of claims and runs, whose names are those of folders, too.
    (home / "claims" / ODD / ODD).mkdir(parents=True)
    (home / "runs" / ODD).mkdir(parents=True)
    for words in (
        ("status",),
        ("status", "-o", "json"),
        ("doctor",),
        ("clean", "--runs", "--claims", "--dry-run"),
        ("clean", "--runs", "--claims", "--dry-run", "-o", "json"),
        ("attach",),
        ("down",),
        ("get", "jobs"),
        ("validate", str(home)),
        ("run", path),
        ("clean", "--runs", "--claims", "--yes"),
    ):
        _, raw = raw_of(somebody, *words, JOBYARD_HOME=str(home))
        assert strays(raw, has_table=words[0] == "run") == [], words


def test_every_command_is_tried() -> None:
    tried = {words[0] for words in (*SPOKEN, *TYPED)}
    assert set(cli.list_commands(click.Context(cli))) <= tried


def test_what_a_program_is_given_is_what_was_written(somebody: Person) -> None:
    """Off a terminal logs are passed on byte for byte, as kubectl does; notes and tables aren't."""
    path = hostile_job(somebody, 1)
    done = subprocess.run(
        somebody.jobyard("run", path),
        cwd=somebody.work,
        env=somebody.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
    )
    assert done.returncode == 1, done.stderr
    logs, _, rest = done.stdout.partition(b"GenericJob/hostile failed")
    # Of a line that was written over, its last state.
    lines = [line.rpartition(b"\r")[2] for line in LINES.removesuffix(b"\n").split(b"\n")]
    # One of the two failed first, after its last line.
    whole = [all(b"worker-%d | %s\n" % (rank, line) in logs for line in lines) for rank in range(2)]
    assert any(whole), logs
    assert all(each in logs for each in BYTES.values())
    assert strays(rest) == []
