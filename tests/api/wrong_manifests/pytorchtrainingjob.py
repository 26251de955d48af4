"""PyTorchTrainingJob: torchrun, elastic bounds, TensorBoard."""

from api.wrong_manifests.edits import append, drop, put, turn_around
from api.wrong_manifests.wrong import (
    DNS_1035,
    DNS_LABEL,
    HELD,
    NAME,
    NEVER,
    SAME_TYPES,
    Table,
    Wrong,
    at_least,
    at_most,
    manifest,
    matching,
    of_type,
    one_of,
    pod_name,
    required,
)

PLAIN = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
    - type: worker
      replicas: 2
      restartPolicy: ExitCode
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
  tensorboardSpec:
    image: tensorboard
    trainingLogFilesets: ["t9k://pvc/logs/mnist"]
    resources: {limits: {cpu: 200m}}
  runPolicy: {activeDeadlineSeconds: 3600, backoffLimit: 5, cleanUpPolicy: Unfinished}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: master}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
""")

ELASTIC = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: node
      scalingWeight: 2
      template: {spec: {containers: [{name: pytorch, image: torch, args: [train.py]}]}}
  torchrunConfig:
    enabled: true
    maxRestarts: 3
    procPerNode: "4"
    rdzvBackend: c10d
    extraOptions: [--local_addr=localhost]
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
""")

PAUSED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: mnist}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
    - type: worker
      template: {spec: {containers: [{name: pytorch, image: torch, command: [python3, a.py]}]}}
  runMode: {pause: {enabled: true}}
""")

_THREE_NUMBERS = "an elastic job needs minReplicas, maxReplicas and expectedReplicas"
_ENDPOINT = "the etcd backends need --rdzv_endpoint in extraOptions"

TABLES = (
    Table(
        "plain",
        PLAIN,
        (
            Wrong(
                "minNodes above the number of replicas",
                put("spec.torchrunConfig", {"enabled": True, "minNodes": 4}),
                "spec.torchrunConfig.minNodes",
                "is 4; must be at most 3, the number of replicas",
            ),
            Wrong(
                "a restart policy that there is not",
                put("spec.replicaSpecs[0].restartPolicy", "OnError"),
                "spec.replicaSpecs[0].restartPolicy",
                one_of("Always", "OnFailure", "Never", "ExitCode"),
            ),
            Wrong(
                "a clean-up policy that there is not",
                put("spec.runPolicy.cleanUpPolicy", "Running"),
                "spec.runPolicy.cleanUpPolicy",
                one_of("None", "All", "Unfinished"),
            ),
            Wrong(
                "a deadline of zero seconds",
                put("spec.runPolicy.activeDeadlineSeconds", 0),
                "spec.runPolicy.activeDeadlineSeconds",
                at_least(1),
            ),
            Wrong(
                "fewer than no restarts",
                put("spec.runPolicy.backoffLimit", -1),
                "spec.runPolicy.backoffLimit",
                at_least(0),
            ),
            Wrong(
                "logs that are not in a volume",
                put("spec.tensorboardSpec.trainingLogFilesets[0]", "/logs"),
                "spec.tensorboardSpec.trainingLogFilesets[0]",
                matching("must be t9k://pvc/<claim>/<path>"),
            ),
            Wrong(
                "logs in a claim without a name",
                put("spec.tensorboardSpec.logDir", {"pvc": [{"subPath": ["run"]}]}),
                "spec.tensorboardSpec.logDir.pvc[0].name",
                required("The claim's name."),
            ),
            Wrong(
                "logs in a claim whose name is a path",
                put("spec.tensorboardSpec.logDir", {"pvc": [{"name": "logs/run"}]}),
                "spec.tensorboardSpec.logDir.pvc[0].name",
                matching("must hold only lower-case letters, digits, '-' and '.'"),
            ),
            Wrong(
                "a folder of logs that is no list",
                put("spec.tensorboardSpec.logDir", {"pvc": [{"name": "logs", "subPath": "run"}]}),
                "spec.tensorboardSpec.logDir.pvc[0].subPath",
                of_type("array", 'is the string "run"; must be a list: write ["run"]'),
            ),
            Wrong(
                "a mode that a TensorBoard doesn't have",
                put("spec.tensorboardSpec.runMode", "stopped"),
                "spec.tensorboardSpec.runMode",
                matching("must be running or paused"),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.tensorboardSpec.resources.limits.cpu", 0.5),
                "spec.tensorboardSpec.resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "a type listed twice",
                append("spec.replicaSpecs", PLAIN["spec"]["replicaSpecs"][1]),
                "spec.replicaSpecs",
                "type worker is listed more than once; each must be unique",
            ),
            Wrong(
                "a type that is not a DNS label",
                put("spec.replicaSpecs[1].type", "worker_1"),
                "spec.replicaSpecs[1].type",
                matching(DNS_LABEL),
            ),
            Wrong(
                "more than 5000 replicas in all",
                put("spec.replicaSpecs[1].replicas", 5000),
                "spec.replicaSpecs",
                "the job has 5001 replicas in all; at most 5000 are possible",
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a name with which a pod's would be too long",
                (put("metadata.name", "m" * 55), drop("spec.tensorboardSpec")),
                NAME,
                pod_name("m" * 55 + "-master-0"),
            ),
            # The message has to name the pod and its length, as it does for replicas.
            Wrong(
                "a name with which the TensorBoard's would be too long",
                put("metadata.name", "m" * 52),
                NAME,
                pod_name("m" * 52 + "-tensorboard"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "8gpus"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.replicaSpecs[1].template.spec.containers[0].image", "torch:2"),
                "spec.replicaSpecs",
                HELD,
                update=True,
            ),
            Wrong(
                "torchrun added to a running job",
                put("spec.torchrunConfig", {"enabled": True}),
                "spec.torchrunConfig",
                HELD,
                update=True,
            ),
            Wrong(
                "the TensorBoard of a running job taken away",
                drop("spec.tensorboardSpec"),
                "spec.tensorboardSpec",
                HELD,
                update=True,
            ),
            Wrong(
                "the resume command changed",
                put("spec.runMode.pause.resumeSpecs[0].args", ["--again"]),
                "spec.runMode.pause.resumeSpecs",
                NEVER,
                update=True,
            ),
        ),
    ),
    Table(
        "elastic",
        ELASTIC,
        (
            # One fault: a range from 5 to 4 makes no sense, so nothing should be said of
            # expectedReplicas until the bounds are right.
            Wrong(
                "minReplicas above maxReplicas",
                put("spec.elastic.minReplicas", 5),
                "spec.elastic.minReplicas",
                "is 5; must be at most 4, which is maxReplicas",
            ),
            Wrong(
                "expectedReplicas above maxReplicas",
                put("spec.elastic.expectedReplicas", 5),
                "spec.elastic.expectedReplicas",
                "is 5; must be from 1 to 4 (minReplicas to maxReplicas)",
            ),
            Wrong(
                "expectedReplicas below minReplicas",
                (put("spec.elastic.minReplicas", 2), put("spec.elastic.expectedReplicas", 1)),
                "spec.elastic.expectedReplicas",
                "is 1; must be from 2 to 4 (minReplicas to maxReplicas)",
            ),
            Wrong(
                "no expectedReplicas",
                drop("spec.elastic.expectedReplicas"),
                "spec.elastic",
                _THREE_NUMBERS,
            ),
            Wrong(
                "no bounds", put("spec.elastic", {"enabled": True}), "spec.elastic", _THREE_NUMBERS
            ),
            Wrong(
                "no replicas at the least",
                put("spec.elastic.minReplicas", 0),
                "spec.elastic.minReplicas",
                "is 0; must be at least 1 in an elastic job",
            ),
            Wrong(
                "more than 5000 replicas at the most",
                put("spec.elastic.maxReplicas", 5001),
                "spec.elastic.maxReplicas",
                at_most(5000),
            ),
            Wrong(
                "etcd without an endpoint",
                put("spec.torchrunConfig.rdzvBackend", "etcd"),
                "spec.torchrunConfig.extraOptions",
                _ENDPOINT,
            ),
            Wrong(
                "etcd-v2 without any options",
                (
                    put("spec.torchrunConfig.rdzvBackend", "etcd-v2"),
                    drop("spec.torchrunConfig.extraOptions"),
                ),
                "spec.torchrunConfig.extraOptions",
                _ENDPOINT,
            ),
            Wrong(
                "a backend that there is not",
                put("spec.torchrunConfig.rdzvBackend", "zookeeper"),
                "spec.torchrunConfig.rdzvBackend",
                one_of("c10d", "etcd", "etcd-v2"),
            ),
            Wrong(
                "a word that is no number of processes",
                put("spec.torchrunConfig.procPerNode", "all"),
                "spec.torchrunConfig.procPerNode",
                matching("must be a number such as 4, or gpu, cpu or auto"),
            ),
            Wrong(
                "a name too long for the pods that scaling can bring",
                (put("metadata.name", "m" * 56), put("spec.elastic.maxReplicas", 11)),
                NAME,
                pod_name("m" * 56 + "-node-10"),
            ),
            Wrong(
                "the lower bound changed",
                put("spec.elastic.minReplicas", 2),
                "spec.elastic.minReplicas",
                NEVER,
                update=True,
            ),
            Wrong(
                "the upper bound changed",
                put("spec.elastic.maxReplicas", 8),
                "spec.elastic.maxReplicas",
                NEVER,
                update=True,
            ),
            Wrong(
                "scaled above the upper bound",
                put("spec.elastic.expectedReplicas", 5),
                "spec.elastic.expectedReplicas",
                "is 5; must be from 1 to 4 (minReplicas to maxReplicas)",
                update=True,
            ),
            Wrong(
                "a running job made inelastic",
                (put("spec.elastic.enabled", False), drop("spec.elastic.expectedReplicas")),
                "spec.elastic.enabled",
                HELD,
                update=True,
            ),
            Wrong(
                "torchrun's options in a running job changed",
                put("spec.torchrunConfig.maxRestarts", 4),
                "spec.torchrunConfig",
                HELD,
                update=True,
            ),
        ),
    ),
    Table(
        "paused",
        PAUSED,
        (
            Wrong(
                "the types of a paused job in another order",
                turn_around("spec.replicaSpecs"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "a type of a paused job renamed",
                put("spec.replicaSpecs[1].type", "node"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "a resume command added to a paused job",
                put("spec.runMode.pause.resumeSpecs", [{"type": "worker", "args": ["--resume"]}]),
                "spec.runMode.pause.resumeSpecs",
                NEVER,
                update=True,
            ),
        ),
    ),
)
