"""Tells when something about queues or gangs has changed, for `jobyard queues -w`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import click

from jobyard.client.backoff import wait_seconds
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import RefusedError
from jobyard.client.request import Resource, listing, watching
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.looking import POD_GROUPS, QUEUES
from jobyard.jobs.explaining.reading import text

_WATCH_SECONDS: Final = 3600
# Between two looks, and between a watch that has ended and the next: changes come in crowds.
_PAUSE_SECONDS: Final = 0.5


async def news(sender: Sender) -> AsyncGenerator[None, None]:
    """Whenever something has changed; several changes at once are one."""
    changed = asyncio.Event()
    watches = [
        asyncio.create_task(_watch(sender, resource, changed)) for resource in (QUEUES, POD_GROUPS)
    ]
    try:
        while True:
            waiting = asyncio.create_task(changed.wait())
            done, _ = await asyncio.wait({waiting, *watches}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {waiting}:
                waiting.cancel()
                await task
            changed.clear()
            yield
            await wait_seconds(_PAUSE_SECONDS)
    finally:
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(sender: Sender, resource: Resource, changed: asyncio.Event) -> None:
    while True:
        answer = await sender.send(listing(resource, limit=1))
        if not answer.is_ok:
            raise click.ClickException(answer.problem.message)
        # What changed between the last look and this list is seen by one more look.
        changed.set()
        version = text(decoded_json(answer.body), "metadata", "resourceVersion")
        request = watching(resource, resource_version=version, timeout_seconds=_WATCH_SECONDS)
        try:
            async with aclosing(sender.lines(request)) as lines:
                async for line in lines:
                    if text(decoded_json(line), "type") != "BOOKMARK":
                        changed.set()
        except RefusedError as problem:
            raise click.ClickException(problem.problem.message) from problem
        await wait_seconds(_PAUSE_SECONDS)
