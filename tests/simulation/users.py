"""What people and other programs do to jobs and pods while the controller works.

All through the model server, edits through the real rules for changes. Strangers are objects
with a name that a job wants, which belong to nobody or to somebody else.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from jobyard.api.crd import schema_node
from jobyard.plan.lowering.names import MANAGED_BY, pod_name
from jobyard.plan.lowering.ssh import files_name, keys_name
from jobyard.schema.admission import admitted
from simulation.controller import pick
from simulation.facts import Job
from simulation.invariants import Invariants
from simulation.jobs import KINDS, random_job
from simulation.server import JSON, Server

_KINDS = {"pods": "Pod", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret"}


class Users:
    """Everybody but the controller and the cluster."""

    def __init__(self, server: Server, dice: random.Random, invariants: Invariants) -> None:
        self._server = server
        self._dice = dice
        self._invariants = invariants
        self._made = 0
        self.may_edit = True
        self.may_delete = True
        self.may_be_strange = True
        self.kinds: tuple[str, ...] = ()
        # Jobs that go once what belongs to them has gone.
        self.foreground: set[str] = set()

    @property
    def jobs(self) -> list[Job]:
        return [job for job in self._invariants.jobs.values() if not job.is_gone]

    def create(self) -> str:
        # Names come back, so that a job may find what is left of one of the same name.
        number = self._dice.randrange(3)
        job = random_job(self._dice, f"x{number}", self.kinds or KINDS)
        if self._dice.random() < 0.95:
            # Else two kinds may want the same names.
            job["metadata"]["name"] = f"{job['kind'].lower()[:3]}{number}"
        name = job["metadata"]["name"]
        plural = job["kind"].lower() + "s"
        if any(other.key == ("default", name) and other.plural == plural for other in self.jobs):
            return ""
        self._made += 1
        self._server.create(plural, "default", job, "user")
        return f"{job['kind']} {name} is created"

    def step(self) -> str:
        if not self.jobs:
            return ""
        job = pick(self._dice, self.jobs)
        chance = self._dice.random()
        if chance < 0.4:
            return self._edit(job) if self.may_edit else ""
        if chance < 0.5:
            return self._delete_job(job) if self.may_delete else ""
        if chance < 0.65:
            return self._delete_child(job) if self.may_delete else ""
        return self._stranger(job) if self.may_be_strange else ""

    def _edit(self, job: Job) -> str:
        if "deletionTimestamp" in job.obj["metadata"]:
            return ""
        spec = copy.deepcopy(job.obj["spec"])
        what = self._changed(job, spec)
        return self.store(job, spec, what)

    def store(self, job: Job, spec: JSON, what: str) -> str:
        """The job with another spec, if the rules allow it."""
        if not what or spec == job.obj["spec"]:
            return ""
        new = {**job.obj, "spec": spec}
        if admitted(copy.deepcopy(new), schema_node(job.kind), copy.deepcopy(job.obj)).errors:
            return ""
        self._server.update(job.plural, job.obj, new, "user")
        return f"{job}: {what}"

    def _changed(self, job: Job, spec: JSON) -> str:
        dice = self._dice
        if job.is_taskset:
            spec["retryPolicy"] = {
                "retry": True,
                "maxRetryCount": dice.choice((0, 1, 2)),
                "delay": 0,
            }
            return "another retryPolicy"
        if job.is_paused and dice.random() < 0.4 and (what := self._changed_template(spec)):
            # What a pause is for: something is mended, and the job goes on, at once or later.
            if dice.random() < 0.5:
                # Also beside the older spelling, where it counts.
                spec["runMode"]["pause"]["enabled"] = False
            return what
        chance = dice.random()
        if chance < 0.6:
            mode = spec.setdefault("runMode", {})
            which = "pause" if dice.random() < 0.7 else "debug"
            switch = mode.setdefault(which, {})
            # Whoever turns a switch writes the field that is there.
            field = "enable" if switch.keys() & {"enable", "enabled"} == {"enable"} else "enabled"
            switch[field] = not switch.get(field, False)
            return f"{which} {switch[field]}"
        if chance < 0.75 and spec.get("elastic", {}).get("enabled"):
            return self._scaled(spec["elastic"])
        if chance < 0.85 and (what := self._changed_template(spec)):
            return what
        return self._changed_policy(job, spec)

    def scale(self) -> str:
        """What somebody does who does nothing else."""
        jobs = [job for job in self.jobs if job.obj["spec"].get("elastic", {}).get("enabled")]
        if not jobs:
            return ""
        job = pick(self._dice, jobs)
        spec = copy.deepcopy(job.obj["spec"])
        return self.store(job, spec, self._scaled(spec["elastic"]))

    def _scaled(self, elastic: JSON) -> str:
        count = self._dice.randint(elastic["minReplicas"], elastic["maxReplicas"])
        elastic["expectedReplicas"] = count
        return f"scaled to {count}"

    def _changed_template(self, spec: JSON) -> str:
        """Only taken while no pod depends on it."""
        dice = self._dice
        replicas = spec.get("replicaSpecs") or [spec[name] for name in ("worker",) if name in spec]
        if not replicas:
            return ""
        replica = pick(dice, replicas)
        replica["replicas"] = dice.randint(1, 3)
        for container in replica["template"]["spec"]["containers"]:
            container["image"] = dice.choice(("other", "another"))
        return "another template"

    def _changed_policy(self, job: Job, spec: JSON) -> str:
        dice = self._dice
        policy: JSON = spec if job.kind.name == "GenericJob" else spec.setdefault("runPolicy", {})
        options: dict[str, Any] = {"ttlSecondsAfterFinished": dice.choice((0, 10, 500))}
        if "cleanUpPolicy" in policy:
            options["cleanUpPolicy"] = dice.choice(("None", "All", "Unfinished"))
        if "backoffLimit" in policy:
            options["backoffLimit"] = dice.choice((0, 1, 3, 6))
        field = dice.choice(sorted(options))
        policy[field] = options[field]
        return f"{field} {options[field]}"

    def _delete_job(self, job: Job) -> str:
        if self._dice.random() < 0.7 or job.uid in self.foreground:
            self.foreground.discard(job.uid)
            self._server.remove(job.plural, job.obj, "user")
            return f"{job} is deleted"
        self.foreground.add(job.uid)
        mark = {"deletionTimestamp": job.obj["metadata"]["creationTimestamp"]}
        metadata = {**job.obj["metadata"], **mark}
        self._server.update(job.plural, job.obj, {**job.obj, "metadata": metadata}, "user")
        return f"{job} is deleted in the foreground"

    def _delete_child(self, job: Job) -> str:
        owned = sorted(self._server.owned.get(job.uid, ()))
        for uid in tuple(owned):
            owned += sorted(self._server.owned.get(uid, ()))
        if not owned:
            return ""
        plural, key = self._server.by_uid[pick(self._dice, owned)]
        grace = 0 if self._dice.random() < 0.1 else None
        self._server.delete(plural, self._server.objects[plural][key], "user", grace)
        return f"{plural} {key[1]} is deleted by hand"

    def _stranger(self, job: Job) -> str:
        strangers = [
            (plural, obj)
            for plural in ("pods", "services", "configmaps", "secrets")
            for obj in self._server.objects.get(plural, {}).values()
            if obj["metadata"].get("annotations", {}).get("stranger")
        ]
        if strangers and self._dice.random() < 0.5:
            plural, obj = pick(self._dice, strangers)
            self._server.remove(plural, obj, "user")
            return f"stranger {plural} {obj['metadata']['name']} goes"
        if self._dice.random() < 0.6:
            return self._take_over(job)
        plural, name = self._wanted_name(job)
        if ("default", name) in self._server.objects.get(plural, {}):
            return ""
        self._server.create(plural, "default", self._strange(plural, name), "user")
        return f"stranger {plural} {name} comes"

    def _take_over(self, job: Job) -> str:
        """An object of the job is removed by force, and a stranger takes its name."""
        owned = sorted(self._server.owned.get(job.uid, ()))
        if not owned:
            return ""
        plural, key = self._server.by_uid[pick(self._dice, owned)]
        if plural not in _KINDS:
            return ""
        self._server.delete(plural, self._server.objects[plural][key], "user", 0)
        self._server.create(plural, "default", self._strange(plural, key[1]), "user")
        return f"stranger {plural} {key[1]} takes over"

    def _wanted_name(self, job: Job) -> tuple[str, str]:
        description = job.description
        chance = self._dice.random()
        if chance < 0.15:
            return "services", job.name
        if chance < 0.3 and description.ssh_files:
            if chance < 0.2:
                return "secrets", keys_name(description.identity)
            return "configmaps", files_name(description.identity)
        if chance < 0.4 and job.is_taskset:
            return "configmaps", f"c-{job.name}-{self._dice.randrange(2)}"
        role = pick(self._dice, description.roles)
        rank = self._dice.randrange(role.replicas)
        return "pods", pod_name(job.name, role, rank, (0, self._dice.randrange(2)))

    def _strange(self, plural: str, name: str) -> JSON:
        metadata: JSON = {"name": name, "annotations": {"stranger": "yes"}}
        if self._dice.random() < 0.5:
            metadata["labels"] = {MANAGED_BY: "jobyard"}
        if self._dice.random() < 0.5:
            metadata["ownerReferences"] = [
                {"kind": "Job", "name": "x", "uid": "somebody", "controller": True}
            ]
        body: JSON = {"apiVersion": "v1", "kind": _KINDS[plural], "metadata": metadata}
        if plural == "pods":
            body["spec"] = {"containers": [{"name": "c", "image": "i"}]}
        return body
