"""CEL rules of a schema, run on a value and on what stood there before.

Knows which old value belongs to a new one, and how a rule's words and reason become a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jobyard.schema.cel import Scope, evaluated, text_of
from jobyard.schema.cel_values import as_seen, needs
from jobyard.schema.finding import Fault, FaultKind, Finding, Path, error
from jobyard.schema.node import EMPTY, CompiledRule, Node
from jobyard.schema.wording import type_noun


def correlated(value: Any, node: Node, step: str | int, old: Any, absent: Any = None) -> Any:
    """What stood at this step of the old value: by name, or by keys in a list that has some."""
    if isinstance(step, str):
        return old.get(step, absent) if isinstance(old, dict) else absent
    if not node.list_keys or not isinstance(old, list):
        # What stood at an index before may be another item.
        return absent
    wanted = _keys(value[step], node)
    matches = (item for item in old if _keys(item, node) == wanted)
    return next(matches, absent) if wanted is not None else absent


def _keys(item: Any, node: Node) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    return tuple(item.get(name) for name in node.list_keys)


def all_rule_faults(value: Any, node: Node, path: Path, old: Any = None) -> Iterator[Finding]:
    """The faults of all rules here and below, on a value of the right shape."""
    if not node.has_rules:
        return
    if node.rules:
        yield from rule_faults(value, node.rules, path, old, node=node)
    if isinstance(value, dict):
        steps: list[str | int] = list(value)
    else:
        steps = list(range(len(value))) if isinstance(value, list) else []
    for step in steps:
        sub = (node.items or EMPTY) if isinstance(step, int) else node.at(step)
        before = correlated(value, node, step, old)
        yield from all_rule_faults(value[step], sub, (*path, step), before)


def rule_faults(
    value: Any,
    rules: tuple[CompiledRule, ...],
    path: Path,
    old: Any,
    *,
    node: Node = EMPTY,
) -> Iterator[Finding]:
    scopes = _Scopes(value, node, old)
    for rule in rules:
        if rule.is_transition and old is None and not rule.has_optional_old:
            continue
        if _is_unchanged(value, old, rule):
            continue
        variables = scopes.of(rule)
        verdict = evaluated(rule.cel, variables, optional_old=rule.has_optional_old)
        if verdict is True:
            continue
        told = None
        if rule.message_cel:
            told = text_of(rule.message_cel, variables, optional_old=rule.has_optional_old)
        yield _finding(rule, (*path, *rule.field), told, verdict, value)


class _Scopes:
    """What the rules at one place see, made once for all that see it alike."""

    def __init__(self, value: Any, node: Node, old: Any) -> None:
        self._value = value
        self._node = node
        self._old = old
        self._made: dict[tuple[object, bool], Scope] = {}

    def of(self, rule: CompiledRule) -> Scope:
        key = (needs(rule.cel), rule.has_optional_old)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = Scope(self._variables(rule))
        return made

    def _variables(self, rule: CompiledRule) -> dict[str, Any]:
        old, node = self._old, self._node
        variables = {"self": as_seen(self._value, node, rule.cel)}
        if rule.has_optional_old:
            variables |= {"wasThere": old is not None, "before": as_seen(old, node, rule.cel)}
        elif old is not None:
            variables["oldSelf"] = as_seen(old, node, rule.cel)
        return variables


def _is_unchanged(value: Any, old: Any, rule: CompiledRule) -> bool:
    """An update may keep what was wrong already; rules about changes are another matter."""
    return not rule.is_transition and old is not None and bool(value == old)


def _finding(
    rule: CompiledRule, path: Path, told: str | None, verdict: bool | str, value: Any
) -> Finding:
    message = told or rule.message
    if isinstance(verdict, str):
        text = f"{verdict} evaluating rule: {message or rule.cel}"
        fault = Fault(FaultKind.BROKEN_RULE, type_noun(value), text)
    else:
        words = message or f"failed rule: {' '.join(rule.cel.split())}"
        shown = "" if isinstance(value, dict | list) else json.dumps(value, ensure_ascii=False)
        fault = Fault(FaultKind.RULE, words, rule.reason, shown)
    return error(path, message or f"must satisfy {rule.cel}", fault)
