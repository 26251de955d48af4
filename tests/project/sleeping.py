"""Finds waiting by sleeping in a program's text, however it is spelled.

For `test_house_rules`. What waits for something that can happen is no sleep, with whatever
deadline; what waits for nothing but the clock is, also if it is an event that nobody sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_WORDS = ("sleep", "select", "wait(", "call_later")
_BOUNDING = {"wait_for", "wait", "timeout", "timeout_at"}
_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)


def sleeps(text: str) -> list[int]:
    """The lines where somebody sleeps."""
    # Whoever waits says so; most files need no closer look.
    if not any(word in text for word in _WORDS):
        return []
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    parents: dict[ast.AST, ast.AST] = {}
    deaf: set[ast.AST] = set()
    if "Event(" in text:
        parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        deaf = set(_events_nobody_sets(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ("time", "asyncio"):
            if any(each.name == "sleep" for each in node.names):
                found.add(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            is_deaf = _is_new_event(called.value) or called.value in deaf
            if _is_plain(node, called) or (
                called.attr == "wait" and is_deaf and _is_cut_short(node, parents)
            ):
                found.add(node.lineno)
            # An alarm clock for oneself alone.
            alarms = [each.value for each in node.args if isinstance(each, ast.Attribute)]
            if called.attr == "call_later" and deaf.intersection(alarms):
                found.add(node.lineno)
    return sorted(found)


def _is_plain(call: ast.Call, called: ast.Attribute) -> bool:
    if called.attr == "sleep":
        owner = called.value.id if isinstance(called.value, ast.Name) else ""
        # With 0 it gives way to others, and waits for nothing.
        gives_way = [each.value for each in call.args if isinstance(each, ast.Constant)] == [0]
        return owner in ("time", "asyncio") and not gives_way
    return (
        called.attr == "select"
        and len(call.args) == 4
        and all(isinstance(each, ast.List | ast.Tuple) and not each.elts for each in call.args[:3])
    )


def _is_new_event(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "Event"


def _is_cut_short(wait: ast.Call, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the clock ends it. Without that it is until cancelled, which is no sleep."""
    bounds: list[ast.Call] = [wait] if wait.args or wait.keywords else []
    node: ast.AST = wait
    while not isinstance(node := parents[node], _SCOPES):
        around: list[ast.AST] = [node]
        if isinstance(node, ast.AsyncWith):
            around = [each.context_expr for each in node.items]
        bounds += [
            each
            for each in around
            if isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in _BOUNDING
        ]
    # A moment at random is what such a test is about, and nothing else could tell it.
    return any("random" not in ast.unparse(each) for each in bounds)


def _events_nobody_sets(tree: ast.AST) -> Iterator[ast.AST]:
    """Where a function's own event is used, if only the function itself and the clock know it."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        nodes = list(ast.walk(function))
        made = set(_made_in(nodes))
        if not made:
            continue
        alarms = [
            argument
            for node in nodes
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "call_later"
            for argument in node.args
        ]
        for name in made:
            used = [
                node
                for node in nodes
                if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            ]
            own = [
                node.value
                for node in nodes
                if isinstance(node, ast.Attribute)
                and node.value in used
                and (node.attr in ("wait", "clear") or node in alarms)
            ]
            if len(own) == len(used):
                yield from own


def _made_in(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for left, right in pairs:
                if isinstance(left, ast.Name) and _is_new_event(right):
                    yield left.id
