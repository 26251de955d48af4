"""A job and its children in memory: plans are applied to it, and pods live by hand.

There is no API server here: tests of the decision call `decide`, apply a plan or only its first
steps (as a controller does that is killed), and say themselves what becomes of the pods. A
status is stored as JSON, so what doesn't survive that is not remembered here either.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from jobyard.api.crd import schema_node
from jobyard.api.kinds import kind_of
from jobyard.api.parts.status import ConditionType, ContainerState, ReplicaStatus
from jobyard.plan.deciding.supporting import wanted_objects
from jobyard.plan.facts.decision import (
    Child,
    ChildKey,
    Delete,
    Event,
    Observed,
    Obstacle,
    Plan,
    PodWarning,
    child_key,
)
from jobyard.plan.facts.pod_facts import Container, Pod, PodObject, PodPhase, facts_of
from jobyard.plan.lowering.names import DIGEST
from jobyard.plan.lowering.table import described
from jobyard.plan.moments import text_of
from jobyard.plan.table import decisions_of, status_type
from jobyard.schema.admission import admitted

START = 1_800_000_000.0
# The steps of a plan in the order in which they are done.
STEPS = ("supporting", "probes", "status", "deletes", "pods", "events")
GRACE_SECONDS = 30
_ROUNDS_MAX = 30


class World:
    """One job, what belongs to it, and what time it is."""

    def __init__(self, manifest: dict[str, Any], now: float = START) -> None:
        kind = kind_of(manifest["apiVersion"], manifest["kind"])
        assert kind is not None
        self.kind = kind
        self.now = now
        self.generation = 0
        self.job: dict[str, Any] | None = None
        self.status: Any = None
        self.pods: dict[str, Pod] = {}
        self.children: dict[ChildKey, Child] = {}
        self.obstacles: dict[ChildKey, Obstacle] = {}
        # What the API server refuses, and why.
        self.refused: dict[ChildKey, Obstacle] = {}
        self.is_probed = False
        self.is_deleting = False
        self.is_gone = False
        self.lost_nodes: frozenset[str] = frozenset()
        self.pod_warnings: dict[str, PodWarning] = {}
        self.job_url = ""
        self.events: list[Event] = []
        # Names of the pods that were made, in order.
        self.made: list[str] = []
        self._containers: dict[str, list[str]] = {}
        self._uids = 0
        self.change(manifest)

    # The job.

    def change(self, manifest: dict[str, Any]) -> None:
        """A new version of the job, as far as the API server takes it."""
        old = None
        if self.job is not None:
            status = msgspec.json.decode(msgspec.json.encode(self.status))
            old = {**self.job, "status": status} if status else self.job
        verdict = admitted(copy.deepcopy(manifest), schema_node(self.kind), old)
        assert not verdict.errors, verdict.errors
        self.job = verdict.value
        self.job["metadata"]["uid"] = "job-uid"
        description = described(self.kind, self.job)
        assert description is not None
        self.description = description
        self.wanted = wanted_objects(description)
        self.generation += 1

    def set(self, **fields: Any) -> None:
        """Changes fields of the spec: `runMode__pause__enabled=False`."""
        manifest = copy.deepcopy(self.job)
        assert manifest is not None
        for path, value in fields.items():
            *parents, last = path.split("__")
            place = manifest["spec"]
            for name in parents:
                place = place.setdefault(name, {})
            place[last] = value
        self.change(manifest)

    def pause(self) -> None:
        self.set(runMode__pause__enabled=True)

    def resume(self) -> None:
        self.set(runMode__pause__enabled=False)

    # Deciding and doing.

    @property
    def seen(self) -> Observed:
        return Observed(
            description=self.description,
            wanted=self.wanted,
            generation=self.generation,
            is_deleting=self.is_deleting,
            status=self.status,
            pods=tuple(self.pods.values()),
            children=dict(self.children),
            obstacles=dict(self.obstacles),
            is_probed=self.is_probed,
            lost_nodes=self.lost_nodes,
            pod_warnings=dict(self.pod_warnings),
            job_url=self.job_url,
        )

    def decide(self) -> Plan:
        return decisions_of(self.kind).decide(self.seen, self.now, None)

    def step(self, until: str = "events") -> Plan:
        """Decides, and does the steps up to this one: then the controller is killed."""
        plan = self.decide()
        self.apply(plan, until)
        return plan

    def _is_stuck(self, plan: Plan) -> bool:
        """All that is left to do is what was refused before."""
        rest = msgspec.structs.replace(plan, pods=(), look_again_at=None)
        keys = [child_key(pod) for pod in plan.pods]
        return rest == Plan() and all(key in self.refused for key in keys)

    def settle(self) -> tuple[Event, ...]:
        """Until nothing is left to do but to wait; the events that were told."""
        told = len(self.events)
        for _ in range(_ROUNDS_MAX):
            plan = self.step()
            is_refused = plan.probes and not self.is_probed
            if plan.is_empty or plan.ends_job or is_refused or self._is_stuck(plan):
                return tuple(self.events[told:])
        raise AssertionError(f"the decision doesn't come to rest: {self.decide()}")

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def go_on(self) -> None:
        """Delays are over, old pods are gone, new ones run."""
        self.settle()
        self.wait(301)
        self.settle()
        self.reap()
        self.settle()
        self.run()
        self.settle()

    def apply(self, plan: Plan, until: str = "events") -> None:
        for step in STEPS[: STEPS.index(until) + 1]:
            getattr(self, f"_do_{step}")(plan)
        if until == "events":
            self.is_gone = self.is_gone or plan.ends_job

    def _do_supporting(self, plan: Plan) -> None:
        for manifest in plan.supporting:
            key = child_key(manifest)
            assert key not in self.children, f"{key} is there already"
            if self._is_refused(key):
                continue
            if manifest["kind"] == "Pod":
                self._make(manifest)
            digest = manifest["metadata"]["annotations"][DIGEST]
            self.children[key] = Child(kind=key[0], name=key[1], uid=self._uid(), digest=digest)

    def _do_probes(self, plan: Plan) -> None:
        if plan.probes:
            refused = [self._is_refused(child_key(manifest)) for manifest in plan.probes]
            self.is_probed = not any(refused)

    def _do_status(self, plan: Plan) -> None:
        if plan.status is not None:
            encoded = msgspec.json.encode(plan.status)
            self.status = msgspec.json.decode(encoded, type=status_type(self.kind))
            assert self.status == plan.status

    def _do_deletes(self, plan: Plan) -> None:
        for delete in plan.deletes:
            if delete.kind == "Pod" and ("Pod", delete.name) not in self.children:
                self._delete_pod(delete)
            else:
                child = self.children.pop((delete.kind, delete.name))
                assert child.uid == delete.uid

    def _do_pods(self, plan: Plan) -> None:
        for manifest in plan.pods:
            name = manifest["metadata"]["name"]
            assert name not in self.pods, f"pod {name} is there already"
            if not self._is_refused(("Pod", name)):
                self._make(manifest)
                self.made.append(name)

    def _do_events(self, plan: Plan) -> None:
        self.events.extend(plan.events)

    def _is_refused(self, key: ChildKey) -> bool:
        if key in self.refused:
            self.obstacles[key] = self.refused[key]
        else:
            self.obstacles.pop(key, None)
        return key in self.refused

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _make(self, manifest: Mapping[str, Any]) -> None:
        value = msgspec.to_builtins(manifest)
        value["metadata"] |= {"uid": self._uid(), "creationTimestamp": text_of(self.now)}
        pod = facts_of(msgspec.convert(value, PodObject))
        self.pods[pod.name] = pod
        self._containers[pod.name] = [c["name"] for c in value["spec"]["containers"]]

    def _delete_pod(self, delete: Delete) -> None:
        pod = self.pods[delete.name]
        assert pod.uid == delete.uid
        if delete.grace_seconds == 0 or not pod.node:
            del self.pods[pod.name]
        else:
            assert not pod.is_terminating, f"{pod.name} was told to go already"
            self.tell_to_go(pod.name)

    # The lives of pods.

    def _update(self, name: str, **facts: Any) -> None:
        self.pods[name] = msgspec.structs.replace(self.pods[name], **facts)

    def schedule(self, *names: str, node: str = "node-1") -> None:
        for name in names:
            self._update(name, node=node)

    def run(self, *names: str, is_ready: bool = True) -> None:
        """The pods run, all of them if none is named."""
        for name in names or self.replicas(PodPhase.PENDING):
            running = tuple(
                Container(name=each, state=ContainerState.RUNNING, started_at=self.now)
                for each in self._containers[name]
            )
            node = self.pods[name].node or "node-1"
            self._update(
                name, phase=PodPhase.RUNNING, node=node, is_ready=is_ready, containers=running
            )

    def end(
        self, name: str, code: int = 0, *, message: str = "", sidecars_run: bool = False
    ) -> None:
        """The main container of a pod ends, and the others too unless they go on."""
        pod = self.pods[name]
        main = self.main_container(pod)
        ended = tuple(
            c if sidecars_run and c.name != main else _ended(c, code, message, self.now)
            for c in pod.containers
        )
        phase = PodPhase.FAILED if code else PodPhase.SUCCEEDED
        self._update(
            name,
            containers=ended,
            is_ready=False,
            phase=pod.phase if sidecars_run else phase,
        )

    def take_away(self, name: str, reason: str = "Evicted", code: int | None = 137) -> None:
        """The kubelet or a scheduler ends the pod, and says why."""
        if code is not None:
            self.end(name, code)
        self._update(
            name,
            phase=PodPhase.FAILED,
            reason=reason,
            was_taken_away=True,
            taken_away_at=self.now,
        )

    def lose_sight_of(self, *names: str) -> None:
        """The node of these pods isn't heard of: all that today's clusters change is readiness."""
        for name in names:
            self._update(name, is_ready=False, is_out_of_reach=True)

    def see_again(self, *names: str) -> None:
        for name in names:
            self._update(name, is_ready=True, is_out_of_reach=False)

    def tell_to_go(self, name: str) -> None:
        """Somebody deletes the pod: it has its grace."""
        self._update(
            name,
            deletion_asked_at=self.now,
            deletion_due_at=self.now + GRACE_SECONDS,
            is_ready=False,
        )

    def reap(self, *names: str) -> list[str]:
        """Pods that were told to go are gone."""
        gone = [pod.name for pod in self.pods.values() if pod.is_terminating]
        gone = [name for name in gone if not names or name in names]
        for name in gone:
            del self.pods[name]
        return gone

    def main_container(self, pod: Pod) -> str:
        roles = {role.type: role.main_container for role in self.description.roles}
        return roles.get(pod.role, "")

    # Looking at it.

    def replicas(self, *phases: PodPhase) -> list[str]:
        """Names of the pods of replicas that are not on their way out."""
        return [
            pod.name
            for pod in self.pods.values()
            if pod.role and not pod.is_terminating and (not phases or pod.phase in phases)
        ]

    @property
    def rows(self) -> dict[str, ReplicaStatus]:
        return {row.name: row for task in self.status.tasks for row in task.status}

    def condition(self, type_: str) -> tuple[str, str, str]:
        found = next(c for c in self.status.conditions if c.type == ConditionType(type_))
        return str(found.status), found.reason, found.message

    def started(self) -> World:
        """Initialized, pods made and all of them running."""
        self.settle()
        self.run()
        self.settle()
        return self


def _ended(container: Container, code: int, message: str, now: float) -> Container:
    return msgspec.structs.replace(
        container,
        state=ContainerState.TERMINATED,
        exit_code=code,
        reason="Completed" if code == 0 else "Error",
        message=message,
        finished_at=now,
    )
