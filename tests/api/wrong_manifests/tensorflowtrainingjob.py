"""TensorFlowTrainingJob: TensorFlow's own types, of which one decides the end."""

from api.wrong_manifests.edits import append, drop, put, turn_around
from api.wrong_manifests.wrong import (
    DNS_1035,
    ELASTIC,
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
    no_container,
    of_type,
    one_of,
    pod_name,
    required,
)

WITH_PS = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {name: resnet}
spec:
  replicaSpecs:
    - type: chief
      template: {spec: {containers: [{name: tensorflow, image: tf}]}}
    - type: worker
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          containers: [{name: tensorflow, image: tf, resources: {limits: {cpu: "1"}}}]
    - type: ps
      template: {spec: {containers: [{name: tensorflow, image: tf}]}}
  tensorboardSpec: {image: tensorboard, trainingLogFilesets: ["t9k://pvc/logs/resnet"]}
  runPolicy: {backoffLimit: 5}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: ps}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {priority: 50}}
""")

PAUSED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: TensorFlowTrainingJob
metadata: {name: resnet}
spec:
  replicaSpecs:
    - type: worker
      template: {spec: {containers: [{name: tensorflow, image: tf}]}}
    - type: evaluator
      template: {spec: {containers: [{name: tensorflow, image: tf}]}}
  runMode: {pause: {enabled: true}}
""")

TABLES = (
    Table(
        "with a parameter server",
        WITH_PS,
        (
            Wrong(
                "two chiefs",
                put("spec.replicaSpecs[0].replicas", 2),
                "spec.replicaSpecs[0].replicas",
                "there is at most one chief: its replicas must be 1",
            ),
            Wrong(
                "the chief listed twice",
                append("spec.replicaSpecs", WITH_PS["spec"]["replicaSpecs"][0]),
                "spec.replicaSpecs",
                "type chief is listed more than once; each must be unique",
            ),
            Wrong(
                "neither chief nor worker",
                (
                    drop("spec.replicaSpecs[1]"),
                    drop("spec.replicaSpecs[0]"),
                    drop("spec.runMode.pause"),
                ),
                "spec.replicaSpecs",
                "one entry must be of type chief or worker: the job ends with it",
            ),
            Wrong(
                "a type that there is not",
                put("spec.replicaSpecs[0].type", "master"),
                "spec.replicaSpecs[0].type",
                one_of("chief", "worker", "ps", "evaluator"),
            ),
            Wrong(
                "no container is named tensorflow",
                put("spec.replicaSpecs[1].template.spec.containers[0].name", "main"),
                "spec.replicaSpecs[1].template.spec.containers",
                no_container("tensorflow", "main"),
            ),
            Wrong(
                "a restart policy that there is not",
                put("spec.replicaSpecs[1].restartPolicy", "Sometimes"),
                "spec.replicaSpecs[1].restartPolicy",
                one_of("Always", "OnFailure", "Never", "ExitCode"),
            ),
            Wrong(
                "a type without a template",
                drop("spec.replicaSpecs[2].template"),
                "spec.replicaSpecs[2].template",
                required("The pod each replica runs in"),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "more workers than TF_CONFIG can name",
                put("spec.replicaSpecs[1].replicas", 4900),
                "spec.replicaSpecs",
                "TF_CONFIG names all replicas",
            ),
            Wrong(
                "more than 5000 replicas in all",
                put("spec.replicaSpecs[1].replicas", 4999),
                "spec.replicaSpecs",
                "the job has 5001 replicas in all; at most 5000 are possible",
            ),
            Wrong(
                "an elastic TensorFlowTrainingJob",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "TensorFlowTrainingJob has no elastic mode; remove spec.elastic",
            ),
            Wrong(
                "logs that are not in a volume",
                put("spec.tensorboardSpec.trainingLogFilesets[0]", "s3://logs"),
                "spec.tensorboardSpec.trainingLogFilesets[0]",
                matching("must be t9k://pvc/<claim>/<path>"),
            ),
            Wrong(
                "fewer than no restarts",
                put("spec.runPolicy.backoffLimit", -1),
                "spec.runPolicy.backoffLimit",
                at_least(0),
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a name with which a pod's would be too long",
                (put("metadata.name", "r" * 55), drop("spec.tensorboardSpec")),
                NAME,
                pod_name("r" * 55 + "-worker-1"),
            ),
            # The message has to name the pod and its length, as it does for replicas.
            Wrong(
                "a name with which the TensorBoard's would be too long",
                put("metadata.name", "r" * 52),
                NAME,
                pod_name("r" * 52 + "-tensorboard"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "50-layers"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.replicaSpecs[1].template.spec.containers[0].image", "tf:2"),
                "spec.replicaSpecs",
                HELD,
                update=True,
            ),
            Wrong(
                "the logs of a running job changed",
                append("spec.tensorboardSpec.trainingLogFilesets", "t9k://pvc/logs/old"),
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
                "the evaluator taken from a paused job",
                drop("spec.replicaSpecs[1]"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
        ),
    ),
)
