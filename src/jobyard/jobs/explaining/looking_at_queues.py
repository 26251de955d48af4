"""Fetches what is to be said about queues. Called by `jobyard queues` and `jobyard queue`.

Who may not look at all namespaces sees the gangs of one, and is told so.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jobyard.client.request import NODES, PODS, Resource, listing
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.looking import POD_GROUPS, listed, queues
from jobyard.jobs.explaining.queues import QueueView, lacks_pods, queue_views
from jobyard.jobs.explaining.reading import JSON
from jobyard.jobs.explaining.seen import GROUP_LABEL, QUEUE_LABEL


class Queues(msgspec.Struct, frozen=True):
    """All queues; `views` is None where there is no such kind, or nobody may read it."""

    views: tuple[QueueView, ...] | None
    # What is missing, in a sentence; empty if nothing is.
    note: str = ""


async def look_at_queues(sender: Sender, namespace: str) -> Queues:
    """All queues with their gangs."""
    found = await queues(sender)
    if found is None:
        return Queues(None)
    groups, is_whole = await _everywhere(sender, POD_GROUPS, namespace)
    # Few pods have such a label. All are looked at only if the scheduler counts them as well.
    selector = "" if lacks_pods(found, groups) else f"{QUEUE_LABEL},!{GROUP_LABEL}"
    pods, has_all_pods = await _everywhere(sender, PODS, namespace, selector)
    nodes = await listed(sender, listing(NODES)) or ()
    note = "" if is_whole and has_all_pods else f"only gangs of namespace {namespace} are counted"
    return Queues(tuple(queue_views(found, groups, pods, nodes)), note)


async def _everywhere(
    sender: Sender, resource: Resource, namespace: str, selector: str = ""
) -> tuple[Sequence[JSON], bool]:
    """The objects of all namespaces, and whether these could be read; else of the one."""
    found = await listed(sender, listing(resource, label_selector=selector))
    if found is not None:
        return found, True
    within = await listed(sender, listing(resource, namespace, label_selector=selector))
    return within or (), False
