"""The tables of what may change in a job that exists, kind by kind: for `test_changes`.

A row names the states of the stored object in which its change is allowed, and where the
refusal points in the others.
"""

from dataclasses import dataclass, field

from api.wrong_manifests.edits import Edit, Manifest, append, drop, flip, put, turn_around
from api.wrong_manifests.wrong import manifest


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
# A pause is asked for, but pods may still run.
PAUSING = State("about to be paused", (_PAUSE,), RUNNING.status)
RESUMED = State("resumed a moment ago", (), PAUSED.status)
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
UNPAUSED_STATES = (NEW, RUNNING, RESUMED, NOT_INITIALIZED, SUCCEEDED, FAILED, FAILED_UNMADE)
JOB_STATES = (*UNPAUSED_STATES, PAUSED, PAUSED_NEW, PAUSING, FINISHED_PAUSED)
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
        Row("the TensorBoard suspended", (put("spec.tensorboardSpec.suspend", True),), ALWAYS),
        Row(
            "the TensorBoard paused, as it was spelled once",
            (put("spec.tensorboardSpec.runMode", "paused"),),
            ALWAYS,
        ),
        Row(
            "the TensorBoard suspended, with other logs",
            (
                put("spec.tensorboardSpec.suspend", True),
                put("spec.tensorboardSpec.logDir", {"pvc": [{"name": "more"}]}),
            ),
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

# The kinds that a launcher drives, and the other training kinds


# For all kinds with run modes, whose manifests here give the workers a way to debug and resume.
MODE_ROWS = (
    Row("pause on or off", (flip("spec.runMode.pause.enabled"),), ALWAYS),
    Row("debug on or off", (flip("spec.runMode.debug.enabled"),), ALWAYS),
    Row("resume arguments changed", (put(f"{_RESUME}[0].args", ["--again"]),), NEVER, _RESUME),
    Row("the run mode taken away", (drop("spec.runMode"),), NEVER, _RESUME),
    Row(
        "a debug command changed",
        (put("spec.runMode.debug.replicaSpecs[0].command", ["sleep", "60"]),),
        OPEN,
        "spec.runMode.debug.replicaSpecs",
    ),
    Row("the scheduler taken away", (drop("spec.scheduler"),), OPEN, "spec.scheduler"),
)
# An elastic job they can't be, but the bounds are in their schema.
RIGID_ROWS = (
    Row(
        "an elastic bound added",
        (put("spec.elastic", {"maxReplicas": 4}),),
        NEVER,
        "spec.elastic.maxReplicas",
    ),
)
LAUNCHER_POLICY_ROWS = (
    Row("workers stay after all", (put("spec.runPolicy.cleanUpWorkers", False),), ALWAYS),
    Row("a time to live added", (put("spec.runPolicy.ttlSecondsAfterFinished", 60),), ALWAYS),
    Row("the run policy taken away", (drop("spec.runPolicy"),), ALWAYS),
)
TRAINING_POLICY_ROWS = (
    Row("another backoff limit", (put("spec.runPolicy.backoffLimit", 6),), ALWAYS),
    Row("the run policy taken away", (drop("spec.runPolicy"),), ALWAYS),
)


_WORKER = "spec.worker"
_WORKER_IMAGE = f"{_WORKER}.template.spec.containers[0].image"
# For kinds whose workers stand in a field of their own.
WORKER_ROWS = (
    Row("an image changed", (put(_WORKER_IMAGE, "alpine"),), OPEN, _WORKER),
    Row("replicas changed", (put(f"{_WORKER}.replicas", 3),), OPEN, _WORKER),
    Row("a number of replicas taken away", (drop(f"{_WORKER}.replicas"),), OPEN, _WORKER),
    Row(
        "an image changed, and pause on or off with it",
        (flip("spec.runMode.pause.enabled"), put(_WORKER_IMAGE, "alpine")),
        OPEN,
        _WORKER,
    ),
)

_LAST = f"{_REPLICAS}[1]"
_LAST_IMAGE = f"{_LAST}.template.spec.containers[0].image"
# For kinds with `replicaSpecs` whose types are of a closed set; the workers come last.
TYPED_ROWS = (
    Row("an image changed", (put(_LAST_IMAGE, "alpine"),), OPEN, _REPLICAS),
    Row("replicas changed", (put(f"{_LAST}.replicas", 3),), OPEN, _REPLICAS),
    Row("a number of replicas taken away", (drop(f"{_LAST}.replicas"),), OPEN, _REPLICAS),
    Row("the types in another order", (turn_around(_REPLICAS),), NEVER, _REPLICAS),
)

MPI = Table(
    "MPIJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: walk}
spec:
  worker:
    replicas: 2
    cmd: [./walk, "100"]
    extraMPIArgs: [--map-by, node]
    template: {spec: {containers: [{name: mpi-worker, image: openmpi}]}}
  mca: {btl: ^openib}
  mpiHome: /usr/local
  ssh: {sshdPath: /usr/sbin/sshd}
  runPolicy: {cleanUpWorkers: true}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: launcher, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: launcher, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *MODE_ROWS,
        *RIGID_ROWS,
        *LAUNCHER_POLICY_ROWS,
        *WORKER_ROWS,
        Row("another program", (put(f"{_WORKER}.cmd", ["./run"]),), OPEN, _WORKER),
        Row("mpirun's own arguments taken away", (drop(f"{_WORKER}.extraMPIArgs"),), OPEN, _WORKER),
        Row("an MCA parameter added", (put("spec.mca.orte_debug", "1"),), OPEN, "spec.mca"),
        Row("the MCA parameters taken away", (drop("spec.mca"),), OPEN, "spec.mca"),
        Row("another Open MPI", (put("spec.mpiHome", "/opt/mpi"),), OPEN, "spec.mpiHome"),
        Row("another sshd", (put("spec.ssh.sshdPath", "/opt/sshd"),), OPEN, "spec.ssh"),
    ),
)

MPI_SECOND_SHAPE = Table(
    "MPIJob of the second shape",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: walk}
spec:
  mpiConfig: {home: /usr/local, extraArgs: [--map-by, node], script: [./walk, "100"]}
  replicaSpecs:
    - {type: launcher, template: {}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: worker, image: openmpi}]}}
  runMode: {pause: {enabled: false}}
"""),
    JOB_STATES,
    (
        *TYPED_ROWS,
        Row("the launcher taken away", (drop(f"{_REPLICAS}[0]"),), NEVER, _REPLICAS),
        Row(
            "another program",
            (put("spec.mpiConfig.script", ["./run"]),),
            OPEN,
            "spec.mpiConfig",
        ),
    ),
)

COLOSSALAI = Table(
    "ColossalAIJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJob
metadata: {name: resnet}
spec:
  launcher: {image: colossalai, workingDir: /workspace}
  worker:
    replicas: 2
    procPerWorker: 1
    command: [train.py]
    template: {spec: {containers: [{name: worker, image: colossalai}]}}
  ssh: {authMountPath: /root/.ssh}
  runPolicy: {cleanUpWorkers: true}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: launcher, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *MODE_ROWS,
        *RIGID_ROWS,
        *LAUNCHER_POLICY_ROWS,
        *WORKER_ROWS,
        Row("another script", (put(f"{_WORKER}.command", ["test.py"]),), OPEN, _WORKER),
        Row("more processes", (put(f"{_WORKER}.procPerWorker", 2),), OPEN, _WORKER),
        Row(
            "the launcher's image changed",
            (put("spec.launcher.image", "alpine"),),
            OPEN,
            "spec.launcher",
        ),
        Row("the keys elsewhere", (put("spec.ssh.authMountPath", "/keys"),), OPEN, "spec.ssh"),
    ),
)

COLOSSALAI_SECOND_SHAPE = Table(
    "ColossalAIJob of the second shape",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJob
metadata: {name: resnet}
spec:
  torchConfig: {procPerWorker: 1, script: [train.py]}
  replicaSpecs:
    - {type: launcher, template: {}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: worker, image: colossalai}]}}
  runMode: {pause: {enabled: false}}
"""),
    JOB_STATES,
    (
        *TYPED_ROWS,
        Row(
            "more processes",
            (put("spec.torchConfig.procPerWorker", 2),),
            OPEN,
            "spec.torchConfig",
        ),
    ),
)

DEEPSPEED = Table(
    "DeepSpeedJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker:
    replicas: 2
    restartPolicy: OnFailure
    template: {spec: {containers: [{name: worker, image: deepspeed}]}}
  config: {slotsPerWorker: 1, run: {python: [train.py]}}
  disableCustomEnv: false
  elastic: {enabled: false, minReplicas: 1, maxReplicas: 4}
  runPolicy: {activeDeadlineSeconds: 3600, backoffLimit: 5, cleanUpPolicy: All}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *MODE_ROWS,
        *TRAINING_POLICY_ROWS,
        *WORKER_ROWS,
        Row("another restart policy", (put(f"{_WORKER}.restartPolicy", "Never"),), OPEN, _WORKER),
        Row("another script", (put("spec.config.run.python", ["b.py"]),), OPEN, "spec.config"),
        Row(
            "the environment kept to itself",
            (put("spec.disableCustomEnv", True),),
            OPEN,
            "spec.disableCustomEnv",
        ),
        Row(
            "made elastic",
            (put("spec.elastic.enabled", True), put("spec.elastic.expectedReplicas", 2)),
            OPEN,
            "spec.elastic.enabled",
        ),
        Row(
            "a bound changed before it counts",
            (put("spec.elastic.minReplicas", 2),),
            NEVER,
            "spec.elastic.minReplicas",
        ),
    ),
)

ELASTIC_DEEPSPEED = Table(
    "elastic DeepSpeedJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker: {template: {spec: {containers: [{name: worker, image: deepspeed}]}}}
  config: {run: {python: [train.py]}}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
  runMode: {pause: {enabled: false}}
"""),
    JOB_STATES,
    (
        Row("scaled up", (put("spec.elastic.expectedReplicas", 4),), ALWAYS),
        Row("scaled down", (put("spec.elastic.expectedReplicas", 1),), ALWAYS),
        Row(
            "another upper bound",
            (put("spec.elastic.maxReplicas", 8),),
            NEVER,
            "spec.elastic.maxReplicas",
        ),
        Row("elastic taken away", (drop("spec.elastic"),), NEVER, "spec.elastic.minReplicas"),
    ),
)

TENSORFLOW = Table(
    "TensorFlowTrainingJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: chief
      template: {spec: {containers: [{name: tensorflow, image: tf, command: [python3, a.py]}]}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: tf, command: [python3, a.py]}]}}
  tensorboardSpec: {image: tensorboard, trainingLogFilesets: ["t9k://pvc/logs/mnist"]}
  runPolicy: {activeDeadlineSeconds: 3600, backoffLimit: 5, cleanUpPolicy: All}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *MODE_ROWS,
        *RIGID_ROWS,
        *TRAINING_POLICY_ROWS,
        *TYPED_ROWS,
        Row(
            "parameter servers added",
            (
                append(
                    _REPLICAS,
                    {
                        "type": "ps",
                        "template": {"spec": {"containers": [{"name": "tensorflow"}]}},
                    },
                ),
            ),
            NEVER,
            _REPLICAS,
        ),
        Row("the chief taken away", (drop(f"{_REPLICAS}[0]"),), NEVER, _REPLICAS),
        Row(
            "the chief made an evaluator",
            (put(f"{_REPLICAS}[0].type", "evaluator"),),
            NEVER,
            _REPLICAS,
        ),
        Row(
            "another image for the TensorBoard",
            (put("spec.tensorboardSpec.image", "tb:2"),),
            OPEN,
            "spec.tensorboardSpec",
        ),
    ),
)

XGBOOST = Table(
    "XGBoostTrainingJob",
    manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: XGBoostTrainingJob
metadata: {name: trees}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: xgboost, image: xgb, command: [python3, a.py]}]}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: xgboost, image: xgb, command: [python3, a.py]}]}}
  runPolicy: {activeDeadlineSeconds: 3600, backoffLimit: 5, cleanUpPolicy: All}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""),
    JOB_STATES,
    (
        *MODE_ROWS,
        *RIGID_ROWS,
        *TRAINING_POLICY_ROWS,
        *TYPED_ROWS,
        Row("another restart policy", (put(f"{_LAST}.restartPolicy", "Never"),), OPEN, _REPLICAS),
    ),
)

# A BeamJob has no pause and no condition Initialized: it is never open to changes.
_CLUSTER_RUNNING = condition("ClusterRunning", "True")
BEAM_STARTING = State("initializing", (), {"phase": "Initializing", "conditions": []})
BEAM_HINDERED = State(
    "its cluster can't be made",
    (),
    {"phase": "Initializing", "conditions": [condition("ClusterRunning", "False")]},
)
BEAM_RUNNING = State("running", (), {"phase": "Running", "conditions": [_CLUSTER_RUNNING]})
BEAM_SUCCEEDED = State("succeeded", (), {"phase": "Succeeded", "conditions": [_CLUSTER_RUNNING]})
BEAM_STATES = (NEW, BEAM_STARTING, BEAM_HINDERED, BEAM_RUNNING, BEAM_SUCCEEDED)
_FLINK = "spec.flinkClusterTemplate"
_SUBMITTING = "spec.jobTemplate"
# Of both clusters.
BEAM_ROWS = (
    Row("the cluster stays after all", (put("spec.runPolicy.cleanUpCluster", False),), BEAM_STATES),
    Row("a time to live added", (put("spec.runPolicy.ttlSecondsAfterFinished", 6),), BEAM_STATES),
    Row("the run policy taken away", (drop("spec.runPolicy"),), BEAM_STATES),
    Row("another backoff limit", (put(f"{_SUBMITTING}.spec.backoffLimit", 6),), NEVER, _SUBMITTING),
    Row(
        "another program",
        (put(f"{_SUBMITTING}.spec.template.spec.containers[0].args", ["b.py"]),),
        NEVER,
        _SUBMITTING,
    ),
    Row("the scheduler taken away", (drop("spec.scheduler"),), NEVER, "spec.scheduler"),
)
_SUBMITTED = """
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: submit, image: beam, command: [python3], args: [a.py]}]
  runPolicy: {cleanUpCluster: true}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
"""

FLINK = Table(
    "BeamJob on Flink",
    manifest(f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: BeamJob
metadata: {{name: words}}
spec:
  flinkClusterTemplate:
    spec: {{flinkVersion: "1.19", image: {{name: flink}}, taskManager: {{replicas: 2}}}}
{_SUBMITTED}"""),
    BEAM_STATES,
    (
        *BEAM_ROWS,
        Row("task managers added", (put(f"{_FLINK}.spec.taskManager.replicas", 3),), NEVER, _FLINK),
        Row("another Flink", (put(f"{_FLINK}.spec.image.name", "flink:2"),), NEVER, _FLINK),
        Row(
            "a property added",
            (put(f"{_FLINK}.spec.flinkProperties", {"a.b": "c"}),),
            NEVER,
            _FLINK,
        ),
    ),
)

SPARK = Table(
    "BeamJob on Spark",
    manifest(f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: BeamJob
metadata: {{name: words}}
spec:
  sparkClusterTemplate:
    spec: {{sparkVersion: "3.5", image: {{name: spark}}, worker: {{replicas: 2, cores: 1}}}}
{_SUBMITTED}"""),
    BEAM_STATES,
    (
        *BEAM_ROWS,
        Row(
            "more cores",
            (put("spec.sparkClusterTemplate.spec.worker.cores", 2),),
            NEVER,
            "spec.sparkClusterTemplate",
        ),
    ),
)

TABLES = (
    *(GENERIC, BARE_GENERIC, PYTORCH, ELASTIC, TASKSET),
    *(MPI, MPI_SECOND_SHAPE, COLOSSALAI, COLOSSALAI_SECOND_SHAPE, DEEPSPEED, ELASTIC_DEEPSPEED),
    *(TENSORFLOW, XGBOOST, FLINK, SPARK),
)
