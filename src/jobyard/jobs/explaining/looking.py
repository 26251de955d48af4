"""Fetches what is needed to say why a job stands as it does. Called by `jobyard why`.

The job itself must be readable; of all else an answer is given from what may be read: on a cluster
a person may be allowed to see jobs and pods and neither queues nor events.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.api.kinds import KINDS, Kind
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import RefusedError
from jobyard.client.request import EVENTS, PODS, Request, Resource, get, listing, resource_of
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.happened import Whose, in_order, told
from jobyard.jobs.explaining.reading import JSON, parts, text
from jobyard.jobs.explaining.seen import Event, Seen, SeenPod, pod_of, replicas_of
from jobyard.plan.lowering.names import pod_selector

_KINDS: Final = {kind.name: resource_of(kind) for kind in KINDS}
QUEUES: Final = _KINDS["Queue"]
POD_GROUPS: Final = _KINDS["PodGroup"]
KUBE_BATCH_GROUPS: Final = Resource(
    "scheduling.incubator.k8s.io", "v1alpha1", "podgroups", "PodGroup"
)
# Not there, or not for this person's eyes.
_WITHHELD: Final = (401, 403, 404)


async def look(
    sender: Sender, kind: Kind, job: JSON, now: float, *, options: str, is_embedded: bool
) -> Seen:
    """The snapshot for one job, which was just read."""
    namespace = text(job, "metadata", "namespace")
    seen = Seen(
        kind=kind.name,
        job=job,
        now=now,
        pods=await _pods(sender, kind, job),
        queues=await queues(sender),
        options=options,
        is_embedded=is_embedded,
    )
    fields: dict[str, Any] = {name: getattr(seen, name) for name in seen.__struct_fields__}
    group = await _group(sender, namespace, seen)
    whole = Seen(**fields | {"group": group})
    return Seen(**fields | {"group": group, "events": await _events(sender, namespace, whole)})


async def listed(sender: Sender, request: Request) -> list[JSON] | None:
    """The objects of a list; None if there is no such kind here, or nobody may read it."""
    answer = await sender.send(request)
    if answer.status in _WITHHELD:
        return None
    if not answer.is_ok:
        raise RefusedError(str(request), answer.problem)
    return parts(decoded_json(answer.body), "items")


async def queues(sender: Sender) -> tuple[JSON, ...] | None:
    found = await listed(sender, listing(QUEUES))
    return None if found is None else tuple(found)


async def _pods(sender: Sender, kind: Kind, job: JSON) -> tuple[SeenPod, ...]:
    name, uid = text(job, "metadata", "name"), text(job, "metadata", "uid")
    selector = pod_selector(kind.name, name)
    namespace = text(job, "metadata", "namespace")
    found = await listed(sender, listing(PODS, namespace, label_selector=selector))
    pods = (pod_of(item) for item in found or ())
    return tuple(pod for pod in pods if pod.facts.job_uid in ("", uid))


async def _group(sender: Sender, namespace: str, seen: Seen) -> JSON | None:
    """The PodGroup that its pods name, or that a job with a queue has."""
    named = next((pod.group for pod in seen.pods if pod.group), "")
    name = named or (seen.name if seen.queue_name else "")
    if not name:
        return None
    for resource in (POD_GROUPS, KUBE_BATCH_GROUPS):
        answer = await sender.send(get(resource, namespace, name))
        if answer.is_ok:
            value: JSON = decoded_json(answer.body)
            return value
    return None


async def _events(sender: Sender, namespace: str, seen: Seen) -> tuple[Event, ...]:
    found = await listed(sender, listing(EVENTS, namespace))
    rows = replicas_of(seen)
    uids = [
        text(seen.job, "metadata", "uid"),
        text(seen.group, "metadata", "uid"),
        *(pod.facts.uid for pod in seen.pods),
    ]
    created = text(seen.job, "metadata", "creationTimestamp")
    whose = Whose(uids, [row.pod_name for row in rows], created)
    mine = [dict(event) for event in found or () if whose.includes(dict(event))]
    return tuple(told(event) for event in in_order(mine))
