"""XGBoostTrainingJob: one master, and workers."""

from api.wrong_manifests.edits import append, drop, put
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
    items_at_least,
    manifest,
    no_container,
    of_type,
    one_of,
    pod_name,
    required,
)

RUNNING = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: XGBoostTrainingJob
metadata: {name: iris}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: xgboost, image: xgb}]}}
    - type: worker
      replicas: 2
      restartPolicy: ExitCode
      template:
        spec:
          containers: [{name: xgboost, image: xgb, resources: {limits: {cpu: "1"}}}]
  runPolicy: {activeDeadlineSeconds: 3600, cleanUpPolicy: All}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: master}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {priority: 50}}
""")

PAUSED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: XGBoostTrainingJob
metadata: {name: iris}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: xgboost, image: xgb}]}}
  runMode: {pause: {enabled: true}}
""")

TABLES = (
    Table(
        "master and workers",
        RUNNING,
        (
            Wrong(
                "no master",
                (drop("spec.replicaSpecs[0]"), drop("spec.runMode.debug")),
                "spec.replicaSpecs",
                "one entry must be of type master: it holds the tracker",
            ),
            Wrong(
                "two masters",
                put("spec.replicaSpecs[0].replicas", 2),
                "spec.replicaSpecs[0].replicas",
                "there is one master: its replicas must be 1",
            ),
            Wrong(
                "the master listed twice",
                (
                    put("spec.replicaSpecs[1]", RUNNING["spec"]["replicaSpecs"][0]),
                    drop("spec.runMode.pause"),
                ),
                "spec.replicaSpecs",
                "type master is listed more than once; each must be unique",
            ),
            Wrong(
                "a type that there is not",
                put("spec.replicaSpecs[0].type", "chief"),
                "spec.replicaSpecs[0].type",
                one_of("master", "worker"),
            ),
            Wrong(
                "no container is named xgboost",
                put("spec.replicaSpecs[0].template.spec.containers[0].name", "main"),
                "spec.replicaSpecs[0].template.spec.containers",
                no_container("xgboost", "main"),
            ),
            Wrong(
                "a restart policy that there is not",
                put("spec.replicaSpecs[1].restartPolicy", "Sometimes"),
                "spec.replicaSpecs[1].restartPolicy",
                one_of("Always", "OnFailure", "Never", "ExitCode"),
            ),
            Wrong(
                "more workers than a variable can name",
                (
                    put("spec.replicaSpecs[1].replicas", 4999),
                    put("metadata.name", "iris-on-many-workers"),
                ),
                "spec.replicaSpecs",
                "WORKER_ADDRS names all replicas",
            ),
            Wrong(
                "no replicas at all",
                put("spec.replicaSpecs", []),
                "spec.replicaSpecs",
                items_at_least(1),
            ),
            Wrong(
                "a master without a template",
                drop("spec.replicaSpecs[0].template"),
                "spec.replicaSpecs[0].template",
                required("The pod each replica runs in"),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "more than 5000 replicas in all",
                put("spec.replicaSpecs[1].replicas", 5000),
                "spec.replicaSpecs",
                "the job has 5001 replicas in all; at most 5000 are possible",
            ),
            Wrong(
                "a deadline of zero seconds",
                put("spec.runPolicy.activeDeadlineSeconds", 0),
                "spec.runPolicy.activeDeadlineSeconds",
                at_least(1),
            ),
            Wrong(
                "an elastic XGBoostTrainingJob",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "XGBoostTrainingJob has no elastic mode; remove spec.elastic",
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a name with which a pod's would be too long",
                put("metadata.name", "i" * 55),
                NAME,
                pod_name("i" * 55 + "-master-0"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "3-irises"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the replicas of a running job changed",
                put("spec.replicaSpecs[1].replicas", 3),
                "spec.replicaSpecs",
                HELD,
                update=True,
            ),
            Wrong(
                "the scheduler of a running job taken away",
                drop("spec.scheduler"),
                "spec.scheduler",
                HELD,
                update=True,
            ),
            Wrong(
                "the resume command taken away",
                drop("spec.runMode.pause"),
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
                "workers added to a paused job",
                append("spec.replicaSpecs", RUNNING["spec"]["replicaSpecs"][1]),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
        ),
    ),
)
