"""A CEL rule: what a structural schema alone cannot say.

Rules stand beside the types they speak of and go into the CRD as they are, so the API
server and `jobyard validate` evaluate the same text.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`cel` must hold; else `message`, or what `message_cel` evaluates to, is the fault.

    `field` is the path below the rule's own place that the fault is reported at
    (`.runMode.debug`); Kubernetes wants it to be a field of the schema and takes no list
    index there.
    """

    cel: str
    message: str
    message_cel: str | None = None
    field: str | None = None

    def manifest(self) -> dict[str, Any]:
        out: dict[str, Any] = {"rule": self.cel, "message": self.message}
        if self.message_cel is not None:
            out["messageExpression"] = self.message_cel
        if self.field is not None:
            out["fieldPath"] = self.field
        return out


def formatted(text: str, *values: str) -> str:
    """CEL that puts the values of CEL expressions into a text with a %s for each.

    Messages are built this way and not with `+`: the API server takes a `string(n)` to be
    endless when it estimates the cost of a concatenation.
    """
    assert text.count("%s") == len(values), text
    return f"{text!r}.format([{', '.join(values)}])"


def unique_by(field: str, noun: str) -> Rule:
    """The entries of a list differ in this field; for the list itself."""
    alone = f"self.exists_one(b, b.{field} == a.{field})"
    return Rule(
        cel=f"self.all(a, {alone})",
        message=f"each {noun} must be unique",
        message_cel=formatted(
            f"{noun} %s is listed more than once; each must be unique",
            f"self.filter(a, !{alone})[0].{field}",
        ),
    )
