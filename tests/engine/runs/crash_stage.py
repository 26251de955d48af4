"""What tests of an engine that is killed are made of: jobs with a plan, a ledger, what is left.

A plan says for each attempt of each replica how long it takes and how it ends. The replicas keep
a ledger of what they really did, outside of all that Jobyard knows. What is left of an engine is
told by the kernel alone.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rig.person import MARK, Person

JSON = dict[str, Any]
ATTEMPT = "batch.tensorstack.dev/attempt"
LINES = 100
NAP_SECONDS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0)
NAMESPACES = ("net", "mnt", "pid", "uts", "ipc", "user")

# Every replica: what it is to do is in a file, what it did goes to the ledger, a line at once.
SCRIPT = """
read -r nap code others < "$PLANS/$JOB.${REPLICA##*-}.$ATTEMPT" || exit 99
echo "$JOB ${REPLICA##*-} $ATTEMPT $POD start" >> "$LEDGER"
say() { while [ $1 -lt $2 ]; do echo "$REPLICA $ATTEMPT line $1"; set -- $(($1 + 1)) $2; done; }
say 0 50
sleep $nap
until [ "$(grep -c "^$JOB .* end$" "$LEDGER")" -ge $others ]; do sleep 0.2; done
say 50 100
echo "$JOB ${REPLICA##*-} $ATTEMPT $POD end" >> "$LEDGER"
exit $code
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a replica; `others`: how many ends of its job it waits for."""

    nap_seconds: float
    exit_code: int
    others: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job and what is to become of it: the attempts of each of its replicas."""

    name: str
    kind: str
    manifest: JSON
    plan: tuple[tuple[Attempt, ...], ...]
    succeeds: bool

    @property
    def path(self) -> str:
        return f"/apis/{self.manifest['apiVersion']}/namespaces/default/{self.kind.lower()}s"

    @property
    def attempts(self) -> set[tuple[str, int, int]]:
        return {
            (self.name, rank, number)
            for rank, attempts in enumerate(self.plan)
            for number in range(len(attempts))
        }


class Playground:
    """The folder where plans and the ledger are, and the makers of jobs."""

    def __init__(self, who: Person, dice: random.Random) -> None:
        self._who = who
        self._dice = dice
        self._plans = who.work / "plans"
        self._plans.mkdir()
        self._ledger = who.work / "ledger"
        self._ledger.touch()
        # All who run as that person write to it.
        os.chown(self._ledger, who.uid, -1)

    def job(self, number: int) -> Job:
        """One at random; its plan is on disk already."""
        make = self._dice.choice(
            (self._generic, self._generic, self._pytorch, self._taskset, self._failing)
        )
        job = make(f"j{number:04}")
        for rank, attempts in enumerate(job.plan):
            for attempt, each in enumerate(attempts):
                line = f"{each.nap_seconds} {each.exit_code} {each.others}\n"
                (self._plans / f"{job.name}.{rank}.{attempt}").write_text(line)
        return job

    def steady(self, name: str, kind: str, seconds: float, replicas: int = 2) -> Job:
        """A job that succeeds at its first attempt, and fails for good if it is disturbed."""
        one = Attempt(seconds, 0)
        make = {"GenericJob": self._generic_of, "TaskSet": self._taskset_of}
        job = make[kind](name, ((one,),) * replicas, retries=0)
        for rank in range(replicas):
            (self._plans / f"{name}.{rank}.0").write_text(f"{seconds} 0 0\n")
        return job

    def told(self) -> Counter[tuple[str, int, int, str, str]]:
        """What the ledger says: job, rank, attempt, uid of the pod, start or end."""
        found: Counter[tuple[str, int, int, str, str]] = Counter()
        # Behind the last end of a line is one that is being written.
        for line in self._ledger.read_text().split("\n")[:-1]:
            job, rank, attempt, uid, what = line.split()
            found[job, int(rank), int(attempt), uid, what] += 1
        return found

    def _nap(self) -> float:
        return self._dice.choice(NAP_SECONDS)

    def _failures(self, codes: tuple[int, ...]) -> list[Attempt]:
        count = self._dice.choice((0, 0, 1, 1, 2))
        return [Attempt(self._nap(), self._dice.choice(codes)) for _ in range(count)]

    def _generic(self, name: str) -> Job:
        plan = tuple(
            (*self._failures((1, 3, 137)), Attempt(self._nap(), 0))
            for _ in range(self._dice.randint(1, 3))
        )
        return self._generic_of(name, plan, retries=2)

    def _generic_of(self, name: str, plan: tuple[tuple[Attempt, ...], ...], retries: int) -> Job:
        policy = {"policy": "OnFailure", "limit": retries} if retries else {"policy": "Never"}
        return self._job(name, "GenericJob", plan, restartPolicy=policy)

    def _failing(self, name: str) -> Job:
        plan = ((*self._failures((130, 137, 143)), Attempt(self._nap(), 7)),)
        return self._job(name, "PyTorchTrainingJob", plan, restartPolicy="ExitCode")

    def _pytorch(self, name: str) -> Job:
        others = tuple(
            (*self._failures((1, 9)), Attempt(self._nap(), 0))
            for _ in range(self._dice.randint(0, 2))
        )
        # The end of the first is the job's: it waits for the others.
        first = Attempt(self._nap(), 0, sum(len(attempts) for attempts in others))
        return self._job(name, "PyTorchTrainingJob", ((first,), *others), restartPolicy="OnFailure")

    def _taskset(self, name: str) -> Job:
        plan = tuple(
            (*self._failures((2, 255)), Attempt(self._nap(), 0))
            for _ in range(self._dice.randint(1, 2))
        )
        return self._taskset_of(name, plan, retries=2)

    def _taskset_of(self, name: str, plan: tuple[tuple[Attempt, ...], ...], retries: int) -> Job:
        policy = {"retry": retries > 0, "delay": 0, "maxRetryCount": retries}
        role = {
            "name": "worker",
            "replicas": len(plan),
            "retryPolicy": policy,
            "template": self._template(name),
        }
        manifest = {
            "apiVersion": "octopus.openi.pcl.cn/v1alpha1",
            "kind": "TaskSet",
            "metadata": {"name": name},
            "spec": {"roles": [role]},
        }
        return Job(name, "TaskSet", manifest, plan, _succeeds(plan))

    def _job(self, name: str, kind: str, plan: tuple[tuple[Attempt, ...], ...], **more: Any) -> Job:
        role = {"type": "worker", "replicas": len(plan), "template": self._template(name), **more}
        manifest: JSON = {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"replicaSpecs": [role]},
        }
        if kind == "PyTorchTrainingJob":
            manifest["spec"]["runPolicy"] = {"backoffLimit": 9}
        return Job(name, kind, manifest, plan, _succeeds(plan))

    def _template(self, job: str) -> JSON:
        fields = {
            "REPLICA": "metadata.name",
            "POD": "metadata.uid",
            "ATTEMPT": f"metadata.annotations['{ATTEMPT}']",
        }
        fixed = {
            "JOB": job,
            "PLANS": str(self._plans),
            "LEDGER": str(self._ledger),
            MARK: self._who.mark,
        }
        env = [{"name": name, "value": value} for name, value in fixed.items()]
        env += [
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ]
        main = {"name": "main", "image": "busybox", "command": ["sh", "-c", SCRIPT], "env": env}
        return {"spec": {"containers": [main], "terminationGracePeriodSeconds": 2}}


def _succeeds(plan: tuple[tuple[Attempt, ...], ...]) -> bool:
    return all(attempts[-1].exit_code == 0 for attempts in plan)


def expected_log(replica: str, attempt: int) -> str:
    return "".join(f"{replica} {attempt} line {n}\n" for n in range(LINES))


def has_ended(status: JSON) -> bool:
    """Of any kind of job: it has, and the last of its replicas, which may come after it."""
    is_over = status.get("phase") in ("Succeeded", "Failed", "TaskSetCompleted")
    return is_over and all(code is not None for _, code in _rows(status))


def faults(job: Job, status: JSON) -> list[str]:
    """Where a status differs from the plan."""
    ending = status.get("state" if job.kind == "TaskSet" else "phase")
    rows = _rows(status)
    wanted = [(len(attempts) - 1, attempts[-1].exit_code) for attempts in job.plan]
    out = []
    if ending != ("Succeeded" if job.succeeds else "Failed"):
        out.append(f"{job.name} ({job.kind}) is {ending}: {json.dumps(status)}")
    if rows != wanted:
        out.append(f"{job.name} ({job.kind}): restarts and codes {rows}, planned {wanted}")
    return out


def _rows(status: JSON) -> list[tuple[int, int | None]]:
    """Restarts and the last exit code of each replica."""
    if "roleStatus" in status:
        return [
            (row.get("totalRetriedCount", 0), _code_of_task(row))
            for role in status["roleStatus"]
            for row in role["replicaStatus"]
        ]
    return [
        (row.get("restartCount", 0), _code_of_replica(row))
        for task in status["tasks"]
        for row in task["status"]
    ]


def _code_of_task(row: JSON) -> int | None:
    info = row.get("terminatedInfo") or {}
    code = info.get("exitCode")
    return int(code) if code is not None else None


def _code_of_replica(row: JSON) -> int | None:
    for container in row.get("containers") or ():
        if container["name"] == "main":
            code = container.get("exitCode")
            return int(code) if code is not None else None
    return None


def interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def mounts_below(folder: Path) -> list[str]:
    """Of the machine itself; what is mounted inside of pods is not there."""
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    return [line for line in lines if str(folder) in line]


def namespaces_of(pids: set[int]) -> set[str]:
    """Those of the processes that aren't this one's too."""
    return {found for pid in pids for found in _namespaces(str(pid))} - _namespaces("self")


def inside(namespaces: set[str]) -> dict[tuple[int, int], str]:
    """The processes that are in any of them, by pid and when they began; with their words."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        there = _namespaces(path.name) & namespaces
        try:
            stat = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        # One that has ended only waits for the machine's first process to notice.
        if there and stat[0] != "Z":
            found[int(path.name), int(stat[19])] = f"{words} in {sorted(there)}"
    return found


def _namespaces(pid: str) -> set[str]:
    found = set()
    for kind in NAMESPACES:
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
        except OSError:
            continue
    return found
