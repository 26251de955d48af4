"""The two servers of the suite, and the fixture `api`: one case on one of them.

The real one is the rig's. Each worker reaches each server through one session, because a TLS
handshake for every request would be most of the time that the suite takes.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from rig.kube import namespaces
from rig.kube.plane import ControlPlane
from rig.kube.sharing import KUBECONFIG_VARIABLE
from rig.plugin import VERSION_PROPERTY
from rig.tls import client_context

from conformance.differences import KNOWN
from conformance.script import AGGREGATED, WIDGETS_GROUP, Step, delete, get, post
from conformance.stage import DEADLINE_SECONDS, LINE_BYTES_MAX, Server, Stage
from conformance.widgets import CRD


def _has_group(_: int, body: Any) -> bool:
    return WIDGETS_GROUP in str(body)


# A server tells of a new definition in several places, of which none waits for another.
KNOWN_EVERYWHERE = (
    *(
        get(path, until=lambda status, _: status == 200)
        for path in (
            f"/apis/{WIDGETS_GROUP}/v1/namespaces/default/widgets",
            f"/apis/{WIDGETS_GROUP}",
            f"/apis/{WIDGETS_GROUP}/v1",
            f"/openapi/v3/apis/{WIDGETS_GROUP}/v1",
        )
    ),
    get("/apis", until=_has_group),
    get("/apis", accept=AGGREGATED, until=_has_group),
    get("/openapi/v3", until=_has_group),
)
SERVERS = (pytest.param("kubernetes", marks=pytest.mark.kube), "embedded")


@dataclass(frozen=True)
class Reached:
    """A server and the session that leads to it."""

    server: Server
    session: aiohttp.ClientSession
    loop: asyncio.AbstractEventLoop

    def stage(self, namespace: str) -> Stage:
        return Stage(self.server, self.session, self.loop, namespace)


@pytest.fixture(scope="session")
def conformance_loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


def _reach(server: Server, loop: asyncio.AbstractEventLoop) -> Iterator[Reached]:
    """Open a session, make the suite's own kind known, and close the session afterwards."""

    async def opened() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            base_url=server.url,
            connector=aiohttp.TCPConnector(ssl=server.tls),
            timeout=aiohttp.ClientTimeout(total=3 * DEADLINE_SECONDS),
            read_bufsize=LINE_BYTES_MAX,
        )

    async def closed(session: aiohttp.ClientSession) -> None:
        await session.close()

    session = loop.run_until_complete(opened())
    reached = Reached(server, session, loop)
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    # Another worker may have been first.
    created = Step(method="POST", path=crds, body=CRD, until=lambda code, _: code in (201, 409))
    try:
        reached.stage("default").answers((created, *KNOWN_EVERYWHERE))
        yield reached
    finally:
        loop.run_until_complete(closed(session))


@pytest.fixture(scope="session")
def kubernetes(
    control_plane: ControlPlane, crds: None, conformance_loop: asyncio.AbstractEventLoop
) -> Iterator[Reached]:
    """The real API server of the rig, with Jobyard's CRDs."""
    plane = control_plane
    server = Server(
        name="kubernetes",
        url=plane.url,
        tls=client_context(plane.ca, plane.cert, plane.key),
        headers={},
        stranger_tls=ssl.create_default_context(cafile=plane.ca),
    )
    yield from _reach(server, conformance_loop)


@pytest.fixture(scope="session")
def embedded(
    tmp_path_factory: pytest.TempPathFactory, conformance_loop: asyncio.AbstractEventLoop
) -> Iterator[Reached]:
    """Jobyard's own API server, one for each worker."""
    # Here and not above: without it the cases of the real server still have to run.
    from conformance.embedded import embedded_server

    with embedded_server(tmp_path_factory.mktemp("embedded")) as server:
        yield from _reach(server, conformance_loop)


@pytest.fixture(params=SERVERS)
def api(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """One server with a namespace of the case's own."""
    reached: Reached = request.getfixturevalue(request.param)
    if request.param == "kubernetes":
        version = request.getfixturevalue("control_plane").version
        request.node.user_properties.append((VERSION_PROPERTY, version))
    sentence = getattr(request.node, "callspec", None)
    reasons = [KNOWN[v] for v in (sentence.params.values() if sentence else ()) if v in KNOWN]
    if request.param == "embedded" and reasons:
        request.applymarker(pytest.mark.xfail(reason=reasons[0], strict=True))
    name = namespaces.fresh_name(request.node.originalname)
    stage = reached.stage(name)
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    made = post("/api/v1/namespaces", manifest, silent=True)
    stage.answers((made,))
    yield stage
    # A namespace controller is slow and thorough; a server that ends with the run needs none.
    if KUBECONFIG_VARIABLE in os.environ:
        stage.answers((delete(f"/api/v1/namespaces/{name}"),))
