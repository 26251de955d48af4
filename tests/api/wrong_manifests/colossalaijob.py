"""ColossalAIJob: its two shapes, and what the launcher and the workers need."""

from api.wrong_manifests.edits import drop, put, turn_around
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
)

WORKER_SHAPE = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJob
metadata: {name: gpt}
spec:
  ssh: {authMountPath: /root/.ssh, sshdPath: /usr/sbin/sshd}
  launcher:
    image: colossalai
    workingDir: /workspace
    env: [{name: DEPTH, value: "18"}]
    resources: {limits: {cpu: "1"}}
  worker:
    replicas: 2
    procPerWorker: 2
    command: [train.py]
    template:
      spec:
        containers:
          - name: worker
            image: colossalai
            volumeMounts: [{name: data, mountPath: /data}]
        volumes: [{name: data, emptyDir: {}}]
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: launcher}]}
    pause: {enabled: false, resumeSpecs: [{type: launcher, command: [train.py]}]}
  scheduler: {t9kScheduler: {priority: 50}}
""")

REPLICA_SHAPE = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJob
metadata: {name: gpt}
spec:
  torchConfig: {procPerWorker: 2, script: [train.py]}
  replicaSpecs:
    - type: launcher
      template: {spec: {containers: [{name: launcher, image: colossalai}]}}
    - type: worker
      replicas: 2
      template: {spec: {containers: [{name: worker, image: colossalai}]}}
  runMode: {pause: {enabled: true}}
""")

_TWICE = "the workers are given twice: use either worker or replicaSpecs"
_NOTHING = "there is nothing to launch: give worker.command or torchConfig.script, or debug the job"
_NEITHER = "ColossalAIJob needs either worker, or torchConfig with replicaSpecs"
_KEYS = "no volume may be mounted at ssh.authMountPath (/root/.ssh if absent)"

TABLES = (
    Table(
        "worker",
        WORKER_SHAPE,
        (
            Wrong(
                "no container is named worker",
                put("spec.worker.template.spec.containers[0].name", "main"),
                "spec.worker.template.spec.containers",
                no_container("worker", "main"),
            ),
            Wrong(
                "workers in both shapes",
                put("spec.replicaSpecs", REPLICA_SHAPE["spec"]["replicaSpecs"]),
                "spec",
                _TWICE,
            ),
            Wrong(
                "nothing to launch",
                (drop("spec.worker.command"), drop("spec.runMode.pause")),
                "spec",
                _NOTHING,
            ),
            Wrong(
                "neither shape",
                put("spec", {"torchConfig": {"script": ["train.py"]}}),
                "spec",
                _NEITHER,
            ),
            Wrong("a launcher without workers", drop("spec.worker"), "spec", _NEITHER),
            Wrong(
                "a number where a string is wanted",
                put("spec.launcher.env[0].value", 18),
                "spec.launcher.env[0].value",
                of_type("string", 'is 18, a whole number; must be a string: write "18"'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.launcher.resources.limits.cpu", 0.5),
                "spec.launcher.resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "workers without processes",
                put("spec.worker.procPerWorker", 0),
                "spec.worker.procPerWorker",
                at_least(1),
            ),
            Wrong(
                "more than 5000 workers",
                put("spec.worker.replicas", 5001),
                "spec.worker.replicas",
                at_most(5000),
            ),
            Wrong(
                "a path of sshd that is not absolute",
                put("spec.ssh.sshdPath", "sshd"),
                "spec.ssh.sshdPath",
                matching("must be an absolute path, beginning with /"),
            ),
            Wrong(
                "a volume where the keys appear",
                put(
                    "spec.worker.template.spec.containers[0].volumeMounts[0].mountPath",
                    "/root/.ssh",
                ),
                "spec.worker.template.spec.containers",
                _KEYS,
            ),
            Wrong(
                "an elastic ColossalAIJob",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "ColossalAIJob has no elastic mode; remove spec.elastic",
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            # One fault: a worker's name is never shorter than the launcher's, so one says it all.
            Wrong(
                "a name with which the launcher's and the workers' would be too long",
                put("metadata.name", "g" * 55),
                NAME,
                pod_name("g" * 55 + "-worker-1"),
            ),
            Wrong(
                "a name with which a worker's would be too long",
                (put("metadata.name", "g" * 54), put("spec.worker.replicas", 11)),
                NAME,
                pod_name("g" * 54 + "-worker-10"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "2b"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.worker.template.spec.containers[0].image", "colossalai:2"),
                "spec.worker",
                HELD,
                update=True,
            ),
            Wrong(
                "the launcher of a running job changed",
                put("spec.launcher.image", "colossalai:2"),
                "spec.launcher",
                HELD,
                update=True,
            ),
            Wrong(
                "the resume command changed",
                put("spec.runMode.pause.resumeSpecs[0].command", ["eval.py"]),
                "spec.runMode.pause.resumeSpecs",
                NEVER,
                update=True,
            ),
        ),
    ),
    Table(
        "replicaSpecs",
        REPLICA_SHAPE,
        (
            Wrong("nothing to launch", drop("spec.torchConfig.script"), "spec", _NOTHING),
            Wrong(
                "workers without containers",
                put("spec.replicaSpecs[1].template.spec", {"containers": []}),
                "spec.replicaSpecs",
                "must have a container named worker",
            ),
            Wrong("neither shape", drop("spec.replicaSpecs"), "spec", _NEITHER),
            Wrong(
                "two launchers",
                put("spec.replicaSpecs[0].replicas", 2),
                "spec.replicaSpecs",
                "there is one launcher: its replicas must be 1",
            ),
            Wrong(
                "no workers",
                drop("spec.replicaSpecs[1]"),
                "spec.replicaSpecs",
                "one entry must be of type worker",
            ),
            Wrong(
                "a type that there is not",
                put("spec.replicaSpecs[0].type", "master"),
                "spec.replicaSpecs[0].type",
                one_of("launcher", "worker"),
            ),
            Wrong(
                "no container is named worker",
                put("spec.replicaSpecs[1].template.spec.containers[0].name", "main"),
                "spec.replicaSpecs",
                "must have a container named worker",
            ),
            Wrong(
                "a volume where the keys appear",
                put(
                    "spec.replicaSpecs[1].template.spec.containers[0].volumeMounts",
                    [{"name": "data", "mountPath": "/root/.ssh"}],
                ),
                "spec.replicaSpecs",
                _KEYS,
            ),
            Wrong(
                "two launchers listed",
                put("spec.replicaSpecs[1].type", "launcher"),
                "spec.replicaSpecs",
                "type launcher is listed more than once; each must be unique",
            ),
            Wrong(
                "the types of a paused job in another order",
                turn_around("spec.replicaSpecs"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "the launcher taken from a paused job",
                drop("spec.replicaSpecs[0]"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
        ),
    ),
)
