"""kube-batch's PodGroup, which files written for that scheduler carry.

The embedded engine serves the kind as kube-batch's own CRD does, so that such files are taken as
they are. What such a gang means for placing pods is known in `scheduling`.
"""

from __future__ import annotations

from typing import Any, Final

GROUP: Final = "scheduling.incubator.k8s.io"
_FREE_FORM: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

POD_GROUP_CRD: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"podgroups.{GROUP}",
        # Groups below k8s.io are guarded; this one is older than the guard.
        "annotations": {"api-approved.kubernetes.io": "unapproved, kube-batch is older"},
    },
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": "PodGroup",
            "listKind": "PodGroupList",
            "plural": "podgroups",
            "singular": "podgroup",
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "minMember": {"type": "integer", "format": "int32"},
                                    "queue": {"type": "string"},
                                    "priorityClassName": {"type": "string"},
                                },
                            },
                            "status": _FREE_FORM,
                        },
                    }
                },
            }
        ],
    },
}
