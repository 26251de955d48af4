"""MPIJob: its two shapes, and what the launcher and the workers need."""

from api.wrong_manifests.edits import append, drop, put
from api.wrong_manifests.wrong import (
    DNS_1035,
    ELASTIC,
    HELD,
    NAME,
    NEVER,
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

WORKER_SHAPE = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: horovod}
spec:
  worker:
    replicas: 2
    cmd: [python3, train.py]
    extraMPIArgs: [-npernode, "1"]
    template:
      spec:
        containers:
          - name: mpi-worker
            image: mpi
            resources: {limits: {cpu: "1"}}
            volumeMounts: [{name: data, mountPath: /data}]
        volumes: [{name: data, emptyDir: {}}]
  mca: {btl: "tcp,self"}
  mpiHome: /usr/local
  ssh: {sshdPath: /usr/sbin/sshd, sshAuthMountPath: /root/.ssh}
  runPolicy: {cleanUpWorkers: true}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: launcher}]}
    pause: {enabled: false, resumeSpecs: [{type: launcher, command: [python3, train.py]}]}
  scheduler: {t9kScheduler: {priority: 50}}
""")

REPLICA_SHAPE = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: horovod}
spec:
  mpiConfig: {mca: {btl: "tcp,self"}, home: /usr/local, script: [python3, train.py]}
  replicaSpecs:
    - type: launcher
    - type: worker
      replicas: 2
      template:
        spec:
          containers:
            - name: worker
              image: mpi
              volumeMounts: [{name: data, mountPath: /data}]
          volumes: [{name: data, emptyDir: {}}]
""")

_TWICE = "the workers are given twice: use either worker or replicaSpecs"
_NOTHING = "there is nothing to launch: give worker.cmd or mpiConfig.script, or debug the job"
_NEITHER = "MPIJob needs either worker, or mpiConfig with replicaSpecs"
_KEYS = "no volume may be mounted at ssh.sshAuthMountPath (/root/.ssh if absent)"

TABLES = (
    Table(
        "worker",
        WORKER_SHAPE,
        (
            Wrong(
                "no container is named mpi-worker",
                put("spec.worker.template.spec.containers[0].name", "main"),
                "spec.worker.template.spec.containers",
                no_container("mpi-worker", "main"),
            ),
            Wrong(
                "nothing to launch",
                (put("spec.worker.cmd", []), drop("spec.runMode.pause")),
                "spec",
                _NOTHING,
            ),
            Wrong(
                "fewer than no processes",
                put("spec.worker.processesPerWorker", -1),
                "spec.worker.processesPerWorker",
                at_least(0),
            ),
            Wrong(
                "workers in both shapes",
                put("spec.replicaSpecs", REPLICA_SHAPE["spec"]["replicaSpecs"]),
                "spec",
                _TWICE,
            ),
            Wrong(
                "neither shape",
                put("spec", {"mpiHome": "/usr/local", "mpiConfig": {"script": ["train"]}}),
                "spec",
                _NEITHER,
            ),
            Wrong(
                "workers without a template",
                drop("spec.worker.template"),
                "spec.worker.template",
                required("The pod of workers and launcher"),
            ),
            Wrong(
                "a home that is not absolute",
                put("spec.mpiHome", "opt/openmpi"),
                "spec.mpiHome",
                matching("must be an absolute path, beginning with /"),
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
                "the keys where a volume is mounted",
                put("spec.ssh.sshAuthMountPath", "/data"),
                "spec.worker.template.spec.containers",
                _KEYS,
            ),
            Wrong(
                "an MCA parameter that is a number",
                put("spec.mca", {"btl_tcp_port_min_v4": 1024}),
                "spec.mca.btl_tcp_port_min_v4",
                of_type("string", 'must be a string: write "1024"'),
            ),
            Wrong(
                "a command that is not a list",
                put("spec.worker.cmd", "python3 train.py"),
                "spec.worker.cmd",
                of_type("array", 'must be a list: write ["python3 train.py"]'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.worker.template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.worker.template.spec.containers[0].resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "no workers", put("spec.worker.replicas", 0), "spec.worker.replicas", at_least(1)
            ),
            Wrong(
                "more than 5000 workers",
                put("spec.worker.replicas", 5001),
                "spec.worker.replicas",
                at_most(5000),
            ),
            Wrong(
                "yes for true",
                put("spec.runPolicy.cleanUpWorkers", "yes"),
                "spec.runPolicy.cleanUpWorkers",
                of_type("boolean", "must be true or false"),
            ),
            Wrong(
                "an elastic MPIJob",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "MPIJob has no elastic mode; remove spec.elastic",
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
                put("metadata.name", "h" * 55),
                NAME,
                pod_name("h" * 55 + "-worker-1"),
            ),
            Wrong(
                "a name with which a worker's would be too long",
                (put("metadata.name", "h" * 54), put("spec.worker.replicas", 11)),
                NAME,
                pod_name("h" * 54 + "-worker-10"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "4-workers"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.worker.template.spec.containers[0].image", "mpi:2"),
                "spec.worker",
                HELD,
                update=True,
            ),
            Wrong(
                "an MCA parameter added to a running job",
                put("spec.mca.btl_base_verbose", "30"),
                "spec.mca",
                HELD,
                update=True,
            ),
            Wrong(
                "the path of sshd in a running job changed",
                put("spec.ssh.sshdPath", "/opt/sshd"),
                "spec.ssh",
                HELD,
                update=True,
            ),
            Wrong(
                "the home of a running job taken away",
                drop("spec.mpiHome"),
                "spec.mpiHome",
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
        "replicaSpecs",
        REPLICA_SHAPE,
        (
            Wrong("nothing to launch", drop("spec.mpiConfig"), "spec", _NOTHING),
            Wrong("neither shape", drop("spec.replicaSpecs"), "spec", _NEITHER),
            Wrong(
                "no container is named worker",
                put("spec.replicaSpecs[1].template.spec.containers[0].name", "main"),
                "spec.replicaSpecs",
                "must have a container named worker or mpi-worker",
            ),
            Wrong(
                "workers without a template",
                drop("spec.replicaSpecs[1].template"),
                "spec.replicaSpecs",
                "must have a container named worker or mpi-worker",
            ),
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
                "the workers listed twice",
                (
                    drop("spec.replicaSpecs[0]"),
                    append("spec.replicaSpecs", REPLICA_SHAPE["spec"]["replicaSpecs"][1]),
                ),
                "spec.replicaSpecs",
                "type worker is listed more than once; each must be unique",
            ),
            Wrong(
                "no replicas at all",
                put("spec.replicaSpecs", []),
                "spec",
                _NEITHER,
            ),
            Wrong(
                "a type that there is not",
                put("spec.replicaSpecs[1].type", "master"),
                "spec.replicaSpecs[1].type",
                one_of("launcher", "worker"),
            ),
            Wrong(
                "a home that is not absolute",
                put("spec.mpiConfig.home", "opt/openmpi"),
                "spec.mpiConfig.home",
                matching("must be an absolute path, beginning with /"),
            ),
            Wrong(
                "a volume where the keys appear",
                put(
                    "spec.replicaSpecs[1].template.spec.containers[0].volumeMounts[0].mountPath",
                    "/root/.ssh",
                ),
                "spec.replicaSpecs",
                _KEYS,
            ),
            Wrong(
                "the script of a running job changed",
                put("spec.mpiConfig.script", ["python3", "eval.py"]),
                "spec.mpiConfig",
                HELD,
                update=True,
            ),
        ),
    ),
)
