"""What every Kubernetes has and this server hasn't, and the word that leads to where that is told.

A client that asks for one of these gets the code and reason of a real server without it. The
message, or the warning beside it that kubectl and others show, says why and where to read on.
Called when a path led nowhere. Who follows the page finds everything that is listed here
(`tests/server/test_unserved.py`).
"""

from __future__ import annotations

from typing import Final

PAGE: Final = "docs/embedded-server.md"
GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "metrics.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "storage.k8s.io",
    }
)
# Of core/v1.
RESOURCES: Final = frozenset(
    {
        "componentstatuses",
        "limitranges",
        "persistentvolumes",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
    }
)
SUBRESOURCES: Final = frozenset(
    {
        ("namespaces", "finalize"),
        ("nodes", "proxy"),
        ("pods", "ephemeralcontainers"),
        ("pods", "resize"),
        ("serviceaccounts", "token"),
        ("services", "proxy"),
    }
)


def hint(path: str) -> str:
    """What to say of a path that leads nowhere; empty for what no Kubernetes has either."""
    match path.strip("/").split("/"):
        case ["apis", group, _, _, *_] if group in GROUPS:
            return _text(f"API group {group}")
        case ["apis", "authentication.k8s.io", _, "tokenreviews"]:
            return _text("TokenReviews")
        case ["api", "v1", "namespaces", _, plural, *rest] if plural != "finalize":
            return _of_core(plural, rest)
        case ["api", "v1", plural, *rest]:
            return _of_core(plural, rest)
    return ""


def _of_core(plural: str, rest: list[str]) -> str:
    if plural in RESOURCES:
        return _text(plural)
    if len(rest) > 1 and (plural, rest[1]) in SUBRESOURCES:
        return _text(f"{plural}/{rest[1]}")
    return ""


def _text(what: str) -> str:
    return f"Jobyard's embedded engine serves no {what}; what it serves is in {PAGE}"
