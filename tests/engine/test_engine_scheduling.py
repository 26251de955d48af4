"""The scheduler's shell on the embedded server: the node object counts, and nothing ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.waiting import until

from jobyard.client.backoff import Backoff
from jobyard.client.request import NODES, PODS, Answer, Request, create, delete, get, merge_patch
from jobyard.engine.in_process import InProcess
from jobyard.engine.own_crds import install_own_crds
from jobyard.engine.scheduling import scheduler as scheduling
from jobyard.engine.scheduling.devices import DEVICES
from jobyard.engine.scheduling.scheduler import Scheduler
from jobyard.engine.scheduling.seen import SeenPod
from jobyard.schedule import looking
from jobyard.schedule.amounts import Amounts
from jobyard.schedule.deciding import decide
from jobyard.schedule.decision import Decision
from jobyard.schedule.fitness import bar
from jobyard.schedule.reasons import Why
from jobyard.schedule.snapshot import Candidate, Machine, QueueFacts, Snapshot
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server
from jobyard.server.store.journal import Batch

DEADLINE_SECONDS = 60
SOON = Backoff(first_seconds=0.01, max_seconds=0.01)
MACHINE = Machine(
    name="here",
    capacity=Amounts.of({"cpu": "4", "memory": "8Gi", "pods": 110, "nvidia.com/gpu": 2}),
    labels={"kubernetes.io/hostname": "here"},
)
Refuses = Callable[[Request], Answer | None]


class Faulty:
    """A sender that answers some requests itself; all others reach the server."""

    def __init__(self, sender: InProcess) -> None:
        self._sender = sender
        self.refuses: Refuses = lambda request: None

    async def send(self, request: Request) -> Answer:
        return self.refuses(request) or await self._sender.send(request)

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.lines(request)

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.chunks(request)


class Yard:
    """A server, a scheduler, and how to speak to both."""

    def __init__(self, live: LiveServer, sender: Faulty) -> None:
        self.live = live
        self.sender = sender

    async def ask(self, request: Request) -> dict[str, Any]:
        answer = await self.sender.send(request)
        assert answer.is_ok, answer.problem
        found: dict[str, Any] = msgspec.json.decode(answer.body)
        return found

    async def node(self, **spec: Any) -> None:
        await self.ask(merge_patch(NODES, "", "here", {"spec": spec}))

    async def pod(self, name: str, gpus: int = 0, **spec: Any) -> None:
        limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
        box = {"name": "main", "image": "none", "resources": limits}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        await self.ask(create(PODS, "default", {**pod, "spec": {"containers": [box], **spec}}))

    async def until(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The pod, once it is as wanted."""
        selector = (("watch", "true"), ("fieldSelector", f"metadata.name={name}"))
        path = PODS.collection("default")
        async for line in self.sender.lines(Request(method="GET", path=path, query=selector)):
            found: dict[str, Any] = msgspec.json.decode(line)["object"]
            if holds(found):
                return found
        raise AssertionError("the watch ended")

    async def bound(self, name: str) -> dict[str, Any]:
        return await self.until(name, lambda pod: pod["spec"].get("nodeName") == "here")

    async def waits(self, name: str) -> str:
        """What the pod is told, once it is told why it waits."""
        pod = await self.until(name, lambda pod: bool(conditions(pod)))
        return str(conditions(pod)["PodScheduled"]["message"])


def conditions(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["type"]: each for each in pod.get("status", {}).get("conditions") or ()}


@asynccontextmanager
async def served(path: Path | None = None) -> AsyncIterator[LiveServer]:
    """A server that has Jobyard's kinds."""
    server = open_server(path)
    async with LiveServer(server) as live:
        install_own_crds(server)
        await live.settled()
        yield live
    if path is not None:
        server.store.journal.close()


def by_hand(sender: Faulty) -> Scheduler:
    """A scheduler that is told of pods by its test, and of all else that there is nothing."""
    relaxed = msgspec.structs.replace(MACHINE, is_relaxed=True)
    scheduler = Scheduler(sender, relaxed, backoff=SOON)
    for view in scheduler.views:
        view.replaced((), "1")
    return scheduler


@asynccontextmanager
async def scheduled(machine: Machine = MACHINE) -> AsyncIterator[Yard]:
    async with served() as live:
        sender = Faulty(InProcess(live))
        yard = Yard(live, sender)
        metadata = {"name": machine.name, "labels": dict(machine.labels)}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        await yard.ask(create(NODES, "", node))
        running = asyncio.create_task(Scheduler(sender, machine, backoff=SOON).run())
        try:
            yield yard
        finally:
            assert not running.done(), running
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


def play(story: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(story(), DEADLINE_SECONDS))


def test_a_label_of_the_node_brings_those_that_select_it() -> None:
    async def story() -> None:
        async with scheduled() as yard:
            await yard.pod("a", nodeSelector={"disk": "fast"})
            assert "didn't match Pod's node affinity/selector" in await yard.waits("a")
            patch = {"metadata": {"labels": {"disk": "fast"}}}
            await yard.ask(merge_patch(NODES, "", "here", patch))
            await yard.bound("a")

    play(story)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"unschedulable": True}, "1 node(s) were unschedulable"),
        (
            {"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]},
            "1 node(s) had untolerated taint {gpu: only}",
        ),
    ],
    ids=["cordoned", "tainted"],
)
def test_nobody_is_placed_on_a_node_that_is_closed(spec: dict[str, Any], why: str) -> None:
    async def story() -> None:
        async with scheduled() as yard:
            await yard.node(**spec)
            await yard.pod("a")
            told = await yard.waits("a")
            assert told == f"NodeSelectorMismatch: 0/1 nodes are available: {why}."
            await yard.node(**dict.fromkeys(spec))
            await yard.bound("a")

    play(story)


def test_a_node_that_was_closed_before_the_engine_began_stays_closed() -> None:
    async def story() -> None:
        async with served() as live:
            sender = Faulty(InProcess(live))
            yard = Yard(live, sender)
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}}
            await yard.ask(create(NODES, "", {**node, "spec": {"unschedulable": True}}))
            await yard.pod("a")
            running = asyncio.create_task(Scheduler(sender, MACHINE, backoff=SOON).run())
            assert "unschedulable" in await yard.waits("a")
            # Its agent makes the object anew, and the machine was there all the time.
            await yard.ask(delete(NODES, "", "here"))
            await yard.bound("a")
            running.cancel()

    play(story)


def test_a_reason_is_an_event_once_also_if_the_scheduler_is_started_again() -> None:
    async def story() -> None:
        async with served() as live:
            yard = Yard(live, Faulty(InProcess(live)))
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}}
            await yard.ask(create(NODES, "", node))
            await yard.pod("a", nodeSelector={"disk": "fast"})
            told: list[str] = []
            writes: list[str] = []

            def noted(request: Request) -> None:
                if request.method == "POST" and request.path.endswith("/events"):
                    told.append(msgspec.json.decode(request.body or b"")["involvedObject"]["name"])
                if request.method == "PATCH" and request.path.endswith("/status"):
                    writes.append(request.path.split("/")[-2])

            yard.sender.refuses = noted
            # The first has told of the one before once it has told of the next.
            for last in ("b", "c"):
                running = asyncio.create_task(Scheduler(yard.sender, MACHINE, backoff=SOON).run())
                await yard.waits("a")
                await yard.pod(last, nodeSelector={"disk": "fast"})
                await yard.waits(last)
                await until(lambda last=last: _is_in(last, told))
                running.cancel()
            assert told == ["a", "b", "c"]
            assert [name for name in writes if len(name) == 1] == ["a", "b", "c"]

    play(story)


async def _is_in(name: str, told: list[str]) -> bool:
    return name in told


def test_relaxed_the_node_object_does_not_count() -> None:
    async def story() -> None:
        async with scheduled(msgspec.structs.replace(MACHINE, is_relaxed=True)) as yard:
            await yard.node(unschedulable=True)
            await yard.pod("a")
            await yard.bound("a")

    play(story)


def test_a_binding_that_is_refused_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    refused = Answer(500, b'{"kind":"Status","message":"not now","code":500}')
    left = [refused] * 3

    def busy(request: Request) -> Answer | None:
        return left.pop() if left and request.path.endswith("/binding") else None

    async def story() -> None:
        async with scheduled() as yard:
            yard.sender.refuses = busy
            await yard.pod("a")
            await yard.bound("a")

    play(story)
    assert not left
    assert caplog.text.count("binding default/a: ") == 3


def test_one_pod_that_nobody_understands_keeps_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def puzzled(machine: Machine, queue: QueueFacts | None, pod: Candidate) -> Why | None:
        if pod.name == "odd":
            raise ValueError("never seen the like")
        return bar(machine, queue, pod)

    async def story() -> None:
        async with scheduled() as yard:
            await yard.pod("odd")
            why = await yard.waits("odd")
            assert why == "the scheduler can't judge this pod: ValueError: never seen the like"
            await yard.pod("plain")
            await yard.bound("plain")

    monkeypatch.setattr(looking, "bar", puzzled)
    play(story)


@pytest.mark.parametrize("devices", ["9" * 4_400, "²", "-1", "0x1", f"1,{'9' * 20},0"])
def test_devices_that_are_none_keep_nobody_from_a_place(devices: str) -> None:
    async def story() -> None:
        async with scheduled() as yard:
            about = {"name": "odd", "annotations": {DEVICES: devices}}
            box = {"name": "main", "image": "none"}
            odd = {"apiVersion": "v1", "kind": "Pod", "metadata": about}
            await yard.ask(create(PODS, "default", {**odd, "spec": {"containers": [box]}}))
            await yard.bound("odd")
            await yard.pod("plain")
            await yard.bound("plain")

    play(story)


def test_a_pod_that_cannot_be_read_is_told_so_and_the_others_are_placed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server that says of a pod what none does: it has no uid."""
    odd = {"metadata": {"name": "odd", "namespace": "default", "resourceVersion": "1"}, "spec": {}}
    told: list[dict[str, Any]] = []
    lists: list[str] = []

    def strange(request: Request) -> Answer | None:
        if request.method == "POST" and request.path.endswith("/events"):
            told.append(msgspec.json.decode(request.body or b""))
        if request.method == "GET" and request.path == PODS.path and not lists:
            lists.append(request.path)
            page = {"metadata": {"resourceVersion": "1"}, "items": [odd]}
            return Answer(200, msgspec.json.encode(page))
        return None

    async def story() -> None:
        async with served() as live:
            sender = Faulty(InProcess(live))
            sender.refuses = strange
            yard = Yard(live, sender)
            machine = msgspec.structs.replace(MACHINE, is_relaxed=True)
            running = asyncio.create_task(Scheduler(sender, machine, backoff=SOON).run())
            try:
                await yard.pod("plain")
                await yard.bound("plain")
            finally:
                assert not running.done(), running
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    play(story)
    assert caplog.text.count("Pod default/odd can't be read: ") == 1
    (event,) = [each for each in told if each["involvedObject"]["name"] == "odd"]
    assert event["reason"] == "FailedScheduling"
    assert "missing required field `uid`" in event["message"]


def test_whatever_goes_wrong_the_next_pod_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [RuntimeError("once"), RuntimeError("twice")]

    def breaks(snapshot: Snapshot) -> Decision:
        if faults:
            raise faults.pop()
        return decide(snapshot)

    async def story() -> None:
        async with scheduled() as yard:
            await yard.pod("a")
            await yard.bound("a")

    monkeypatch.setattr(scheduling, "decide", breaks)
    play(story)
    assert not faults


def test_no_device_is_given_twice_however_late_the_watch_tells() -> None:
    """The scheduler is told by hand: of the binding it hears nothing, and then old news."""

    async def story() -> None:
        async with served() as live:
            yard = Yard(live, Faulty(InProcess(live)))
            scheduler = by_hand(yard.sender)
            decode = msgspec.json.Decoder(SeenPod).decode

            async def seen(name: str) -> SeenPod:
                return decode((await yard.sender.send(get(PODS, "default", name))).body)

            devices = {}
            for name in ("a", "b"):
                await yard.pod(name, gpus=1)
                fresh = await seen(name)
                scheduler.pods.changed(fresh)
                assert (await scheduler.place())[0]
                # Something that was written before the binding, and is told only now.
                scheduler.pods.changed(fresh)
                devices[name] = ((await seen(name)).metadata.annotations or {})[DEVICES]
            assert devices == {"a": "0", "b": "1"}
            for name in devices:
                scheduler.pods.changed(await seen(name))
            assert not scheduler.pods.bound

    play(story)


@pytest.mark.parametrize("devices", ["0,1", "1", "0,0", "7"])
def test_devices_that_somebody_wrote_are_not_believed(devices: str) -> None:
    """Neither before a pod is placed nor after it."""

    async def story() -> None:
        async with scheduled() as yard:
            about = {"name": "greedy", "annotations": {DEVICES: devices}}
            box = {"name": "main", "image": "none"}
            greedy = {"apiVersion": "v1", "kind": "Pod", "metadata": about}
            await yard.ask(create(PODS, "default", {**greedy, "spec": {"containers": [box]}}))
            placed = await yard.bound("greedy")
            assert placed["metadata"]["annotations"][DEVICES] == ""
            await yard.pod("first", gpus=1)
            assert (await yard.bound("first"))["metadata"]["annotations"][DEVICES] == "0"
            lie = {"metadata": {"annotations": {DEVICES: devices}}}
            for name in ("greedy", "first"):
                await yard.ask(merge_patch(PODS, "default", name, lie))
            await yard.pod("second", gpus=1)
            assert (await yard.bound("second"))["metadata"]["annotations"][DEVICES] == "1"

    play(story)


def test_devices_that_can_not_be_are_not_believed_of_pods_from_before() -> None:
    async def story() -> None:
        async with served() as live:
            yard = Yard(live, Faulty(InProcess(live)))
            scheduler = by_hand(yard.sender)
            decode = msgspec.json.Decoder(SeenPod).decode
            for name, gpus, devices in (("none", 0, "0,1"), ("one", 1, "0,1"), ("its", 1, "1")):
                await yard.pod(name, gpus=gpus, nodeName="here")
                said = {"metadata": {"annotations": {DEVICES: devices}}}
                await yard.ask(merge_patch(PODS, "default", name, said))
            await yard.pod("new", gpus=1)
            for name in ("none", "one", "its", "new"):
                found = await yard.sender.send(get(PODS, "default", name))
                scheduler.pods.changed(decode(found.body))
            assert (await scheduler.place())[0]
            new = decode((await yard.sender.send(get(PODS, "default", "new"))).body)
            assert (new.metadata.annotations or {})[DEVICES] == "0"

    play(story)


def test_pods_that_are_placed_together_reach_the_disk_together(tmp_path: Path) -> None:
    async def story() -> None:
        async with served(tmp_path / "store.sqlite") as live:
            yard = Yard(live, Faulty(InProcess(live)))
            scheduler = by_hand(yard.sender)
            # The queue of those that name none is there from the start.
            assert (await scheduler.place())[0]
            decode = msgspec.json.Decoder(SeenPod).decode
            for number in range(20):
                await yard.pod(f"pod-{number}")
                found = await yard.sender.send(get(PODS, "default", f"pod-{number}"))
                scheduler.pods.changed(decode(found.body))
            journal, batches = live.server.store.journal, []
            write = journal.write

            def counted(batch: Batch) -> None:
                batches.append(len(batch.revisions))
                write(batch)

            journal.write = counted  # type: ignore[method-assign]
            assert (await scheduler.place())[0]
            assert sum(batches) == 20
            assert len(batches) <= 2, batches

    play(story)
