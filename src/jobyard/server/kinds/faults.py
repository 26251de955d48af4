"""Collects what is wrong with an object, in the words and with the reasons of Kubernetes.

The kinds say which field, which value and what would be right; how that reads in a Status is
decided here. Fields are named by their path as text, `spec.containers[0].name`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from jobyard.server.problem import Cause


def quoted(value: Any) -> str:
    """A value as Go shows it in a message: a text in quotes, all else as JSON."""
    if isinstance(value, float) and value.is_integer():
        return str(math.trunc(value))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str):
        return text
    # Go makes JSON safe for web pages.
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


class Faults:
    """A growing list of causes; nothing is removed from it."""

    def __init__(self) -> None:
        self._causes: list[Cause] = []

    def __bool__(self) -> bool:
        return bool(self._causes)

    def __len__(self) -> int:
        return len(self._causes)

    def has(self, field: str) -> bool:
        """Whether something was found at exactly this field."""
        return any(cause.field == field for cause in self._causes)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Each once, in the order of finding."""
        return tuple(dict.fromkeys(self._causes))

    def extend(self, causes: Iterable[Cause]) -> None:
        self._causes.extend(causes)

    def required(self, field: str, detail: str = "") -> None:
        self._add("FieldValueRequired", field, "Required value", detail)

    def invalid(self, field: str, value: Any, *details: str) -> None:
        """One cause for each detail, so for none if there is none."""
        for detail in details:
            self._add("FieldValueInvalid", field, f"Invalid value: {quoted(value)}", detail)

    def not_supported(self, field: str, value: Any, supported: Iterable[str]) -> None:
        listed = ", ".join(quoted(word) for word in supported)
        detail = f"supported values: {listed}"
        self._add("FieldValueNotSupported", field, f"Unsupported value: {quoted(value)}", detail)

    def duplicate(self, field: str, value: Any, detail: str = "") -> None:
        self._add("FieldValueDuplicate", field, f"Duplicate value: {quoted(value)}", detail)

    def forbidden(self, field: str, detail: str) -> None:
        self._add("FieldValueForbidden", field, "Forbidden", detail)

    def not_found(self, field: str, value: Any) -> None:
        self._add("FieldValueNotFound", field, f"Not found: {quoted(value)}")

    def too_long(self, field: str, size_max: int, unit: str = "bytes") -> None:
        self._add("FieldValueTooLong", field, "Too long", f"may not be more than {size_max} {unit}")

    def too_many(self, field: str, count: int, count_max: int) -> None:
        items = "item" if count_max == 1 else "items"
        detail = f"must have at most {count_max} {items}"
        self._add("FieldValueTooMany", field, f"Too many: {count}", detail)

    def one_of(self, field: str, value: str, supported: Iterable[str]) -> None:
        """Nothing if the value is one of them."""
        words = tuple(supported)
        if value not in words:
            self.not_supported(field, value, words)

    def named(self, field: str, value: str, details: Iterable[str]) -> None:
        """A name that must be there and be well-formed; `details` are what is wrong with it."""
        if value:
            self.invalid(field, value, *details)
        else:
            self.required(field)

    def immutable(self, field: str, new: Any, old: Any) -> None:
        if new != old:
            self.invalid(field, new, "field is immutable")

    def _add(self, reason: str, field: str, text: str, detail: str = "") -> None:
        self._causes.append(Cause(reason, f"{text}: {detail}" if detail else text, field))
