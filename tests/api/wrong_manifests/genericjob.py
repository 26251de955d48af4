"""GenericJob: rules that name replicas, services, and the modes it has and hasn't."""

from api.wrong_manifests.edits import append, drop, put, turn_around
from api.wrong_manifests.wrong import (
    DNS_1035,
    DNS_LABEL,
    ELASTIC,
    HELD,
    NAME,
    NEVER,
    SAME_TYPES,
    Table,
    Wrong,
    at_least,
    at_most,
    entries_at_least,
    items_at_least,
    items_at_most,
    listing,
    manifest,
    matching,
    of_type,
    one_of,
    pod_name,
    required,
)

TWO_TYPES = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  replicaSpecs:
    - type: master
      template:
        spec: {containers: [{name: main, image: busybox, command: [sleep, "1"]}]}
    - type: worker
      replicas: 2
      restartPolicy: {policy: OnFailure, limit: 3}
      template:
        spec:
          containers:
            - name: main
              image: busybox
              command: [sleep, "1"]
              env: [{name: DEPTH, value: "18"}]
              resources: {limits: {cpu: 500m}}
  successRules: [{master: [0]}]
  failureRules: [{worker: [0, 1]}]
  service: {ports: [{name: http, port: 8080}]}
  runMode:
    debug: {enabled: false, replicaSpecs: [{type: worker, command: [sleep, inf]}]}
    pause: {enabled: false, resumeSpecs: [{type: worker, args: [--resume]}]}
  scheduler: {t9kScheduler: {queue: default, priority: 50}}
""")

PAUSED = manifest("""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  replicaSpecs:
    - type: master
      template: {spec: {containers: [{name: main, image: busybox}]}}
    - type: worker
      template: {spec: {containers: [{name: main, image: busybox}]}}
  runMode: {pause: {enabled: true, resumeSpecs: [{type: worker, args: [--resume]}]}}
""")

_ANOTHER = {
    "type": "worker",
    "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}},
}

TABLES = (
    Table(
        "two types",
        TWO_TYPES,
        (
            Wrong(
                "a clean-up policy that there is not",
                put("spec.cleanUpPolicy", "Sometimes"),
                "spec.cleanUpPolicy",
                one_of("None", "All", "Unfinished"),
            ),
            Wrong(
                "a restart policy that only training kinds have",
                put("spec.replicaSpecs[1].restartPolicy.policy", "ExitCode"),
                "spec.replicaSpecs[1].restartPolicy.policy",
                one_of("Never", "OnFailure", "Always"),
            ),
            Wrong(
                "a restart limit below zero",
                put("spec.replicaSpecs[1].restartPolicy.limit", -1),
                "spec.replicaSpecs[1].restartPolicy.limit",
                at_least(0),
            ),
            Wrong(
                "a success rule that names a missing type",
                put("spec.successRules[0]", {"chief": [0]}),
                "spec.successRules",
                listing("the types of this job are {}", "master", "worker"),
            ),
            Wrong(
                "a failure rule that names a missing type",
                put("spec.failureRules[0]", {"worker": [0], "chief": [0]}),
                "spec.failureRules",
                listing("the types of this job are {}", "master", "worker"),
            ),
            Wrong(
                "a success rule that names a missing rank",
                put("spec.successRules[0]", {"master": [0], "worker": [2]}),
                "spec.successRules",
                "names a rank that is not there: ranks go from 0, and the replicas are [",
            ),
            Wrong(
                "a failure rule that names a missing rank",
                put("spec.failureRules[0].worker", [0, 5]),
                "spec.failureRules",
                "names a rank that is not there: ranks go from 0, and the replicas are [",
            ),
            Wrong(
                "a rank below zero",
                put("spec.failureRules[0].worker", [-1]),
                "spec.failureRules[0].worker[0]",
                at_least(0),
            ),
            Wrong(
                "an empty success rule",
                put("spec.successRules[0]", {}),
                "spec.successRules[0]",
                entries_at_least(1),
            ),
            Wrong(
                "a failure rule with a type but no rank",
                put("spec.failureRules[0].worker", []),
                "spec.failureRules[0].worker",
                items_at_least(1),
            ),
            Wrong(
                "an elastic GenericJob",
                put("spec.elastic", ELASTIC),
                "spec.elastic",
                "GenericJob has no elastic mode; remove spec.elastic",
            ),
            # One fault: how to make a job elastic is no help in a kind that has no such mode.
            Wrong(
                "an elastic GenericJob without bounds",
                put("spec.elastic", {"enabled": True}),
                "spec.elastic",
                "GenericJob has no elastic mode; remove spec.elastic",
            ),
            Wrong(
                "a name with which a pod's would be too long",
                put("metadata.name", "t" * 60),
                NAME,
                pod_name("t" * 60 + "-master-0"),
            ),
            Wrong(
                "a name that begins with a digit",
                put("metadata.name", "1train"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "a name with a dot",
                put("metadata.name", "train.v2"),
                NAME,
                DNS_1035,
            ),
            Wrong(
                "a type that is not a DNS label",
                put("spec.replicaSpecs[1].type", "Worker"),
                "spec.replicaSpecs[1].type",
                matching(DNS_LABEL),
            ),
            Wrong(
                "a type listed twice",
                append("spec.replicaSpecs", _ANOTHER),
                "spec.replicaSpecs",
                "type worker is listed more than once; each must be unique",
            ),
            Wrong(
                "more types than there may be",
                put(
                    "spec.replicaSpecs",
                    [
                        {**_ANOTHER, "type": name, "replicas": 2}
                        for name in ("master", "worker", *(f"type-{n}" for n in range(15)))
                    ],
                ),
                "spec.replicaSpecs",
                items_at_most(16),
            ),
            Wrong(
                "no type at all",
                put("spec.replicaSpecs", []),
                "spec.replicaSpecs",
                items_at_least(1),
            ),
            Wrong(
                "no replicaSpecs",
                drop("spec.replicaSpecs"),
                "spec.replicaSpecs",
                required("The replicas, by type."),
            ),
            Wrong(
                "a type without a template",
                drop("spec.replicaSpecs[0].template"),
                "spec.replicaSpecs[0].template",
                required("The pod each replica runs in"),
            ),
            Wrong(
                "a pod without containers",
                put("spec.replicaSpecs[0].template.spec.containers", []),
                "spec.replicaSpecs[0].template.spec.containers",
                items_at_least(1),
            ),
            Wrong(
                "two containers of one name",
                append(
                    "spec.replicaSpecs[0].template.spec.containers",
                    {"name": "main", "image": "busybox"},
                ),
                "spec.replicaSpecs[0].template.spec.containers",
                "is listed more than once; each must be unique",
            ),
            Wrong(
                "more than 5000 replicas in all",
                put("spec.replicaSpecs[1].replicas", 5000),
                "spec.replicaSpecs",
                "the job has 5001 replicas in all; at most 5000 are possible",
            ),
            Wrong(
                "more than 5000 replicas of one type",
                put("spec.replicaSpecs[1].replicas", 5001),
                "spec.replicaSpecs[1].replicas",
                at_most(5000),
            ),
            Wrong(
                "a type with no replicas",
                put("spec.replicaSpecs[0].replicas", 0),
                "spec.replicaSpecs[0].replicas",
                at_least(1),
            ),
            Wrong(
                "a string where a number is wanted",
                put("spec.replicaSpecs[1].replicas", "2"),
                "spec.replicaSpecs[1].replicas",
                of_type("integer", "must be a whole number"),
            ),
            Wrong(
                "a number where a string is wanted",
                put("spec.replicaSpecs[1].template.spec.containers[0].env[0].value", 18),
                "spec.replicaSpecs[1].template.spec.containers[0].env[0].value",
                of_type("string", 'is 18, a whole number; must be a string: write "18"'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.replicaSpecs[1].template.spec.containers[0].resources.limits.cpu",
                of_type(
                    "integer,string",
                    'is 0.5; a quantity is a whole number or a string: write "500m"',
                ),
            ),
            Wrong(
                "a quantity with a suffix that there is not",
                put(
                    "spec.replicaSpecs[1].template.spec.containers[0].resources.limits",
                    {"memory": "4GB"},
                ),
                "spec.replicaSpecs[1].template.spec.containers[0].resources.limits.memory",
                matching("must be a quantity such as 500m, 2 or 4Gi"),
            ),
            Wrong(
                "a debug override twice for a type",
                put(
                    "spec.runMode.debug",
                    {"enabled": True, "replicaSpecs": [{"type": "worker"}, {"type": "worker"}]},
                ),
                "spec.runMode.debug.replicaSpecs",
                "is listed more than once; each must be unique",
            ),
            Wrong(
                "a resume override twice for a type",
                append("spec.runMode.pause.resumeSpecs", {"type": "worker"}),
                "spec.runMode.pause.resumeSpecs",
                "is listed more than once; each must be unique",
            ),
            Wrong(
                "a node port",
                put("spec.service.ports[0].nodePort", 30080),
                "spec.service.ports",
                "nodePort can't be set",
            ),
            Wrong(
                "two ports without names",
                put("spec.service.ports", [{"port": 80}, {"port": 81}]),
                "spec.service.ports",
                "with several ports each needs a name of its own",
            ),
            Wrong(
                "a port that there is not",
                put("spec.service.ports[0].port", 70000),
                "spec.service.ports",
                "port must be from 1 to 65535",
            ),
            Wrong(
                "a priority of 101",
                put("spec.scheduler.t9kScheduler.priority", 101),
                "spec.scheduler.t9kScheduler.priority",
                at_most(100),
            ),
            Wrong(
                "a queue whose name can't be one",
                put("spec.scheduler.t9kScheduler.queue", "Team A"),
                "spec.scheduler.t9kScheduler.queue",
                matching(DNS_LABEL),
            ),
            Wrong(
                "a time to live below zero",
                put("spec.ttlSecondsAfterFinished", -1),
                "spec.ttlSecondsAfterFinished",
                at_least(0),
            ),
            Wrong(
                "the template of a running job changed",
                put("spec.replicaSpecs[1].template.spec.containers[0].image", "alpine"),
                "spec.replicaSpecs",
                HELD,
                update=True,
            ),
            Wrong(
                "the replicas of a running job changed",
                put("spec.replicaSpecs[1].replicas", 3),
                "spec.replicaSpecs",
                HELD,
                update=True,
            ),
            Wrong(
                "the service of a running job taken away",
                drop("spec.service"),
                "spec.service",
                HELD,
                update=True,
            ),
            Wrong(
                "the rules of a running job changed",
                put("spec.successRules[0]", {"worker": [0]}),
                "spec.successRules",
                HELD,
                update=True,
            ),
            Wrong(
                "a running job moved to another queue",
                put("spec.scheduler.t9kScheduler.queue", "urgent"),
                "spec.scheduler",
                HELD,
                update=True,
            ),
            Wrong(
                "the debug command of a running job changed",
                put("spec.runMode.debug.replicaSpecs[0].command", ["sleep", "60"]),
                "spec.runMode.debug.replicaSpecs",
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
            # One fault, and pausing the job would not help: the advice to pause it misleads.
            Wrong(
                "the types of a running job changed",
                append("spec.replicaSpecs", {**_ANOTHER, "type": "evaluator"}),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
        ),
    ),
    Table(
        "paused",
        PAUSED,
        (
            Wrong(
                "the resume command of a paused job changed",
                put("spec.runMode.pause.resumeSpecs[0].args", ["--again"]),
                "spec.runMode.pause.resumeSpecs",
                NEVER,
                update=True,
            ),
            Wrong(
                "the resume command of a paused job taken away",
                drop("spec.runMode.pause.resumeSpecs"),
                "spec.runMode.pause.resumeSpecs",
                NEVER,
                update=True,
            ),
            Wrong(
                "a type added to a paused job",
                append("spec.replicaSpecs", {**_ANOTHER, "type": "evaluator"}),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "a type taken from a paused job",
                drop("spec.replicaSpecs[0]"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "a type of a paused job renamed",
                put("spec.replicaSpecs[0].type", "chief"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
            Wrong(
                "the types of a paused job in another order",
                turn_around("spec.replicaSpecs"),
                "spec.replicaSpecs",
                SAME_TYPES,
                update=True,
            ),
        ),
    ),
)
