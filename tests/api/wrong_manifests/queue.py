"""Queue: quotas, priorities, durations and selectors."""

from api.wrong_manifests.edits import drop, put
from api.wrong_manifests.wrong import (
    Table,
    Words,
    Wrong,
    at_least,
    at_most,
    manifest,
    matching,
    of_type,
    required,
)

FULL = manifest("""
apiVersion: scheduler.tensorstack.dev/v1beta1
kind: Queue
metadata: {name: research}
spec:
  quota: {requests: {cpu: "200", memory: 512Gi}}
  priority: 50
  preemptible: false
  closed: false
  maxDuration: 2h45m
  namespaceSelector:
    matchExpressions: [{key: team, operator: In, values: [research]}]
  nodeSelector: {matchLabels: {disk: ssd}}
""")

TABLES = (
    Table(
        "with everything",
        FULL,
        (
            Wrong("a priority of 101", put("spec.priority", 101), "spec.priority", at_most(100)),
            Wrong("a priority below zero", put("spec.priority", -1), "spec.priority", at_least(0)),
            Wrong(
                "a priority in words",
                put("spec.priority", "high"),
                "spec.priority",
                of_type("integer", "must be a whole number"),
            ),
            Wrong(
                "a duration with a space",
                put("spec.maxDuration", "3 weeks"),
                "spec.maxDuration",
                matching("must be a duration such as 3w or 2h45m"),
            ),
            Wrong(
                "a duration without a unit",
                put("spec.maxDuration", "3600"),
                "spec.maxDuration",
                matching("must be a duration such as 3w or 2h45m"),
            ),
            Wrong(
                "a duration with the smaller unit first",
                put("spec.maxDuration", "45m2h"),
                "spec.maxDuration",
                matching("must be a duration such as 3w or 2h45m, the larger units first"),
            ),
            Wrong(
                "a profile that is a list",
                put("spec.resourceShapeProfile", ["small"]),
                "spec.resourceShapeProfile",
                of_type("string", "must be a string"),
            ),
            Wrong(
                "a duration that is a number",
                put("spec.maxDuration", 3600),
                "spec.maxDuration",
                of_type("string", 'is 3600, a whole number; must be a string: write "3600"'),
            ),
            Wrong(
                "half a processor as a number",
                put("spec.quota.requests.cpu", 0.5),
                "spec.quota.requests.cpu",
                of_type("integer,string", 'write "500m"'),
            ),
            Wrong(
                "a quota in words",
                put("spec.quota.requests.memory", "lots"),
                "spec.quota.requests.memory",
                matching("must be a quantity such as 500m, 2 or 4Gi"),
            ),
            Wrong(
                "yes for true",
                put("spec.closed", "yes"),
                "spec.closed",
                of_type("boolean", "must be true or false"),
            ),
            Wrong(
                "a number for true",
                put("spec.preemptible", 1),
                "spec.preemptible",
                of_type("boolean", "must be true or false"),
            ),
            Wrong(
                "a selector without a key",
                drop("spec.namespaceSelector.matchExpressions[0].key"),
                "spec.namespaceSelector.matchExpressions[0].key",
                Words("Required value", "is missing, and required"),
            ),
            Wrong(
                "a label that is a number",
                put("spec.nodeSelector.matchLabels", {"generation": 3}),
                "spec.nodeSelector.matchLabels.generation",
                of_type("string", 'is 3, a whole number; must be a string: write "3"'),
            ),
            Wrong("no spec", drop("spec"), "spec", required("The queue's share and rank.")),
            Wrong(
                "a name in capitals",
                put("metadata.name", "Research"),
                "metadata.name",
                Words(
                    "must consist of lower case alphanumeric characters",
                    "must hold only lower-case letters, digits, '-' and '.'",
                ),
            ),
            Wrong(
                "a priority of 101 in an update",
                put("spec.priority", 101),
                "spec.priority",
                at_most(100),
                update=True,
            ),
        ),
    ),
)
