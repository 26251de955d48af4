"""BeamJob: one cluster, one submitting pod, no run modes."""

from api.wrong_manifests.edits import drop, put
from api.wrong_manifests.wrong import (
    DNS_1035,
    ELASTIC,
    NAME,
    Table,
    Wrong,
    at_least,
    at_most,
    characters_at_least,
    manifest,
    matching,
    of_type,
    one_of,
    pod_name,
    required,
)

FLINK = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: BeamJob
metadata: {name: words}
spec:
  flinkClusterTemplate:
    spec:
      flinkVersion: "1.19"
      image: {name: "flink:1.19"}
      jobManager: {accessScope: Cluster, replicas: 1, resources: {limits: {cpu: 200m}}}
      taskManager: {replicas: 2}
      flinkProperties: {taskmanager.numberOfTaskSlots: "2"}
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: submit, image: beam, command: [python3, words.py]}]
  runPolicy: {cleanUpCluster: true}
  scheduler: {t9kScheduler: {priority: 50}}
""")

SPARK = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: BeamJob
metadata: {name: words}
spec:
  sparkClusterTemplate:
    spec:
      sparkVersion: "3.5"
      image: {name: "spark:3.5"}
      worker: {replicas: 2, cores: 1}
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: submit, image: beam, command: [python3, words.py]}]
""")

_ONE_CLUSTER = "exactly one of flinkClusterTemplate and sparkClusterTemplate must be given"
# A BeamJob can't be paused, so the other kinds' advice to pause the job would be no help.
_HELD = "make a new job"

TABLES = (
    Table(
        "Flink",
        FLINK,
        (
            Wrong(
                "two clusters",
                put("spec.sparkClusterTemplate", SPARK["spec"]["sparkClusterTemplate"]),
                "spec",
                _ONE_CLUSTER,
            ),
            Wrong("no cluster", drop("spec.flinkClusterTemplate"), "spec", _ONE_CLUSTER),
            Wrong(
                "two submitting pods",
                put("spec.jobTemplate.spec.parallelism", 2),
                "spec.jobTemplate.spec.parallelism",
                "one pod submits the program: parallelism must be 1 or absent",
            ),
            Wrong(
                "two completions",
                put("spec.jobTemplate.spec.completions", 2),
                "spec.jobTemplate.spec.completions",
                "one pod submits the program: completions must be 1 or absent",
            ),
            Wrong(
                "debug mode",
                put("spec.runMode", {"debug": {"enabled": True}}),
                "spec.runMode.debug",
                "BeamJob has no debug mode; remove spec.runMode.debug",
            ),
            Wrong(
                "pause mode",
                put("spec.runMode", {"pause": {"enabled": True}}),
                "spec.runMode.pause",
                "BeamJob has no pause mode; remove spec.runMode.pause",
            ),
            Wrong(
                "elastic mode",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "BeamJob has no elastic mode; remove spec.elastic",
            ),
            # One fault: how to make a job elastic is no help in a kind that has no such mode.
            Wrong(
                "elastic mode without bounds",
                put("spec.elastic", {"enabled": True}),
                "spec.elastic",
                "BeamJob has no elastic mode; remove spec.elastic",
            ),
            Wrong(
                "a version that is a number",
                put("spec.flinkClusterTemplate.spec.flinkVersion", 1.19),
                "spec.flinkClusterTemplate.spec.flinkVersion",
                of_type("string", 'is 1.19, a number; must be a string: write "1.19"'),
            ),
            Wrong(
                "a version that is a word",
                put("spec.flinkClusterTemplate.spec.flinkVersion", "latest"),
                "spec.flinkClusterTemplate.spec.flinkVersion",
                matching('must be a version such as "1.19" or "3.5.1"'),
            ),
            Wrong(
                "no version",
                drop("spec.flinkClusterTemplate.spec.flinkVersion"),
                "spec.flinkClusterTemplate.spec.flinkVersion",
                required("Flink's version as a string"),
            ),
            Wrong(
                "an image without a name",
                put("spec.flinkClusterTemplate.spec.image.name", ""),
                "spec.flinkClusterTemplate.spec.image.name",
                characters_at_least(1),
            ),
            Wrong(
                "two job managers",
                put("spec.flinkClusterTemplate.spec.jobManager.replicas", 2),
                "spec.flinkClusterTemplate.spec.jobManager.replicas",
                at_most(1),
            ),
            Wrong(
                "no task managers",
                put("spec.flinkClusterTemplate.spec.taskManager.replicas", 0),
                "spec.flinkClusterTemplate.spec.taskManager.replicas",
                at_least(1),
            ),
            Wrong(
                "an access scope that there is not",
                put("spec.flinkClusterTemplate.spec.jobManager.accessScope", "Public"),
                "spec.flinkClusterTemplate.spec.jobManager.accessScope",
                one_of("Cluster", "VPC", "External", "NodePort", "Headless"),
            ),
            Wrong(
                "a property that is a number",
                put("spec.flinkClusterTemplate.spec.flinkProperties", {"parallelism": 2}),
                "spec.flinkClusterTemplate.spec.flinkProperties.parallelism",
                of_type("string", 'is 2, a whole number; must be a string: write "2"'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.flinkClusterTemplate.spec.jobManager.resources.limits.cpu", 0.5),
                "spec.flinkClusterTemplate.spec.jobManager.resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "nothing that submits",
                drop("spec.jobTemplate"),
                "spec.jobTemplate",
                required("The pod that submits the program"),
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a name with which a task manager's would be too long",
                put("metadata.name", "w" * 37),
                NAME,
                pod_name("w" * 37 + "-flinkcluster-taskmanager-1"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "1000-words"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the cluster of a running job changed",
                put("spec.flinkClusterTemplate.spec.taskManager.replicas", 3),
                "spec.flinkClusterTemplate",
                _HELD,
                update=True,
            ),
            Wrong(
                "the program of a running job changed",
                put("spec.jobTemplate.spec.template.spec.containers[0].image", "beam:2"),
                "spec.jobTemplate",
                _HELD,
                update=True,
            ),
        ),
    ),
    Table(
        "Spark",
        SPARK,
        (
            Wrong(
                "a version without a runner",
                put("spec.sparkClusterTemplate.spec.sparkVersion", "4.0"),
                "spec.sparkClusterTemplate.spec.sparkVersion",
                "must be 3.x: Beam has no runner for other versions of Spark",
            ),
            Wrong(
                "a version that is a number",
                put("spec.sparkClusterTemplate.spec.sparkVersion", 3.5),
                "spec.sparkClusterTemplate.spec.sparkVersion",
                of_type("string", 'is 3.5, a number; must be a string: write "3.5"'),
            ),
            Wrong(
                "workers without cores",
                put("spec.sparkClusterTemplate.spec.worker.cores", 0),
                "spec.sparkClusterTemplate.spec.worker.cores",
                at_least(1),
            ),
            Wrong(
                "a name with which a worker's would be too long",
                put("metadata.name", "w" * 42),
                NAME,
                pod_name("w" * 42 + "-sparkcluster-worker-1"),
            ),
            Wrong(
                "the cluster of a running job changed",
                put("spec.sparkClusterTemplate.spec.worker.cores", 2),
                "spec.sparkClusterTemplate",
                _HELD,
                update=True,
            ),
        ),
    ),
)
