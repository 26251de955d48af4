"""TaskSets as the Octopus platform and its users write them, taken as they are.

On a real API server by `kubectl apply`, which is strict; on one with a controller and a fake
kubelet for what a cluster gets; on engines, as root and as an ordinary user, for what really runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from controller.controller_stage import Stage, Staging
from plan.taskset_world import World, completion, role, started
from rig.engine import EngineKubectl, Room
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.person import Person, person

from jobyard.api.parts.taskset_status import (
    ROW_BYTES,
    RoleReplicaPhase,
    RoleReplicaStatus,
    RoleStatus,
    TaskSetStatus,
    TerminatedInfo,
)
from jobyard.api.taskset import RETRIES_MAX
from jobyard.cli.main import cli
from jobyard.node.network.names import Circle, Names, circle_of
from jobyard.node.network.services import PodIndex, Service
from jobyard.node.objects.pod_object import PodObject, pod_from
from jobyard.node.objects.taskset_replica import replica_of, without_discovery
from jobyard.plan.lowering.names import label_value
from jobyard.plan.reporting.rows import stored_bytes
from jobyard.plan.taskset.rows import fitted

JSON = dict[str, Any]
OCTOPUS = "octopus.openi.pcl.cn/v1alpha1"
# As the platform makes them of a UUID; ten in sixteen begin with a digit.
UUID_NAME = "0322a3300a4bc011ea0a2f801d24dc3d7d91"
LONG_ROLE = "dgxtestsub1001574130000069"
LONG_POD = f"{UUID_NAME}-{LONG_ROLE}-0-0-0"
SECONDS = 120


def taskset(name: str, *roles: JSON, **spec: Any) -> JSON:
    whole = {"roles": list(roles), **spec}
    return {"apiVersion": OCTOPUS, "kind": "TaskSet", "metadata": {"name": name}, "spec": whole}


def platform_role(name: str, script: str, shared: str = "/ghome/admin/share_hosts/x") -> JSON:
    """A role with what the platform puts into every template."""
    hosts = {"name": "netsharehost", "mountPath": "/etc/hosts"}
    return {
        "name": name,
        "replicas": 1,
        "completionPolicy": {"maxFailed": 1, "minSucceeded": 1},
        "eventPolicy": [],
        "retryPolicy": {"retry": False, "maxRetryCount": 0},
        "template": {
            "metadata": {"annotations": {"scheduling.k8s.io/group-name": UUID_NAME}},
            "spec": {
                "restartPolicy": "Never",
                "schedulerName": "kube-batch",
                "serviceAccountName": "poddiscovery",
                "hostNetwork": False,
                "nodeSelector": {"resourceType": "dgx"},
                "containers": [
                    {
                        "name": f"{name}-container",
                        "image": "192.168.202.74:5000/user-images/deepo:v2.0",
                        "command": ["sh", "-c", script],
                        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}},
                        "securityContext": {"capabilities": {"add": []}},
                        "volumeMounts": [
                            {"name": "home", "mountPath": "/userhome"},
                            {"name": "time", "mountPath": "/etc/localtime", "readOnly": True},
                            {"name": "shm", "mountPath": "/dev/shm"},
                            {**hosts, "readOnly": True},
                        ],
                    }
                ],
                "initContainers": [
                    {
                        "name": "sharehostsoperator",
                        "image": "192.168.202.74:5000/octopus/taskset:poddiscovery-1.0.1",
                        "command": ["sh", "-c", "/app/poddiscovery"],
                        "resources": {},
                        "volumeMounts": [
                            hosts,
                            {"name": "netsharehost0", "mountPath": "/etc/hosts_json.json"},
                            {"name": "netsharehost1", "mountPath": "/etc/localtime"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                    {
                        "name": "netsharehost",
                        "hostPath": {"path": shared, "type": "FileOrCreate"},
                    },
                    {
                        "name": "netsharehost0",
                        "hostPath": {"path": f"{shared}.json", "type": "FileOrCreate"},
                    },
                    {"name": "netsharehost1", "hostPath": {"path": "/etc/localtime", "type": ""}},
                    {"name": "home", "hostPath": {"path": "/ghome/admin", "type": ""}},
                    {"name": "time", "hostPath": {"path": "/etc/localtime", "type": ""}},
                ],
            },
        },
    }


def platform_taskset(one: str = "true", other: str = "true") -> JSON:
    made = taskset(
        UUID_NAME,
        platform_role("dgxtestsub1", one),
        platform_role(LONG_ROLE, other),
        retryPolicy={"retry": False, "maxRetryCount": 0},
    )
    made["metadata"]["labels"] = {"job-type": "dgx", "platform-user": "21232F297A57A5A743894A0E"}
    # Beside the spec, not in it.
    return {**made, "username": "admin", "minMember": 2}


# What an API server takes

GO_ZEROS = {
    **role("worker"),
    "completionPolicy": None,
    "retryPolicy": {"retry": False, "delay": 0, "maxRetryCount": 0},
    "eventPolicy": None,
}
TWICE = [
    {"event": "RoleFailed", "action": "NoAction"},
    {"event": "RoleCompleted", "action": "NoAction"},
    {"event": "RoleFailed", "action": "TaskSetFailed"},
    {"event": "RoleCompleted", "action": "TaskSetFailed"},
]
TAKEN: dict[str, tuple[JSON, tuple[str, ...]]] = {
    "as the platform makes them": (
        platform_taskset(),
        (
            "username: has no effect: labels and annotations are for that",
            "minMember: has no effect: make a PodGroup of the scheduler that the templates name",
        ),
    ),
    "a name of digits": (taskset("0", role("1")), ()),
    "a name of 63 letters": (taskset("9" * 63, role("9" * 63)), ()),
    "a name with dots": (taskset("1.a-b.2", role("r")), ()),
    "pods with names of 253 letters": (taskset("a" * 240, role("worker")), ()),
    "no failure is tolerated": (
        taskset("none", role("r", 2, completionPolicy=completion(1, 0))),
        (),
    ),
    "more failures than replicas": (
        taskset("many", role("r", 2, completionPolicy=completion(1, 3))),
        (),
    ),
    "events that stand twice": (
        taskset("twice", role("r", eventPolicy=TWICE)),
        (
            "spec.roles[0].eventPolicy[2]: has no effect: RoleFailed stands at eventPolicy[0]"
            " already",
            "spec.roles[0].eventPolicy[3]: has no effect: RoleCompleted stands at eventPolicy[1]"
            " already",
        ),
    ),
    "queue and priority of their schema": (
        taskset("queued", role("r"), queue="research", priority=7),
        (
            "spec.queue: has no effect: name a scheduler in the templates, and what it wants to"
            " know there",
            "spec.priority: has no effect: use priorityClassName in the templates",
        ),
    ),
    "queue and priority, empty": (taskset("empty", role("r"), queue="", priority=0), ()),
    "zeros and nulls as Go writes them": (
        taskset("zeros", GO_ZEROS, queue=None, priority=None, retryPolicy=None),
        (),
    ),
    "as many retries as there are numbers": (
        taskset(
            "again",
            role("r", retryPolicy={"retry": True, "maxRetryCount": 2**31 - 1}),
            retryPolicy={"retry": False, "maxRetryCount": 2**31 - 1},
        ),
        (
            "spec.roles[0].retryPolicy.maxRetryCount: is 2147483647: no more than"
            f" {RETRIES_MAX} retries are made",
        ),
    ),
    "2000 replicas": (taskset("large", role("worker", 2000)), ()),
    "as many replicas as there can be": (taskset("a", role("b", 2332)), ()),
}


@pytest.mark.parametrize("title", TAKEN)
def test_kubectl_apply_takes_it(title: str, kubectl: Kubectl, crds: None) -> None:
    manifest, _ = TAKEN[title]
    applied = kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    assert "Warning" not in applied.stderr
    kubectl("delete", f"tasksets.octopus.openi.pcl.cn/{manifest['metadata']['name']}")


@pytest.mark.parametrize("title", TAKEN)
def test_validate_tells_what_has_no_effect(title: str, tmp_path: Path) -> None:
    manifest, told = TAKEN[title]
    file = tmp_path / "ts.yaml"
    file.write_text(yaml.safe_dump(manifest))
    done = CliRunner().invoke(cli, ["validate", "-o", "json", str(file)], catch_exceptions=False)
    [document] = json.loads(done.stdout)
    findings = document["findings"]
    assert (done.exit_code, {each["severity"] for each in findings} - {"warning"}) == (0, set())
    assert sorted(f"{each['path']}: {each['text']}" for each in findings) == sorted(told)


# What it does


def test_of_entries_for_one_event_the_first_counts() -> None:
    for first, second, code, state in (
        ("TaskSetSucceeded", "TaskSetFailed", 1, "Succeeded"),
        ("TaskSetFailed", "TaskSetSucceeded", 1, "Failed"),
        ("TaskSetFailed", "TaskSetSucceeded", 0, "Failed"),
    ):
        event = "RoleFailed" if code else "RoleSucceeded"
        policy = [{"event": event, "action": action} for action in (first, second)]
        world = started(World(role("r", eventPolicy=policy), role("other")))
        world.exit("t-r-0-0-0", code)
        world.settle()
        assert world.status is not None
        assert world.status.state == state, (first, second, code)
        assert f"{event} → {first}" in world.status.state_message


def test_maxfailed_0_waits_for_the_first_failure_and_ends_with_it() -> None:
    world = started(World(role("r", 3, completionPolicy=completion(2, 0))))
    world.exit("t-r-0-0-0", 0)
    world.settle()
    assert world.role("r").state == "Running"
    world.exit("t-r-0-0-1", 1)
    world.settle()
    assert world.status is not None
    assert world.status.state == "Failed"
    assert "(maxFailed 0)" in world.status.state_message


def test_a_label_has_as_much_of_a_name_as_fits() -> None:
    assert label_value("9" * 63) == "9" * 63
    one, other = label_value("a" * 64), label_value("a" * 65)
    assert one != other
    assert {len(one), len(other)} == {63}
    assert len(label_value("a" * 51 + "-." * 20)) <= 63
    assert not label_value("a" * 51 + "-." * 20).split("-")[0].endswith(".")


def test_the_barest_row_is_as_long_as_the_schema_counts_on() -> None:
    row = RoleReplicaStatus(
        index=2331,
        name="role",
        phase=RoleReplicaPhase.CREATION_REQUESTED,
        phase_message="words",
        stopped=False,
        transition_time="2026-01-01T00:00:00Z",
        start_at="2026-01-01T00:00:00Z",
        finish_at="2026-01-01T00:00:00Z",
        total_retried_count=2**31 - 1,
        pod_name="pod",
        pod_reason="Evicted",
        pod_uid="00000000-0000-0000-0000-000000000000",
        pod_ip="10.0.0.1",
        terminated_info=TerminatedInfo(
            exit_code=-(2**31), exit_message="words", signal=2**31 - 1, reason="Error"
        ),
    )
    bare = fitted(row, 0)
    # With the comma after it.
    assert stored_bytes(bare) + 1 <= ROW_BYTES + len("role") + len("pod")
    assert bare.terminated_info is not None
    assert (bare.pod_uid, bare.terminated_info.exit_code) == (row.pod_uid, -(2**31))
    assert fitted(row, 500) == row


# On a cluster

FIELDS = {
    kind: {field.encode_name for field in msgspec.structs.fields(kind)}
    for kind in (TaskSetStatus, RoleStatus, RoleReplicaStatus, TerminatedInfo)
}


@pytest.fixture
def staging(control_plane: ControlPlane, namespace: str, kubectl: Kubectl, crds: None) -> Staging:
    return Staging(control_plane, namespace, kubectl)


def rows_of(status: JSON) -> Iterator[JSON]:
    """All rows of a status that has every field that it should."""
    assert set(status) == FIELDS[TaskSetStatus]
    for each in status["roleStatus"]:
        assert set(each) == FIELDS[RoleStatus]
        for row in each["replicaStatus"]:
            assert set(row) == FIELDS[RoleReplicaStatus]
            yield row


def test_a_cluster_gets_it_as_it_is_and_every_field_of_the_status_is_there(
    staging: Staging,
) -> None:
    async def act(stage: Stage) -> None:
        manifest = platform_taskset()
        for each in manifest["spec"]["roles"]:
            # The fake kubelet is the scheduler of its pods, and its node has no labels.
            del each["template"]["spec"]["schedulerName"]
            del each["template"]["spec"]["nodeSelector"]
            # Nobody makes accounts here.
            del each["template"]["spec"]["serviceAccountName"]
        await stage.apply(manifest)
        await stage.until_pods(UUID_NAME, "dgxtestsub1-0-0-0", f"{LONG_ROLE}-0-0-0")
        assert len(LONG_POD) == 69
        pod = stage.pods(UUID_NAME)[LONG_POD]
        given = manifest["spec"]["roles"][1]["template"]["spec"]
        assert pod["spec"]["volumes"][: len(given["volumes"])] == given["volumes"]
        for listed in ("initContainers", "containers"):
            [mine], [theirs] = pod["spec"][listed], given[listed]
            assert mine["command"] == theirs["command"]
            assert mine["volumeMounts"][: len(theirs["volumeMounts"])] == theirs["volumeMounts"]
        await stage.until(
            "both run",
            lambda: (
                all(
                    row["phase"].endswith("AttemptRunning")
                    for row in rows_of(stage.status(UUID_NAME))
                )
                if stage.status(UUID_NAME)
                else False
            ),
        )
        await stage.until_told(UUID_NAME, "SpecAdvice", "username: has no effect")
        await stage.until_told(UUID_NAME, "SpecAdvice", "minMember: has no effect")
        first = stage.statuses(UUID_NAME)[0]
        assert (first["startAt"], first["finishAt"]) == (None, None)
        for row in rows_of(first):
            assert (row["startAt"], row["finishAt"], row["podUID"]) == (None, None, None)
            assert (row["terminatedInfo"], row["podReason"], row["podIP"]) == (None, "", "")
        await stage.kubelet.evict(LONG_POD)
        await stage.until(
            "why the pod was lost",
            lambda: any(
                row["podReason"] == "Evicted"
                for status in stage.statuses(UUID_NAME)
                for row in rows_of(status)
            ),
        )
        await stage.kubelet.finish(f"{UUID_NAME}-dgxtestsub1-0-0-0", 1)
        await stage.until_phase(UUID_NAME, "TaskSetCompleted")
        one, _ = rows_of(stage.status(UUID_NAME))
        assert set(one["terminatedInfo"]) == FIELDS[TerminatedInfo]
        assert one["terminatedInfo"]["exitCode"] == 1
        for status in stage.statuses(UUID_NAME):
            assert len(list(rows_of(status))) == 2

    staging.play(act)


# On one machine

SERVER = """
python3 -c '
import socket
listening = socket.create_server(("", 2222))
line, _ = listening.accept()
line.sendall(b"hello from " + socket.gethostname().encode())
'
"""
CLIENT = """
python3 -c '
import socket, time
until = time.monotonic() + 60
while True:
    try:
        line = socket.create_connection(("SERVER-0", 2222), 5)
        break
    except OSError:
        assert time.monotonic() < until
        time.sleep(0.1)
print("heard", line.recv(100).decode(), flush=True)
'
echo self $(getent hosts $(hostname) | cut -f1 -d" ") $(getent hosts ROLE-0 | cut -f1 -d" ")
"""


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def who(request: pytest.FixtureRequest) -> Iterator[Person]:
    with person(is_ordinary=request.param == "as an ordinary user") as somebody:
        yield somebody


def test_a_taskset_of_the_platform_runs_on_one_machine(who: Person) -> None:
    client = CLIENT.replace("SERVER", LONG_ROLE).replace("ROLE-0", "dgxtestsub1-0")
    manifest = platform_taskset(client, SERVER)
    who.write("ts.yaml", yaml.safe_dump(manifest))
    done = who.run("run", "ts.yaml", seconds=SECONDS)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    # Kubelet's way: 63 characters, and none of them a dash at the end.
    assert f"heard hello from {LONG_POD[:63].rstrip('-.')}" in told
    [line] = [each for each in done.stdout.splitlines() if "| self" in each]
    own, alias = line.split()[-2:]
    assert own == alias
    left_out = "init container sharehostsoperator and a hosts file at /etc/hosts: left out on one"
    assert told.count(left_out) == 1, told
    assert who.processes() == {}


def test_replicas_that_are_plain_processes_find_one_another() -> None:
    serve = """
import socket, sys
socket.create_server(("", int(sys.argv[1].split(":")[1]))).accept()[0].sendall(b"hello")
"""
    ask = """
import socket, sys, time
host, port = sys.argv[1].split(":")
until = time.monotonic() + 60
while True:
    try:
        line = socket.create_connection((host, int(port)), 5)
        break
    except OSError:
        assert time.monotonic() < until
        time.sleep(0.1)
print("heard", line.recv(100).decode(), flush=True)
"""

    def played(name: str, script: str) -> JSON:
        made = role(name)
        command = ["python3", "-c", script, "ps-0:2222"]
        made["template"]["spec"]["containers"][0]["command"] = command
        return made

    with person(is_ordinary=False) as somebody:
        # The one that asks is there before the one that it asks for.
        roles = (played("worker", ask), played("ps", serve))
        somebody.write("ts.yaml", yaml.safe_dump(taskset("0plain", *roles)))
        done = somebody.run("run", "--runtime", "host", "ts.yaml", seconds=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 | heard hello" in done.stdout


def addresses(room: Room, name: str) -> dict[str, str]:
    status = room.get("tasksets", name, f"/apis/{OCTOPUS}")["status"]
    return {f"{row['name']}-{row['index']}": row["podIP"] for row in rows_of(status)}


def test_replicas_of_two_tasksets_with_the_same_roles_find_their_own(
    room: Room, kubectl_binary: Any
) -> None:
    kubectl = EngineKubectl(kubectl_binary, room)
    script = "echo here; exec sleep 1000"
    template = {
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", script]}],
        }
    }
    # The second has a name that no label takes as a whole.
    names = ["0one", "2." + "b" * 230]
    for name in names:
        made = {"name": "worker", "replicas": 2, "template": template}
        kubectl("apply", "-f", "-", stdin=taskset(name, made))
    found = {}
    for name in names:
        room.until(
            "tasksets",
            name,
            lambda it: (
                all(row["phase"].endswith("AttemptRunning") for row in rows_of(it["status"]))
                if it.get("status")
                else False
            ),
            f"/apis/{OCTOPUS}",
        )
        found[name] = addresses(room, name)
    assert len({address for each in found.values() for address in each.values()}) == 4
    for name in names:
        pod = f"{name}-worker-0-0-0"
        heard = kubectl("exec", pod, "--", "getent", "hosts", "worker-0", "worker-1")
        assert [line.split()[0] for line in heard.splitlines()] == [
            found[name]["worker-0"],
            found[name]["worker-1"],
        ]
        assert kubectl("exec", pod, "--", "hostname").strip() == pod[:63].rstrip("-.")
        listed = kubectl("get", "pods", "-l", f"TaskSet={label_value(name)}", "-o", "name")
        assert len(listed.splitlines()) == 2
    # By the names that the commands have for them, with names as long as that.
    where = ("--kubeconfig", str(room.engine.kubeconfig), "-n", room.name)
    job, pod = f"taskset/{names[1]}", f"{names[1]}-worker-0-0-1"
    for verb, words, wanted in (
        ("logs", (job,), "worker-1 | here"),
        ("logs", (job, "--replica", "worker-1"), "worker-1 | here"),
        ("describe", (job,), "worker-1"),
        ("exec", (job, "worker-1", "--", "echo", "there"), "there"),
        ("exec", (job, pod, "--", "echo", "there"), "there"),
    ):
        done = room.engine.who.run(verb, *where, *words)
        assert (done.returncode, wanted in done.stdout) == (0, True), (verb, words, done)


def test_the_documented_call_takes_queue_and_priority(room: Room) -> None:
    path = f"/apis/tasksets.octopus.openi.pcl.cn/v1alpha1/namespaces/{room.name}/tasksets"
    worker = role("worker")
    worker["template"]["spec"]["containers"][0]["command"] = ["true"]
    manifest = taskset("1queued", worker, queue="research", priority=3)
    made = room.engine.ask("POST", path, yaml.safe_dump(manifest), content_type="application/yaml")
    assert made.status == 201, made.text
    assert (made.json["spec"]["queue"], made.json["spec"]["priority"]) == ("research", 3)
    room.until(
        "tasksets",
        "1queued",
        lambda it: (it.get("status") or {}).get("state") == "Succeeded",
        f"/apis/{OCTOPUS}",
    )
    about = "fieldSelector=involvedObject.name%3D1queued&limit=50"
    events = room.engine.ask("GET", f"{room.path('events')}?{about}").json["items"]
    warnings = [each["message"] for each in events if each["reason"] == "SpecAdvice"]
    assert {each.partition(":")[0] for each in warnings} == {"spec.queue", "spec.priority"}


# The parts of it


def task_pod(name: str, index: str = "0", uid: str = "u", **spec: Any) -> PodObject:
    return pod_from(
        {
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": name,
                "labels": {"TaskSet": "t", "PodTaskRole": "worker"},
                "annotations": {"TSUID": uid, "RoleReplicaIndex": index},
            },
            "spec": {"containers": [{"name": "main"}], **spec},
            "status": {"podIP": "10.0.0.1" if uid == "u" else "10.0.0.2"},
        }
    )


def test_a_hosts_file_of_a_taskset_has_its_own_replicas_and_no_others() -> None:
    ended = task_pod("old", "1")
    ended = msgspec.structs.replace(ended, status={**ended.status, "phase": "Failed"})
    odd = (task_pod("c", "-1"), task_pod("d", ""))
    pods = (task_pod("a"), task_pod("b", uid="other"), ended, *odd)
    spec = {"selector": {"TaskSet": "t"}, "publishNotReadyAddresses": True}
    service = msgspec.convert(
        {"metadata": {"name": "worker-0", "namespace": "ns"}, "spec": spec}, Service
    )
    names = Names(PodIndex(pods), [service])
    mine = names.lines(circle_of(pods[0]))
    assert "10.0.0.1\ta worker-0" in mine
    assert not any(line.split()[1] == "b" for line in mine)
    assert not any("worker-1" in line.split() for line in mine)
    # A service of the same name is reached by its longer ones.
    assert "10.0.0.2\tworker-0.ns worker-0.ns.svc worker-0.ns.svc.cluster.local" in mine
    others = names.lines(Circle("ns"))
    assert {"10.0.0.1\ta", "10.0.0.2\tb"} <= set(others)
    assert [circle_of(each).taskset for each in pods] == ["u", "other", "u", "", ""]


def test_a_uid_that_somebody_wrote_is_no_path() -> None:
    circle = circle_of(task_pod("a", uid="../../../etc/passwd"))
    assert "/" not in circle.file_name
    assert circle.file_name.startswith("ns.")


@pytest.mark.parametrize(
    ("image", "command", "is_left_out"),
    [
        ("yyrdl/poddiscovery:v0.0.3", ["sh", "-c", "/app/poddiscovery"], True),
        ("poddiscovery", [], True),
        ("h:5000/openi/poddiscovery@sha256:00", [], True),
        ("h:5000/octopus/taskset:poddiscovery-1.0.1", [], True),
        ("any", ["/app/poddiscovery", "--config", "c"], True),
        ("any", ["sh", "-c", "exec /app/poddiscovery --config c"], True),
        ("busybox", ["sh", "-c", "cp /userhome/poddiscovery /bin"], False),
        ("h/poddiscovery/busybox:1", ["true"], False),
    ],
)
def test_poddiscovery_is_known_by_its_image_or_program(
    image: str, command: list[str], is_left_out: bool
) -> None:
    mounts = [{"name": "h", "mountPath": "/etc/hosts"}, {"name": "home", "mountPath": "/home"}]
    first = {"name": "i", "image": image, "command": command, "volumeMounts": mounts[:1]}
    pod = task_pod(
        "a",
        initContainers=[first, {"name": "own", "command": ["true"], "volumeMounts": mounts[1:]}],
        containers=[{"name": "main", "volumeMounts": mounts}],
        volumes=[{"name": "h", "hostPath": {"path": "/x"}}, {"name": "home", "emptyDir": {}}],
    )
    fitted_pod = without_discovery(pod)
    assert bool(fitted_pod.note) is is_left_out
    if not is_left_out:
        assert fitted_pod == pod
        return
    assert [each.name for each in fitted_pod.spec.init_containers] == ["own"]
    [main] = fitted_pod.spec.containers
    assert [each.mount_path for each in main.volume_mounts] == ["/home"]
    assert [each.name for each in fitted_pod.spec.volumes] == ["home"]
    # A pod of anybody else has what it says.
    alone = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels={}, annotations={})
    )
    assert replica_of(alone) is None
    assert without_discovery(alone) == alone


@pytest.mark.parametrize(("type_", "is_left_out"), [("FileOrCreate", True), ("File", False)])
def test_a_role_that_only_reads_the_shared_file_does_without(type_: str, is_left_out: bool) -> None:
    pod = task_pod(
        "a",
        containers=[{"name": "m", "volumeMounts": [{"name": "h", "mountPath": "/etc//hosts/"}]}],
        volumes=[{"name": "h", "hostPath": {"path": "/x", "type": type_}}],
    )
    assert bool(without_discovery(pod).note) is is_left_out
    assert bool(without_discovery(pod).spec.volumes) is not is_left_out
