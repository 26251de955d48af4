"""String formats that an API server checks."""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import math
from collections.abc import Callable, Mapping

import re2

from jobyard.numerals import decimal_number
from jobyard.schema.wording import shown

_DATE_TIME = "date-time"
_LABEL = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_HOST = re2.compile(rf"^{_LABEL}(\.{_LABEL})*(\.[a-zA-Z]{{2,63}})?$|^localhost$")
_TOP = re2.compile(r"^([a-zA-Z0-9-]+|.*\.[a-zA-Z]{2,63})$")
_EMAIL = re2.compile(r"^[^@\s<>()\[\],;:\\\"]+@[^@\s<>()\[\],;:\\\"]+$")
_URI = re2.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*:[^\s]*|/[^\s]*)$")
_MAC = re2.compile(r"^([0-9a-fA-F]{2}[:-]){5,7}[0-9a-fA-F]{2}$")
_UUID = re2.compile(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
_NUMBERED_UUID = {
    version: re2.compile(rf"(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{rest}$")
    for version, rest in (
        ("3", "[0-9a-f]{4}-?[0-9a-f]{12}"),
        ("4", "[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
        ("5", "[89ab][0-9a-f]{3}-?[0-9a-f]{12}"),
    )
}
_DURATION = re2.compile(r"^[+-]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h)|\.[0-9]+(ns|us|ms|s|m|h))+$")
_PIECE = re2.compile(r"([0-9.]+)(h|ms|m|us|µs|ns|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
# Go counts nanoseconds in 63 bits.
_LONGEST_SECONDS = (2**63 - 1) / 10**9
# The second spelling: numbers with words, `2 weeks`, `3 h`.
_WORDS = re2.compile(
    r"(?i)^[0-9]+\s*(ns|nano\w*|us|micro\w*|ms|milli\w*|s|sec\w*|m|min\w*|h|hr|hour\w*|d|day\w*"
    r"|w|wk|week\w*)$"
)


def format_fault(value: str, name: str) -> str | None:
    """What is wrong with a text of that format; None for formats that aren't checked."""
    check = _CHECKS.get(name)
    if check is None or check(value):
        return None
    if name == _DATE_TIME:
        return f"is {shown(value)}; must be a time such as 2026-01-31T12:00:00Z"
    return f"is {shown(value)}; must have the format {name}"


def _is_date_time(value: str) -> bool:
    try:
        parsed = datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return parsed.tzinfo is not None and "T" in value


def _is_date(value: str) -> bool:
    try:
        datetime.datetime.strptime(value, "%Y-%m-%d")  # noqa: DTZ007
    except ValueError:
        return False
    return len(value) == len("2026-01-31")


def _is_duration(value: str) -> bool:
    if _DURATION.search(value):
        return duration_seconds(value) <= _LONGEST_SECONDS
    return value == "0" or bool(_WORDS.search(value))


def duration_seconds(value: str) -> float:
    """A span of time in its first spelling: `2h45m`, `1.5s`."""
    pieces = [(decimal_number(number), _UNITS[unit]) for number, unit in _PIECE.findall(value)]
    return sum(math.inf if number is None else number * unit for number, unit in pieces)


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value.replace("\n", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_address(version: int) -> Callable[[str], bool]:
    def check(value: str) -> bool:
        try:
            return ipaddress.ip_address(value).version == version
        except ValueError:
            return False

    return check


def _is_network(value: str) -> bool:
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return "/" in value


def _is_host(value: str) -> bool:
    return bool(_HOST.search(value)) and bool(_TOP.search(value))


def _matches(expression: re2._Regexp[str]) -> Callable[[str], bool]:
    return lambda value: bool(expression.search(value))


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    _DATE_TIME: _is_date_time,
    "datetime": _is_date_time,
    "date": _is_date,
    "duration": _is_duration,
    "byte": _is_base64,
    "ipv4": _is_address(4),
    "ipv6": _is_address(6),
    "cidr": _is_network,
    "mac": _matches(_MAC),
    "email": _matches(_EMAIL),
    "uri": _matches(_URI),
    "hostname": _is_host,
    "uuid": _matches(_UUID),
    **{f"uuid{version}": _matches(pattern) for version, pattern in _NUMBERED_UUID.items()},
}
