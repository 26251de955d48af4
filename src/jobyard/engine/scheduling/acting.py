"""What is done about a decision: bindings, evictions, jobs paused, pods deleted.

Each call says whether it is done; what isn't is decided anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import PODS, Answer, Request, delete, get, merge_patch, resource_named
from jobyard.client.sender import Sender
from jobyard.engine.scheduling.devices import notes_of
from jobyard.engine.scheduling.telling import STRATEGIC, Teller, about_pod
from jobyard.engine.scheduling.views import PodsView
from jobyard.schedule.decision import Evicted, Paused, Placed, Removed

MAX_DURATION: Final = "MaxDurationExceeded"
PREEMPTED: Final = "Preempted"
_OVERTAKEN: Final = (404, 409)
_log = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode


class Actor:
    """Writes placement, and nothing else."""

    def __init__(self, sender: Sender, pods: PodsView, teller: Teller) -> None:
        self._sender = sender
        self._pods = pods
        self._teller = teller

    async def bind_all(self, node: str, placed: Iterable[Placed]) -> bool:
        """All at once: they reach the disk together, so that no gang is bound in part."""
        return await _all(self._bind(node, each) for each in placed)

    async def evict_all(self, evicted: Iterable[Evicted]) -> bool:
        return await _all(self._evict(each) for each in evicted)

    async def end_all(self, paused: Iterable[Paused], removed: Iterable[Removed]) -> bool:
        done = await _all(self._pause(each) for each in paused)
        return await _all(self._remove(each) for each in removed) and done

    async def _bind(self, node: str, placed: Placed) -> bool:
        pod = placed.pod
        metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        if placed.devices or pod.uid in self._pods.claims_devices:
            # Also over what somebody else wrote there.
            metadata["annotations"] = notes_of(placed)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = PODS.item(pod.namespace, pod.name, "binding")
        answer = await self._sender.send(Request(method="POST", path=path, body=_encode(binding)))
        if not answer.is_ok:
            _complain(answer, f"binding {pod}")
            return False
        self._pods.bind(placed)
        if placed.cuts:
            await self._teller.event(about_pod(pod), "CutDown", "; ".join(placed.cuts), "Normal")
        return True

    async def _evict(self, evicted: Evicted) -> bool:
        """By the pod's own grace; who made it sees that it was taken away."""
        pod = evicted.pod
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = PODS.item(pod.namespace, pod.name, "eviction")
        answer = await self._sender.send(Request(method="POST", path=path, body=_encode(eviction)))
        if not answer.is_ok:
            _complain(answer, f"evicting {pod}")
            return False
        self._pods.leaving(pod.uid)
        await self._teller.event(about_pod(pod), PREEMPTED, evicted.message, "Warning")
        return True

    async def _pause(self, paused: Paused) -> bool:
        job = paused.job
        resource = resource_named(job.api_version, job.kind)
        answer = await self._sender.send(get(resource, paused.namespace, job.name))
        if not answer.is_ok:
            return answer.status in _OVERTAKEN
        found: dict[str, Any] = decoded_json(answer.body)
        pause = ((found["spec"].get("runMode") or {}).get("pause") or {}).get("enabled")
        if found["metadata"]["uid"] != job.uid or pause:
            # Somebody else's, or paused already: its pods are about to go.
            return True
        patch = {
            "metadata": {"uid": job.uid, "resourceVersion": found["metadata"]["resourceVersion"]},
            "spec": {"runMode": {"pause": {"enabled": True}}},
        }
        answer = await self._sender.send(merge_patch(resource, paused.namespace, job.name, patch))
        if not answer.is_ok:
            _complain(answer, f"pausing {paused.namespace}/{job.name}")
            return False
        about = {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "name": job.name,
            "namespace": paused.namespace,
            "uid": job.uid,
        }
        await self._teller.event(about, MAX_DURATION, f"paused: {paused.message}", "Warning")
        return True

    async def _remove(self, removed: Removed) -> bool:
        pod = removed.pod
        if not await self._mark(removed):
            return False
        answer = await self._sender.send(delete(PODS, pod.namespace, pod.name, uid=pod.uid))
        if not answer.is_ok and answer.status not in _OVERTAKEN:
            _complain(answer, f"deleting {pod}")
            return False
        self._pods.leaving(pod.uid)
        await self._teller.event(about_pod(pod), MAX_DURATION, removed.message, "Warning")
        return True

    async def _mark(self, removed: Removed) -> bool:
        """Says so on the pod itself, before it goes: for a TaskSet that is a failure."""
        pod = removed.pod
        held = {"type": MAX_DURATION, "status": "True", "reason": MAX_DURATION}
        condition = {**held, "message": removed.message}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        answer = await self._sender.send(
            Request(
                method="PATCH",
                path=PODS.item(pod.namespace, pod.name, "status"),
                body=_encode(patch),
                content_type=STRATEGIC,
            )
        )
        if not answer.is_ok and answer.status not in _OVERTAKEN:
            _complain(answer, f"marking {pod}")
            return False
        return True


async def _all(work: Iterable[Any]) -> bool:
    done = await asyncio.gather(*work, return_exceptions=True)
    for problem in done:
        if isinstance(problem, BaseException):
            raise problem
    return all(done)


def _complain(answer: Answer, what: str) -> None:
    """It is gone, or somebody was first: the watch will tell. All else is worth a word."""
    level = logging.DEBUG if answer.status in _OVERTAKEN else logging.WARNING
    _log.log(level, "%s: %s", what, answer.problem)
