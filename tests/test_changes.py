"""What may change after creation: a table, tried on a real API server and offline.

Each row is tried in every state that a stored object can be in: it names the states in
which the change is allowed, and where the others' refusal points. The requests are dry
runs, so that all rows of a table meet the same stored object.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from rig import namespaces
from rig.api import ApiCaller
from rig.kubectl import Kubectl
from rig.plane import ControlPlane
from wrong_manifests.address import address
from wrong_manifests.edits import Edit, Manifest, append, drop, edited, flip, put, turn_around
from wrong_manifests.wrong import manifest

from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.schema.finding import dotted, is_error


@dataclass(frozen=True, slots=True)
class State:
    """What a stored object is like when somebody changes it."""

    title: str
    edits: tuple[Edit, ...] = ()
    status: Manifest = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A change; allowed in some states, and refused in the others with this path."""

    title: str
    edits: tuple[Edit, ...]
    allowed: tuple[State, ...]
    refused_at: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """An object, the states it is put into, and what is tried on it."""

    title: str
    base: Manifest
    states: tuple[State, ...]
    rows: tuple[Row, ...]


def condition(type_: str, status: str) -> Manifest:
    return {"type": type_, "status": status, "reason": "-"}


_PAUSE = put("spec.runMode.pause.enabled", True)
_INITIALIZED = condition("Initialized", "True")

NEW = State("no status yet")
RUNNING = State("running", (), {"phase": "Running", "conditions": [_INITIALIZED]})
PAUSED = State("paused", (_PAUSE,), {"phase": "Paused", "conditions": [_INITIALIZED]})
# Paused by its manifest from the start, and not looked at by a controller yet.
PAUSED_NEW = State("paused without a status", (_PAUSE,))
NOT_INITIALIZED = State(
    "not initialized",
    (),
    {"phase": "Pending", "conditions": [condition("Initialized", "False")]},
)
SUCCEEDED = State("succeeded", (), {"phase": "Succeeded", "conditions": [_INITIALIZED]})
FAILED = State("failed", (), {"phase": "Failed", "conditions": [_INITIALIZED]})
FAILED_UNMADE = State(
    "failed before it was initialized",
    (),
    {"phase": "Failed", "conditions": [condition("Initialized", "False")]},
)
FINISHED_PAUSED = State(
    "paused after it had succeeded",
    (_PAUSE,),
    {"phase": "Succeeded", "conditions": [_INITIALIZED]},
)

# Without the run mode's fields an object can't be in one of the paused states.
UNPAUSED_STATES = (NEW, RUNNING, NOT_INITIALIZED, SUCCEEDED, FAILED, FAILED_UNMADE)
JOB_STATES = (*UNPAUSED_STATES, PAUSED, PAUSED_NEW, FINISHED_PAUSED)
ALWAYS = JOB_STATES
OPEN = (PAUSED, PAUSED_NEW, NOT_INITIALIZED)
NEVER: tuple[State, ...] = ()

_POD = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
_REPLICAS = "spec.replicaSpecs"
_RESUME = "spec.runMode.pause.resumeSpecs"

# For all kinds with `replicaSpecs`, of which there are two types: master and worker.
REPLICA_ROWS = (
    Row("pause on or off", (flip("spec.runMode.pause.enabled"),), ALWAYS),
    Row("debug on or off", (flip("spec.runMode.debug.enabled"),), ALWAYS),
    Row("a label of the job", (put("metadata.labels", {"team": "research"}),), ALWAYS),
    Row("resume arguments changed", (put(f"{_RESUME}[0].args", ["--again"]),), NEVER, _RESUME),
    Row("a resume entry added", (append(_RESUME, {"type": "master"}),), NEVER, _RESUME),
    Row("resumeSpecs taken away", (drop(_RESUME),), NEVER, _RESUME),
    Row("the run mode taken away", (drop("spec.runMode"),), NEVER, _RESUME),
    Row(
        "a debug command changed",
        (put("spec.runMode.debug.replicaSpecs[0].command", ["sleep", "60"]),),
        OPEN,
        "spec.runMode.debug.replicaSpecs",
    ),
    Row(
        "the debug commands taken away",
        (drop("spec.runMode.debug.replicaSpecs"),),
        OPEN,
        "spec.runMode.debug.replicaSpecs",
    ),
    Row(
        "an image changed",
        (put(f"{_REPLICAS}[1].template.spec.containers[0].image", "alpine"),),
        OPEN,
        _REPLICAS,
    ),
    Row(
        "a label of the pods added",
        (put(f"{_REPLICAS}[1].template.metadata", {"labels": {"team": "research"}}),),
        OPEN,
        _REPLICAS,
    ),
    Row(
        "a command taken away",
        (drop(f"{_REPLICAS}[1].template.spec.containers[0].command"),),
        OPEN,
        _REPLICAS,
    ),
    Row("replicas changed", (put(f"{_REPLICAS}[1].replicas", 3),), OPEN, _REPLICAS),
    Row("a number of replicas taken away", (drop(f"{_REPLICAS}[1].replicas"),), OPEN, _REPLICAS),
    Row(
        "an image changed, and pause on or off with it",
        (
            flip("spec.runMode.pause.enabled"),
            put(f"{_REPLICAS}[1].template.spec.containers[0].image", "alpine"),
        ),
        OPEN,
        _REPLICAS,
    ),
    Row("a type added", (append(_REPLICAS, {"type": "x", "template": _POD}),), NEVER, _REPLICAS),
    Row("a type taken away", (drop(f"{_REPLICAS}[0]"),), NEVER, _REPLICAS),
    Row("a type renamed", (put(f"{_REPLICAS}[0].type", "chief"),), NEVER, _REPLICAS),
    Row("the types in another order", (turn_around(_REPLICAS),), NEVER, _REPLICAS),
    Row("another queue", (put("spec.scheduler.t9kScheduler.queue", "x"),), OPEN, "spec.scheduler"),
    Row("the scheduler taken away", (drop("spec.scheduler"),), OPEN, "spec.scheduler"),
)

GENERIC = Table(
    "GenericJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: main, image: busybox, command: [sleep, "1"]}]}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: main, image: busybox, command: [sleep, "1"]}]}}
  service: {ports: [{name: http, port: 8080}]}
  cleanUpPolicy: All
  ttlSecondsAfterFinished: 60
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *REPLICA_ROWS,
        Row("another clean-up policy", (put("spec.cleanUpPolicy", "Unfinished"),), ALWAYS),
        Row("the clean-up policy taken away", (drop("spec.cleanUpPolicy"),), ALWAYS),
        Row("another time to live", (put("spec.ttlSecondsAfterFinished", 0),), ALWAYS),
        Row("the time to live taken away", (drop("spec.ttlSecondsAfterFinished"),), ALWAYS),
        Row(
            "a restart limit added",
            (put(f"{_REPLICAS}[1].restartPolicy", {"limit": 3}),),
            OPEN,
            _REPLICAS,
        ),
        Row(
            "a success rule added",
            (put("spec.successRules", [{"master": [0]}]),),
            OPEN,
            "spec.successRules",
        ),
        Row(
            "a failure rule added",
            (put("spec.failureRules", [{"worker": [0, 1]}]),),
            OPEN,
            "spec.failureRules",
        ),
        Row("another port", (put("spec.service.ports[0].port", 80),), OPEN, "spec.service"),
        Row("the service taken away", (drop("spec.service"),), OPEN, "spec.service"),
    ),
)

BARE_GENERIC = Table(
    "GenericJob without optional fields",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  replicaSpecs:
    - type: worker
      template: {spec: {containers: [{name: main, image: busybox}]}}
"""),
    UNPAUSED_STATES,
    (
        Row("nothing", (), ALWAYS),
        Row("paused", (put("spec.runMode", {"pause": {"enabled": True}}),), ALWAYS),
        Row("debug", (put("spec.runMode", {"debug": {"enabled": True}}),), ALWAYS),
        Row(
            "debug with a command",
            (
                put(
                    "spec.runMode",
                    {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker"}]}},
                ),
            ),
            OPEN,
            "spec.runMode.debug.replicaSpecs",
        ),
        Row(
            "paused with resumeSpecs",
            (
                put(
                    "spec.runMode",
                    {"pause": {"enabled": True, "resumeSpecs": [{"type": "worker"}]}},
                ),
            ),
            NEVER,
            _RESUME,
        ),
        Row(
            "an elastic bound added",
            (put("spec.elastic", {"minReplicas": 1}),),
            NEVER,
            "spec.elastic.minReplicas",
        ),
        Row("a time to live added", (put("spec.ttlSecondsAfterFinished", 60),), ALWAYS),
        Row(
            "a service added",
            (put("spec.service", {"ports": [{"port": 80}]}),),
            OPEN,
            "spec.service",
        ),
        Row(
            "a scheduler added",
            (put("spec.scheduler", {"t9kScheduler": {}}),),
            OPEN,
            "spec.scheduler",
        ),
        Row("the default of replicas written out", (put(f"{_REPLICAS}[0].replicas", 1),), ALWAYS),
    ),
)

PYTORCH = Table(
    "PyTorchTrainingJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
  torchrunConfig: {enabled: false}
  elastic: {enabled: false, minReplicas: 1, maxReplicas: 4}
  tensorboardSpec: {image: tensorboard, trainingLogFilesets: ["t9k://pvc/logs/mnist"]}
  runPolicy: {activeDeadlineSeconds: 3600, backoffLimit: 5, cleanUpPolicy: All}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *REPLICA_ROWS,
        Row("another deadline", (put("spec.runPolicy.activeDeadlineSeconds", 60),), ALWAYS),
        Row("the deadline taken away", (drop("spec.runPolicy.activeDeadlineSeconds"),), ALWAYS),
        Row("another backoff limit", (put("spec.runPolicy.backoffLimit", 6),), ALWAYS),
        Row("another clean-up policy", (put("spec.runPolicy.cleanUpPolicy", "None"),), ALWAYS),
        Row("a time to live added", (put("spec.runPolicy.ttlSecondsAfterFinished", 60),), ALWAYS),
        Row("the run policy taken away", (drop("spec.runPolicy"),), ALWAYS),
        Row(
            "another restart policy",
            (put(f"{_REPLICAS}[1].restartPolicy", "Never"),),
            OPEN,
            _REPLICAS,
        ),
        Row(
            "torchrun switched on",
            (put("spec.torchrunConfig.enabled", True),),
            OPEN,
            "spec.torchrunConfig",
        ),
        Row("torchrun taken away", (drop("spec.torchrunConfig"),), OPEN, "spec.torchrunConfig"),
        Row(
            "the TensorBoard taken away",
            (drop("spec.tensorboardSpec"),),
            OPEN,
            "spec.tensorboardSpec",
        ),
        Row(
            "made elastic",
            (
                put("spec.torchrunConfig.enabled", True),
                put("spec.elastic.enabled", True),
                put("spec.elastic.expectedReplicas", 2),
            ),
            OPEN,
            "spec.elastic.enabled",
        ),
        Row(
            "a bound changed before it counts",
            (put("spec.elastic.maxReplicas", 8),),
            NEVER,
            "spec.elastic.maxReplicas",
        ),
    ),
)

ELASTIC = Table(
    "elastic PyTorchTrainingJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: node
      template: {spec: {containers: [{name: pytorch, image: torch, args: [train.py]}]}}
  torchrunConfig: {enabled: true}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  runMode: {pause: {enabled: false}}
"""),
    JOB_STATES,
    (
        Row("scaled up", (put("spec.elastic.expectedReplicas", 4),), ALWAYS),
        Row("scaled down", (put("spec.elastic.expectedReplicas", 1),), ALWAYS),
        Row(
            "scaled above the upper bound",
            (put("spec.elastic.expectedReplicas", 5),),
            NEVER,
            "spec.elastic.expectedReplicas",
        ),
        Row(
            "another lower bound",
            (put("spec.elastic.minReplicas", 2),),
            NEVER,
            "spec.elastic.minReplicas",
        ),
        Row(
            "another upper bound",
            (put("spec.elastic.maxReplicas", 8),),
            NEVER,
            "spec.elastic.maxReplicas",
        ),
        Row("elastic taken away", (drop("spec.elastic"),), NEVER, "spec.elastic.minReplicas"),
        Row(
            "no longer elastic",
            (put("spec.elastic.enabled", False), drop("spec.elastic.expectedReplicas")),
            OPEN,
            "spec.elastic.enabled",
        ),
        Row("resumeSpecs added", (put(_RESUME, [{"type": "node"}]),), NEVER, _RESUME),
        Row("the run mode taken away", (drop("spec.runMode"),), ALWAYS),
    ),
)

TASKSET_RUNNING = State("running", (), {"state": "Running", "phase": "TaskSetAttemptRunning"})
TASKSET_WAITING = State("waiting", (), {"state": "Waiting", "phase": "TaskSetAttemptPending"})
TASKSET_FAILED = State("failed", (), {"state": "Failed", "phase": "TaskSetCompleted"})
TASKSET_STATES = (NEW, TASKSET_WAITING, TASKSET_RUNNING, TASKSET_FAILED)

TASKSET = Table(
    "TaskSet",
    manifest("""
apiVersion: octopus.openi.pcl.cn/v1alpha1
kind: TaskSet
metadata: {name: ranks}
spec:
  retryPolicy: {retry: true, maxRetryCount: 2}
  roles:
    - name: server
      template: {spec: {containers: [{name: main, image: busybox}]}}
    - name: client
      replicas: 3
      completionPolicy: {minSucceeded: 2}
      retryPolicy: {retry: true, maxRetryCount: 1}
      template: {spec: {containers: [{name: main, image: busybox}]}}
"""),
    TASKSET_STATES,
    (
        Row("more retries", (put("spec.retryPolicy.maxRetryCount", 5),), TASKSET_STATES),
        Row("a delay added", (put("spec.retryPolicy.delay", 10),), TASKSET_STATES),
        Row("the retry policy taken away", (drop("spec.retryPolicy"),), TASKSET_STATES),
        Row("a label", (put("metadata.labels", {"team": "research"}),), TASKSET_STATES),
        Row(
            "the default of replicas written out",
            (put("spec.roles[0].replicas", 1),),
            TASKSET_STATES,
        ),
        Row("replicas changed", (put("spec.roles[1].replicas", 4),), NEVER, "spec.roles"),
        Row(
            "a role's own retries changed",
            (put("spec.roles[1].retryPolicy.maxRetryCount", 2),),
            NEVER,
            "spec.roles",
        ),
        Row(
            "a completion policy added",
            (put("spec.roles[0].completionPolicy", {"maxFailed": 1}),),
            NEVER,
            "spec.roles",
        ),
        Row(
            "a completion policy taken away",
            (drop("spec.roles[1].completionPolicy"),),
            NEVER,
            "spec.roles",
        ),
        Row(
            "an image changed",
            (put("spec.roles[0].template.spec.containers[0].image", "alpine"),),
            NEVER,
            "spec.roles",
        ),
        Row(
            "a role added",
            (append("spec.roles", {"name": "x", "template": _POD}),),
            NEVER,
            "spec.roles",
        ),
        Row("a role taken away", (drop("spec.roles[0]"),), NEVER, "spec.roles"),
        Row("the roles in another order", (turn_around("spec.roles"),), NEVER, "spec.roles"),
    ),
)

TABLES = (GENERIC, BARE_GENERIC, PYTORCH, ELASTIC, TASKSET)
CASES = [
    pytest.param(table, state, row, id=f"{table.title}, {state.title}: {row.title}")
    for table in TABLES
    for state in table.states
    for row in table.rows
]
# The objects as the API server has stored them, by the titles of table and state.
Stored = dict[tuple[str, str], Manifest]


async def store(api: ApiCaller, namespace: str, table: Table, state: State) -> Manifest:
    """Creates the object in the state, its status written through the door of its own."""
    wanted = edited(table.base, *state.edits)
    wanted["metadata"]["name"] = namespaces.fresh_name(wanted["metadata"]["name"])
    place = address(wanted, namespace)
    answer = await api.request("POST", place, body=wanted)
    assert answer.status == 201, answer.text
    if state.status:
        answer = await api.request(
            "PUT",
            f"{place}/{wanted['metadata']['name']}/status",
            body={**answer.body, "status": state.status},
        )
        assert answer.status == 200, answer.text
        assert answer.body["status"]["phase"] == state.status["phase"]
    return answer.body


@pytest.fixture(scope="module")
def stored(control_plane: ControlPlane, crds: None) -> Iterator[Stored]:
    """Every table's object in every one of its states."""
    namespace = namespaces.fresh_name("changes")

    async def fill() -> Stored:
        await namespaces.create(control_plane, namespace)
        async with ApiCaller(control_plane) as api:
            return {
                (table.title, state.title): await store(api, namespace, table, state)
                for table in TABLES
                for state in table.states
            }

    yield asyncio.run(fill())
    asyncio.run(namespaces.delete(control_plane, namespace))


@pytest.mark.parametrize(("table", "state", "row"), CASES)
def test_a_change_has_one_verdict_on_the_api_server_and_offline(
    table: Table, state: State, row: Row, control_plane: ControlPlane, stored: Stored
) -> None:
    old = stored[table.title, state.title]
    new = edited(table.base, *state.edits, *row.edits)
    new["metadata"]["name"] = old["metadata"]["name"]
    expected = [] if state in row.allowed else [row.refused_at]

    # Nothing of the table would say where, if a row without a path were refused.
    assert expected != [""], "the row needs the path of its refusal"
    assert told(refusals_of(control_plane, old, new), expected) == expected
    (document,) = read(json.dumps(new), "new.json")
    findings = [finding for finding in checked(document, old).findings if is_error(finding)]
    assert told([dotted(finding.path) for finding in findings], expected) == expected


def told(paths: list[str], expected: list[str]) -> list[str]:
    """The expected path, if it is one of several: a change can break two rules."""
    return expected if expected and set(expected) <= set(paths) else paths


def refusals_of(plane: ControlPlane, old: Manifest, new: Manifest) -> list[str]:
    """The paths at which the API server refuses to put `new` in the place of `old`."""
    metadata = old["metadata"]
    body = {
        **new,
        "metadata": {**new["metadata"], "resourceVersion": metadata["resourceVersion"]},
    }

    async def request() -> Any:
        async with ApiCaller(plane) as api:
            return await api.request(
                "PUT",
                f"{address(old, metadata['namespace'])}/{metadata['name']}",
                body=body,
                query={"dryRun": "All", "fieldValidation": "Strict"},
            )

    answer = asyncio.run(request())
    assert answer.status in (200, 422), answer.text
    if answer.status == 200:
        return []
    return [cause["field"] for cause in answer.body["details"]["causes"]]


@dataclass(frozen=True, slots=True)
class Scaling:
    """`kubectl scale` to a number of replicas, and what comes of it."""

    title: str
    edits: tuple[Edit, ...]
    replicas: int
    # What the refusal says; empty: allowed.
    words: str = ""
    # Where offline tools refuse the same change.
    refused_at: str = "spec.elastic.expectedReplicas"


BOUNDS = "must be from 1 to 4 (minReplicas to maxReplicas)"
NOT_ELASTIC = "expectedReplicas counts only in an elastic job: set elastic.enabled to true"
SCALINGS = (
    Scaling("up to the upper bound", (), 4),
    Scaling("down to the lower bound", (), 1),
    Scaling("above the upper bound", (), 5, f"is 5; {BOUNDS}"),
    Scaling("to nothing", (), 0, "should be greater than or equal to 1"),
    Scaling("a job without elastic", (drop("spec.elastic"),), 3, NOT_ELASTIC),
    Scaling(
        "a job with elastic switched off",
        (put("spec.elastic.enabled", False), drop("spec.elastic.expectedReplicas")),
        3,
        NOT_ELASTIC,
    ),
)
DEEPSPEED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker: {template: {spec: {containers: [{name: worker, image: deepspeed}]}}}
  config: {run: {python: [train.py]}}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
""")


@pytest.mark.parametrize("base", [ELASTIC.base, DEEPSPEED], ids=lambda base: base["kind"])
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.title)
def test_kubectl_scale(base: Manifest, scaling: Scaling, kubectl: Kubectl, crds: None) -> None:
    job = edited(base, *scaling.edits)
    name = f"{job['kind'].lower()}/{job['metadata']['name']}"
    kubectl("create", "-f", "-", stdin=json.dumps(job))
    old = json.loads(kubectl("get", name, "-o", "json").stdout)

    done = kubectl("scale", name, f"--replicas={scaling.replicas}", check=False)

    new = json.loads(kubectl("get", name, "-o", "json").stdout)
    if scaling.words:
        assert done.returncode != 0
        assert scaling.words in done.stderr
        assert new["spec"] == old["spec"]
    else:
        assert done.returncode == 0, done.stderr
        assert new["spec"]["elastic"]["expectedReplicas"] == scaling.replicas

    job["spec"].setdefault("elastic", {})["expectedReplicas"] = scaling.replicas
    (document,) = read(json.dumps(job), "new.json")
    errors = [dotted(f.path) for f in checked(document, old).findings if is_error(f)]
    assert errors == ([scaling.refused_at] if scaling.words else [])
