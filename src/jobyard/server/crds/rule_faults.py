"""What is wrong with the CEL rules of a CRD: each must compile, and say what it means to say."""

from __future__ import annotations

from typing import Any

from jobyard.schema.cel import problem_with
from jobyard.server.kinds.faults import Faults
from jobyard.server.resource import JSONSchema

_REASONS = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)


def rules_faults(schema: JSONSchema, faults: Faults, path: str) -> None:
    """The rules of a schema and of all below it."""
    for n, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        _rule_faults(rule, schema, faults, f"{path}.x-kubernetes-validations[{n}]")
    for name, sub in schema.get("properties", {}).items():
        rules_faults(sub, faults, f"{path}.properties[{name}]")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            rules_faults(schema[keyword], faults, f"{path}.{keyword}")


def _rule_faults(rule: dict[str, Any], schema: JSONSchema, faults: Faults, path: str) -> None:
    text, message = rule["rule"], rule.get("message")
    if not text.strip():
        faults.required(f"{path}.rule", "rule is not specified")
        return
    if message:
        if not message.strip():
            faults.invalid(f"{path}.message", message, "must be non-empty if specified")
        elif "\n" in message.strip():
            faults.invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in text.strip() and not rule.get("messageExpression"):
        text_needed = "message must be specified if rule contains line breaks"
        faults.required(f"{path}.message", text_needed)
    reason = rule.get("reason")
    if reason is not None:
        faults.one_of(f"{path}.reason", reason, _REASONS)
    field = rule.get("fieldPath")
    if field and not _is_below(schema, field):
        faults.invalid(f"{path}.fieldPath", field, "must be a valid path")
    is_optional = bool(rule.get("optionalOldSelf"))
    kind = schema.get("type", "") if schema.get("format") is None else ""
    wrong = problem_with(text, kind, optional_old=is_optional)
    if wrong:
        faults.invalid(f"{path}.rule", _as_shown(rule), wrong)
    if is_optional and "oldSelf" not in text:
        why = "may not be set if oldSelf is not used in rule"
        faults.invalid(f"{path}.optionalOldSelf", True, why)
    expression = rule.get("messageExpression")
    if expression:
        wrong = problem_with(expression, kind, optional_old=is_optional, is_text=True)
        if wrong:
            told = wrong.replace("cel expression", "messageExpression")
            told = told.replace("compilation failed", "messageExpression compilation failed")
            faults.invalid(f"{path}.messageExpression", _as_shown(rule), told)


def _is_below(schema: JSONSchema, field: str) -> bool:
    """Whether a path of names leads to something that the schema knows."""
    for step in field.replace("['", ".").replace("']", "").split(".")[1:]:
        below = schema.get("properties", {}).get(step)
        if below is None and isinstance(schema.get("additionalProperties"), dict):
            below = schema["additionalProperties"]
        if below is None:
            return False
        schema = below
    return field.startswith((".", "["))


def _as_shown(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule as the server tells of it, with the names that its fields have inside."""
    return {
        "Rule": rule["rule"],
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
