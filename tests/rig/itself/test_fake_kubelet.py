"""The fake kubelet of the rig: pods on a real API server live the lives that a test wants."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from rig.kube import kubelet as kubelet_module
from rig.kube.api import Answer, ApiCaller
from rig.kube.kubelet import FakeKubelet
from rig.kube.kubelet_wire import RefusedError
from rig.kube.plane import ControlPlane
from rig.kube.pod_life import Exit, Life

Json = dict[str, Any]

SEEN_SECONDS = 30
MANY = 200
# Ten times what it takes on a free machine with two cores.
MANY_SECONDS = 30


class Bench:
    """One test's pods: makes them, deletes them, and waits for what becomes of them."""

    def __init__(self, plane: ControlPlane, namespace: str, api: ApiCaller) -> None:
        self.plane, self.namespace, self.api = plane, namespace, api
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def kubelet(self, **more: Any) -> FakeKubelet:
        return FakeKubelet(self.plane, namespace=self.namespace, **more)

    async def make(self, name: str, *containers: str, **spec: Any) -> Answer:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": container, "image": "example.com/none"}
                    for container in containers or ("main",)
                ],
                **spec,
            },
        }
        answer = await self.api.request("POST", self.path, body=pod)
        assert answer.status == 201, answer.text
        return answer

    async def delete(self, name: str) -> None:
        assert (await self.api.request("DELETE", f"{self.path}/{name}")).status == 200

    async def get(self, name: str) -> Json:
        return (await self.api.request("GET", f"{self.path}/{name}")).body

    async def until(self, name: str, fits: Callable[[Json], Any]) -> Json:
        """The pod once it `fits`; one that was deleted is `{}`."""
        query = {"fieldSelector": f"metadata.name={name}"}
        async with (
            asyncio.timeout(SEEN_SECONDS),
            aclosing(self.api.watch(self.path, query=query)) as events,
        ):
            async for event in events:
                pod: Json = {} if event["type"] == "DELETED" else event["object"]
                if fits(pod):
                    return pod
        raise AssertionError(f"pod {name}: the watch ended before it was as wanted")

    async def until_phase(self, name: str, phase: str) -> Json:
        return await self.until(name, lambda pod: pod and pod["status"]["phase"] == phase)

    async def until_gone(self, name: str) -> None:
        # A watch begins with what exists, so it would wait for ever for a pod gone before.
        query = {"fieldSelector": f"metadata.name={name}"}
        listed = (await self.api.request("GET", self.path, query=query)).body
        if not listed["items"]:
            return
        query["resourceVersion"] = listed["metadata"]["resourceVersion"]
        async with (
            asyncio.timeout(SEEN_SECONDS),
            aclosing(self.api.watch(self.path, query=query)) as events,
        ):
            async for event in events:
                if event["type"] == "DELETED":
                    return
        raise AssertionError(f"pod {name}: the watch ended before it was gone")


Story = Callable[[Bench], Coroutine[Any, Any, None]]


@pytest.fixture
def play(control_plane: ControlPlane, namespace: str) -> Callable[[Story], None]:
    """Run a test's coroutine with a bench of its own."""

    async def run(story: Story) -> None:
        async with ApiCaller(control_plane) as api:
            await story(Bench(control_plane, namespace, api))

    return lambda story: asyncio.run(run(story))


def conditions(pod: Json) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in pod["status"]["conditions"]}


def states(pod: Json) -> dict[str, Json]:
    return {entry["name"]: entry["state"] for entry in pod["status"]["containerStatuses"]}


def ends(pod: Json) -> dict[str, tuple[int, str, str]]:
    return {
        name: (end["exitCode"], end["reason"], end.get("message", ""))
        for name, state in states(pod).items()
        for end in [state.get("terminated")]
        if end
    }


def test_a_pod_runs_until_told(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(manual=True) as kubelet:
            await bench.make("one", initContainers=[{"name": "first", "image": "example.com/none"}])
            pod = await bench.until_phase("one", "Running")
            assert pod["spec"]["nodeName"] in kubelet.node_names
            assert set(states(pod)["main"]) == {"running"}
            assert conditions(pod) == dict.fromkeys(
                ("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True"
            )
            (status,) = pod["status"]["containerStatuses"]
            assert status["ready"]
            assert status["started"]
            assert status["containerID"]
            assert pod["status"]["podIP"].startswith("127.")
            assert pod["status"]["startTime"]
            (first,) = pod["status"]["initContainerStatuses"]
            assert first["state"]["terminated"]["reason"] == "Completed"
            await kubelet.finish("one", 3, message="no data")
            pod = await bench.get("one")
            assert pod["status"]["phase"] == "Failed"
            assert ends(pod) == {"main": (3, "Error", "no data")}
            assert conditions(pod)["Ready"] == "False"

    play(story)


def test_lives_go_as_scripted(play: Callable[[Story], None]) -> None:
    lives = {
        "done": Life(),
        "slow": Life(run_seconds=0.05, message="bye"),
        "killed": Life(exit_code=137, reason="OOMKilled"),
        "mixed": Life(exit_code=2, containers={"side": Exit(0)}),
        "left": Life(exit_code=1, containers={"side": None}),
        "unready": Life(run_seconds=None, ready=False),
        "stuck": Life(waiting="ErrImagePull", message="no such image"),
    }

    async def story(bench: Bench) -> None:
        async with bench.kubelet(script=lambda pod: lives[pod["metadata"]["name"]]):
            for name in lives:
                await bench.make(name, "main", "side")
            done = await bench.until_phase("done", "Succeeded")
            assert ends(done)["main"] == (0, "Completed", "")
            assert ends(await bench.until_phase("slow", "Succeeded"))["side"][2] == "bye"
            killed = await bench.until_phase("killed", "Failed")
            assert ends(killed)["main"] == (137, "OOMKilled", "")
            mixed = await bench.until_phase("mixed", "Failed")
            assert {name: end[0] for name, end in ends(mixed).items()} == {"main": 2, "side": 0}
            left = await bench.until_phase("left", "Running")
            assert ends(left) == {"main": (1, "Error", "")}
            unready = await bench.until_phase("unready", "Running")
            assert conditions(unready)["Ready"] == "False"
            stuck = await bench.until("stuck", lambda pod: pod["status"].get("containerStatuses"))
            assert stuck["status"]["phase"] == "Pending"
            assert states(stuck)["main"]["waiting"] == {
                "reason": "ErrImagePull",
                "message": "no such image",
            }

    play(story)


def test_a_deleted_pod_ends_and_goes(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(manual=True) as kubelet:
            # Something else keeps it, so that its last words can be read.
            await bench.make("one")
            keep = {"metadata": {"finalizers": ["example.com/keep"]}}
            merge = "application/merge-patch+json"
            path = f"{bench.path}/one"
            await bench.api.request("PATCH", path, body=keep, content_type=merge)
            await kubelet.running("one")
            await bench.delete("one")
            pod = await bench.until_phase("one", "Failed")
            assert ends(pod) == {"main": (143, "Error", "")}
            free = {"metadata": {"finalizers": None}}
            await bench.api.request("PATCH", path, body=free, content_type=merge)
            await bench.until_gone("one")
            # The name is free, and the kubelet takes the new pod for what it is.
            await bench.make("one")
            await bench.until_phase("one", "Running")

    play(story)


@pytest.mark.parametrize("how", ["by the kubelet", "by its script", "by a lost node"])
def test_a_deleted_pod_is_held(play: Callable[[Story], None], how: str) -> None:
    async def story(bench: Bench) -> None:
        life = Life(run_seconds=None, stop_seconds=None if how == "by its script" else 0)
        async with bench.kubelet(script=life, hold_terminating=how == "by the kubelet") as kubelet:
            await bench.make("one")
            await kubelet.running("one")
            if how == "by a lost node":
                await kubelet.lose_node("one")
                status = (await bench.get("one"))["status"]
                assert (status["phase"], status["reason"]) == ("Unknown", "NodeLost")
            await bench.delete("one")
            # What is asked of the kubelet later is done, and the deleted pod is still there.
            await bench.make("two")
            await kubelet.finish("two")
            pod = await bench.get("one")
            assert pod["metadata"]["deletionTimestamp"]
            assert set(states(pod)["main"]) == {"running"}
            await kubelet.release("one")
            await bench.until_gone("one")

    play(story)


def test_one_container_ends_and_the_other_goes_on(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(manual=True) as kubelet:
            await bench.make("one", "main", "side")
            await kubelet.finish("one", container="main")
            pod = await bench.get("one")
            assert pod["status"]["phase"] == "Running"
            assert (ends(pod), set(states(pod)["side"])) == (
                {"main": (0, "Completed", "")},
                {"running"},
            )
            with pytest.raises(AssertionError, match="pod one has no container mian, but main"):
                await kubelet.finish("one", container="mian")
            await kubelet.finish("one", 5, container="side")
            pod = await bench.get("one")
            assert pod["status"]["phase"] == "Failed"
            assert ends(pod)["main"] == (0, "Completed", "")

    play(story)


def test_a_second_finish_ends_the_next_attempt(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(manual=True) as kubelet:
            await bench.make("one")
            await kubelet.finish("one", 1)
            second = asyncio.create_task(kubelet.finish("one", 2))
            await bench.delete("one")
            await bench.make("one")
            await second
            assert ends(await bench.get("one")) == {"main": (2, "Error", "")}

    play(story)


def test_an_evicted_pod_says_so(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(manual=True) as kubelet:
            await bench.make("one")
            await kubelet.running("one")
            await kubelet.evict("one")
            pod = await bench.get("one")
            assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "Evicted")
            assert conditions(pod)["DisruptionTarget"] == "True"
            assert conditions(pod)["PodScheduled"] == "True"
            assert ends(pod)["main"][0] == 137

    play(story)


def test_nothing_happens_but_by_hand(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(start=False) as kubelet:
            await bench.make("one")
            await kubelet.unschedulable("one", "0/2 nodes are available")
            pod = await bench.get("one")
            assert "nodeName" not in pod["spec"]
            (condition,) = pod["status"]["conditions"]
            assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
            await kubelet.image_pull_backoff("one")
            pod = await bench.get("one")
            assert pod["status"]["phase"] == "Pending"
            assert states(pod)["main"]["waiting"]["reason"] == "ImagePullBackOff"
            assert conditions(pod)["PodScheduled"] == "True"
            with pytest.raises(AssertionError, match=r"pod one is on node fake-.* already"):
                await kubelet.unschedulable("one", "too late")
            await kubelet.running("one")
            pod = await bench.get("one")
            assert pod["status"]["phase"] == "Running"
            await bench.delete("one")
            await bench.until_gone("one")

    play(story)


def test_pods_of_other_schedulers_and_gated_ones_are_left(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        allowed: set[str] = {"last"}
        async with bench.kubelet(
            ignored_schedulers=frozenset({"other"}),
            may_schedule=lambda pod: pod["metadata"]["name"] in allowed,
        ) as kubelet:
            await bench.make("refused")
            allowed.update(("gated", "foreign"))
            await bench.make("gated", schedulingGates=[{"name": "example.com/gate"}])
            await bench.make("foreign", schedulerName="other")
            await bench.make("last")
            await bench.until_phase("last", "Succeeded")
            for name in ("refused", "gated", "foreign"):
                assert "nodeName" not in (await bench.get(name))["spec"]
            # Whoever binds it, a pod on our node is run.
            target = {"kind": "Node", "name": kubelet.node_names[1]}
            binding = {"metadata": {"name": "foreign"}, "target": target}
            path = f"{bench.path}/foreign/binding"
            assert (await bench.api.request("POST", path, body=binding)).status == 201
            await bench.until_phase("foreign", "Succeeded")
            await kubelet.bind("refused")
            await bench.until_phase("refused", "Succeeded")

    play(story)


def test_nodes_are_ready_and_go_with_the_kubelet(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet(nodes=3) as kubelet:
            assert len(set(kubelet.node_names)) == 3
            for name in kubelet.node_names:
                node = (await bench.api.request("GET", f"/api/v1/nodes/{name}")).body
                assert "taints" not in node["spec"]
                assert node["status"]["allocatable"]["nvidia.com/gpu"] == "10k"
                assert conditions(node) == {"Ready": "True"}
        for name in kubelet.node_names:
            assert (await bench.api.request("GET", f"/api/v1/nodes/{name}")).status == 404

    play(story)


def test_faults_come_out_at_the_end(play: Callable[[Story], None]) -> None:
    def bad_script(pod: Json) -> Life:
        raise ValueError(f"no life for {pod['metadata']['name']}")

    async def story(bench: Bench) -> None:
        with pytest.raises(LookupError, match="the test's own"):
            async with bench.kubelet():
                raise LookupError("the test's own")
        with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no life for one")):
            async with bench.kubelet(script=bad_script):
                await bench.make("one")
                await bench.until_phase("one", "Running")
        # An exit code is a number, says the server.
        with pytest.RaisesGroup(pytest.RaisesExc(RefusedError, match=r"PATCH .*/one/status: 422")):
            async with bench.kubelet(script=Life(exit_code="three")):  # type: ignore[arg-type]
                await bench.until_phase("one", "Running")

    play(story)


def test_a_pod_that_never_comes_is_named(
    play: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(bench: Bench) -> None:
        monkeypatch.setattr(kubelet_module, "HAND_SECONDS", 0.05)
        async with bench.kubelet() as kubelet:
            with pytest.raises(TimeoutError, match="pod absent: there is none, or it is over"):
                await kubelet.running("absent")
        async with FakeKubelet(bench.plane, start=False) as kubelet:
            with pytest.raises(AssertionError, match="write namespace/name"):
                await kubelet.running("absent")

    play(story)


def test_many_pods_take_seconds(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        async with bench.kubelet() as kubelet, asyncio.timeout(MANY_SECONDS):
            await asyncio.gather(*(bench.make(f"p{number}") for number in range(MANY)))
            placed: dict[str, str] = {}
            while len(placed) < MANY:
                # The server ends a watch whose reader is slow, as this one may well be.
                async with aclosing(bench.api.watch(bench.path)) as events:
                    async for event in events:
                        pod = event["object"]
                        if pod["status"]["phase"] == "Succeeded":
                            placed[pod["metadata"]["name"]] = pod["spec"]["nodeName"]
                        if len(placed) == MANY:
                            break
            counts = [list(placed.values()).count(name) for name in kubelet.node_names]
            assert counts == [MANY // 2] * 2

    play(story)


def test_leaving_in_the_middle_leaves_nothing_open(play: Callable[[Story], None]) -> None:
    async def story(bench: Bench) -> None:
        # Warnings are errors: a socket or a task that is left behind fails this test.
        async with bench.kubelet(script=Life(run_seconds=0.01)):
            await asyncio.gather(*(bench.make(f"p{number}") for number in range(50)))
            await bench.until("p0", lambda pod: "nodeName" in pod["spec"])
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(story)
