"""A world of one TaskSet: its status, control units and pods, as an API server would hold them.

Plans are carried out call by call, in the order that `plan.decision` promises, and may be cut
off after any of them. Pods are whole objects, read through `facts_of` as in earnest. What has
to hold at all times is asserted at every step; there is no clock but `now`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from jobyard.api.parts.taskset_status import (
    RoleReplicaStatus,
    RoleStatus,
    TaskSetPhase,
    TaskSetState,
    TaskSetStatus,
)
from jobyard.api.taskset import TaskSetSpec
from jobyard.plan.facts.decision import Child, ChildKey, Delete, Event, Observed, Obstacle, Plan
from jobyard.plan.facts.pod_facts import Pod, PodObject, facts_of
from jobyard.plan.lowering.description import Identity
from jobyard.plan.lowering.kinds.taskset import lower
from jobyard.plan.moments import text_of
from jobyard.plan.taskset.decide import decide_taskset

SETTLED_WITHIN = 8
GRACE_SECONDS = 30


def role(name: str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def completion(min_succeeded: int, max_failed: int) -> dict[str, int]:
    return {"minSucceeded": min_succeeded, "maxFailed": max_failed}


def retry(count: int, delay: int = 0) -> dict[str, Any]:
    return {"retry": True, "maxRetryCount": count, "delay": delay}


class World:
    """One TaskSet named `t`, and everything around it."""

    def __init__(self, *roles: dict[str, Any], **spec: Any) -> None:
        self.spec = msgspec.convert({"roles": list(roles), **spec}, TaskSetSpec)
        self.description = lower(self.spec, Identity("TaskSet", "t", "default", "ts-uid"))
        self.status: TaskSetStatus | None = None
        self.pods: dict[str, dict[str, Any]] = {}
        self.units: dict[str, Child] = {}
        self.obstacles: dict[ChildKey, Obstacle] = {}
        self.is_deleting = False
        self.is_probed = False
        self.lost_nodes: frozenset[str] = frozenset()
        self.now = 1_000_000.0
        self.events: list[Event] = []
        self.made: Counter[str] = Counter()
        self.exits: dict[str, int] = {}
        self._uids = 0

    # What is observed, and what is done about it.

    def seen(self) -> Observed:
        facts = tuple(self.facts(name) for name in self.pods)
        return Observed(
            description=self.description,
            wanted={},
            status=self.status,
            pods=facts,
            children={("ConfigMap", name): unit for name, unit in self.units.items()},
            obstacles=dict(self.obstacles),
            is_probed=self.is_probed,
            is_deleting=self.is_deleting,
            lost_nodes=self.lost_nodes,
        )

    def facts(self, name: str) -> Pod:
        return facts_of(msgspec.convert(self.pods[name], PodObject))

    def decide(self, seen: Observed | None = None) -> Plan:
        seen = seen or self.seen()
        plan = decide_taskset(seen, self.now, self.spec)
        if plan.status is not None:
            assert isinstance(plan.status, TaskSetStatus)
            # The same observation, with what was decided: the same again, and nothing new.
            written = msgspec.structs.replace(seen, status=plan.status)
            again = decide_taskset(written, self.now, self.spec)
            assert again.status is None, (plan.status, again.status)
            assert (again.deletes, again.pods) == (plan.deletes, plan.pods)
        else:
            # Of what changed there is nothing to tell, only of pods that are made again.
            assert {event.reason for event in plan.events} <= {"CreatedPods"}
            assert bool(plan.events) <= bool(plan.pods)
        return plan

    def carry_out(self, plan: Plan, calls_max: int = 10**6) -> None:
        """The calls of a plan in their order, or as many as come before a crash."""
        calls: list[Callable[[], None]] = []
        calls += [lambda m=m: self._make_unit(m) for m in plan.supporting]
        calls += [self._probe] if plan.probes else []
        calls += [lambda: self._write(plan.status)] if plan.status is not None else []
        calls += [lambda d=d: self._delete(d) for d in plan.deletes]
        calls += [lambda m=m: self._make_pod(m) for m in plan.pods]
        for call in calls[:calls_max]:
            call()
        self._check_one_live()
        if calls_max >= len(calls):
            self.events += plan.events

    def settle(self) -> None:
        for _ in range(SETTLED_WITHIN):
            plan = self.decide()
            if plan.is_empty:
                return
            self.carry_out(plan)
        raise AssertionError(f"it doesn't come to rest: {plan}")

    def _make_unit(self, manifest: Any) -> None:
        name = manifest["metadata"]["name"]
        if name not in self.units:
            self.units[name] = Child(kind="ConfigMap", name=name, uid=self._uid())

    def _probe(self) -> None:
        self.is_probed = True

    def _write(self, status: Any) -> None:
        old, new = self.status, msgspec.json.decode(msgspec.json.encode(status), type=type(status))
        assert new == status
        if old is not None:
            assert old.phase is not TaskSetPhase.COMPLETED, "finished is final"
            has_stepped_back = (old.state, new.state) == (
                TaskSetState.RUNNING,
                TaskSetState.WAITING,
            )
            is_retry = new.phase is TaskSetPhase.RETRY_PENDING or (
                new.total_retried_count > old.total_retried_count
            )
            assert is_retry or not has_stepped_back
            assert old.start_at in (None, new.start_at)
            assert new.preempt_count >= old.preempt_count
        self.status = new

    def _delete(self, delete: Delete) -> None:
        if delete.kind == "ConfigMap":
            assert delete.propagation == "Background"
            unit = self.units.get(delete.name)
            if unit is not None and unit.uid == delete.uid:
                del self.units[delete.name]
            return
        pod = self.pods.get(delete.name)
        if pod is not None and pod["metadata"]["uid"] == delete.uid:
            self.delete(delete.name, GRACE_SECONDS if delete.grace_seconds is None else 0)

    def _make_pod(self, manifest: Any) -> None:
        meta = manifest["metadata"]
        name, (owner,) = meta["name"], meta["ownerReferences"]
        assert self.status is not None
        assert owner["controller"]
        assert owner["uid"] == meta["annotations"]["CID"]
        if name in self.pods:
            return
        created = {"uid": self._uid(), "creationTimestamp": text_of(self.now)}
        self.pods[name] = {
            "metadata": {**meta, **created},
            "spec": {},
            "status": {"phase": "Pending"},
        }
        self.made[name] += 1
        self._check_counted(self.facts(name))

    def _check_counted(self, pod: Pod) -> None:
        assert self.status is not None
        assert pod.owner.name == f"c-t-{self.status.total_retried_count}"
        assert self.row(pod.role, pod.rank).total_retried_count == pod.attempt
        if pod.attempt:
            number = self.status.total_retried_count
            assert self.exits[f"t-{pod.role}-{number}-{pod.attempt - 1}-{pod.rank}"] != 0

    def _check_one_live(self) -> None:
        live = Counter(
            (pod.role, pod.rank) for pod in map(self.facts, self.pods) if not pod.has_finished
        )
        assert all(count == 1 for count in live.values()), live

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    # What happens to pods.

    def run(self, *names: str) -> None:
        for name in names or [n for n in self.pods if not self.facts(n).has_finished]:
            pod = self.pods[name]
            pod["spec"] = {"nodeName": "node-1"}
            running = {"running": {"startedAt": text_of(self.now)}}
            pod["status"] = {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "containerStatuses": [{"name": "main", "state": running, "containerID": "c://1"}],
            }

    def exit(self, name: str, code: int = 0, *, message: str = "", sidecar: bool = False) -> None:
        self.exits[name] = code
        phase = "Running" if sidecar else "Failed" if code else "Succeeded"
        ended = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "message": message,
            "startedAt": text_of(self.now),
            "finishedAt": text_of(self.now),
        }
        statuses: list[dict[str, Any]] = [{"name": "main", "state": {"terminated": ended}}]
        if sidecar:
            running = {"running": {"startedAt": text_of(self.now)}}
            statuses.append({"name": "sidecar", "state": running})
        self.pods[name]["spec"] = {"nodeName": "node-1"}
        self.pods[name]["status"] = {"phase": phase, "containerStatuses": statuses}

    def evict(self, name: str) -> None:
        self.pods[name]["status"] = {"phase": "Failed", "reason": "Evicted", "message": "disk"}

    def delete(self, name: str, grace_seconds: int = GRACE_SECONDS) -> None:
        """As an API server does: a pod that nobody runs is gone at once."""
        pod = self.facts(name)
        if pod.has_finished or not pod.node or not grace_seconds:
            del self.pods[name]
            return
        meta = self.pods[name]["metadata"]
        meta.setdefault("deletionTimestamp", text_of(self.now + grace_seconds))
        meta.setdefault("deletionGracePeriodSeconds", grace_seconds)

    def reap(self) -> None:
        """The kubelet is done with what was told to go."""
        self.pods = {n: p for n, p in self.pods.items() if not self.facts(n).is_terminating}

    # How it stands.

    @property
    def standing(self) -> tuple[TaskSetState | None, TaskSetPhase | None]:
        return (self.status.state, self.status.phase) if self.status else (None, None)

    def role(self, name: str) -> RoleStatus:
        assert self.status is not None
        return next(each for each in self.status.role_status if each.name == name)

    def row(self, role_name: str, index: int = 0) -> RoleReplicaStatus:
        return self.role(role_name).replica_status[index]

    def told(self, reason: str) -> list[str]:
        return [event.message for event in self.events if event.reason == reason]


def started(world: World) -> World:
    """All replicas of the first attempt run."""
    world.settle()
    world.run()
    world.settle()
    return world
