"""A namespace per test: made so that pods can go in at once, and left to be deleted."""

import asyncio
import re
import secrets
from contextlib import aclosing

from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane

READY_SECONDS = 60
# A namespace is a DNS label of at most 63 characters, with room for the random part.
TITLE_LENGTH_MAX = 48


def fresh_name(title: str) -> str:
    """A name nobody else has, in which a reader still recognises the test's `title`."""
    label = re.sub(r"[^a-z0-9]+", "-", title.lower())[:TITLE_LENGTH_MAX].strip("-")
    return f"{label or 'test'}-{secrets.token_hex(4)}"


async def create(plane: ControlPlane, name: str) -> None:
    """Create the namespace and wait for its default service account.

    A controller makes that account a moment later, and until then admission rejects
    every pod. Without controllers that admission is off, so there is nothing to await.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    async with ApiCaller(plane) as api:
        answer = await api.request("POST", "/api/v1/namespaces", body=namespace)
        assert answer.status == 201, f"namespace {name}: {answer.status} {answer.text}"
        if not plane.has_controllers:
            return
        async with asyncio.timeout(READY_SECONDS):
            accounts = api.watch(
                f"/api/v1/namespaces/{name}/serviceaccounts",
                query={"fieldSelector": "metadata.name=default"},
            )
            async with aclosing(accounts) as events:
                async for _ in events:
                    return
    raise AssertionError(f"namespace {name}: the watch ended without a default service account")


async def delete(plane: ControlPlane, name: str) -> None:
    """Ask for the deletion; the namespace controller does the rest in its own time."""
    async with ApiCaller(plane) as api:
        answer = await api.request("DELETE", f"/api/v1/namespaces/{name}")
    # A test may have deleted its own namespace.
    assert answer.status in (200, 202, 404, 409), f"namespace {name}: {answer.text}"
