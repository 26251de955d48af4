"""CEL as Kubernetes speaks it, evaluated by the official implementation.

The environment has the standard library, strings, math, encoders and optionals, and those
functions of Kubernetes that can be said in a few lines (`_FUNCTIONS`). A rule whose evaluation
fails (a field that isn't there) does not hold: the API server sees it the same way. A rule with
a function that isn't here does not compile; `problem_with` names it.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import re2
from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_encoders, ext_math, ext_optional, ext_strings

_NO_KEY = re2.compile(r'Key not found in map : "([^"]*)"')
# Makes an optional of the old value before the rule sees it.
_OPTIONAL_OLD = "cel.bind(oldSelf, wasThere ? optional.of(before) : optional.none(), (RULE))"


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in itertools.pairwise(items))


def _find(text: str, pattern: str) -> str:
    found = re2.search(pattern, text)
    return str(found[0]) if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found[0] for found in re2.finditer(pattern, text)]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


_ANY, _BOOL, _TEXT = cel.Type.DYN, cel.Type.BOOL, cel.Type.STRING
_LIST = cel.Type.List(_ANY)
_SCALARS = {"integer": cel.Type.INT, "number": cel.Type.DOUBLE, "string": _TEXT, "boolean": _BOOL}
# Name, whether it is called on its first argument, types, result, and how it is computed.
_FUNCTIONS: tuple[tuple[str, bool, list[cel.Type], cel.Type, Callable[..., Any]], ...] = (
    ("sum", True, [_LIST], _ANY, sum),
    ("min", True, [_LIST], _ANY, min),
    ("max", True, [_LIST], _ANY, max),
    ("isSorted", True, [_LIST], _BOOL, _is_sorted),
    ("find", True, [_TEXT, _TEXT], _TEXT, _find),
    ("findAll", True, [_TEXT, _TEXT], cel.Type.List(_TEXT), _find_all),
    ("sets.contains", False, [_LIST, _LIST], _BOOL, lambda a, b: all(x in a for x in b)),
    ("sets.intersects", False, [_LIST, _LIST], _BOOL, lambda a, b: any(x in a for x in b)),
    (
        "sets.equivalent",
        False,
        [_LIST, _LIST],
        _BOOL,
        lambda a, b: all(x in a for x in b) and all(x in b for x in a),
    ),
    ("isIP", False, [_TEXT], _BOOL, _is_address),
    ("isCIDR", False, [_TEXT], _BOOL, _is_network),
)


def _declared(
    name: str, is_member: bool, types: list[cel.Type], result: cel.Type, compute: Any
) -> cel.FunctionDecl:
    overload = cel.Overload(
        f"kubernetes_{name.replace('.', '_')}",
        return_type=result,
        parameters=types,
        is_member=is_member,
        impl=compute,
    )
    return cel.FunctionDecl(name, [overload])


@cache
def _environment(kind: str = "") -> cel.Env:
    """`kind` is the JSON type of what the rule stands at, where that is a scalar."""
    of = _SCALARS.get(kind, cel.Type.DYN)
    return cel.NewEnv(
        variables={
            "self": of,
            "oldSelf": of,
            "before": of,
            "wasThere": cel.Type.BOOL,
        },
        extensions=[
            ext_strings.ExtStrings(),
            ext_optional.ExtOptional(),
            ext_bindings.ExtBindings(),
            ext_math.ExtMath(),
            ext_encoders.ExtEncoders(),
        ],
        functions=[_declared(*row) for row in _FUNCTIONS],
    )


@cache
def _program(expression: str, optional_old: bool = False) -> cel.Expression:
    return _environment().compile(_bound(expression, optional_old))


def _bound(expression: str, optional_old: bool) -> str:
    return _OPTIONAL_OLD.replace("RULE", expression) if optional_old else expression


def problem_with(
    expression: str, kind: str = "", *, optional_old: bool = False, is_text: bool = False
) -> str | None:
    """Why an expression can't be used at a value of a JSON type; None if it can.

    A rule must come to a truth value, a message (`is_text`) to a text. A function that isn't
    here is named.
    """
    try:
        program = _environment(kind).compile(_bound(expression, optional_old))
    except RuntimeError as problem:
        return _told(str(problem))
    wanted = cel.Type.STRING if is_text else cel.Type.BOOL
    if program.return_type() in (wanted, cel.Type.DYN):
        return None
    noun = "string" if is_text else "bool"
    return f"cel expression must evaluate to a {noun}"


def _told(problem: str) -> str:
    told = problem.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    return f"compilation failed: {told}"


class Scope:
    """Variables for several expressions: a value becomes CEL's own once for all of them."""

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self.bound = _environment().Activation(dict(variables))


def _result(program: cel.Expression, variables: Mapping[str, Any] | Scope) -> cel.Value:
    if isinstance(variables, Scope):
        return program.eval(activation=variables.bound)
    return program.eval(data=variables)


def evaluated(
    expression: str, variables: Mapping[str, Any] | Scope, *, optional_old: bool = False
) -> bool | str:
    """Whether a rule holds; a text if it can't be told, saying why."""
    try:
        program = _program(expression, optional_old)
    except RuntimeError as problem:
        return _told(str(problem))
    try:
        result = _result(program, variables)
    except RuntimeError as problem:
        return _given_up(str(problem))
    if result.type() == cel.Type.BOOL:
        return result.value() is True
    if result.type() != cel.Type.ERROR:
        return False
    why = str(result.value())
    missing = _NO_KEY.search(why)
    return f"no such key: {missing[1]}" if missing else why


def _given_up(problem: str) -> str:
    """Nobody's rule may take the server's time without a bound: cel-cpp counts the iterations."""
    if "budget" in problem:
        return "validation failed due to running out of cost budget"
    return problem


def holds(expression: str, variables: Mapping[str, Any]) -> bool:
    return evaluated(expression, variables) is True


def text_of(
    expression: str, variables: Mapping[str, Any] | Scope, *, optional_old: bool = False
) -> str | None:
    """What an expression says, or None if it can't be evaluated to a text."""
    try:
        result = _result(_program(expression, optional_old), variables)
    except RuntimeError:
        return None
    return str(result.value()) if result.type() == cel.Type.STRING else None
