"""Reviews: questions about who one is and what one may do, answered and never stored.

There is one user, who holds the token and may do everything; others don't get this far. So
every access is allowed, whoever it is asked for.
"""

from __future__ import annotations

from typing import Any, Final

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.types.decoding import Decoder
from jobyard.server.kinds.types.kubernetes_schemas import reference
from jobyard.server.problem import bad_request, invalid
from jobyard.server.resource import Admitted, Object, Part, ServedResource

USER: Final = "jobyard"
GROUPS: Final = ("system:masters", "system:authenticated")
_ACCESS: Final = "authorization.k8s.io"
_IDENTITY: Final = "authentication.k8s.io"
_ALL: Final = ["*"]


def review_resources() -> tuple[ServedResource, ...]:
    """Rows that can be created and nothing else."""
    return (
        _row(_IDENTITY, "SelfSubjectReview"),
        _row(_ACCESS, "LocalSubjectAccessReview", namespaced=True),
        _row(_ACCESS, "SelfSubjectAccessReview"),
        _row(_ACCESS, "SelfSubjectRulesReview"),
        _row(_ACCESS, "SubjectAccessReview"),
    )


def _row(group: str, kind: str, *, namespaced: bool = False) -> ServedResource:
    singular = kind.lower()
    definition = f"io.k8s.api.{group.removesuffix('.k8s.io')}.v1.{kind}"
    return ServedResource(
        group=group,
        version="v1",
        plural=f"{singular}s",
        singular=singular,
        kind=kind,
        namespaced=namespaced,
        strategy=ReviewStrategy(definition, kind),
        schema=reference(definition),
        verbs=("create",),
    )


class ReviewStrategy:
    """Answers a question by filling in its status."""

    def __init__(self, definition: str, kind: str) -> None:
        self._kind = kind
        self._decoder = Decoder(definition, kind, "v1", {})

    def created(self, obj: Object) -> Admitted:
        unknown: list[str] = []
        value = self._decoder.decoded(obj, unknown)
        faults = Faults()
        if value["metadata"].get("name"):
            faults.invalid("metadata", {"name": value["metadata"]["name"]}, "must be empty")
        value["metadata"] = self._kept_metadata(value["metadata"])
        spec = value.get("spec", {})
        match self._kind:
            case "SelfSubjectReview":
                value["status"] = {"userInfo": {"username": USER, "groups": list(GROUPS)}}
            case "SelfSubjectRulesReview":
                if not spec.get("namespace"):
                    raise bad_request("no namespace on request")
                value |= {"spec": {}, "status": _everything()}
            case _:
                _access_faults(spec, faults, is_about_self=self._kind.startswith("Self"))
                if faults.causes:
                    # A real server doesn't say of which kind the question was.
                    raise invalid(_ACCESS, "", "", faults.causes)
                value["status"] = {"allowed": True}
        return Admitted(value, faults.causes, tuple(unknown))

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        raise AssertionError(f"a {self._kind} is never stored: {obj}, {old}, {part}")

    def _kept_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        kept = ("namespace", "creationTimestamp" if self._kind == "SelfSubjectReview" else "")
        return {name: metadata[name] for name in kept if name in metadata}


def _access_faults(spec: dict[str, Any], faults: Faults, *, is_about_self: bool) -> None:
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and other is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        faults.invalid("spec.resourceAttributes", None, text)
    elif resource is not None and other is not None:
        shown = {"Path": other.get("path", ""), "Verb": other.get("verb", "")}
        text = "cannot be specified in combination with resourceAttributes"
        faults.invalid("spec.nonResourceAttributes", shown, text)
    if not is_about_self and not spec.get("user") and not spec.get("groups"):
        faults.invalid("spec.user", "", "at least one of user or group must be specified")


def _everything() -> dict[str, Any]:
    return {
        "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
        "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
        "incomplete": False,
    }
