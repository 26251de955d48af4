"""What must hold after every step, checked at each write the moment it takes effect.

Pods: never two live ones for a replica, none for a job that is over, paused or going, none made or
deleted before the status says what became of the one before it. Strangers' objects stay as they
are. What a status may say is in `statuses` and `taskset_statuses`. Whoever breaks one of these
gets a `ViolationError`, whose `rule` stays the same when the run is made shorter.
"""

from __future__ import annotations

from typing import Any

from jobyard.api.changes import held_fields
from simulation import statuses, taskset_statuses
from simulation.controller import Controller
from simulation.facts import KIND_OF, Job
from simulation.kubelet import Cause, Kubelet, Life
from simulation.server import JSON, Write
from simulation.violation import ViolationError


class Invariants:
    """Hears of every write."""

    def __init__(self, now: Any) -> None:
        self._now = now
        self.kubelet: Kubelet
        self.jobs: dict[str, Job] = {}
        # Two controllers that both think they lead may do what one alone must not.
        self.has_rivals = False
        self.status_writes = 0
        self._moments = 0

    def _next(self) -> int:
        self._moments += 1
        return self._moments

    def audit(self, write: Write) -> None:
        if isinstance(write.by, Controller) and write.old is not None:
            self._touched(write)
        if write.plural in KIND_OF:
            self._job_written(write)
        elif write.plural == "pods":
            self._pod_written(write)

    def _touched(self, write: Write) -> None:
        assert write.old is not None
        if write.plural in KIND_OF:
            return
        meta = write.old["metadata"]
        owners = [o["uid"] for o in meta.get("ownerReferences", ()) if o.get("controller")]
        label = meta.get("annotations", {}).get("TSUID", "")
        if not any(uid in self.jobs for uid in owners) and label not in self.jobs:
            raise ViolationError("stranger", f"{write.plural} {meta['name']} is not a job's own")
        if meta.get("annotations", {}).get("stranger"):
            raise ViolationError("stranger", f"{write.plural} {meta['name']} is a stranger's")

    # Jobs.

    def _job_written(self, write: Write) -> None:
        if write.new is None:
            assert write.old is not None
            self.jobs[write.old["metadata"]["uid"]].is_gone = True
            return
        uid = write.new["metadata"]["uid"]
        if write.old is None:
            self.jobs[uid] = Job(write.plural, write.new)
            return
        job = self.jobs[uid]
        if write.verb == "question" and job.key in write.by.unanswered:
            # Whether the version is still the one on which a write had no answer.
            return
        if write.verb in ("nothing", "question"):
            raise ViolationError("empty write", f"{job}: a status write that changes nothing")
        if isinstance(write.by, Controller):
            self._condemned(job, write.new["status"], write.by)
            self._status_written(job, write.old.get("status", {}), write.new["status"])
        job.obj = write.new
        if write.new["spec"] is not write.old["spec"] and write.new["spec"] != write.old["spec"]:
            job.edited()

    def _condemned(self, job: Job, new: JSON, by: Controller) -> None:
        """Pods that the rows say are to go: not one whose own end the pass knew of."""
        for task in new.get("tasks", ()):
            for row in task.get("status", ()):
                life = self.kubelet.lives.get(row.get("uid", ""))
                if row["phase"] != "Deleted" or life is None:
                    continue
                job.known_at.setdefault(life.uid, frozenset(job.known))
                if job.excuses(life):
                    continue
                saw = by.current.saw.get(life.uid, 0) if by.current is not None else 0
                is_known = life.cause is Cause.ITSELF and saw >= life.end_version
                if is_known and life.uid not in job.counted and not self.has_rivals:
                    raise ViolationError("condemned", f"{job}: {life} ended by itself")
                job.excused.add(life.uid)

    def _status_written(self, job: Job, old: JSON, new: JSON) -> None:
        self.status_writes += 1
        for task in new.get("tasks", ()):
            job.known.update(row.get("uid", "") for row in task.get("status", ()))
        if job.is_taskset:
            taskset_statuses.check(job, old, new, self.kubelet.lives)
            if not self.has_rivals:
                taskset_statuses.check_preempted(job, new)
        else:
            statuses.check(job, old, new, self.kubelet.lives, self._now())
            if not self.has_rivals:
                statuses.check_paused(job, old, new)
                statuses.check_dropped(job, old, new)
                statuses.check_losses(job, old, new, self.kubelet.lives)

    # Pods.

    def _pod_written(self, write: Write) -> None:
        if write.old is None:
            assert write.new is not None
            self._pod_made(write.new, write.by)
        elif write.new is None:
            self._check_force(write)
            self.kubelet.gone(write.old)
            self.kubelet.lives[write.old["metadata"]["uid"]].left = self._next()
        elif "deletionTimestamp" in write.new["metadata"]:
            life = self.kubelet.lives[write.new["metadata"]["uid"]]
            is_first = life.asked_at is None
            self.kubelet.asked(write.new, write.by)
            if is_first and isinstance(write.by, Controller):
                self._pod_deleted(life, write.by)

    def _check_force(self, write: Write) -> None:
        """Only what a lost node, or none, has is removed without its kubelet."""
        assert write.old is not None
        life = self.kubelet.lives[write.old["metadata"]["uid"]]
        is_heard_of = bool(life.node) and life.node not in self.kubelet.was_lost
        if isinstance(write.by, Controller) and is_heard_of and life.is_alive:
            raise ViolationError("by force", f"{life} on {life.node}, which is heard of")

    def _pod_made(self, pod: JSON, by: Any) -> None:
        life = self.kubelet.made(pod)
        life.born = self._next()
        if not isinstance(by, Controller):
            return
        meta = pod["metadata"]
        job = self.jobs.get(life.job_uid)
        if job is None or not any(o.get("controller") for o in meta["ownerReferences"]):
            raise ViolationError("owner", f"pod {meta['name']} belongs to no job")
        if life.role:
            self._replica_made(job, life, by)
            job.lives.append(life)

    def _replica_made(self, job: Job, life: Life, by: Controller) -> None:
        name = life.key[1]
        if life.rank >= job.ranks_max.get(life.role, 0):
            raise ViolationError("rank", f"{name}: {job} has no such replica")
        for other in job.lives:
            if other.replica == life.replica and not other.is_gone and not other.is_over:
                raise ViolationError("two live pods", f"{other} is there beside {life}")
        record = by.current.record if by.current else None
        if record is not None and not job.is_taskset:
            life.spec = held_fields(record.job.spec)
        if self.has_rivals or job.is_gone:
            return
        for other in job.lives:
            if other.spec != life.spec and not other.is_gone and not other.is_over:
                raise ViolationError("two specs", f"{other} is there beside {life}")
        if job.is_finished:
            raise ViolationError("pod after the end", f"{name} is made for {job}, which is over")
        if job.status.get("phase") == "Paused":
            raise ViolationError("pod while paused", f"{name} is made for {job}, which is paused")
        if record is not None and record.is_deleting:
            raise ViolationError("pod while deleting", f"{name} is made for {job}, which goes")
        self._check_attempt(job, life)
        before = job.latest(*life.replica)
        if before is not None and job.description.is_rigid:
            self._check_gang(job, life, before)
        if before is not None and before.whole == life.whole and not job.excuses(before):
            self._check_previous(job, life, before)

    def _check_attempt(self, job: Job, life: Life) -> None:
        """The number of a pod's attempt was written down before the pod is made."""
        said = job.restarts_of(*life.replica)
        if said is not None and said != life.attempt:
            raise ViolationError("attempt", f"{life}: the status of {job} says attempt {said}")

    def _check_gang(self, job: Job, life: Life, before: Life) -> None:
        """A pod of a rigid gang comes back only together with all the others."""
        if before.uid not in job.known or before.uid in job.excused or before.is_debug:
            return
        # Pods that nobody knew of when the gang was broken can't have gone with it.
        known = job.known_at.get(before.uid, job.known)
        for other in job.lives:
            if other.uid not in known:
                continue
            is_old = other.born < before.left and not other.is_gone and other.asked_at is None
            if is_old and other.replica != life.replica and not other.is_debug:
                raise ViolationError("gang", f"{life} is made beside {other}, older than {before}")

    def _check_previous(self, job: Job, life: Life, before: Life) -> None:
        if before.uid in job.counted or not isinstance(before.asked_by, Controller | None):
            return
        if before.uid in job.recorded:
            raise ViolationError("made again", f"{life}: {before} was written down as ended")
        if before.cause is Cause.ITSELF:
            raise ViolationError("end not counted", f"{life} follows {before}, which ended itself")

    def _pod_deleted(self, life: Life, by: Controller) -> None:
        job = self.jobs.get(life.job_uid)
        if job is None or not life.role or job.is_gone or self.has_rivals:
            return
        if job.is_finished:
            self._cleaned_up(job, life)
            return
        if life.cause is not Cause.ITSELF or job.excuses(life):
            return
        saw = by.current.saw.get(life.uid, 0) if by.current is not None else 0
        if saw < life.end_version:
            # It was decided on before the end was known.
            job.excused.add(life.uid)
            return
        if life.uid not in job.counted and life.uid not in job.recorded:
            raise ViolationError("deleted too early", f"{life}: its end is not in {job}'s status")

    def _cleaned_up(self, job: Job, life: Life) -> None:
        policies = {role.type: role.clean_up.value for role in job.description.roles}
        # Sidecars that run on after the end go with their pod, whatever the policy.
        has_sidecars = life.main in life.ended and len(life.names) > 1
        if job.is_taskset or job.edits or has_sidecars or policies.get(life.role) != "None":
            return
        raise ViolationError("clean-up", f"{life} is deleted, but {job} keeps its pods")
