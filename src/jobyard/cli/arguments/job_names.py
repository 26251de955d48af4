"""Names of jobs and queues for a shell that completes a word.

It asks the server that the words before name. Whatever goes wrong, a shell is offered nothing: who
presses Tab wants no message, and no long wait.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from jobyard.api.kinds import Kind, kind_named
from jobyard.cli.arguments.target import CONTEXT_VARIABLE, Target
from jobyard.client.request import listing, resource_of
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.looking import listed
from jobyard.jobs.explaining.reading import text
from jobyard.plan.lowering.table import JOB_KINDS

SECONDS: Final = 3.0
_NAMES_MAX: Final = 500


def complete_jobs(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The jobs of the namespace; KIND/NAME where several kinds have the name, or it is begun so."""
    found = _asked(ctx, _jobs)
    names = [name for _, name in found]
    words = [
        f"{kind}/{name}" if "/" in incomplete or names.count(name) > 1 else name
        for kind, name in found
    ]
    return _starting(words, incomplete)


def complete_queues(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The queues."""
    return _starting([name for _, name in _asked(ctx, _queues)], incomplete)


def _starting(words: list[str], incomplete: str) -> list[CompletionItem]:
    wanted = incomplete.lower()
    return [CompletionItem(word) for word in sorted(words) if word.lower().startswith(wanted)]


_Found = list[tuple[str, str]]


def _asked(ctx: click.Context, look: Callable[[Sender, str], Awaitable[_Found]]) -> _Found:
    try:
        target = _target(ctx)
        cluster = target.cluster()

        async def connected() -> _Found:
            # Imported here: an HTTP client is slow to import.
            from jobyard.client.transport import Transport

            async with asyncio.timeout(SECONDS), Transport(cluster) as transport:
                return await look(transport, target.namespace_of(cluster))

        return asyncio.run(connected())
    except Exception:
        # The top: a shell in the middle of a word.
        return []


def _target(ctx: click.Context) -> Target:
    given = ctx.params
    kubeconfig = given.get("kubeconfig")
    context = given.get("context") or os.environ.get(CONTEXT_VARIABLE) or None
    path = Path(str(kubeconfig)) if kubeconfig else None
    return Target(path, context, str(given.get("namespace") or ""))


async def _jobs(sender: Sender, namespace: str) -> _Found:
    return [
        (kind.singular, name)
        for kind in JOB_KINDS
        for name in await _names(sender, kind, namespace)
    ]


async def _queues(sender: Sender, _namespace: str) -> _Found:
    kind = kind_named("queue")
    assert kind is not None, "it is a row of the table"
    return [("queue", name) for name in await _names(sender, kind, "")]


async def _names(sender: Sender, kind: Kind, namespace: str) -> list[str]:
    items = await listed(sender, listing(resource_of(kind), namespace, limit=_NAMES_MAX))
    return [text(item, "metadata", "name") for item in items or ()]
