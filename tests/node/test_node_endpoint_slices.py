"""EndpointSlices: the same as Kubernetes' controller makes, and never more or fewer than needed."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any

import pytest
from rig.engine import Room
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane
from rig.waiting import until, until_it_holds

from jobyard.client.request import Answer, Request, create, delete, listing
from jobyard.client.resources import ENDPOINT_SLICES, SERVICES
from jobyard.engine.in_process import InProcess
from jobyard.node.network.endpoint_slices import (
    ENDPOINTS_MAX,
    MANAGED_BY,
    SERVICE_NAME,
    SliceWriter,
    has_slices,
    slices_of,
)
from jobyard.node.network.services import Member, PodIndex, Service, members_of, service_of
from jobyard.node.objects.pod_object import pod_from
from jobyard.server.live import LiveServer
from jobyard.server.opening import open_server

JSON = dict[str, Any]
DISCOVERY = "/apis/discovery.k8s.io/v1"
WEB = {"name": "web", "containerPort": 8080}
OTHER_WEB = {"name": "web", "containerPort": 9090}
SECONDS = 60


def service(**spec: Any) -> JSON:
    metadata = {"name": "svc", "labels": {"team": "red"}}
    whole = {"selector": {"app": "x"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": whole}


def pod(name: str, address: str = "", *, ready: bool = True, **spec: Any) -> JSON:
    """A pod as it is after its kubelet has spoken; `deleted`, `phase` and `ports` are ours."""
    deleted, phase = spec.pop("deleted", False), spec.pop("phase", "Running")
    main = {"name": "main", "image": "any", "ports": spec.pop("ports", [WEB])}
    status: JSON = {"phase": phase}
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": spec.pop("app", "x")}},
        "spec": {"containers": [main], **spec},
        "status": status,
        "deleted": deleted,
    }


CASES: dict[str, tuple[JSON, tuple[JSON, ...]]] = {
    "nobody is behind it": (service(), ()),
    "pods of others": (service(), (pod("a", "10.1.0.1", app="y"),)),
    "one that is ready and one that isn't": (
        service(),
        (pod("a", "10.1.0.1"), pod("b", "10.1.0.2", ready=False)),
    ),
    "one that has no address, and two that have ended": (
        service(),
        (
            pod("a"),
            pod("b", "10.1.0.2", phase="Succeeded"),
            pod("c", "10.1.0.3", phase="Failed"),
            pod("d", "10.1.0.4"),
        ),
    ),
    "those that are going": (
        service(),
        (pod("a", "10.1.0.1", deleted=True), pod("b", "10.1.0.2", deleted=True, ready=False)),
    ),
    "all are published": (
        service(publishNotReadyAddresses=True),
        (pod("a", "10.1.0.1", ready=False), pod("b", "10.1.0.2", deleted=True)),
    ),
    "headless, with names of pods": (
        service(clusterIP="None"),
        (
            pod("a", "10.1.0.1", hostname="first", subdomain="svc"),
            pod("b", "10.1.0.2", hostname="second", subdomain="other"),
            pod("c", "10.1.0.3", hostname="third"),
        ),
    ),
    "headless and without ports": (
        {**service(clusterIP="None"), "spec": {"clusterIP": "None", "selector": {"app": "x"}}},
        (pod("a", "10.1.0.1"),),
    ),
    "ports by name, which differ from pod to pod": (
        service(
            ports=[
                {"name": "http", "port": 80, "targetPort": "web", "appProtocol": "http"},
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353},
            ]
        ),
        (
            pod("a", "10.1.0.1"),
            pod("b", "10.1.0.2", ports=[OTHER_WEB]),
            pod("c", "10.1.0.3", ports=[]),
            pod("d", "10.1.0.4"),
        ),
    ),
    "a port by a name that no pod has": (
        service(ports=[{"port": 80, "targetPort": "web"}]),
        (pod("a", "10.1.0.1", ports=[]),),
    ),
    "addresses of the other family": (
        service(),
        (pod("a", "fd00::1"), pod("b", "10.1.0.2")),
    ),
    "without a selector": (
        {**service(), "spec": {"ports": [{"port": 80}]}},
        (pod("a", "10.1.0.1"),),
    ),
    "a name for something elsewhere": (
        {**service(), "spec": {"type": "ExternalName", "externalName": "e.example.com"}},
        (),
    ),
    "more than fit into one": (
        service(),
        tuple(pod(f"p{n:03}", f"10.1.1.{n}") for n in range(1, ENDPOINTS_MAX + 11)),
    ),
}


def shown(slices: Iterable[JSON]) -> list[JSON]:
    """Without names and versions, and without the order that a controller leaves to chance."""
    out = []
    for each in slices:
        metadata = each["metadata"]
        labels = {key: text for key, text in metadata["labels"].items() if key != MANAGED_BY}
        endpoints = sorted(each["endpoints"] or (), key=lambda found: found["addresses"])
        out.append(
            {
                "generateName": metadata["generateName"],
                "labels": labels,
                "owners": metadata["ownerReferences"],
                "addressType": each["addressType"],
                # By a hash there.
                "ports": sorted(each["ports"] or [], key=ordered),
                "endpoints": endpoints,
            }
        )
    return sorted(out, key=ordered)


def ordered(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def spread(slices: Sequence[JSON]) -> list[JSON]:
    """Also without which of several slices of the same ports has which pod."""
    sizes = sorted(len(each["endpoints"]) for each in slices)
    if max(sizes, default=0) < ENDPOINTS_MAX:
        return list(slices)
    pods = sorted((one for each in slices for one in each["endpoints"]), key=ordered)
    return [{**slices[0], "endpoints": pods, "sizes": sizes}]


@pytest.mark.parametrize("sentence", CASES)
def test_slices_are_those_of_kubernetes(
    control_plane: ControlPlane, namespace: str, sentence: str
) -> None:
    made, pods = CASES[sentence]
    node = f"slices-{secrets.token_hex(4)}"

    async def play() -> None:
        async with asyncio.timeout(SECONDS), ApiCaller(control_plane) as api:
            core = f"/api/v1/namespaces/{namespace}"

            async def sent(method: str, path: str, body: JSON | None = None) -> JSON:
                answer = await api.request(method, path, body=body)
                assert answer.status < 300, answer.text
                return answer.body

            async def has_account() -> bool:
                found = await api.request("GET", f"{core}/serviceaccounts/default")
                return found.status == 200

            await until(has_account)
            await sent("POST", "/api/v1/nodes", {"metadata": {"name": node}})
            try:
                for each in pods:
                    name = each["metadata"]["name"]
                    spec = {**each["spec"], "nodeName": node}
                    body = {"metadata": each["metadata"], "spec": spec}
                    status = {"status": each["status"]}
                    whole = await sent("POST", f"{core}/pods", body)
                    await sent("PUT", f"{core}/pods/{name}/status", {**whole, **status})
                    if each["deleted"]:
                        await sent("DELETE", f"{core}/pods/{name}")
                await sent("POST", f"{core}/services", made)
                raw = await api.request("GET", f"{core}/services/svc")
                ours = service_of(raw.text.encode())
                items = (await sent("GET", f"{core}/pods"))["items"]
                index = PodIndex([pod_from(each) for each in items])
                made_here = slices_of(ours, members_of(ours, index)) if has_slices(ours) else ()
                wanted = spread(shown(made_here))

                async def is_same() -> bool:
                    found = await sent("GET", f"{DISCOVERY}/namespaces/{namespace}/endpointslices")
                    theirs = [each for each in found["items"] if "jobyard" not in managed_by(each)]
                    nonlocal last
                    last = spread(shown(theirs))
                    return last == wanted

                last: list[JSON] = []
                try:
                    async with asyncio.timeout(SECONDS / 2):
                        await until(is_same)
                except TimeoutError:
                    assert last == wanted
            finally:
                await sent("DELETE", f"/api/v1/nodes/{node}")

    asyncio.run(play())


def managed_by(slice_: JSON) -> str:
    return str(slice_["metadata"]["labels"][MANAGED_BY])


class Counting:
    """A sender that notes what is written."""

    def __init__(self, sender: InProcess) -> None:
        self._sender = sender
        self.writes: list[str] = []

    async def send(self, request: Request) -> Answer:
        if request.method != "GET":
            self.writes.append(request.method)
        return await self._sender.send(request)

    def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.lines(request)

    def chunks(self, request: Request) -> AsyncGenerator[bytes, None]:
        return self._sender.chunks(request)


def test_a_writer_takes_up_what_was_written_before_it_and_leaves_what_is_others() -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]

    def members(ours: Service, *pods: JSON) -> Sequence[Member]:
        found = [
            {**each, "metadata": {**each["metadata"], "namespace": "default"}} for each in pods
        ]
        return members_of(ours, PodIndex([pod_from(each) for each in found]))

    foreign = {
        "metadata": {"name": "svc-theirs", "labels": {SERVICE_NAME: "svc", MANAGED_BY: "them"}},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }

    async def play() -> None:
        server = open_server(None)
        async with LiveServer(server) as live:
            sender = Counting(InProcess(live))

            async def there() -> dict[str, list[str]]:
                answer = await sender.send(listing(ENDPOINT_SLICES, "default"))
                return {
                    item["metadata"]["name"]: [
                        each["targetRef"]["name"] for each in item["endpoints"] or ()
                    ]
                    for item in json.loads(answer.body)["items"]
                }

            made = await sender.send(create(SERVICES, "default", service(ports=ports)))
            ours = service_of(made.body)
            one = members(ours, pod("a", "10.1.0.1"))
            two = members(ours, pod("a", "10.1.0.1"), pod("b", "10.1.0.2", ports=[OTHER_WEB]))
            assert (await sender.send(create(ENDPOINT_SLICES, "default", foreign))).is_ok
            sender.writes.clear()
            first = SliceWriter(sender)
            assert await first.write(ours, two) is None
            names = [each["metadata"]["name"] for each in slices_of(ours, two)]
            assert await there() == {names[0]: ["a"], names[1]: ["b"], "svc-theirs": []}
            assert await first.write(ours, two) is None
            assert sender.writes == ["PUT", "POST", "PUT", "POST"], "only what has changed"
            # The engine came back, and a pod is gone.
            second = SliceWriter(sender)
            assert await second.write(ours, one) is None
            assert await there() == {names[0]: ["a"], "svc-theirs": []}
            # The last one goes as well: an empty slice says that nobody is there.
            assert await second.write(ours, ()) is None
            assert await there() == {names[0]: [], "svc-theirs": []}
            # Somebody has taken it away.
            assert (await sender.send(delete(ENDPOINT_SLICES, "default", names[0]))).is_ok
            assert await second.write(ours, one) is None
            assert await there() == {names[0]: ["a"], "svc-theirs": []}
        server.store.journal.close()

    asyncio.run(play())


def test_slices_follow_pods_and_go_with_the_service(room: Room) -> None:
    selector = f"labelSelector={SERVICE_NAME.replace('/', '%2F')}%3Dsvc"
    path = f"{DISCOVERY}/namespaces/{room.name}/endpointslices"

    def told() -> list[tuple[str, bool]]:
        items = room.engine.ask("GET", f"{path}?{selector}").json["items"]
        return [
            (each["targetRef"]["name"], each["conditions"]["ready"])
            for item in items
            for each in item["endpoints"] or ()
        ]

    room.create("services", service(selector={"app": "a"}))
    room.pod("a", "sleep", "1000")
    until_it_holds(lambda: told() == [("a", True)], "the pod in a slice")
    [owned] = room.engine.ask("GET", f"{path}?{selector}").json["items"]
    [owner] = owned["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Service", "svc", True)
    room.engine.ask("DELETE", room.path("pods", "a"))
    until_it_holds(lambda: told() == [], "a slice without the pod")
    assert len(room.engine.ask("GET", f"{path}?{selector}").json["items"]) == 1
    room.engine.ask("DELETE", room.path("services", "svc"))
    until_it_holds(lambda: not room.engine.ask("GET", path).json["items"], "no slice")
