"""TaskSet: roles, what ends them, and what their end means."""

from api.wrong_manifests.edits import append, drop, put, turn_around
from api.wrong_manifests.wrong import (
    DNS_LABEL,
    NAME,
    Table,
    Wrong,
    at_least,
    at_most,
    items_at_least,
    manifest,
    matching,
    of_type,
    one_of,
    pod_name,
    required,
)

TWO_ROLES = manifest("""
apiVersion: octopus.openi.pcl.cn/v1alpha1
kind: TaskSet
metadata: {name: ranks}
spec:
  retryPolicy: {retry: true, delay: 5, maxRetryCount: 2}
  roles:
    - name: server
      eventPolicy: [{event: RoleCompleted, action: NoAction}]
      template:
        spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}
    - name: client
      replicas: 3
      completionPolicy: {minSucceeded: 2, maxFailed: 3}
      retryPolicy: {retry: true, maxRetryCount: 1}
      eventPolicy:
        - {event: RoleFailed, action: TaskSetFailed}
        - {event: RoleSucceeded, action: TaskSetSucceeded}
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: busybox
              env: [{name: DEPTH, value: "18"}]
              resources: {limits: {cpu: 500m}}
""")

_ROLES = "the roles of a TaskSet can't be changed once it exists; make a new one"

TABLES = (
    Table(
        "two roles",
        TWO_ROLES,
        (
            Wrong(
                "more successes wanted than there are replicas",
                put("spec.roles[1].completionPolicy.minSucceeded", 4),
                "spec.roles[1].completionPolicy.minSucceeded",
                "is 4; must be at most 3, the number of replicas",
            ),
            Wrong(
                "success without any replica",
                put("spec.roles[1].completionPolicy.minSucceeded", 0),
                "spec.roles[1].completionPolicy.minSucceeded",
                at_least(1),
            ),
            Wrong(
                "fewer failures than none",
                put("spec.roles[1].completionPolicy.maxFailed", -1),
                "spec.roles[1].completionPolicy.maxFailed",
                at_least(0),
            ),
            Wrong(
                "an event that there is not",
                put("spec.roles[1].eventPolicy[0].event", "RoleEnded"),
                "spec.roles[1].eventPolicy[0].event",
                one_of("RoleFailed", "RoleSucceeded", "RoleCompleted"),
            ),
            Wrong(
                "an action that there is not",
                put("spec.roles[1].eventPolicy[0].action", "Nothing"),
                "spec.roles[1].eventPolicy[0].action",
                one_of("TaskSetFailed", "TaskSetSucceeded", "TaskSetCompleted", "NoAction"),
            ),
            Wrong(
                "an event without an action",
                drop("spec.roles[1].eventPolicy[0].action"),
                "spec.roles[1].eventPolicy[0].action",
                required("What it means for the TaskSet."),
            ),
            Wrong(
                "replicas that never end",
                put("spec.roles[1].template.spec.restartPolicy", "Always"),
                "spec.roles[1].template.spec.restartPolicy",
                "a replica with restartPolicy Always never ends: use Never or OnFailure",
            ),
            Wrong(
                "a role listed twice",
                put("spec.roles[1].name", "server"),
                "spec.roles",
                "role server is listed more than once; each must be unique",
            ),
            Wrong(
                "a role whose name is not a DNS label",
                put("spec.roles[1].name", "Client"),
                "spec.roles[1].name",
                matching(DNS_LABEL),
            ),
            Wrong(
                "a role without a name",
                drop("spec.roles[1].name"),
                "spec.roles[1].name",
                required("The role's name"),
            ),
            Wrong("no roles", put("spec.roles", []), "spec.roles", items_at_least(1)),
            Wrong(
                "a role without replicas",
                put("spec.roles[0].replicas", 0),
                "spec.roles[0].replicas",
                at_least(1),
            ),
            Wrong(
                "more replicas of one role than any TaskSet has",
                put("spec.roles[0].replicas", 2333),
                "spec.roles[0].replicas",
                at_most(2332),
            ),
            Wrong(
                "more replicas in all than a status has room for",
                put("spec.roles[0].replicas", 2270),
                "spec.roles",
                "the status of 2273 replicas with names of this length would need 1152402 bytes;"
                " at most 1150000 are possible, which is about 2268 replicas: use fewer, or shorter"
                " names",
            ),
            Wrong(
                "fewer replicas with longer names",
                (put("metadata.name", "r" * 200), put("spec.roles[0].replicas", 2000)),
                "spec.roles",
                "which is about",
            ),
            Wrong(
                "a delay below zero",
                put("spec.retryPolicy.delay", -1),
                "spec.retryPolicy.delay",
                at_least(0),
            ),
            Wrong(
                "yes for true",
                put("spec.retryPolicy.retry", "yes"),
                "spec.retryPolicy.retry",
                of_type("boolean", "must be true or false"),
            ),
            Wrong(
                "a number where a string is wanted",
                put("spec.roles[1].template.spec.containers[0].env[0].value", 18),
                "spec.roles[1].template.spec.containers[0].env[0].value",
                of_type("string", 'is 18, a whole number; must be a string: write "18"'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.roles[1].template.spec.containers[0].resources.limits.cpu", 0.5),
                "spec.roles[1].template.spec.containers[0].resources.limits.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "a name with which a pod's would be too long",
                put("metadata.name", "r" * 241),
                NAME,
                pod_name("r" * 241 + "-server-2-0-0", 253),
            ),
            Wrong(
                "a name too long for the pods that retries can bring",
                (put("metadata.name", "r" * 240), put("spec.retryPolicy.maxRetryCount", 10)),
                NAME,
                pod_name("r" * 240 + "-server-10-0-0", 253),
            ),
            Wrong(
                "the replicas of a role changed",
                put("spec.roles[1].replicas", 4),
                "spec.roles",
                _ROLES,
                update=True,
            ),
            Wrong(
                "the template of a role changed",
                put("spec.roles[0].template.spec.containers[0].image", "alpine"),
                "spec.roles",
                _ROLES,
                update=True,
            ),
            Wrong(
                "the completion policy of a role taken away",
                drop("spec.roles[1].completionPolicy"),
                "spec.roles",
                _ROLES,
                update=True,
            ),
            Wrong(
                "a role added",
                append(
                    "spec.roles",
                    {
                        "name": "watcher",
                        "template": {"spec": {"containers": [{"name": "m", "image": "busybox"}]}},
                    },
                ),
                "spec.roles",
                _ROLES,
                update=True,
            ),
            Wrong(
                "the roles in another order",
                turn_around("spec.roles"),
                "spec.roles",
                _ROLES,
                update=True,
            ),
        ),
    ),
)
