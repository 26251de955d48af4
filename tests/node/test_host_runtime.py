"""Pods as plain processes of the machine: addresses rewritten, ports shared, the rest refused."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.kube.plane import ControlPlane
from rig.person import MARK, Person, person
from rig.places import ROOT
from rig.waiting import run, until, until_it_holds

from jobyard.client.credentials.locating import cluster_of
from jobyard.client.request import PODS, SERVICES, delete
from jobyard.client.transport import Transport
from jobyard.node.network.host_ports import (
    FIRST_NUMBER,
    LAST_NUMBER,
    HostPorts,
    NoPortError,
    Reservations,
    is_free,
)
from jobyard.node.network.services import Service, service_of
from jobyard.node.objects.pod_object import pod_from
from jobyard.node.ordering.host_names import HostNames
from jobyard.node.ordering.loopback import Ports, Rewriting
from jobyard.node.runtime.host_runtime import HostRuntime
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import (
    Check,
    ContainerOrder,
    HttpGet,
    PodOrder,
    PortGrant,
    Probe,
    Probes,
)
from jobyard.node.shared.runtime import Runtime
from node.test_node_agent import Scene

EXAMPLES = ROOT / "examples"
FOLDERS = (
    "genericjob",
    "pytorchtrainingjob",
    "tensorflowtrainingjob",
    "xgboosttrainingjob",
    "taskset",
)
SUCCEEDING = (
    "genericjob/immediate",
    "genericjob/rules",
    "genericjob/always",
    "genericjob/ring",
    "genericjob/queue",
    "pytorchtrainingjob/env",
    "pytorchtrainingjob/exit-code",
    "tensorflowtrainingjob/multi-worker",
    "taskset/ps-worker",
    "taskset/retries",
    "taskset/event-policies",
)
FAILING = "genericjob/failure", "taskset/completed"
# A program or data at a path that the machine doesn't have.
MOUNTING = (
    "genericjob/allreduce",
    "genericjob/checkpoint",
    "genericjob/master-worker",
    "pytorchtrainingjob/ps",
    "pytorchtrainingjob/tensorboard",
    "tensorflowtrainingjob/parameter-server",
    "xgboosttrainingjob/immediate",
)
SSH = "mpijob/hostname", "deepspeedjob/python", "colossalaijob/immediate"


# Names.


def service(name: str, *ports: int, namespace: str = "lab", **spec: Any) -> Service:
    whole = {"ports": [{"port": port} for port in ports], **spec}
    value = {"metadata": {"name": name, "namespace": namespace}, "spec": whole}
    return service_of(json.dumps(value).encode())


def pod(name: str, **labels: str) -> Any:
    return pod_from({"metadata": {"name": name, "namespace": "lab", "uid": name, "labels": labels}})


NAMES = HostNames(
    "lab",
    [
        service("train", clusterIP="None"),
        service("train-0", 7000),
        service("db", 5432, clusterIP="10.96.0.7"),
        service("far", 80, namespace="office"),
    ],
    [pod("lonely-3")],
)


@pytest.mark.parametrize(
    ("word", "owner"),
    [
        ("train-0", "lab/train-0"),
        ("train-0.lab", "lab/train-0"),
        ("train-0.lab.svc", "lab/train-0"),
        ("train-0.lab.svc.cluster.local", "lab/train-0"),
        # A pod's host name before the domain of its job, also of a pod that isn't there yet.
        ("train-worker-1.train", "lab/train-worker-1"),
        ("train-worker-1.train.lab", "lab/train-worker-1"),
        ("train-worker-1.train.lab.svc.cluster.local", "lab/train-worker-1"),
        ("10.96.0.7", "lab/db"),
        ("far.office", "office/far"),
        ("far.office.svc.cluster.local", "office/far"),
        # A domain for pods is no address itself: jobs are called like it.
        ("train", None),
        ("far", None),
        ("lonely-3", None),
        ("example.org", None),
        ("train-0.example", None),
        ("10.96.0.8", None),
    ],
)
def test_names_of_pods_and_services(word: str, owner: str | None) -> None:
    meant = NAMES.meant(word, has_port=False)
    assert (meant.owner if meant else None) == owner


def test_with_a_port_a_lone_word_is_an_address() -> None:
    for word in ("train", "lonely-3"):
        meant = NAMES.meant(word, has_port=True)
        assert meant is not None
        assert meant.owner == f"lab/{word}"


# Rewriting.


def rewritten(
    *argv: str, own: str = "me", declared: tuple[int, ...] = (), **env: str
) -> ContainerOrder:
    """Somebody's port p is 10000 + p, the pod's own is 20000 + p."""
    ports = Ports(
        of=lambda _owner, port: 10000 + port,
        own=lambda port: 20000 + port,
        declared=frozenset(declared),
        names=frozenset({f"lab/{own}"}),
    )
    order = ContainerOrder(name="main", argv=("sh", *argv), env=env)
    return Rewriting(NAMES, ports).container(order, {"HOSTNAME"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("train-0:7000", "127.0.0.1:17000"),
        ("http://train-0:7000/path", "http://127.0.0.1:17000/path"),
        ("http://db.lab.svc/path", "http://127.0.0.1/path"),
        ("tcp://10.96.0.7:5432", "tcp://127.0.0.1:15432"),
        ("user:secret@db:5432", "user:secret@127.0.0.1:15432"),
        ("train-0,db", "127.0.0.1,127.0.0.1"),
        ("a.train:1234 me.train:1234", "127.0.0.1:11234 127.0.0.1:21234"),
        (
            '{"ps": ["a.train:2222", "b.train:2222"]}',
            '{"ps": ["127.0.0.1:12222", "127.0.0.1:12222"]}',
        ),
        # None of ours, or no address at all.
        ("example.org:443", "example.org:443"),
        ("train", "train"),
        ("xtrain-0:7000", "xtrain-0:7000"),
        ("train-0x:7000", "train-0x:7000"),
        ("/data/train-0/part", "/data/train-0/part"),
        ("runs/train-0", "runs/train-0"),
        ("the db is down", "the db is down"),
    ],
)
def test_values_of_variables(value: str, expected: str) -> None:
    assert rewritten(SOME=value).env["SOME"] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"MASTER_ADDR": "a.train", "MASTER_PORT": "29500"}, {"MASTER_PORT": "39500"}),
        ({"MASTER_ADDR": "me.train", "MASTER_PORT": "9500"}, {"MASTER_PORT": "29500"}),
        ({"DB_HOST": "10.96.0.7", "DB_PORT_SQL": "5432"}, {"DB_PORT_SQL": "15432"}),
        ({"DB_HOST": "db.example.org", "DB_PORT": "5432"}, {"DB_PORT": "5432"}),
        # Its own, since its service or container has such a port.
        ({"PORT": "7777"}, {"PORT": "27777"}),
        ({"OTHER_PORT": "7778"}, {"OTHER_PORT": "7778"}),
        ({"EPOCHS": "7777"}, {"EPOCHS": "7777"}),
        # One number for many hosts can only be its own.
        ({"WORKER_ADDRS": "a.train,b.train", "WORKER_PORT": "99"}, {"WORKER_PORT": "20099"}),
        # Who somebody is, not where.
        ({"HOSTNAME": "train-0"}, {"HOSTNAME": "train-0"}),
        ({"POD_NAME": "train-0"}, {"POD_NAME": "train-0"}),
    ],
)
def test_ports_in_variables_of_their_own(given: dict[str, str], expected: dict[str, str]) -> None:
    out = rewritten(declared=(7777,), **given).env
    assert {name: out[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("train-0 7000 2", "127.0.0.1 17000 2"),
        ("7777 2", "27777 2"),
        ("--host train-0 --port 7000", "--host 127.0.0.1 --port 17000"),
        ("--addr=a.train --master_port=295 --n=7", "--addr=127.0.0.1 --master_port=10295 --n=7"),
        ("--epochs 7777 --port=7777", "--epochs 7777 --port=27777"),
        ("--endpoint=a.train:295", "--endpoint=127.0.0.1:10295"),
    ],
)
def test_words_of_commands(words: str, expected: str) -> None:
    assert rewritten(*words.split(), declared=(7777,)).argv[1:] == tuple(expected.split())


def test_texts_in_commands() -> None:
    script = "nc train-0 7000 </data/train-0/x; db --for db train-0 5 # a.train:80"
    assert rewritten(script).argv[1] == (
        "nc 127.0.0.1 17000 </data/train-0/x; db --for db 127.0.0.1 5 # 127.0.0.1:10080"
    )


def test_probes_go_where_the_pod_was_told_to_listen() -> None:
    ports = Ports(
        of=lambda _, port: port,
        own=lambda port: 20000 + port,
        declared=frozenset({80, 81}),
        names=frozenset(),
    )
    order = ContainerOrder(
        name="main",
        argv=("serve", "80"),
        env={},
        probes=Probes(
            liveness=Probe(check=Check(tcp_port=81)),
            readiness=Probe(check=Check(http=HttpGet(port=80))),
        ),
    )
    rewriting = Rewriting(NAMES, ports)
    out = rewriting.checks(rewriting.container(order, ()))
    assert out.argv == ("serve", "20080")
    assert out.probes.readiness is not None
    assert out.probes.readiness.check.http == HttpGet(port=20080)
    # Nobody told the program another number for this one.
    assert out.probes.liveness is not None
    assert out.probes.liveness.check.tcp_port == 81


# Ports.


def table(*dead: str, taken: tuple[int, ...] = ()) -> HostPorts:
    return HostPorts(lambda uid: uid not in dead, lambda number: number not in taken)


def test_everybody_is_told_the_same_number() -> None:
    ports = table()
    assert ports.take("u1", "lab/a", 7000) == 7000
    second = ports.take("u1", "lab/b", 7000)
    assert FIRST_NUMBER <= second <= LAST_NUMBER
    assert ports.take("u2", "lab/b", 7000) == second
    assert ports.take_own("ub", "lab/b", (), 7000) == second
    # It follows from the names, not from who came when.
    again = table()
    again.take("x", "lab/z", 7000)
    assert again.take("x", "lab/b", 7000) == second


def test_a_number_that_is_taken_is_not_given() -> None:
    first = table(taken=(7000,)).take("u", "lab/a", 7000)
    assert first != 7000
    assert table(taken=(7000, first)).take("u", "lab/a", 7000) not in (7000, first)
    everything = HostPorts(lambda _: True, lambda _: False)
    with pytest.raises(NoPortError, match="port 7000 of lab/a"):
        everything.take("u", "lab/a", 7000)


def test_engines_beside_each_other_give_each_number_once() -> None:
    """Also while nobody listens yet, which is when it looks free."""
    # Any numbers will do that no engine on this machine gives by itself.
    ports = random.SystemRandom().sample(range(40_000, 60_000), 3)
    first, second, third = Reservations(), Reservations(), Reservations()

    def engine(reservations: Reservations) -> HostPorts:
        return HostPorts(lambda _: True, lambda _: True, reservations)

    ours, theirs = engine(first), engine(second)
    try:
        given = [ours.take("u", "lab/a", port) for port in ports]
        assert not set(given) & {theirs.take("u", "lab/a", port) for port in ports}
        # By who is gone, and by who has ended.
        grants = ours.grants("u")
        ours.release("u")
        assert [theirs.take("u", "lab/b", port) for port in ports] == given
        second.close()
        assert [engine(third).take("u", "lab/c", port) for port in ports] == given
        # A new engine keeps what the one before gave, whatever else has happened.
        ours.adopt("u", grants)
        assert [ours.take("u", "lab/a", port) for port in ports] == given
    finally:
        for each in (first, second, third):
            each.close()


def test_whether_a_number_is_free_is_asked_of_the_machine() -> None:
    let_go = []
    for _ in range(20):
        with socket.create_server(("127.0.0.1", 0)) as server:
            let_go.append(server.getsockname()[1])
            assert not is_free(let_go[-1])
    # Others of the machine may have taken one by now, but not all of them.
    assert any(is_free(number) for number in let_go)


def test_a_service_leads_to_the_first_pod_behind_it() -> None:
    ports = table("dead")
    told = ports.take("client", "lab/web", 80)
    assert ports.take_own("w0", "lab/w-0", ["lab/web"], 80) == told
    assert ports.take("client", "lab/w-0", 80) == told
    assert ports.take_own("w1", "lab/w-1", ["lab/web"], 80) != told
    # One that has ended makes room for its successor.
    ports.take_own("dead", "lab/d-0", ["lab/dead"], 81)
    assert ports.take_own("next", "lab/d-1", ["lab/dead"], 81) == ports.take("c", "lab/dead", 81)


def test_what_was_told_is_kept_and_given_back() -> None:
    ports = table()
    ports.take("u1", "lab/a", 7000)
    ports.take_own("u2", "lab/a", (), 7000)
    assert ports.grants("u1") == (PortGrant(owner="lab/a", port=7000, number=7000),)
    assert ports.grants("u2") == (PortGrant(owner="lab/a", port=7000, number=7000, is_own=True),)

    after = table(taken=(7000,))
    after.adopt("u1", ports.grants("u1"))
    assert after.take_own("u3", "lab/a", (), 7000) == 7000
    after.release("u1")
    assert after.take("u4", "lab/a", 7000) == 7000
    after.release("u3")
    after.release("u4")
    assert after.take("u5", "lab/a", 7000) != 7000


# With the agent, on a real API server.


class HostScene(Scene):
    """A scene whose pods are plain processes."""

    def __init__(self, transport: Transport, namespace: str, data: Path) -> None:
        super().__init__(transport, namespace, data)
        setup = msgspec.structs.replace(self.options.setup, host_address="127.0.0.1", gateway="")
        self.options = msgspec.structs.replace(self.options, setup=setup, network=None)
        self.plain: Runtime = HostRuntime(data)
        self.runtime = self.plain  # type: ignore[assignment]

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.plain.close(stop_everything=False)
        self.plain = HostRuntime(self.data)
        self.runtime = self.plain  # type: ignore[assignment]

    def numbers(self, pod: dict[str, Any]) -> dict[tuple[str, int], int]:
        text = PodFolder(self.data, pod["metadata"]["uid"]).order.read_bytes()
        order = msgspec.json.decode(text, type=PodOrder)
        return {(grant.owner, grant.port): grant.number for grant in order.ports}


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Names of sockets have at most 108 characters; pytest's own folders leave too few."""
    path = Path(tempfile.mkdtemp(prefix="jy-"))
    yield path
    shutil.rmtree(path)


SERVE = """
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
http.server.HTTPServer(("", int(os.environ["PORT"])), Answer).serve_forever()
"""
ASK = """
import os, urllib.request
for place in os.environ["PLACES"].split():
    while True:
        try:
            print(urllib.request.urlopen(f"http://{place}/", timeout=5).read().decode())
            break
        except OSError:
            pass
"""


def test_pods_find_one_another_and_a_new_engine_says_the_same(
    control_plane: ControlPlane, namespace: str, short_folder: Path
) -> None:
    async def play() -> None:
        async with Transport(cluster_of(control_plane.kubeconfig)) as transport:
            scene = HostScene(transport, namespace, short_folder)
            await scene.begin()
            try:
                await act(scene)
            finally:
                await scene.end()

    run(play())


async def act(scene: HostScene) -> None:
    # Two servers on the same port, and a third service that leads to either.
    for name in ("web-0", "web-1", "web"):
        label = {"server": name} if name != "web" else {"app": "web"}
        spec = {"clusterIP": "None", "selector": label, "ports": [{"port": 28080}]}
        await scene.make(SERVICES, name, spec=spec)
    for name in ("web-0", "web-1"):
        await scene.pod(
            name,
            *("python3", "-c", SERVE),
            main={
                "env": [{"name": "PORT", "value": "28080"}],
                "readinessProbe": {"tcpSocket": {"port": 28080}, "periodSeconds": 1},
            },
            metadata={"labels": {"server": name, "app": "web"}},
        )

    async def ask(name: str, places: str) -> str:
        env = [{"name": "PLACES", "value": places}]
        await scene.pod(name, "python3", "-c", ASK, main={"env": env})
        await scene.phase(name, "Succeeded")
        return await scene.log(name)

    places = f"web-1:28080 web-0.{scene.namespace}.svc.cluster.local:28080"
    assert await ask("first", places) == "web-1\nweb-0\n"
    assert await ask("either", "web:28080") in ("web-0\n", "web-1\n")

    async def are_ready() -> bool:
        found = [await scene.found(PODS, name) for name in ("web-0", "web-1")]
        conditions = [(each or {})["status"].get("conditions", ()) for each in found]
        ready = [(c["type"], c["status"]) for each in conditions for c in each]
        return ready.count(("Ready", "True")) == 2

    await until(are_ready)
    before = await scene.phase("web-1", "Running")
    assert before["status"]["podIP"] == "127.0.0.1"

    # By the port that its manifest names, whatever number stands for it.
    reader, writer = await scene.agent.kubelet.connect(before, 28080)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"web-1")
    writer.close()
    await writer.wait_closed()

    told = scene.numbers(await scene.phase("first", "Succeeded"))
    assert len(set(told.values())) == 2
    await scene.kill()
    await scene.begin()
    assert await ask("second", places) == "web-1\nweb-0\n"
    assert scene.numbers(await scene.phase("second", "Succeeded")) == told

    # A replica that comes anew has the port of the one before.
    await scene.send(delete(PODS, scene.namespace, "web-1"))
    await scene.gone("web-1")
    env = [{"name": "PORT", "value": "28080"}]
    labels = {"labels": {"server": "web-1", "app": "web"}}
    await scene.pod("web-1", "python3", "-c", SERVE, main={"env": env}, metadata=labels)
    assert await ask("third", places) == "web-1\nweb-0\n"
    assert scene.numbers(await scene.phase("third", "Succeeded")) == told


# The whole command.


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def outcome(who: Person, *names: str) -> dict[str, dict[str, Any]]:
    """All at once on one engine; the jobs by the name of their file."""
    paths = [str(EXAMPLES / f"{name}.yaml") for name in names]
    done = who.run("run", "--runtime", "host", "-o", "json", *paths, seconds=120)
    assert done.returncode in (0, 1), done.stderr
    jobs = json.loads(done.stdout)["jobs"]
    assert len(jobs) == len(names)
    assert who.processes() == {}
    return dict(zip(names, jobs, strict=True))


@pytest.mark.long
def test_examples_run_to_their_end_side_by_side(somebody: Person) -> None:
    found = outcome(somebody, *SUCCEEDING, *FAILING)
    for name, job in found.items():
        assert job["phase"] == ("Failed" if name in FAILING else "Succeeded"), (name, job)


def test_what_needs_a_sandbox_is_refused_by_name(somebody: Person) -> None:
    found = outcome(somebody, *MOUNTING, *SSH)
    for name, job in found.items():
        assert job["phase"] == "Failed", (name, job)
        told = " ".join(replica["message"] for replica in job["replicas"])
        assert "needs the sandbox runtime" in told, (name, job)
        assert ("ssh" in told) == (name in SSH), (name, told)


WAITING = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: job}}
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 2
        containers:
        - name: main
          image: any
          env: [{{name: {mark}, value: {value}}}]
          command: [sh, -c, "sleep 1000 & (setsid sleep 1000 &) ; echo up; wait"]
"""


@pytest.mark.parametrize("is_ordinary", [False, True], ids=["whoever runs the tests", "a user"])
def test_interrupted_is_130_with_no_process_left(is_ordinary: bool) -> None:
    """Also none in a session of its own, without a PID namespace that would end it."""
    with person(is_ordinary=is_ordinary) as who:
        path = who.write("job.yaml", WAITING.format(mark=MARK, value=who.mark))

        def sleeping() -> bool:
            words = [each.strip() for each in who.processes().values()]
            return words.count("sleep 1000") == 4

        running = who.start("run", "--runtime", "host", str(path))
        try:
            until_it_holds(sleeping, "both replicas and what they left behind are there")
        finally:
            os.killpg(running.pid, signal.SIGINT)
            said, _ = running.communicate(timeout=60)
        assert running.returncode == 130, said
        assert who.processes() == {}


def test_every_example_that_needs_no_framework_is_accounted_for() -> None:
    table = (EXAMPLES / "README.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in table if line.startswith("| [")]
    wanted = set()
    for _, link, _, mode, _, needs, _ in rows:
        name = link.partition("[")[2].partition(".yaml]")[0]
        # Those that wait for somebody are the same programs, started later.
        if mode.startswith("immediate") and not needs.replace("TensorBoard, to see it", ""):
            wanted.add(name)
    wanted = {name for name in wanted if name.partition("/")[0] in FOLDERS}
    assert wanted == {*SUCCEEDING, *FAILING, *MOUNTING}
