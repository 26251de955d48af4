"""Model nodes: what becomes of pods once they are made, and how each of them came to its end.

Pods are bound, start, get ready, end by themselves with some code, are evicted, stay with a node
that is lost, and go when they are told to, in their own time. Each pod's `Life` keeps what really
happened to it and why: that is what the invariants compare a job's status with. It decides
nothing about jobs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from jobyard.plan.lowering.description import Role
from jobyard.plan.lowering.names import (
    ATTEMPT,
    JOB_ATTEMPT,
    REPLICA_RANK,
    REPLICA_TYPE,
    REVISION,
    ROLE_INDEX,
    TASK_ROLE,
    TASKSET_UID,
)
from jobyard.plan.moments import text_of
from simulation.server import JSON, Server

EXIT_CODES = (0, 0, 0, 0, 1, 1, 2, 130, 137, 143)
NODES = ("n0", "n1", "n2")


class Cause(StrEnum):
    """Why a pod ended."""

    ITSELF = "by itself"
    TAKEN = "taken away by the cluster"
    ASKED = "was told to go"


class Life:
    """One pod from its making to its end."""

    def __init__(self, pod: JSON, role: Role | None) -> None:
        meta = pod["metadata"]
        labels, notes = meta.get("labels", {}), meta.get("annotations", {})
        (owner,) = meta.get("ownerReferences") or ({},)
        self.key = meta["namespace"], meta["name"]
        self.uid: str = meta["uid"]
        self.owner_uid: str = owner.get("uid", "")
        self.job_uid: str = notes.get(TASKSET_UID, self.owner_uid)
        self.role: str = labels.get(REPLICA_TYPE) or labels.get(TASK_ROLE, "")
        self.rank = int(labels.get(REPLICA_RANK) or notes.get(ROLE_INDEX, 0))
        self.attempt = int(notes.get(ATTEMPT, 0))
        self.job_attempt = int(notes.get(JOB_ATTEMPT, 0))
        words = notes.get(REVISION, "").split(".")
        # What is fixed of the spec that it was made from.
        self.spec: JSON = {}
        # The attempt of the whole, for a TaskSet: <taskset>-<role>-<whole>-<attempt>-<index>.
        self.whole = int(meta["name"].split("-")[-3]) if TASKSET_UID in notes else 0
        self.is_debug = "debug" in words
        self.names = [c["name"] for c in pod["spec"]["containers"]]
        self.main = role.main_container if role is not None else self.names[0]
        # When it ends, whatever its code, it failed.
        self.is_server = role is not None and role.serves
        self.has_init = bool(pod["spec"]["initContainers"])
        self.phase = "Pending"
        self.reason = ""
        self.node = ""
        self.bound_at = 0.0
        # How far its node's clock is ahead.
        self.ahead = 0.0
        self.is_gone = False
        # In the order of all that was made and went.
        self.born = 0
        self.left = 0
        self.is_ready = False
        self.is_out_of_reach = False
        self.is_disrupted = False
        self.disrupted_at = 0.0
        self.is_ambiguous = False
        self.unschedulable = False
        self.waits_for = ""
        self.init_code: int | None = None
        # By container: when it started; how and when it ended.
        self.started: dict[str, float] = {}
        self.ended: dict[str, tuple[int, float]] = {}
        self.cause: Cause | None = None
        self.exit_code: int | None = None
        self.ended_at = 0.0
        # The version of the pod object that first told of the end.
        self.end_version = 0
        # When deletion was asked for, and who did first.
        self.asked_at: float | None = None
        self.asked_by: Any = None

    @property
    def is_over(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_alive(self) -> bool:
        """Its main container runs or may still run."""
        return not self.is_gone and not self.is_over and self.main not in self.ended

    @property
    def replica(self) -> tuple[str, int]:
        return self.role, self.rank

    def __repr__(self) -> str:
        end = f" {self.cause} {self.exit_code}" if self.cause else ""
        asked = " told to go" if self.asked_at is not None else ""
        gone = " gone" if self.is_gone else ""
        return f"<{self.key[1]} {self.uid} #{self.attempt} {self.phase}{end}{asked}{gone}>"


class Kubelet:
    """All nodes, the scheduler and what kills pods."""

    def __init__(
        self,
        server: Server,
        dice: random.Random,
        now: Callable[[], float],
        role_of: Callable[[JSON], Role | None],
    ) -> None:
        self._server = server
        self._dice = dice
        self._now = now
        self._role_of = role_of
        self.lives: dict[str, Life] = {}
        self.present: dict[str, Life] = {}
        self.lost: set[str] = set()
        # Nodes that were lost at any time: an answer about them may be an old one.
        self.was_lost: set[str] = set()
        # Nodes that say they aren't ready: what runs there runs on.
        self.troubled: set[str] = set()
        # How far the clock of each node is ahead of the API server's.
        self.ahead = dict.fromkeys(NODES, 0.0)
        # How often a pod is taken away, and how often it fails by itself.
        self.cruelty = 0.05
        # With nothing left to go wrong everything takes its course.
        self.is_fair = False
        for node in NODES:
            self._put_node(node)

    def set_clocks(self) -> None:
        """Some nodes have a clock of their own."""
        for node in NODES:
            self.ahead[node] = self._dice.choice((0.0, 0.0, 40.0, 4000.0, -40.0, -4000.0))

    # Told by the server's audit.

    def made(self, pod: JSON) -> Life:
        life = Life(pod, self._role_of(pod))
        self.lives[life.uid] = self.present[life.uid] = life
        return life

    def asked(self, pod: JSON, by: Any) -> None:
        life = self.lives[pod["metadata"]["uid"]]
        if life.asked_at is None:
            life.asked_at, life.asked_by = self._now(), by

    def gone(self, pod: JSON) -> None:
        life = self.present.pop(pod["metadata"]["uid"])
        life.is_gone = True

    # Steps.

    def step(self) -> str:
        if not self.present:
            return ""
        life = self._dice.choice(list(self.present.values()))
        return self.step_of(life)

    def step_of(self, life: Life) -> str:
        if life.node in self.lost:
            return self._on_a_lost_node(life)
        if life.asked_at is not None:
            return self._leave(life)
        if life.is_over:
            return ""
        if not life.node:
            return self._bind(life)
        if not life.started:
            return self._start(life)
        if life.is_out_of_reach:
            life.phase, life.is_out_of_reach = "Running", False
            return self._write(life, "is heard of again")
        if life.main in life.ended:
            return self._end_sidecar(life)
        return self._run(life)

    def node_step(self) -> str:
        """A node is lost or comes back."""
        node = self._dice.choice(NODES)
        if node in self.lost or node in self.troubled:
            self.bring_back(node)
            return f"node {node} is back"
        if self._dice.random() < 0.4:
            self.troubled.add(node)
            self._put_node(node)
            return f"node {node} is in trouble"
        self.lost.add(node)
        self.was_lost.add(node)
        self._put_node(node)
        return f"node {node} is lost"

    def bring_back(self, node: str) -> None:
        self.lost.discard(node)
        self.troubled.discard(node)
        self._put_node(node)

    def _put_node(self, node: str) -> None:
        status = "Unknown" if node in self.lost else "False" if node in self.troubled else "True"
        self._server.objects.setdefault("nodes", {})["", node] = {
            "metadata": {"name": node},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        }

    def _bind(self, life: Life) -> str:
        free = [node for node in NODES if node not in self.lost]
        if not free or (not self.is_fair and self._dice.random() < 0.1):
            if life.unschedulable:
                return ""
            life.unschedulable = True
            return self._write(life, "finds no node")
        life.unschedulable = False
        life.node, life.bound_at = self._dice.choice(free), self._now()
        life.ahead = self.ahead[life.node]
        if not self.is_fair and self._dice.random() < self.cruelty:
            life.reason = "OutOfcpu"
            return self._finish(life, Cause.TAKEN, None, "refused by its node")
        return self._write(life, f"bound to {life.node}")

    def _start(self, life: Life) -> str:
        chance = self._dice.random()
        if not self.is_fair:
            if chance < 0.05:
                if life.waits_for:
                    return ""
                life.waits_for = "ImagePullBackOff"
                return self._write(life, "can't pull its image")
            if chance < 0.05 + self.cruelty:
                return self._evict(life)
            if chance > 0.93 and life.has_init:
                life.init_code = 3
                return self._finish(life, Cause.ITSELF, 3, "init container fails")
        life.waits_for = ""
        life.phase = "Running"
        for name in life.names:
            life.started[name] = self._now()
        return self._write(life, "runs")

    def _run(self, life: Life) -> str:
        if not life.is_ready and self._dice.random() < 0.7:
            life.is_ready = True
            return self._write(life, "is ready")
        # TensorBoard and debug commands don't end by themselves as a rule.
        is_lasting = life.role == "" or (life.is_debug and self._dice.random() < 0.9)
        if is_lasting and (self.is_fair or self._dice.random() > self.cruelty):
            return ""
        if not self.is_fair and self._dice.random() < self.cruelty:
            return self._evict(life)
        if not self.is_fair and not life.is_disrupted and self._dice.random() < self.cruelty:
            self._disrupt(life)
            return self._write(life, "is about to be disrupted")
        return self.end(life, self._dice.choice(EXIT_CODES))

    def end(self, life: Life, code: int) -> str:
        """The main container ends by itself; sidecars may go on, and the phase may come late."""
        has_failed = code != 0 or life.is_server
        cause = Cause.TAKEN if life.is_disrupted and has_failed else Cause.ITSELF
        # Until its phase says that it succeeded, an end in the middle of that may mean anything.
        life.is_ambiguous = life.is_ambiguous or (life.is_disrupted and not has_failed)
        others = [n for n in life.names if n not in life.ended and n != life.main]
        if others and self._dice.random() < 0.7:
            self._end_container(life, life.main, code)
            life.is_ready = False
            return self._ended(life, cause, code, f"main ends with {code}, sidecars go on")
        if not others and self._dice.random() < 0.2:
            self._end_container(life, life.main, code)
            life.is_ready = False
            return self._ended(life, cause, code, f"ends with {code}, its phase is told later")
        return self._finish(life, cause, code, f"ends with {code}")

    def _end_sidecar(self, life: Life) -> str:
        is_owed = self.is_fair and all(name in life.ended for name in life.names)
        if not is_owed and self._dice.random() < 0.8:
            return ""
        for name in life.names:
            if name not in life.ended:
                self._end_container(life, name, 0)
        return self._over(life, "is over")

    def _evict(self, life: Life) -> str:
        if self._dice.random() < 0.7:
            self._disrupt(life)
        life.reason = "Evicted"
        # A program may save its work when it is told to go, and end well.
        code = self._dice.choice((137, 137, 143, 0))
        return self._finish(life, Cause.TAKEN, code if life.started else None, "evicted")

    def _disrupt(self, life: Life) -> None:
        if not life.is_disrupted:
            life.is_disrupted, life.disrupted_at = True, self._now()

    def _on_a_lost_node(self, life: Life) -> str:
        chance = self._dice.random()
        if life.is_over:
            return ""
        if chance < 0.2 and life.phase == "Running":
            # Old clusters say so by the phase, today's by readiness alone.
            if self._dice.random() < 0.5:
                life.phase = "Unknown"
            life.is_out_of_reach, life.is_ready = True, False
            return self._write(life, "nothing is heard of it")
        if chance < 0.5 and life.asked_at is None:
            if self._dice.random() < 0.5:
                self._disrupt(life)
                # From its conditions nobody can tell which came first.
                life.is_ambiguous = life.main in life.ended
                self._write(life, "")
            self._server.delete("pods", self._pod(life), "node controller")
            return f"{life.key[1]} deleted from its lost node"
        return ""

    def _leave(self, life: Life) -> str:
        """A pod that was told to go: ends, then is gone; or is gone at once."""
        if life.node in self.troubled and self._dice.random() < 0.9 and not self.is_fair:
            # Such a node takes its time.
            return ""
        if not life.is_over and self._dice.random() < 0.6:
            code = self._dice.choice((143, 143, 0, 1))
            if life.main in life.ended:
                return self._finish_rest(life)
            started = bool(life.started)
            return self._finish(
                life, Cause.ASKED, code if started else None, f"ends with {code} as told"
            )
        self._server.remove("pods", self._pod(life), "kubelet")
        return f"{life.key[1]} is gone"

    def _finish_rest(self, life: Life) -> str:
        for name in life.names:
            if name not in life.ended:
                self._end_container(life, name, 143)
        return self._over(life, "sidecars end as told")

    def _end_container(self, life: Life, name: str, code: int) -> None:
        life.ended[name] = code, self._now()

    def _finish(self, life: Life, cause: Cause, code: int | None, what: str) -> str:
        if life.started:
            for name in life.names:
                if name not in life.ended:
                    self._end_container(life, name, code if code is not None else 137)
        life.is_ready = False
        is_good = bool(life.started) and all(c == 0 for c, _ in life.ended.values())
        life.phase = "Succeeded" if is_good and not life.reason else "Failed"
        if life.cause is not None:
            return self._write(life, what)
        return self._ended(life, cause, code, what)

    def _over(self, life: Life, what: str) -> str:
        is_good = all(code == 0 for code, _ in life.ended.values())
        life.phase = "Succeeded" if is_good else "Failed"
        return self._write(life, what)

    def _ended(self, life: Life, cause: Cause, code: int | None, what: str) -> str:
        life.cause, life.exit_code, life.ended_at = cause, code, self._now()
        said = self._write(life, what)
        life.end_version = self._server.version
        return said

    def _pod(self, life: Life) -> JSON:
        return self._server.objects["pods"][life.key]

    def _write(self, life: Life, what: str) -> str:
        old = self._pod(life)
        spec = old["spec"]
        if life.node and not spec.get("nodeName"):
            spec = {**spec, "nodeName": life.node}
        self._server.update(
            "pods", old, {**old, "spec": spec, "status": status_of(life)}, "kubelet"
        )
        return f"{life.key[1]} {what}"


def status_of(life: Life) -> JSON:
    out: JSON = {"phase": life.phase}
    if life.reason:
        out["reason"] = life.reason
    # A node that isn't heard of gives no reason: somebody else says so in its place.
    why = "" if life.is_ready or life.is_out_of_reach else "ContainersNotReady"
    conditions = [{"type": "Ready", "status": "True" if life.is_ready else "False", "reason": why}]
    if life.is_disrupted:
        conditions.append(
            {
                "type": "DisruptionTarget",
                "status": "True",
                "lastTransitionTime": text_of(life.disrupted_at),
            }
        )
    if life.node:
        out["startTime"] = text_of(life.bound_at + life.ahead)
        scheduled = {"type": "PodScheduled", "status": "True"}
        conditions.append({**scheduled, "lastTransitionTime": text_of(life.bound_at)})
    if life.unschedulable:
        conditions.append(
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
        )
    out["conditions"] = conditions
    if life.node:
        out["podIP"], out["hostIP"] = "10.0.0.1", "10.1.0.1"
    if life.init_code is not None:
        ended = {
            "exitCode": life.init_code,
            "reason": "Error",
            "finishedAt": text_of(life.ended_at + life.ahead),
        }
        out["initContainerStatuses"] = [{"name": "init", "state": {"terminated": ended}}]
    elif life.started or life.waits_for:
        out["containerStatuses"] = [_container(life, name) for name in life.names]
    return out


def _container(life: Life, name: str) -> JSON:
    if name in life.ended:
        code, moment = life.ended[name]
        terminated = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "OOMKilled" if code == 137 else "Error",
            "startedAt": text_of(life.started[name] + life.ahead),
            "finishedAt": text_of(moment + life.ahead),
        }
        return {"name": name, "containerID": f"c-{life.uid}", "state": {"terminated": terminated}}
    if name in life.started:
        running = {"startedAt": text_of(life.started[name] + life.ahead)}
        return {"name": name, "containerID": f"c-{life.uid}", "state": {"running": running}}
    return {"name": name, "state": {"waiting": {"reason": life.waits_for or "ContainerCreating"}}}
