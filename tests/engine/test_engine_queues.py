"""Queues, gangs and preemption on a running engine, with real processes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from rig.engine import JOBS, Room, RunningEngine
from rig.manifests import ROOT
from rig.person import person
from rig.waiting import until_it_holds

from jobyard.schedule.reasons import Reason

JSON = dict[str, Any]
SCHEDULER = "/apis/scheduler.tensorstack.dev/v1beta1"
BATCH = "/apis/scheduling.incubator.k8s.io/v1alpha1"
TASKSETS = "/apis/octopus.openi.pcl.cn/v1alpha1"
CAPACITY = "cpu=300,memory=300Gi,nvidia.com/gpu=8"
PATCH = "application/merge-patch+json"
LABEL = "scheduler.tensorstack.dev"
WAITS = ("sleep", "600")
# Says when it is told to go, and takes a moment to do so.
SAVES = (
    "import signal, sys, time\n"
    "def save(*_):\n"
    "    print('saved', flush=True)\n"
    "    sys.exit(0)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "print('at work', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture(scope="module")
def queueing() -> Iterator[RunningEngine]:
    """An engine that counts as a machine with 300 cores."""
    with person(is_ordinary=False) as who:
        folder = who.home / "engine"
        words = ("--runtime", "host", "--capacity", CAPACITY, "--data-dir", str(folder))
        started = who.run("up", "--detach", *words)
        assert started.returncode == 0, started.stderr
        yield RunningEngine(who, folder)
        stopped = who.run("down", "--data-dir", str(folder))
        assert stopped.returncode == 0, stopped.stderr
        assert who.processes() == {}


class Yard(Room):
    """A namespace on that engine, and queues whose names are this test's own."""

    def __init__(self, engine: RunningEngine) -> None:
        self.mark = secrets.token_hex(3)
        super().__init__(engine, f"queues-{self.mark}")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}}
        assert engine.ask("POST", "/api/v1/namespaces", space).status == 201

    def queue(self, name: str, **spec: Any) -> str:
        named = f"{name}-{self.mark}"
        queue = {
            "apiVersion": "scheduler.tensorstack.dev/v1beta1",
            "kind": "Queue",
            "metadata": {"name": named},
            "spec": spec,
        }
        answer = self.engine.ask("POST", f"{SCHEDULER}/queues", queue)
        assert answer.status == 201, answer.text
        # The scheduler has seen it.
        query = f"fieldSelector=metadata.name%3D{named}"
        self.engine.until(f"{SCHEDULER}/queues", query, lambda queue: bool(queue.get("status")))
        return named

    def set_queue(self, name: str, **spec: Any) -> None:
        path = f"{SCHEDULER}/queues/{name}"
        answer = self.engine.ask("PATCH", path, {"spec": spec}, content_type=PATCH)
        assert answer.status == 200, answer.text

    def queued(self, name: str, queue: str, cpu: int, priority: int = 0) -> None:
        """A job of one replica that runs for long."""
        self.job(name, queue, 1, {"cpu": str(cpu)}, priority=priority)

    def job(
        self,
        name: str,
        queue: str,
        replicas: int,
        asks: JSON,
        *,
        priority: int = 0,
        command: tuple[str, ...] = WAITS,
        **pod: Any,
    ) -> None:
        main = {"name": "main", "image": "any", "command": list(command)}
        main["resources"] = {"requests": asks}
        spec = {"containers": [main], "terminationGracePeriodSeconds": 5, **pod}
        manifest = {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "metadata": {"name": name},
            "spec": {
                "scheduler": {"t9kScheduler": {"queue": queue, "priority": priority}},
                "replicaSpecs": [
                    {
                        "type": "worker",
                        "replicas": replicas,
                        "restartPolicy": {"policy": "OnFailure", "limit": 3},
                        "template": {"spec": spec},
                    }
                ],
            },
        }
        self.create("genericjobs", manifest, JOBS)

    def job_until(self, name: str, done: Callable[[JSON], bool]) -> JSON:
        return self.until("genericjobs", name, lambda job: done(job.get("status") or {}), JOBS)

    def runs(self, name: str) -> JSON:
        return self.until("pods", f"{name}-worker-0", lambda pod: phase(pod) == "Running")

    def waits(self, name: str, reason: Reason) -> str:
        """What is told of a job that waits, the same in all places; the sentence."""
        group = self.until(
            "podgroups", name, lambda group: scheduled(group)[0] == reason, SCHEDULER
        )
        said = scheduled(group)[1]
        pod = self.until(
            "pods", f"{name}-worker-0", lambda pod: pod_condition(pod).startswith(f"{reason}: ")
        )
        assert condition(pod, "PodScheduled")["reason"] == "Unschedulable"
        self.job_until(name, lambda status: f"{reason}: " in running(status))
        self.event(name, f"{reason}: ")
        self.why(name, reason)
        self.counted(reason)
        return said

    def why(self, name: str, reason: Reason) -> str:
        """What `jobyard why` says the cause is, once it is that."""
        who, last = self.engine.who, {}
        words = ("-n", self.name, "--kubeconfig", str(self.engine.kubeconfig), "-o", "json")

        def is_so() -> bool:
            asked = who.ask("why", name, *words)
            assert asked.returncode == 0, asked.stderr
            last.update(json.loads(asked.stdout))
            return bool(last["reason"] == reason)

        until_it_holds(is_so, f"{name} waits: {reason}")
        return str(last["cause"])

    def counted(self, reason: Reason) -> None:
        """The figures tell of a gang and its pods."""

        def are_told() -> bool:
            text = self.engine.ask("GET", "/metrics").text
            lines = dict(line.rsplit(" ", 1) for line in text.splitlines())
            return all(
                int(lines[f'jobyard_waiting_{what}{{reason="{reason}"}}']) > 0
                for what in ("pods", "gangs")
            )

        until_it_holds(are_told, f"the figures tell of {reason}")

    def waiting_pod(self, said: str) -> JSON:
        """A pod of the namespace that is told this."""
        return self.engine.until(self.path("pods"), "", lambda pod: pod_condition(pod) == said)

    def event(self, name: str, begins: str, reason: str = "FailedScheduling") -> JSON:
        return self.engine.until(
            self.path("events"),
            f"fieldSelector=involvedObject.name%3D{name}",
            lambda event: event["reason"] == reason and event["message"].startswith(begins),
        )

    def events(self, name: str, reason: str) -> list[JSON]:
        query = f"?fieldSelector=involvedObject.name%3D{name}"
        answer = self.engine.ask("GET", self.path("events") + query)
        return [event for event in answer.json["items"] if event["reason"] == reason]

    def delete(self, plural: str, name: str, prefix: str = JOBS) -> None:
        answer = self.engine.ask("DELETE", self.path(plural, name, prefix))
        assert answer.status in (200, 202), answer.text

    def empty(self) -> None:
        """Everything goes, so that the next test has the whole machine."""
        assert self.engine.ask("DELETE", f"/api/v1/namespaces/{self.name}").status in (200, 202)
        for queue in self.engine.ask("GET", f"{SCHEDULER}/queues").json["items"]:
            name = queue["metadata"]["name"]
            if name.endswith(self.mark):
                self.engine.ask("DELETE", f"{SCHEDULER}/queues/{name}")
        path = f"/api/v1/namespaces/{self.name}"
        gone = lambda: self.engine.ask("GET", path).status == 404  # noqa: E731
        until_it_holds(gone, "the namespace is gone")


def phase(pod: JSON) -> str:
    return str(pod["status"].get("phase"))


def condition(obj: JSON, type_: str) -> JSON:
    found = (obj.get("status") or {}).get("conditions") or []
    return next((each for each in found if each["type"] == type_), {})


def scheduled(group: JSON) -> tuple[str, str]:
    found = condition(group, "GroupScheduled")
    return found.get("reason", ""), found.get("message", "")


def pod_condition(pod: JSON) -> str:
    return str(condition(pod, "PodScheduled").get("message") or "")


def running(status: JSON) -> str:
    return str(condition({"status": status}, "Running").get("message") or "")


@pytest.fixture
def yard(queueing: RunningEngine) -> Iterator[Yard]:
    here = Yard(queueing)
    yield here
    here.empty()


def cpus(amount: int) -> JSON:
    return {"requests": {"cpu": str(amount)}}


def test_the_documented_example_comes_out_as_written(yard: Yard) -> None:
    a = yard.queue("a", quota=cpus(200), priority=1)
    b = yard.queue("b", quota=cpus(100), priority=1)
    c = yard.queue("c", quota=cpus(50), priority=2)
    d = yard.queue("d", quota=cpus(200), priority=2)
    for name, queue, priority in (
        ("a1", a, 50), ("a2", a, 50), ("a3", a, 10), ("b1", b, 50), ("c1", c, 50), ("d1", d, 50),
    ):  # fmt: skip
        yard.queued(name, queue, 50, priority)
    for name in ("a1", "a2", "a3", "b1", "c1", "d1"):
        yard.runs(name)
    yard.queued("b2", b, 50)
    assert yard.waits("b2", Reason.WAITING_FOR_ROOM) == "needs cpu 50; 0 of 300 are free"
    yard.queued("c2", c, 50)
    said = yard.waits("c2", Reason.QUOTA_EXCEEDED)
    assert said == f"needs cpu 50; 50 of 50 of queue {c} are used"
    yard.queued("d2", d, 50)
    yard.runs("d2")
    yard.waits("a3", Reason.WAITING_FOR_ROOM)
    still = {name: phase(yard.get("pods", f"{name}-worker-0")) for name in ("a1", "a2", "b1", "c1")}
    assert set(still.values()) == {"Running"}, still
    # Numbers are told a moment later.
    wanted = {"allocated": {"cpu": "100"}, "podGroups": {"total": 3}}
    yard.engine.until(
        f"{SCHEDULER}/queues",
        f"fieldSelector=metadata.name%3D{a}",
        lambda queue: {name: queue["status"].get(name) for name in wanted} == wanted,
    )


def test_the_queue_with_the_lower_dominant_share_goes_first(yard: Yard) -> None:
    a = yard.queue("a", quota={"requests": {"cpu": "6", "memory": "8Gi"}}, priority=1)
    b = yard.queue("b", quota={"requests": {"cpu": "8", "memory": "2Gi"}}, priority=1)
    yard.job("a1", a, 1, {"cpu": "3", "memory": "5Gi"})
    yard.job("b1", b, 1, {"cpu": "3", "memory": "1Gi"})
    filling = yard.queue("rest", priority=2)
    yard.queued("large", filling, 293)
    yard.queued("small", filling, 1)
    for name in ("a1", "b1", "large", "small"):
        yard.runs(name)
    yard.job("a2", a, 1, {"cpu": "1", "memory": "1Gi"})
    yard.waits("a2", Reason.WAITING_FOR_ROOM)
    yard.job("b2", b, 1, {"cpu": "1", "memory": "1Gi"})
    yard.waits("b2", Reason.WAITING_FOR_ROOM)
    yard.delete("genericjobs", "small")
    yard.runs("b2")
    yard.waits("a2", Reason.WAITING_FOR_ROOM)


def closed(yard: Yard) -> tuple[str, str]:
    yard.job("job", yard.queue("shut", closed=True), 2, {"cpu": "1"})
    return Reason.QUEUE_CLOSED, "is closed to what hasn't started yet"


def no_queue(yard: Yard) -> tuple[str, str]:
    yard.job("job", "nowhere", 2, {"cpu": "1"})
    return Reason.NO_SUCH_QUEUE, "queue nowhere doesn't exist; there are default"


def not_allowed(yard: Yard) -> tuple[str, str]:
    queue = yard.queue("theirs", namespaceSelector={"matchLabels": {"team": "other"}})
    yard.job("job", queue, 2, {"cpu": "1"})
    return Reason.NAMESPACE_NOT_ALLOWED, f"is not for namespace {yard.name}"


def never_machine(yard: Yard) -> tuple[str, str]:
    yard.job("job", "default", 4, {"cpu": "100"})
    return Reason.NEVER_FITS, "needs 4 x cpu 100; the machine has 300"


def never_quota(yard: Yard) -> tuple[str, str]:
    queue = yard.queue("small", quota=cpus(3))
    yard.job("job", queue, 4, {"cpu": "1"})
    return Reason.NEVER_FITS, f"needs 4 x cpu 1; the quota of queue {queue} is 3"


def no_request(yard: Yard) -> tuple[str, str]:
    yard.job("job", yard.queue("counted", quota={"requests": {"memory": "9Gi"}}), 2, {"cpu": "1"})
    return Reason.REQUEST_MISSING, "container main requests no memory"


def elsewhere(yard: Yard) -> tuple[str, str]:
    queue = yard.queue("fast", nodeSelector={"matchLabels": {"disk": "fast"}})
    yard.job("job", queue, 2, {"cpu": "1"})
    return Reason.NODE_SELECTOR_MISMATCH, "doesn't match this machine's labels"


def other_node(yard: Yard) -> tuple[str, str]:
    yard.job("job", "default", 2, {"cpu": "1"}, nodeSelector={"disk": "fast"})
    return Reason.NODE_SELECTOR_MISMATCH, "didn't match Pod's node affinity/selector"


def full_quota(yard: Yard) -> tuple[str, str]:
    queue = yard.queue("full", quota=cpus(3))
    yard.job("first", queue, 2, {"cpu": "1"})
    yard.runs("first")
    yard.job("job", queue, 2, {"cpu": "1"})
    return Reason.QUOTA_EXCEEDED, f"needs 2 x cpu 1; 2 of 3 of queue {queue} are used"


def no_room(yard: Yard) -> tuple[str, str]:
    yard.job("first", "default", 2, {"cpu": "100"})
    yard.runs("first")
    yard.job("job", "default", 3, {"cpu": "80"})
    return Reason.WAITING_FOR_ROOM, "needs 3 x cpu 80; 100 of 300 are free"


def reserved(yard: Yard) -> tuple[str, str]:
    yard.job("first", "default", 2, {"cpu": "100"})
    yard.runs("first")
    # Ages are told in seconds, and these may be of the same one.
    yard.job("large", "default", 3, {"cpu": "80"}, priority=50)
    yard.waits("large", Reason.WAITING_FOR_ROOM)
    yard.job("job", "default", 2, {"cpu": "10"})
    return Reason.RESERVED, f"the room is kept for {yard.name}/large, which is first in line"


def preempting(yard: Yard) -> tuple[str, str]:
    low, high = yard.queue("low", priority=1), yard.queue("high", priority=2)
    # It doesn't hear, and has a while to go: longer than anybody takes to look.
    deaf = ("sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 600; done")
    yard.job("first", low, 1, {"cpu": "300"}, command=deaf, terminationGracePeriodSeconds=300)
    yard.runs("first")
    log = f"{yard.path('pods')}/first-worker-0/log"
    until_it_holds(lambda: "deaf" in yard.engine.ask("GET", log).text, "it doesn't hear any more")
    yard.job("job", high, 2, {"cpu": "10"})
    said = "needs 2 x cpu 10; 0 of 300 are free; 1 pod is going to make room"
    return Reason.WAITING_FOR_PREEMPTION, said


CAUSES = (
    closed, no_queue, not_allowed, never_machine, never_quota, no_request, elsewhere, other_node,
    full_quota, no_room, reserved, preempting,
)  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_why_a_job_waits_is_told_in_the_group_the_pod_the_job_and_an_event(
    yard: Yard, cause: Callable[[Yard], tuple[Reason, str]]
) -> None:
    reason, words = cause(yard)
    assert words in yard.waits("job", reason)
    # Once on the group and once on the job, however often it is looked at.
    kinds: list[str] = []

    def both_are_told() -> bool:
        found = yard.events("job", "FailedScheduling")
        told = [event for event in found if words in event["message"]]
        kinds[:] = sorted(event["involvedObject"]["kind"] for event in told)
        return len(kinds) >= 2

    until_it_holds(both_are_told, "it is told of the group and of the job")
    assert kinds == ["GenericJob", "PodGroup"]
    # Who was preempted need not have its grace, if there is one.
    yard.engine.ask("DELETE", f"{yard.path('pods')}/first-worker-0?gracePeriodSeconds=0")


def grouped(name: str) -> JSON:
    box = {"name": "main", "image": "any", "command": list(WAITS)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {f"{LABEL}/group-name": "gang"}},
        "spec": {"containers": [box], "terminationGracePeriodSeconds": 1},
    }


def test_pods_wait_for_their_group_and_then_for_one_another(yard: Yard) -> None:
    yard.create("pods", grouped("a"))
    begins = f"{Reason.NO_SUCH_GROUP}: PodGroup {yard.name}/gang doesn't exist yet"
    yard.until("pods", "a", lambda pod: pod_condition(pod) == begins)
    group = {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 2},
    }
    yard.create("podgroups", group, SCHEDULER)
    lacks = f"{Reason.NOT_ENOUGH_MEMBERS}: 1 of 2 members are there"
    yard.until("pods", "a", lambda pod: pod_condition(pod) == lacks)
    yard.event("gang", lacks)
    yard.create("pods", grouped("b"))
    for name in ("a", "b"):
        yard.running(name)
    started = yard.until(
        "podgroups", "gang", lambda group: group["status"].get("running") == 2, SCHEDULER
    )
    assert scheduled(started)[0] == "PodGroupScheduled"


def test_a_taskset_waits_for_its_group_and_then_for_its_members(yard: Yard) -> None:
    """The two reasons that no job of ours has by itself: its group is made with its pods."""
    box = {"name": "main", "image": "any", "command": ["true"]}
    pod = {"schedulerName": "kube-batch", "restartPolicy": "Never", "containers": [box]}
    template = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "two"}}, "spec": pod}
    kind = {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet"}
    roles = [{"name": "w", "replicas": 1, "template": template}]
    yard.create(
        "tasksets", {**kind, "metadata": {"name": "set"}, "spec": {"roles": roles}}, TASKSETS
    )
    said = f"PodGroup {yard.name}/two doesn't exist yet"
    found = yard.waiting_pod(f"{Reason.NO_SUCH_GROUP}: {said}")
    yard.event(found["metadata"]["name"], f"{Reason.NO_SUCH_GROUP}: {said}")
    assert said in yard.why("set", Reason.NO_SUCH_GROUP)
    yard.counted(Reason.NO_SUCH_GROUP)
    group = {
        "apiVersion": "scheduling.incubator.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "two"},
        "spec": {"minMember": 2},
    }
    yard.create("podgroups", group, BATCH)
    said = "1 of 2 members are there"
    yard.waiting_pod(f"{Reason.NOT_ENOUGH_MEMBERS}: {said}")
    yard.event("two", f"{Reason.NOT_ENOUGH_MEMBERS}: {said}")
    lacks = (Reason.NOT_ENOUGH_MEMBERS.value, said)
    yard.until("podgroups", "two", lambda group: scheduled(group) == lacks, BATCH)
    assert said in yard.why("set", Reason.NOT_ENOUGH_MEMBERS)
    yard.counted(Reason.NOT_ENOUGH_MEMBERS)
    body = {"spec": {"minMember": 1}}
    path = yard.path("podgroups", "two", BATCH)
    assert yard.engine.ask("PATCH", path, body, content_type=PATCH).status == 200
    yard.until(
        "tasksets",
        "set",
        lambda each: (each.get("status") or {}).get("state") == "Succeeded",
        TASKSETS,
    )


def test_a_member_that_waits_alone_is_told_of_by_an_event_of_its_own(yard: Yard) -> None:
    yard.job("first", "default", 2, {"cpu": "100"})
    yard.runs("first")
    yard.until("pods", "first-worker-1", lambda pod: phase(pod) == "Running")
    cordon = {"spec": {"unschedulable": True}}
    (node,) = yard.engine.ask("GET", "/api/v1/nodes").json["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    assert yard.engine.ask("PATCH", path, cordon, content_type=PATCH).status == 200
    try:
        yard.delete("pods", "first-worker-0", "/api/v1")
        begins = f"{Reason.NODE_SELECTOR_MISMATCH}: 0/1 nodes are available"
        yard.event("first-worker-0", begins)
        yard.job_until("first", lambda status: begins in running(status))
    finally:
        cordon = {"spec": {"unschedulable": None}}
        yard.engine.ask("PATCH", path, cordon, content_type=PATCH)
    yard.runs("first")


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, 1, id="nothing said"),
        pytest.param({"minMember": 0, "roles": None}, 1, id="as Go writes it"),
        pytest.param(
            {"roles": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]},
            2,
            id="what the roles need",
        ),
    ],
)
def test_a_group_that_does_not_say_its_size_needs_what_its_roles_need(
    yard: Yard, spec: JSON, needed: int
) -> None:
    group = {
        "apiVersion": "scheduler.tensorstack.dev/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": spec,
    }
    yard.create("podgroups", group, SCHEDULER)
    names = ("a", "b")[:needed]
    lacks = f"{Reason.NOT_ENOUGH_MEMBERS}: 1 of 2 members are there; role b: 0 of 1"
    for name in names:
        if name == "b":
            yard.until("pods", "a", lambda pod: pod_condition(pod) == lacks)
        pod = grouped(name)
        pod["metadata"]["labels"][f"{LABEL}/role"] = name
        yard.create("pods", pod)
    for name in names:
        yard.running(name)


def test_a_preempted_job_saves_loses_no_restart_and_comes_back(yard: Yard) -> None:
    low, high = yard.queue("low", priority=1), yard.queue("high", priority=2)
    program = SAVES.replace("print('saved'", f"open('{yard.engine.who.home}/saved', 'a').write('x')"
                            "; print('saved'")  # fmt: skip
    yard.job("victim", low, 2, {"cpu": "100"}, command=("python3", "-c", program))
    before = yard.runs("victim")
    yard.until("pods", "victim-worker-1", lambda pod: phase(pod) == "Running")
    log = yard.path("pods", "victim-worker-1") + "/log"
    until_it_holds(lambda: "at work" in yard.engine.ask("GET", log).text, "it is at work")
    yard.job("winner", high, 2, {"cpu": "120"})
    yard.runs("winner")
    yard.waits("victim", Reason.WAITING_FOR_ROOM)
    assert "x" in (yard.engine.who.home / "saved").read_text()
    yard.delete("genericjobs", "winner")
    after = yard.runs("victim")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    status = yard.job_until("victim", lambda status: status.get("readyReplicas") == 2)["status"]
    assert (status["phase"], status["restarts"]) == ("Running", 0)


def test_a_replica_that_restarts_after_its_peers_have_ended_runs(yard: Yard) -> None:
    home = yard.engine.who.home
    # The first fails once its peer has ended, and succeeds the next time.
    program = (
        "import os, sys, time, pathlib\n"
        "rank, flag = int(sys.argv[1]), pathlib.Path(sys.argv[2])\n"
        "if rank == 0 and not flag.exists():\n"
        "    flag.touch(); time.sleep(1.5); sys.exit(7)\n"
    )
    words = ("python3", "-c", program, "$(rank)", str(home / f"flag-{yard.mark}"))
    yard.job("again", "default", 2, {"cpu": "1"}, command=words)
    done = yard.job_until("again", lambda status: status.get("phase") in ("Succeeded", "Failed"))
    assert done["status"]["phase"] == "Succeeded", json.dumps(done["status"])
    assert done["status"]["restarts"] == 1


def test_a_job_that_is_too_old_is_paused_once_and_starts_anew_when_resumed(yard: Yard) -> None:
    queue = yard.queue("short", maxDuration="1h")
    yard.job("long", queue, 2, {"cpu": "1"})
    yard.runs("long")
    yard.set_queue(queue, maxDuration="1s")
    paused = yard.job_until("long", lambda status: status.get("phase") == "Paused")
    assert paused["spec"]["runMode"]["pause"]["enabled"] is True
    yard.event("long", "paused: long-worker-", "MaxDurationExceeded")
    assert len(yard.events("long", "MaxDurationExceeded")) == 1
    yard.set_queue(queue, maxDuration="1h")
    body = {"spec": {"runMode": {"pause": {"enabled": False}}}}
    path = yard.path("genericjobs", "long", JOBS)
    assert yard.engine.ask("PATCH", path, body, content_type=PATCH).status == 200
    yard.job_until("long", lambda status: status.get("phase") == "Running")
    assert len(yard.events("long", "MaxDurationExceeded")) == 1


def test_a_job_without_a_queue_of_its_own_is_paused_too(yard: Yard) -> None:
    yard.set_queue("default", maxDuration="1h")
    try:
        main = {"name": "main", "image": "any", "command": list(WAITS)}
        pod = {"containers": [main], "terminationGracePeriodSeconds": 1}
        kind = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob"}
        roles = [{"type": "worker", "replicas": 1, "template": {"spec": pod}}]
        meta = {"metadata": {"name": "plain"}, "spec": {"replicaSpecs": roles}}
        yard.create("genericjobs", {**kind, **meta}, JOBS)
        yard.runs("plain")
        yard.set_queue("default", maxDuration="1s")
        yard.job_until("plain", lambda status: status.get("phase") == "Paused")
        yard.event("plain", "paused: plain-worker-0 is older", "MaxDurationExceeded")
    finally:
        yard.set_queue("default", maxDuration=None)


def test_plain_pods_that_are_too_old_are_deleted(yard: Yard) -> None:
    pod = grouped("old")
    pod["metadata"]["labels"] = {f"{LABEL}/queue": yard.queue("short", maxDuration="2s")}
    yard.create("pods", pod)
    yard.event("old", "old is older than the 2 s that queue", "MaxDurationExceeded")


def test_a_replica_of_a_taskset_that_is_too_old_has_failed(yard: Yard) -> None:
    queue = yard.queue("short", maxDuration="3s")
    box = {"name": "main", "image": "any", "command": ["python3", "-c", SAVES]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [box]}
    template = {"metadata": {"labels": {f"{LABEL}/queue": queue}}, "spec": pod}
    kind = {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet"}
    spec = {"roles": [{"name": "w", "replicas": 1, "template": template}]}
    yard.create("tasksets", {**kind, "metadata": {"name": "set"}, "spec": spec}, TASKSETS)
    over = ("Succeeded", "Failed")
    done = yard.until(
        "tasksets", "set", lambda each: (each.get("status") or {}).get("state") in over, TASKSETS
    )
    (row,) = done["status"]["roleStatus"][0]["replicaStatus"]
    assert done["status"]["state"] == "Failed", row
    assert row["terminatedInfo"]["reason"] == "MaxDurationExceeded", row


@pytest.mark.parametrize("name", ["taskset", "taskset-kube-batch"])
def test_the_tasksets_of_the_originals_run_as_written(yard: Yard, name: str) -> None:
    text = (ROOT / "tests" / "originals" / f"{name}.yaml").read_text()
    for document in yaml.safe_load_all(text):
        if document["kind"] == "PodGroup":
            yard.create("podgroups", document, BATCH)
        else:
            yard.create("tasksets", document, TASKSETS)
    if "batch" in name:
        group = yard.until(
            "podgroups", "pg-1", lambda group: group.get("status", {}).get("running") == 4, BATCH
        )
        assert scheduled(group)[0] == "PodGroupScheduled"
    done = yard.until(
        "tasksets",
        "tensorflowdemo",
        lambda each: (each.get("status") or {}).get("state") in ("Succeeded", "Failed"),
        TASKSETS,
    )
    assert done["status"]["state"] == "Succeeded"


def test_pause_gives_the_room_back_and_resume_waits_in_line(yard: Yard) -> None:
    yard.job("first", "default", 2, {"cpu": "150"})
    yard.runs("first")
    yard.job("second", "default", 2, {"cpu": "150"})
    yard.waits("second", Reason.WAITING_FOR_ROOM)
    path = yard.path("genericjobs", "first", JOBS)
    for is_paused in (True, False):
        body = {"spec": {"runMode": {"pause": {"enabled": is_paused}}}}
        assert yard.engine.ask("PATCH", path, body, content_type=PATCH).status == 200
        yard.runs("second")
    yard.waits("first", Reason.WAITING_FOR_ROOM)
    yard.delete("genericjobs", "second")
    yard.job_until("first", lambda status: status.get("readyReplicas") == 2)


def test_a_queue_that_is_closed_keeps_what_has_started(yard: Yard) -> None:
    queue = yard.queue("open")
    yard.job("job", queue, 2, {"cpu": "1"})
    before = yard.runs("job")
    yard.set_queue(queue, closed=True)
    query = f"fieldSelector=metadata.name%3D{queue}"
    yard.engine.until(
        f"{SCHEDULER}/queues",
        query,
        lambda each: condition(each, "QueueClosed").get("status") == "True",
    )
    yard.delete("pods", "job-worker-0", "/api/v1")
    yard.until(
        "pods",
        "job-worker-0",
        lambda pod: pod["metadata"]["uid"] != before["metadata"]["uid"] and phase(pod) == "Running",
    )


def test_what_the_machine_counts_as_is_said_in_one_line_and_told_by_its_node(yard: Yard) -> None:
    words = yard.engine.first_words.splitlines()
    (said,) = (line for line in words if line.startswith("the machine counts as more than it has"))
    assert "cpu 300 (has " in said
    (node,) = yard.engine.ask("GET", "/api/v1/nodes").json["items"]
    has = node["status"]["allocatable"]
    assert (has["cpu"], has["memory"], has["nvidia.com/gpu"]) == ("300", "300Gi", "8")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu", "'cpu': must be RESOURCE=AMOUNT"),
        ("cpu=1,cpu=2", "each resource once"),
        ("cpu=many", '"many" is not a quantity'),
        ("cpu=-1", "must be from 0 to 1Ei"),
        ("nvidia.com/gpu=0.5", "must be a whole number"),
        ("a b=1", "must be RESOURCE=AMOUNT"),
    ],
)
@pytest.mark.parametrize("command", [("up",), ("run", "none.yaml")], ids=["up", "run"])
def test_a_capacity_that_is_none_is_refused(
    queueing: RunningEngine, command: tuple[str, ...], text: str, says: str
) -> None:
    done = queueing.who.ask(*command, "--capacity", text)
    assert done.returncode == 2
    assert says in done.stderr.replace("\n", " ")


FILE = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: relaxed}
spec:
  scheduler: {t9kScheduler: {queue: of-the-cluster, priority: 5}}
  replicaSpecs:
    - type: worker
      replicas: 3
      template:
        spec:
          containers:
            - name: main
              image: any
              command: [echo, placed]
              resources: {requests: {cpu: "4000"}}
"""


def test_run_takes_a_job_of_a_clusters_queue_as_it_is(queueing: RunningEngine) -> None:
    path = queueing.who.write("relaxed.yaml", FILE)
    done = queueing.who.run("run", "--runtime", "host", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| placed") == 3


def test_without_preemption_a_higher_queue_waits() -> None:
    with person(is_ordinary=False) as who:
        folder = who.home / "engine"
        words = ("--runtime", "host", "--capacity", "cpu=4", "--data-dir", str(folder))
        started = who.run("up", "--detach", "--no-preemption", *words)
        assert started.returncode == 0, started.stderr
        yard = Yard(RunningEngine(who, folder))
        low, high = yard.queue("low", priority=1), yard.queue("high", priority=2)
        yard.queued("first", low, 4)
        yard.runs("first")
        yard.queued("second", high, 2)
        assert yard.waits("second", Reason.WAITING_FOR_ROOM) == "needs cpu 2; 0 of 4 are free"
        assert not yard.events("first-worker-0", "Preempted")
        assert who.run("down", "--data-dir", str(folder)).returncode == 0
