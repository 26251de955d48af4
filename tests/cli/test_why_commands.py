"""`jobyard why`, `queues` and `queue` as people call them: on an engine and on a real API server.

On the API server nobody schedules, so the tests write what a scheduler would: the same words in
PodGroup, pods and Queue. On the engine things really go wrong.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import secrets
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rig.cli_yard import STAYS, Yard
from rig.engine import JOBS, Room
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.person import person
from rig.preloaded import preloaded
from rig.waiting import until_it_holds

from jobyard.terminal.widths import width_of

JSON = dict[str, Any]
JOBYARD = str(Path(sys.executable).parent / "jobyard")
JOB = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: NAME}
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    restartPolicy: {policy: POLICY, limit: 20}
    template:
      spec:
        terminationGracePeriodSeconds: 1
        volumes: VOLUMES
        containers:
        - {name: main, image: x, command: [sh, -c, "COMMAND"], env: ENV, resources: RESOURCES}
"""
SECRET = "[{name: A, valueFrom: {secretKeyRef: {name: nothing, key: k}}}]"
CLAIM = "[{name: v, persistentVolumeClaim: {claimName: nowhere}}]"
TASKSET = """
apiVersion: octopus.openi.pcl.cn/v1alpha1
kind: TaskSet
metadata: {name: roles}
spec:
  roles:
  - name: w
    template:
      spec:
        containers: [{name: main, image: x, command: [sh, -c, "echo no such file; exit 4"]}]
"""


def job(name: str, command: str = "exec sleep 600", **parts: str) -> str:
    text = JOB.replace("NAME", name).replace("COMMAND", command)
    for part, otherwise in (
        ("POLICY", "Never"),
        ("VOLUMES", "[]"),
        ("ENV", "[]"),
        ("RESOURCES", "{}"),
    ):
        text = text.replace(part, parts.get(part.lower(), otherwise))
    return text


@pytest.fixture
def yard(room: Room) -> Yard:
    return Yard(room)


def until_why(yard: Yard, name: str, reason: str, told: str = "") -> JSON:
    """Asks until the reason is the wanted one, with all that is told of it; the answer."""
    last: JSON = {}

    def is_so() -> bool:
        last.update(json.loads(yard.does("why", name, "-o", "json")))
        return last["reason"] == reason and told in last["cause"]

    until_it_holds(is_so, f"{name} is {reason}, not {last}")
    return last


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "reason", "told", "helps"),
    [
        pytest.param(job("t"), "Running", "All 2 replicas run, for ", "", id="it runs"),
        pytest.param(
            job("t", "echo ValueError: no data; exit 3"),
            "Failed",
            "failed first: Error (exit code 3): ValueError: no data; 1 other failed too.",
            "jobyard logs genericjob/t --replica worker-",
            id="it failed",
        ),
        pytest.param(job("t", "true"), "Succeeded", "It has succeeded at ", "", id="it succeeded"),
        pytest.param(
            job("t", "exit 3", policy="OnFailure"),
            "RestartDelay",
            "Error (exit code 3); starts again ",
            "jobyard logs genericjob/t --replica worker-",
            id="it starts again later",
        ),
        pytest.param(
            job("t", env=SECRET),
            "ContainerConfig",
            'secret "nothing" not found',
            "jobyard describe pod/t-worker-0",
            id="a secret is missing",
        ),
        pytest.param(
            job("t", volumes=CLAIM),
            "VolumeMissing",
            'persistentvolumeclaim "nowhere" not found',
            "jobyard get pvc",
            id="a claim is missing",
        ),
        pytest.param(
            TASKSET.replace("roles}", "t}"),
            "Failed",
            "w-0 failed: Error (exit code 4): no such file.",
            "jobyard logs taskset/t --replica w-0",
            id="a TaskSet failed",
        ),
    ],
)
def test_on_an_engine(yard: Yard, text: str, reason: str, told: str, helps: str) -> None:
    yard.apply("t", text)
    answer = until_why(yard, "t", reason, told)
    commands = [each["command"] for each in answer["remedies"]]
    assert not helps or any(command.startswith(helps) for command in commands), commands
    title, phase = yard.does("why", "t").splitlines()[0].split()
    assert title == f"{answer['kind']}/t"
    # What starts again and again is now this, now that.
    assert phase == answer["phase"] or reason == "RestartDelay"


def test_what_never_has_room_is_told_with_numbers(yard: Yard) -> None:
    yard.apply("t", job("t", resources="{requests: {cpu: 9000}}"))
    done = ""

    def is_told() -> bool:
        nonlocal done
        done = yard.does("why", "t")
        return "9000" in done.splitlines()[1]

    until_it_holds(is_told, "the number that is asked for")
    assert "worker-0, worker-1" in done


def test_a_pause_and_who_asked_for_it(yard: Yard, room: Room) -> None:
    yard.apply("stays", STAYS)
    yard.does("wait", "stays", "--for", "running", "--timeout", "60s")
    yard.does("pause", "stays")
    answer = until_why(yard, "stays", "Paused")
    assert 'That was asked for by "' in answer["cause"]
    where = " ".join(yard.options)
    assert answer["remedies"][0]["command"] == f"jobyard resume genericjob/stays {where}"
    # And what it says can be run.
    yard.plain(*answer["remedies"][0]["command"].split()[1:])
    until_why(yard, "stays", "Running")


def test_a_variable_that_nobody_knows(yard: Yard, room: Room) -> None:
    # `apply` would not send it.
    room.create("genericjobs", yaml.safe_load(job("t", "echo $(replicas[nobody])")), JOBS)
    assert "nobody" in until_why(yard, "t", "BadVariable")["cause"]


def test_names_are_as_elsewhere(yard: Yard, room: Room) -> None:
    yard.apply("t", job("t", "true"))
    yard.apply("ts", TASKSET.replace("roles}", "t}"))
    ambiguous = yard("why", "t")
    assert ambiguous.returncode == 2
    assert "t is ambiguous: say which of GenericJob/t, TaskSet/t" in ambiguous.stderr
    both = json.loads(yard.does("why", "gj/t", "taskset/t", "-o", "json"))
    assert [each["kind"] for each in both] == ["GenericJob", "TaskSet"]
    missing = yard("why", "tt")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert f"tt: there is no such job in namespace {room.name}" in missing.stderr


def completed(yard: Yard, *words: str) -> list[str]:
    """What a shell is offered for the last word."""
    before = ["jobyard", *words[:-1], *yard.options, words[-1]]
    done = subprocess.run(
        [JOBYARD],
        env={
            **os.environ,
            "_JOBYARD_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(before),
            "COMP_CWORD": str(len(before) - 1),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_a_shell_completes_names(yard: Yard, queue: str) -> None:
    yard.apply("one", job("train-one", "true"))
    yard.apply("two", job("train-two", "true"))
    assert completed(yard, "why", "tra") == ["train-one", "train-two"]
    assert completed(yard, "why", "genericjob/train-t") == ["genericjob/train-two"]
    assert completed(yard, "why", "x") == []
    assert completed(yard, "queue", "close", queue[:-1]) == [queue]
    assert completed(yard, "queues", queue[:-1]) == [queue]


@pytest.fixture
def queue(yard: Yard, room: Room) -> Iterator[str]:
    """A queue of the test's own, on the engine; queues are in no namespace."""
    name = f"q-{secrets.token_hex(4)}"
    manifest = {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"priority": 7, "quota": {"requests": {"cpu": "4", "memory": "8Gi"}}},
    }
    yard.apply("queue", json.dumps(manifest))
    yield name
    yard.does("delete", f"queue/{name}")


def test_a_queue_is_closed_and_opened(yard: Yard, queue: str, room: Room) -> None:
    closed = yard.does("queue", "close", queue)
    assert closed.startswith(f"Queue/{queue} is closed now: 0 gangs that have started keep running")
    assert f"Queue/{queue} is closed already" in yard.does("queue", "close", queue)
    (row,) = [line for line in yard.does("queues").splitlines() if line.startswith(queue)]
    assert row.split()[:3] == [queue, "7", "closed"]
    opened = json.loads(yard.does("queue", "open", queue, "-o", "json"))
    assert (opened["action"], opened["closed"]) == ("open", False)
    view = json.loads(yard.does("queues", queue, "-o", "json"))
    assert (view["name"], view["closed"], view["gangs"]) == (queue, False, [])
    assert "nothing is in this queue" in yard.does("queues", queue)
    unknown = yard("queue", "open", f"{queue}x")
    assert unknown.returncode == 2
    assert f"{queue}x: there is no such queue (did you mean {queue}?)" in unknown.stderr


def test_queues_are_watched(yard: Yard, queue: str) -> None:
    watching = yard.start("queues", queue, "-w", "-o", "json")
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["closed"] is False
        yard.does("queue", "close", queue)
        # Of a queue that a scheduler looks after, its status may change before.
        while json.loads(watching.stdout.readline())["closed"] is not True:
            pass
    finally:
        watching.terminate()
        watching.communicate(timeout=60)


@pytest.mark.long
def test_where_the_kind_is_not_served() -> None:
    """In an engine of one's own: whose kinds are taken away, that of others must not be."""
    with person(is_ordinary=False) as who:
        started = who.run("up", "--detach")
        assert started.returncode == 0, started.stderr
        file = who.write("t.yaml", job("t"))
        assert who.ask("apply", "-f", str(file)).returncode == 0
        gone = who.ask("delete", "crd/queues.scheduler.tensorstack.dev")
        assert gone.returncode == 0, gone.stderr
        for words in (("queues",), ("queues", "a"), ("queue", "close", "a")):
            done = who.ask(*words)
            assert (done.returncode, done.stdout) == (2, "")
            assert "this API server has no queues: it doesn't serve the kind Queue" in done.stderr
        assert who.ask("why", "t").stdout.startswith("GenericJob/t")
        assert who.run("down").returncode == 0


class Cluster:
    """`jobyard` and kubectl with the real API server, in the namespace of one test."""

    def __init__(self, plane: ControlPlane, namespace: str, kubectl: Kubectl, folder: Path) -> None:
        self.namespace, self.kubectl, self._folder = namespace, kubectl, folder
        self.options = ("-n", namespace, "--kubeconfig", str(plane.kubeconfig))

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return preloaded().run([*words, *self.options], self._folder, dict(os.environ), seconds=90)

    def does(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def create(self, *objects: JSON) -> list[JSON]:
        made = []
        for each in objects:
            said = self.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(each)).stdout
            made.append(json.loads(said))
        return made

    def status(self, what: str, value: JSON) -> None:
        patch = json.dumps({"status": value})
        self.kubectl("patch", what, "--subresource=status", "--type=merge", "-p", patch)


@pytest.fixture
def cluster(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None, tmp_path: Path
) -> Cluster:
    return Cluster(control_plane, namespace, kubectl, tmp_path)


T9K = "scheduler.tensorstack.dev/v1beta1"
TIME = "2026-03-01T10:00:00Z"
NARROW_COLUMNS = 40
WAITS = "needs 2 x cpu 4; 3 of 16 are free; 1 gang is ahead: lab/big (since 10:02)"


def generic(queue: str) -> JSON:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {
        "scheduler": {"t9kScheduler": {"queue": queue}},
        "replicaSpecs": [{"type": "worker", "replicas": 2, "template": template}],
    }
    kind = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob"}
    return kind | {"metadata": {"name": "train"}, "spec": spec}


def held(type_: str, status: str, reason: str, message: str) -> JSON:
    words = {"type": type_, "status": status, "reason": reason, "message": message}
    return words | {"lastTransitionTime": TIME}


def test_on_a_cluster_without_a_controller(cluster: Cluster) -> None:
    cluster.create(generic("default"))
    answer: JSON = {}

    def is_old_enough() -> bool:
        answer.update(json.loads(cluster.does("why", "train", "-o", "json")))
        return bool(answer["reason"] == "NoController")

    until_it_holds(is_old_enough, "nobody has taken it up")
    assert answer["remedies"][1]["command"] == "jobyard install | kubectl apply -f -"


@pytest.fixture
def waiting(cluster: Cluster) -> Iterator[str]:
    """A job of two replicas that waits in a queue; the queue's name."""
    name = f"q-{secrets.token_hex(4)}"
    quota = {"requests": {"cpu": "16"}}
    queue = {"apiVersion": T9K, "kind": "Queue", "metadata": {"name": name}}
    (owner, *_) = cluster.create(
        generic(name),
        queue | {"spec": {"priority": 3, "quota": quota}},
        {
            "apiVersion": T9K,
            "kind": "PodGroup",
            "metadata": {"name": "train"},
            "spec": {"queue": name, "priority": 2, "minMember": 2},
        },
    )
    owned = {
        "apiVersion": owner["apiVersion"],
        "kind": "GenericJob",
        "name": "train",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for n in range(2):
        labels = {
            "genericjob": "train",
            "batch.tensorstack.dev/job-name": "train",
            "batch.tensorstack.dev/replica-type": "worker",
            "batch.tensorstack.dev/replica-rank": str(n),
            "scheduler.tensorstack.dev/group-name": "train",
            "scheduler.tensorstack.dev/queue": name,
        }
        metadata = {"name": f"train-worker-{n}", "labels": labels, "ownerReferences": [owned]}
        spec = {
            "schedulerName": "t9k-scheduler",
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "x"}],
        }
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    rows = [{"name": f"train-worker-{n}", "phase": "Creating"} for n in range(2)]
    tasks = [{"type": "worker", "restartCount": 0, "status": rows}]
    cluster.status("genericjob/train", {"phase": "Pending", "tasks": tasks})
    cluster.status(f"queue/{name}", {"allocated": {"cpu": "13"}, "podGroups": {"total": 2}})
    yield name
    cluster.kubectl("delete", "queue", name)


def say_reason(cluster: Cluster, reason: str, message: str) -> None:
    """What a scheduler writes of a gang that waits."""
    group = held("GroupScheduled", "False", reason, message)
    cluster.status(
        "podgroup.scheduler.tensorstack.dev/train", {"conditions": [group], "pending": 2}
    )
    for n in range(2):
        told = held("PodScheduled", "False", reason, message)
        cluster.status(f"pod/train-worker-{n}", {"conditions": [told]})


def test_a_gang_that_waits_on_a_cluster(cluster: Cluster, waiting: str) -> None:
    say_reason(cluster, "WaitingForRoom", WAITS)
    answer = json.loads(cluster.does("why", "train", "-o", "json"))
    assert answer["reason"] == "WaitingForRoom"
    assert answer["queue"] == waiting
    assert answer["cause"] == f"It waits in queue {waiting} for room: {WAITS}."
    assert answer["replicas"] == [
        {
            "replicas": ["worker-0", "worker-1"],
            "phase": "Creating",
            "reason": "WaitingForRoom",
            "message": WAITS,
            "restarts": 0,
        }
    ]
    (remedy,) = answer["remedies"]
    # What would help is a command that can be run as it stands.
    page = cluster("queues", waiting)
    assert remedy["command"] == " ".join(("jobyard", "queues", waiting, *cluster.options))
    head, row, _, gangs, gang = page.stdout.splitlines()
    assert row.split()[:3] == [waiting, "3", "open"]
    assert "cpu 13/16 (81%)   81%     0         1" in row
    assert gang.startswith(f"{cluster.namespace}/train   Waiting   2          0/2")
    assert f"WaitingForRoom: {WAITS}" in gang
    assert head.split()[-2:] == ["RUNNING", "WAITING"]
    assert gangs.split()[0] == "GANG"


def test_a_closed_queue_on_a_cluster(cluster: Cluster, waiting: str) -> None:
    cluster.does("queue", "close", waiting)
    say_reason(cluster, "QueueClosed", f"queue {waiting} is closed to what hasn't started yet")
    answer = json.loads(cluster.does("why", "train", "-o", "json"))
    assert answer["cause"] == f"It waits: queue {waiting} is closed to what hasn't started yet."
    words = answer["remedies"][0]["command"].split()
    assert words[:4] == ["jobyard", "queue", "open", waiting]
    assert "is open now: 1 gang may start" in cluster.does(*words[1:4])


def test_no_scheduler_on_a_cluster(cluster: Cluster, waiting: str) -> None:
    def answer() -> JSON:
        told: JSON = json.loads(cluster.does("why", "train", "-o", "json"))
        return told

    until_it_holds(lambda: answer()["reason"] == "NoScheduler", "nobody has looked at the pods")
    assert "no scheduler named t9k-scheduler has looked at it for" in answer()["cause"]


def test_another_schedulers_words_and_an_image(cluster: Cluster, waiting: str) -> None:
    told = held("PodScheduled", "False", "Unschedulable", "0/3 nodes are available: 3 too small.")
    cluster.status("pod/train-worker-0", {"conditions": [told]})
    image = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    running = held("PodScheduled", "True", "Scheduled", "")
    statuses = [{"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}]
    state = {"containerStatuses": [statuses[0] | {"state": image}], "conditions": [running]}
    cluster.status("pod/train-worker-1", state)
    answer = json.loads(cluster.does("why", "train", "-o", "json"))
    assert answer["reason"] == "ImageUnavailable"
    assert "image x of container main: ImagePullBackOff: no such image" in answer["cause"]
    assert [each["reason"] for each in answer["replicas"]] == ["Unschedulable", "ImageUnavailable"]


def test_words_on_a_narrow_terminal(cluster: Cluster, waiting: str) -> None:
    """What somebody wrote into a status neither acts on a terminal nor is wider than it."""
    say_reason(cluster, "WaitingForRoom", "\x1b]0;owned\x07\x1b[2J等待资源 " * 12)
    parent, child = pty.openpty()
    try:
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, NARROW_COLUMNS, 0, 0))
        done = subprocess.Popen(
            [JOBYARD, "why", "train", *cluster.options], stdout=child, stdin=subprocess.DEVNULL
        )
        os.close(child)
        said = b""
        while chunk := _read(parent):
            said += chunk
        assert done.wait(60) == 0
    finally:
        os.close(parent)
    text = said.decode()
    assert "等待资源" in text
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")
    assert plain.count("\n") > 10
    # A command stays whole, so that it can be copied.
    wide = [line for line in plain.split("\n") if width_of(line) > NARROW_COLUMNS]
    assert all(line.startswith("    jobyard ") for line in wide), wide


def _read(parent: int) -> bytes:
    try:
        return os.read(parent, 65536)
    except OSError:
        # The other side is closed.
        return b""
