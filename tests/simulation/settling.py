"""The end of a run: faults stop, everything takes its course, and then nothing is left to do.

Every job has ended by then, or its status says why not; nothing is left of what should be gone,
and one more pass over everything writes nothing.
"""

from __future__ import annotations

import re

from jobyard.controller.records import JobKey
from simulation.controller import Controller
from simulation.driver import Simulation, collect
from simulation.facts import Job
from simulation.kubelet import NODES, Life
from simulation.server import JSON
from simulation.taskset_statuses import rows_of
from simulation.violation import ViolationError

# Longer than any delay, deadline, time to live or patience with a lost node.
QUIET_SECONDS = 700
_ROUNDS_MAX = 1500
_LIVES_MAX = 12
_NAMED = re.compile(r"(Pod|Service|ConfigMap|Secret|PodGroup) default/(\S+) exists already")


def settle(simulation: Simulation) -> None:
    """To the end; raises what is wrong there."""
    _stop_faults(simulation)
    (controller,) = simulation.controllers
    born = {job.uid: len(job.lives) for job in simulation.invariants.jobs.values()}
    last, changed_at = 0, simulation.now
    for _ in range(_ROUNDS_MAX):
        _round(simulation, controller, born)
        if simulation.server.version != last:
            last, changed_at = simulation.server.version, simulation.now
        elif simulation.now - changed_at > QUIET_SECONDS:
            break
        else:
            due = controller.next_due()
            simulation.now = min(due or simulation.now + 400, simulation.now + 400)
        simulation.now += 0.3
    else:
        raise ViolationError("no rest", "something is written again and again")
    for job in simulation.invariants.jobs.values():
        if not job.is_gone and "deletionTimestamp" not in job.obj["metadata"]:
            _check_job(simulation, job)
    _check_leftovers(simulation)
    _check_rest(simulation, controller)


def _stop_faults(simulation: Simulation) -> None:
    dice = simulation.dice
    while len(simulation.controllers) > 1:
        simulation.controllers.pop(dice.randrange(2)).kill()
    simulation.kubelet.is_fair = True
    simulation.server.pods_max = None
    for node in NODES:
        if node == NODES[0] or dice.random() < 0.5:
            simulation.kubelet.bring_back(node)
    if dice.random() < 0.6:
        for plural in ("pods", "services", "configmaps", "secrets"):
            for obj in list(simulation.server.objects.get(plural, {}).values()):
                if _is_strange(obj):
                    simulation.server.remove(plural, obj, "user")
    if dice.random() < 0.7:
        for job in simulation.users.jobs:
            mode = job.obj["spec"].get("runMode")
            if mode and "deletionTimestamp" not in job.obj["metadata"]:
                off = {name: {**switch, "enabled": False} for name, switch in mode.items()}
                spec = {**job.obj["spec"], "runMode": off}
                said = simulation.users.store(job, spec, "goes on")
                simulation.trace.append(said or f"{job} can't go on")
    simulation.trace.append("faults stop")


def _round(simulation: Simulation, controller: Controller, born: dict[str, int]) -> None:
    while what := collect(simulation):
        simulation.trace.append(what)
    controller.catch_up()
    for key in controller.ready():
        if key not in controller.busy:
            simulation.trace.append(f"{controller} passes over {key}")
            controller.begin(key)
    for each in list(controller.busy.values()):
        while controller.busy.get(each.key) is each:
            finish(simulation, controller, each)
    for life in list(simulation.kubelet.present.values()):
        if not life.is_gone and not _is_kept_running(simulation, life, born):
            said = simulation.kubelet.step_of(life)
            if said:
                simulation.trace.append(said)


def finish(simulation: Simulation, controller: Controller, each: object) -> list[str]:
    """Carries a pass on to its next batch without faults; what it asked for."""
    from simulation.controller import Pass

    assert isinstance(each, Pass)
    assert each.batch is not None
    asked = []
    for index in tuple(each.batch.waiting):
        request = each.batch.requests[index]
        answer = each.batch.outcomes[index] = simulation.handle(controller, each, index)
        asked.append(f"{request}{' (dry run)' if request.query else ''}: {answer.status}")
        simulation.trace.append(f"{controller} {asked[-1]}")
    each.batch.waiting.clear()
    simulation.advance(controller, each)
    return asked


def _is_kept_running(simulation: Simulation, life: Life, born: dict[str, int]) -> bool:
    """Servers don't end by themselves now, nor does what would be restarted for ever."""
    if not life.is_ready or life.asked_at is not None or life.node in simulation.kubelet.lost:
        return False
    job = simulation.invariants.jobs.get(life.job_uid)
    if job is None or not life.role:
        return True
    role = next((r for r in job.description.roles if r.type == life.role), None)
    if role is not None and role.serves:
        return True
    return len(job.lives) - born.get(job.uid, 0) > _LIVES_MAX and _may_go_on(job)


def _may_go_on(job: Job) -> bool:
    return (
        any(
            role.restart.policy.value == "Always" and role.restart.limit is None
            for role in job.description.roles
        )
        and job.description.backoff_limit is None
    )


def _is_strange(obj: JSON) -> bool:
    return bool(obj["metadata"].get("annotations", {}).get("stranger"))


# What must hold now.


def _pods(simulation: Simulation, job: Job) -> list[Life]:
    return [
        life
        for life in simulation.kubelet.present.values()
        if life.job_uid == job.uid and life.role
    ]


def _check_job(simulation: Simulation, job: Job) -> None:
    pods = _pods(simulation, job)
    if not job.status:
        raise ViolationError("says nothing", f"{job} has no status")
    if job.is_taskset:
        _check_taskset(simulation, job, pods)
        return
    status = job.status
    if status["observedGeneration"] != job.obj["metadata"]["generation"]:
        raise ViolationError("says nothing", f"{job}: generation not observed")
    _check_truth(job, pods)
    if job.is_finished:
        _check_cleaned(job, pods)
        if job.description.ttl_seconds_after_finished is not None:
            raise ViolationError("time to live", f"{job} is still there")
        return
    if job.is_paused:
        if status["phase"] != "Paused" or pods:
            raise ViolationError("not paused", f"{job} {status['phase']} {pods}")
        return
    if _says_why(simulation, job):
        return
    if len(pods) < job.description.replicas and not _may_go_on(job):
        raise ViolationError("never ends", f"{job} {status['phase']} {status['conditions']} {pods}")
    if not job.is_debugging and not _may_go_on(job):
        raise ViolationError("never ends", f"{job} {status['phase']} {status['conditions']} {pods}")


def _says_why(simulation: Simulation, job: Job) -> bool:
    """A person has to do something first, and the status tells what."""
    for each in job.status.get("conditions", ()):
        if each["status"] == "False" and each["reason"] in ("InvalidTemplate", "BadVariable"):
            return True
        if "is still being deleted" in each["message"] and simulation.kubelet.lost:
            return True
        if "NameTaken" in (each["reason"] + each["message"]):
            return is_taken(simulation, job, each["message"])
    return False


def is_taken(simulation: Simulation, job: Job, message: str) -> bool:
    """Whether the object that a message names is there, and not the job's own."""
    for kind, name in _NAMED.findall(message):
        found = simulation.server.objects.get(f"{kind.lower()}s", {}).get(("default", name))
        if found is not None:
            owners = [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
            return job.uid not in owners
    # The words may stand for more than one, of which only the first few are told.
    return "The job could not be initialized" in message


def _check_truth(job: Job, pods: list[Life]) -> None:
    """Rows tell what is: of the pod that is there, or how the last one ended."""
    present = {life.uid: life for life in pods}
    for task in job.status["tasks"]:
        for row in task["status"]:
            life = present.get(row.get("uid", ""))
            what = f"{job} {row} {life}"
            if row["phase"] in ("Running", "Pending", "Unknown") and life is None:
                raise ViolationError("untrue row", what)
            if life is not None and row["phase"] == "Running" and not life.is_alive:
                raise ViolationError("untrue row", what)


def _check_cleaned(job: Job, pods: list[Life]) -> None:
    policies = {role.type: role.clean_up.value for role in job.description.roles}
    for life in pods:
        policy = policies.get(life.role, "All")
        if policy == "All" or (policy == "Unfinished" and not life.is_over):
            raise ViolationError("clean-up", f"{job}: {life} is left, policy {policy}")


def _check_taskset(simulation: Simulation, job: Job, pods: list[Life]) -> None:
    if job.is_finished:
        if pods:
            raise ViolationError("clean-up", f"{job} is over: {pods}")
        return
    said = job.status.get("phaseMessage", "") + "".join(
        row.get("phaseMessage", "") for _, _, row in rows_of(job.status)
    )
    is_waiting = "is still being deleted" in said and bool(simulation.kubelet.lost)
    if not is_waiting and not is_taken(simulation, job, said):
        raise ViolationError("never ends", f"{job} {job.status} {pods}")


def _check_leftovers(simulation: Simulation) -> None:
    for plural, objects in simulation.server.objects.items():
        for obj in objects.values():
            for owner in obj["metadata"].get("ownerReferences", ()):
                job = simulation.invariants.jobs.get(owner["uid"])
                # Nobody but its node can say that a pod has come to its end.
                is_stuck = obj.get("spec", {}).get("nodeName") in simulation.kubelet.lost
                if job is not None and job.is_gone and not is_stuck:
                    raise ViolationError("left behind", f"{plural} {obj['metadata']} of {job}")


def _check_rest(simulation: Simulation, controller: Controller) -> None:
    """One more pass over everything asks, and writes nothing.

    Nobody hears of a Secret that somebody deleted: a first pass finds it out, and makes it anew,
    or says that another job has the name by now.
    """
    for is_first in (True, False):
        _pass_at_rest(simulation, controller, finds_secrets_gone=is_first)


def _pass_at_rest(
    simulation: Simulation, controller: Controller, *, finds_secrets_gone: bool
) -> None:
    for job in simulation.invariants.jobs.values():
        if job.is_gone:
            continue
        key = JobKey(job.kind.name, *job.key)
        controller.due[key] = simulation.now
        each = controller.begin(key)
        is_taken = False
        while controller.busy.get(key) is each:
            for asked in finish(simulation, controller, each):
                # What can't be made for a name that is taken is tried again now and then.
                is_try = asked.startswith("POST") and asked.endswith((": 409", ": 422"))
                if finds_secrets_gone:
                    is_taken = is_taken or asked.endswith("/secrets: 409")
                    is_told = is_taken and asked.endswith(("/status: 200", "/events: 201"))
                    is_try = is_try or asked.endswith("/secrets: 201") or is_told
                if not asked.startswith("GET") and "dry run" not in asked and not is_try:
                    raise ViolationError("not at rest", f"{job}: {asked}")
