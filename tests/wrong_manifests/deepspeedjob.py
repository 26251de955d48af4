"""DeepSpeedJob: what deepspeed runs, its own paths and arguments, elastic bounds."""

from wrong_manifests.edits import drop, put
from wrong_manifests.wrong import (
    DNS_1035,
    HELD,
    NAME,
    NEVER,
    Table,
    Wrong,
    at_least,
    at_most,
    manifest,
    not_of_this_job,
    of_type,
    one_of,
    pod_name,
    required,
)

PLAIN = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker:
    replicas: 2
    restartPolicy: ExitCode
    template:
      spec:
        containers:
          - name: worker
            image: deepspeed
            resources: {limits: {cpu: "1"}}
            volumeMounts: [{name: data, mountPath: /t9k/mnt}]
        volumes: [{name: data, emptyDir: {}}]
  config:
    run: {python: [train.py, --deepspeed]}
    slotsPerWorker: 2
    autotune: none
    otherArgs: [--log_level=info]
  runPolicy: {backoffLimit: 5}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [train.py, --resume]}]}
  scheduler: {t9kScheduler: {priority: 50}}
""")

ELASTIC = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker:
    template: {spec: {containers: [{name: worker, image: deepspeed}]}}
  config: {customCommand: deepspeed train.py}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 4, expectedReplicas: 2}
""")

_MOUNT = "spec.worker.template.spec.containers[0].volumeMounts[0].mountPath"
_RESERVED = (
    "/root/.ssh, /t9k/hostfile, /root/.deepspeed_env and what is below them are the job's own:"
    " mount the volume elsewhere"
)
_ONE_PROGRAM = "exactly one of python, module and exec must be given"
_ONE_WAY = "exactly one of run and customCommand must be given"
_CLASH = "can't be given here: use localRank, autotune, run.module and run.exec"

TABLES = (
    Table(
        "plain",
        PLAIN,
        (
            Wrong("nothing to run", put("spec.config.run", {}), "spec.config.run", _ONE_PROGRAM),
            Wrong(
                "a script and a module",
                put("spec.config.run.module", ["train"]),
                "spec.config.run",
                _ONE_PROGRAM,
            ),
            Wrong(
                "a program and a whole command",
                put("spec.config.customCommand", "deepspeed train.py"),
                "spec.config",
                _ONE_WAY,
            ),
            Wrong(
                "neither a program nor a whole command",
                drop("spec.config.run"),
                "spec.config",
                _ONE_WAY,
            ),
            Wrong(
                "no config",
                drop("spec.config"),
                "spec.config",
                required("How deepspeed is called."),
            ),
            Wrong(
                "an argument that clashes with a field",
                put("spec.config.otherArgs", ["--no_local_rank"]),
                "spec.config.otherArgs",
                _CLASH,
            ),
            Wrong(
                "an argument with a value that clashes with a field",
                put("spec.config.otherArgs", ["--log_level=info", "--autotuning=run"]),
                "spec.config.otherArgs",
                _CLASH,
            ),
            Wrong(
                "both spellings of slotsPerWorker",
                put("spec.config.slotPerWorker", 2),
                "spec.config.slotPerWorker",
                "slotPerWorker is another spelling of slotsPerWorker: give one of them",
            ),
            Wrong(
                "no slots",
                put("spec.config.slotsPerWorker", 0),
                "spec.config.slotsPerWorker",
                at_least(1),
            ),
            Wrong(
                "a way of tuning that there is not",
                put("spec.config.autotune", "fast"),
                "spec.config.autotune",
                one_of("none", "run", "tune"),
            ),
            Wrong(
                "a number where a string is wanted",
                put("spec.config.run.python", ["train.py", 16]),
                "spec.config.run.python[1]",
                of_type("string", 'is 16, a whole number; must be a string: write "16"'),
            ),
            Wrong("a volume at the keys' path", put(_MOUNT, "/root/.ssh"), _MOUNT, _RESERVED),
            Wrong("a volume below the keys", put(_MOUNT, "/root/.ssh/id"), _MOUNT, _RESERVED),
            Wrong("a volume at the host file", put(_MOUNT, "/t9k/hostfile"), _MOUNT, _RESERVED),
            Wrong(
                "a volume at the environment file",
                put(_MOUNT, "/root/.deepspeed_env"),
                _MOUNT,
                _RESERVED,
            ),
            Wrong(
                "half a processor as a number",
                put("spec.worker.template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.worker.template.spec.containers[0].resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "a restart policy that there is not",
                put("spec.worker.restartPolicy", "Sometimes"),
                "spec.worker.restartPolicy",
                one_of("Always", "OnFailure", "Never", "ExitCode"),
            ),
            Wrong(
                "more than 5000 workers",
                put("spec.worker.replicas", 5001),
                "spec.worker.replicas",
                at_most(5000),
            ),
            Wrong(
                "a debug override of a type that is not there",
                put("spec.runMode.debug.replicaSpecs[0].type", "launcher"),
                "spec.runMode.debug.replicaSpecs",
                not_of_this_job("launcher", "worker"),
            ),
            Wrong(
                "a resume override of a type that is not there",
                put("spec.runMode.pause.resumeSpecs[0].type", "launcher"),
                "spec.runMode.pause.resumeSpecs",
                not_of_this_job("launcher", "worker"),
            ),
            Wrong(
                "expectedReplicas without enabled",
                put("spec.elastic", {"expectedReplicas": 2}),
                "spec.elastic.expectedReplicas",
                "expectedReplicas counts only in an elastic job: set elastic.enabled to true",
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a name with which a pod's would be too long",
                put("metadata.name", "b" * 55),
                NAME,
                pod_name("b" * 55 + "-worker-1"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "7b"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.worker.template.spec.containers[0].image", "deepspeed:2"),
                "spec.worker",
                HELD,
                update=True,
            ),
            Wrong(
                "the program of a running job changed",
                put("spec.config.run.python", ["eval.py"]),
                "spec.config",
                HELD,
                update=True,
            ),
            Wrong(
                "the environment of a running job switched off",
                put("spec.disableCustomEnv", True),
                "spec.disableCustomEnv",
                HELD,
                update=True,
            ),
            Wrong(
                "the resume command changed",
                put("spec.runMode.pause.resumeSpecs[0].args", ["train.py"]),
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
                "no bounds",
                put("spec.elastic", {"enabled": True, "expectedReplicas": 2}),
                "spec.elastic",
                "an elastic job needs minReplicas, maxReplicas and expectedReplicas",
            ),
            Wrong(
                "a name too long for the pods that scaling can bring",
                (put("metadata.name", "b" * 54), put("spec.elastic.maxReplicas", 11)),
                NAME,
                pod_name("b" * 54 + "-worker-10"),
            ),
            Wrong(
                "the upper bound changed",
                put("spec.elastic.maxReplicas", 8),
                "spec.elastic.maxReplicas",
                NEVER,
                update=True,
            ),
            Wrong(
                "the command of a running job changed",
                put("spec.config.customCommand", "deepspeed eval.py"),
                "spec.config",
                HELD,
                update=True,
            ),
        ),
    ),
)
