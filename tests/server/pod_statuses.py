"""Pods in every state that the STATUS column has a word for: a spec, a status, and the word."""

from __future__ import annotations

import datetime
from typing import Any

Json = dict[str, Any]


def ago(seconds: float) -> str:
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return then.strftime("%Y-%m-%dT%H:%M:%SZ")


def container(name: str, state: Json, *, ready: bool = False, **others: Any) -> Json:
    base = {"name": name, "image": "i", "imageID": "", "restartCount": 0}
    return {**base, "ready": ready, "state": state, **others}


def ended(code: int, reason: str = "", **others: Any) -> Json:
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **others}}


def waiting(reason: str = "") -> Json:
    return {"waiting": {"reason": reason} if reason else {}}


RUNNING: Json = {"running": {"startedAt": ago(60)}}
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}
NOT_INITIALIZED = {"type": "Initialized", "status": "False"}
ONE_INIT = {"initContainers": [{"name": "i0", "image": "i"}]}
TWO_INITS = {"initContainers": [{"name": "i0", "image": "i"}, {"name": "i1", "image": "i"}]}
SIDECAR = {"initContainers": [{"name": "side", "image": "i", "restartPolicy": "Always"}]}
TWO = {"containers": [{"name": "c0", "image": "i"}, {"name": "c1", "image": "i"}]}


def main(*containers: Json, phase: str = "Running", **others: Any) -> Json:
    return {"phase": phase, "containerStatuses": list(containers), **others}


def init(*containers: Json, **others: Any) -> Json:
    status = {"phase": "Pending", "conditions": [NOT_INITIALIZED], **others}
    return {**status, "initContainerStatuses": list(containers)}


def last_end(seconds: float) -> Json:
    return {"lastState": {"terminated": {"exitCode": 1, "finishedAt": ago(seconds)}}}


# By name: spec, status, and what STATUS and RESTARTS must begin with.
PODS: dict[str, tuple[Json, Json, str, str]] = {
    "pending": ({}, {"phase": "Pending", "nominatedNodeName": "there"}, "Pending", "0"),
    "gated": (
        {"schedulingGates": [{"name": "jobyard.dev/gate"}]},
        {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            ],
        },
        "SchedulingGated",
        "0",
    ),
    "creating": (
        {},
        main(container("c0", waiting("ContainerCreating")), phase="Pending"),
        "ContainerCreating",
        "0",
    ),
    "pull": (
        {},
        main(container("c0", waiting("ImagePullBackOff")), phase="Pending"),
        "ImagePullBackOff",
        "0",
    ),
    "running": (
        {"nodeName": "here"},
        main(
            container("c0", RUNNING, ready=True),
            conditions=[READY],
            podIP="10.1.2.3",
            podIPs=[{"ip": "10.1.2.3"}, {"ip": "fd00::3"}],
        ),
        "Running",
        "0",
    ),
    "unready": (TWO, main(container("c0", RUNNING), container("c1", RUNNING)), "Running", "0"),
    "crash": (
        {},
        main(container("c0", waiting("CrashLoopBackOff"), restartCount=2, **last_end(320))),
        "CrashLoopBackOff",
        "2 (",
    ),
    "restarted": (
        TWO,
        main(
            container("c0", RUNNING, ready=True, restartCount=1, **last_end(4000)),
            container("c1", RUNNING, ready=True, restartCount=3, **last_end(90000)),
        ),
        "Running",
        "4 (",
    ),
    "restarted-undated": ({}, main(container("c0", RUNNING, restartCount=7)), "Running", "7"),
    "completed": (
        {},
        main(container("c0", ended(0, "Completed")), phase="Succeeded"),
        "Completed",
        "0",
    ),
    "error": ({}, main(container("c0", ended(1, "Error")), phase="Failed"), "Error", "0"),
    "oom": ({}, main(container("c0", ended(137, "OOMKilled")), phase="Failed"), "OOMKilled", "0"),
    "exit-code": ({}, main(container("c0", ended(3)), phase="Failed"), "ExitCode:3", "0"),
    "signal": ({}, main(container("c0", ended(0, signal=9)), phase="Failed"), "Signal:9", "0"),
    "evicted": ({}, {"phase": "Failed", "reason": "Evicted"}, "Evicted", "0"),
    "half-done": (
        TWO,
        main(container("c0", ended(0, "Completed")), container("c1", RUNNING, ready=True)),
        "NotReady",
        "0",
    ),
    "half-done-ready": (
        TWO,
        main(
            container("c0", ended(0, "Completed")),
            container("c1", RUNNING, ready=True),
            conditions=[READY],
        ),
        "Running",
        "0",
    ),
    "half-failed": (
        TWO,
        main(container("c0", ended(0, "Completed")), container("c1", ended(2, "Error"))),
        "Error",
        "0",
    ),
    "init-first": (TWO_INITS, init(container("i0", RUNNING)), "Init:0/2", "0"),
    "init-second": (
        TWO_INITS,
        init(
            container("i0", ended(0, "Completed"), restartCount=2, **last_end(130)),
            container("i1", waiting("PodInitializing")),
        ),
        "Init:1/2",
        "2 (",
    ),
    "init-error": (ONE_INIT, init(container("i0", ended(1, "Error"))), "Init:Error", "0"),
    "init-code": (ONE_INIT, init(container("i0", ended(4))), "Init:ExitCode:4", "0"),
    "init-signal": (ONE_INIT, init(container("i0", ended(1, signal=15))), "Init:Signal:15", "0"),
    "init-crash": (
        ONE_INIT,
        init(container("i0", waiting("CrashLoopBackOff"), restartCount=5, **last_end(30))),
        "Init:CrashLoopBackOff",
        "5 (",
    ),
    "initialized": (
        ONE_INIT,
        {
            "phase": "Pending",
            "conditions": [INITIALIZED],
            "initContainerStatuses": [container("i0", ended(0, "Completed"), restartCount=3)],
            "containerStatuses": [container("c0", waiting("PodInitializing"))],
        },
        "PodInitializing",
        "0",
    ),
    "sidecar-starting": (
        SIDECAR,
        init(container("side", RUNNING, started=False)),
        "Init:0/1",
        "0",
    ),
    "sidecar": (
        SIDECAR,
        {
            "phase": "Running",
            "conditions": [INITIALIZED, READY],
            "initContainerStatuses": [
                container(
                    "side", RUNNING, ready=True, started=True, restartCount=2, **last_end(100)
                )
            ],
            "containerStatuses": [container("c0", RUNNING, ready=True, restartCount=1)],
        },
        "Running",
        "3 (",
    ),
    "gates": (
        {"readinessGates": [{"conditionType": "a.io/x"}, {"conditionType": "a.io/y"}]},
        main(
            container("c0", RUNNING, ready=True),
            conditions=[{"type": "a.io/y", "status": "True"}],
        ),
        "Running",
        "0",
    ),
    "going": ({}, main(container("c0", RUNNING, ready=True)), "Terminating", "0"),
    "going-done": (
        {},
        main(container("c0", ended(0, "Completed")), phase="Succeeded"),
        "Completed",
        "0",
    ),
    "going-lost": (
        {},
        main(container("c0", RUNNING, ready=True), reason="NodeLost"),
        "Unknown",
        "0",
    ),
}


def pod(name: str) -> Json:
    """The pod to create; those that go have a finalizer, so that they stay to be seen."""
    spec = {"containers": [{"name": "c0", "image": "i"}], **PODS[name][0]}
    finalizers = ["jobyard.dev/test"] if name.startswith("going") else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"automountServiceAccountToken": False, **spec},
    }
