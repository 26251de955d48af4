"""CEL as Kubernetes speaks it, evaluated by the official implementation.

The environment has the standard library, strings and optionals, and those list
functions of Kubernetes that our rules use. A rule whose evaluation fails (a field that
isn't there) does not hold: the API server sees it the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings


def _list_function(name: str, compute: Any) -> cel.FunctionDecl:
    overload = cel.Overload(
        f"list_{name}",
        return_type=cel.Type.DYN,
        parameters=[cel.Type.List(cel.Type.DYN)],
        is_member=True,
        impl=compute,
    )
    return cel.FunctionDecl(name, [overload])


@cache
def _environment() -> cel.Env:
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
        functions=[
            _list_function("sum", sum),
            _list_function("min", min),
            _list_function("max", max),
        ],
    )


@cache
def _program(expression: str) -> cel.Expression:
    return _environment().compile(expression)


def holds(expression: str, variables: Mapping[str, Any]) -> bool:
    result = _program(expression).eval(data=variables)
    return result.type() == cel.Type.BOOL and result.value() is True


def text_of(expression: str, variables: Mapping[str, Any]) -> str | None:
    """What an expression says, or None if it can't be evaluated to a text."""
    result = _program(expression).eval(data=variables)
    return str(result.value()) if result.type() == cel.Type.STRING else None
