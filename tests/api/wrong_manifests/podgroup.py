"""PodGroup: the size of a gang and of its roles."""

from api.wrong_manifests.edits import append, drop, put
from api.wrong_manifests.wrong import (
    DNS_LABEL,
    Table,
    Words,
    Wrong,
    at_least,
    at_most,
    items_at_most,
    manifest,
    matching,
    of_type,
    required,
)

GANG = manifest("""
apiVersion: scheduler.tensorstack.dev/v1beta1
kind: PodGroup
metadata: {name: gang}
spec:
  queue: default
  priority: 50
  minMember: 4
  roles: [{name: master, minMember: 1}, {name: worker, minMember: 3}]
""")

TABLES = (
    Table(
        "with roles",
        GANG,
        (
            Wrong(
                "fewer than no members", put("spec.minMember", -1), "spec.minMember", at_least(0)
            ),
            Wrong(
                "a number of members that is a string",
                put("spec.minMember", "4"),
                "spec.minMember",
                of_type("integer", "must be a whole number"),
            ),
            Wrong(
                "more members than a job can have",
                put("spec.minMember", 5002),
                "spec.minMember",
                at_most(5001),
            ),
            Wrong(
                "a role listed twice",
                put("spec.roles[1].name", "master"),
                "spec.roles",
                "role master is listed more than once; each must be unique",
            ),
            Wrong(
                "members of a role below zero",
                put("spec.roles[0].minMember", -1),
                "spec.roles[0].minMember",
                at_least(0),
            ),
            Wrong(
                "a role without a name",
                drop("spec.roles[0].name"),
                "spec.roles[0].name",
                required("The role's name"),
            ),
            Wrong(
                "a role whose name is not a DNS label",
                put("spec.roles[0].name", "Master"),
                "spec.roles[0].name",
                matching(DNS_LABEL),
            ),
            Wrong(
                "more roles than there may be",
                put("spec.roles", [{"name": f"role-{n}", "minMember": 1} for n in range(18)]),
                "spec.roles",
                items_at_most(17),
            ),
            Wrong(
                "a queue whose name can't be one",
                put("spec.queue", "Team A"),
                "spec.queue",
                matching(DNS_LABEL),
            ),
            Wrong("a priority of 101", put("spec.priority", 101), "spec.priority", at_most(100)),
            Wrong("a priority below zero", put("spec.priority", -1), "spec.priority", at_least(0)),
            Wrong(
                "a name in capitals",
                put("metadata.name", "Gang"),
                "metadata.name",
                Words(
                    "must consist of lower case alphanumeric characters",
                    "must hold only lower-case letters, digits, '-' and '.'",
                ),
            ),
            Wrong(
                "a topology that is a mapping",
                put("spec.topologyPolicy", {"zone": "a"}),
                "spec.topologyPolicy",
                of_type("string", "must be a string"),
            ),
            Wrong(
                "a role listed again in an update",
                append("spec.roles", {"name": "worker", "minMember": 1}),
                "spec.roles",
                "role worker is listed more than once; each must be unique",
                update=True,
            ),
        ),
    ),
)
