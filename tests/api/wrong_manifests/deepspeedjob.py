"""DeepSpeedJob: what deepspeed runs, its own paths and arguments, elastic bounds."""

from api.wrong_manifests.edits import drop, put
from api.wrong_manifests.wrong import (
    DNS_1035,
    HELD,
    NAME,
    NEVER,
    Table,
    Words,
    Wrong,
    at_least,
    at_most,
    manifest,
    of_type,
    one_of,
    pod_name,
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

DEBUGGED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: bert}
spec:
  worker:
    template: {spec: {containers: [{name: worker, image: deepspeed}]}}
  runMode: {debug: {enabled: true}}
""")

_MOUNT = "spec.worker.template.spec.containers[0].volumeMounts[0].mountPath"
_RESERVED = (
    "/root/.ssh, /t9k/hostfile, /root/.deepspeed_env and what is below them are the job's own:"
    " mount the volume elsewhere"
)
_ONE_PROGRAM = "only one of python, module and exec may be given"
_NOTHING = (
    "there is nothing to launch: give config.run.python, module or exec, or config.customCommand,"
    " or debug the job (runMode.debug.enabled: true) and start something by hand"
)
# A resume command would be a program.
_NO_RESUME = drop("spec.runMode.pause")
_CLASH = "can't be given here: use localRank, autotune, run.module and run.exec"

TABLES = (
    Table(
        "plain",
        PLAIN,
        (
            Wrong(
                "nothing to run",
                (put("spec.config.run", {}), _NO_RESUME),
                "spec",
                _NOTHING,
            ),
            Wrong(
                "only empty ways to run",
                (put("spec.config.run", {"python": [], "exec": []}), _NO_RESUME),
                "spec",
                _NOTHING,
            ),
            Wrong(
                "a whole command that is empty",
                (put("spec.config", {"customCommand": ""}), _NO_RESUME),
                "spec",
                _NOTHING,
            ),
            Wrong(
                "a script and a module",
                put("spec.config.run.module", ["train"]),
                "spec.config.run",
                _ONE_PROGRAM,
            ),
            Wrong("no config", (drop("spec.config"), _NO_RESUME), "spec", _NOTHING),
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
                "fewer than no slots",
                put("spec.config.slotsPerWorker", -1),
                "spec.config.slotsPerWorker",
                at_least(0),
            ),
            Wrong(
                "a way of tuning that there is not",
                put("spec.config.autotune", "fast"),
                "spec.config.autotune",
                Words('supported values: "", "none", "run", "tune"', "must be none, run or tune"),
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
    Table(
        "debugged",
        DEBUGGED,
        (
            Wrong(
                "the end of debugging, with nothing to launch",
                put("spec.runMode.debug.enabled", False),
                "spec",
                _NOTHING,
                update=True,
            ),
        ),
    ),
)
