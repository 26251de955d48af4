"""Values as Go prints them, for messages that must read as a real server's do."""

from __future__ import annotations

from typing import Any


def printed(value: Any) -> str:
    """A value as Go's %v writes it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{key}:{printed(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(printed(item) for item in value)}]"
    return str(value)


def type_name(value: Any) -> str:
    """The type of a decoded JSON value as Go's %T writes it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
    return "map[string]interface {}"


def literal(value: Any) -> str:
    """A plain value as Go's %#v writes it."""
    match value:
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case dict():
            inner = ", ".join(f'"{key}":{literal(value[key])}' for key in sorted(value))
            return f"map[string]interface {{}}{{{inner}}}"
        case list():
            return f"[]interface {{}}{{{', '.join(literal(item) for item in value)}}}"
        case None:
            return "interface {}(nil)"
    return printed(value)
