"""Label and field selectors: read from the query once, matched against many objects.

The grammar and the refusals are those of a real server. Which fields of a kind can be selected
by is a table here for Kubernetes' own kinds; a CRD says it itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from jobyard.numerals import signed_number
from jobyard.server.kinds.names import label_key, label_value
from jobyard.server.messages.conversion import is_renamed
from jobyard.server.printing.json_path import found
from jobyard.server.problem import ProblemError, bad_request
from jobyard.server.resource import Object, ServedResource

Matches = Callable[[Object], bool]
_METADATA: Final = ("metadata.name", "metadata.namespace")
_INVOLVED: Final = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)
# What a kind adds to its name and namespace; those that aren't here add nothing.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs"),
        "status.nominatedNodeName",
    ),
    "events": (
        *(f"involvedObject.{field}" for field in _INVOLVED),
        *("reason", "reportingComponent", "source", "type"),
    ),
    "events.events.k8s.io": (
        *(f"regarding.{field}" for field in _INVOLVED),
        *("reason", "reportingController", "type"),
    ),
    "secrets": ("type",),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase", "name"),
    "services": ("spec.clusterIP", "spec.type"),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
}
# An Event's reporter is also known by these.
_PLACES: Final = {
    ("events", "source"): (".source.component", ".reportingComponent"),
    ("events", "reportingComponent"): (".reportingComponent",),
    ("events.events.k8s.io", "reportingController"): (".reportingComponent", ".source.component"),
    ("namespaces", "name"): (".metadata.name",),
    ("pods", "status.podIPs"): (".status.podIPs[*].ip",),
    # Not there means false, which as a path is the value itself.
    ("pods", "spec.hostNetwork"): (".spec.hostNetwork", "false"),
    ("nodes", "spec.unschedulable"): (".spec.unschedulable", "false"),
}
_TOKEN: Final = re.compile(r"\s*(!=|==|=|!|<|>|\(|\)|,|[^\s!=<>(),]+)")


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        number, bound = signed_number(value or ""), signed_number(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == ">" else number < bound


class Selection(msgspec.Struct, frozen=True):
    """Both selectors of a call. `name` is there if only one object can match."""

    labels: tuple[Requirement, ...] = ()
    # Paths to look at, whether it must be equal, and to what.
    fields: tuple[tuple[tuple[str, ...], bool, str], ...] = ()
    name: str | None = None

    @property
    def selects(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, obj: Object) -> bool:
        metadata = obj["metadata"]
        if self.labels:
            labels = metadata.get("labels") or {}
            if not all(requirement.holds(labels) for requirement in self.labels):
                return False
        return all(
            (wanted in _texts(obj, paths)) is is_equal for paths, is_equal, wanted in self.fields
        )


def selection(label_text: str, field_text: str, resource: ServedResource) -> Selection:
    """Read both; raises the 400 of a real server for what it can't understand."""
    labels = requirements(label_text) if label_text else ()
    if not field_text:
        return Selection(labels)
    fields, name = [], None
    for path, is_equal, value in _field_terms(field_text):
        fields.append((_places(path, resource), is_equal, value))
        if path == "metadata.name" and is_equal:
            name = value
    return Selection(labels, tuple(fields), name)


def _texts(obj: Object, paths: tuple[str, ...]) -> tuple[str, ...]:
    """What a field selector compares with: a field that isn't there is the empty text."""
    for path in paths:
        texts = tuple(_text(value) for value in found(path, obj))
        if any(texts):
            return texts
    return ("",)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _places(path: str, resource: ServedResource) -> tuple[str, ...]:
    if path in _METADATA:
        return (f".{path}",)
    kind = resource.storage_key
    if resource.is_custom:
        if f".{path}" in resource.selectable_fields:
            return (f".{path}",)
        raise bad_request(f"field label not supported: {path}")
    known = _FIELDS.get(kind)
    if known is None:
        quoted = '"metadata.name", "metadata.namespace"'
        raise bad_request(f'"{path}" is not a known field selector: only {quoted}')
    if path not in known:
        raise bad_request(f"field label not supported: {path}")
    if is_renamed(resource) and path.startswith("regarding."):
        return (f".involvedObject.{path.removeprefix('regarding.')}",)
    if (kind, path) == ("nodes", "spec.unschedulable") or (kind, path) == (
        "pods",
        "spec.hostNetwork",
    ):
        return (f".{path}", "false")
    return _PLACES.get((kind, path), (f".{path}",))


def _field_terms(text: str) -> list[tuple[str, bool, str]]:
    terms = []
    # A backslash protects a comma.
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        for sign, is_equal in (("!=", False), ("==", True), ("=", True)):
            path, found_sign, value = term.partition(sign)
            if found_sign:
                terms.append((path, is_equal, re.sub(r"\\([\\,=])", r"\1", value)))
                break
        else:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    return terms


def requirements(text: str) -> tuple[Requirement, ...]:
    """A label selector in the grammar of `labels.Parse`."""
    return tuple(_Reader(text).requirements())


def _refused(text: str) -> ProblemError:
    return bad_request(f"unable to parse requirement: {text}")


class _Reader:
    """Reads the tokens of one label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def requirements(self) -> list[Requirement]:
        read: list[Requirement] = []
        while self._at < len(self._tokens):
            if not read and not _is_word(self._peek()) and self._peek() != "!":
                raise bad_request(
                    f"found '{self._peek()}', expected: !, identifier, or 'end of string'"
                )
            read.append(self._requirement())
            sign = self._next()
            if sign not in (",", ""):
                raise bad_request(f"found '{sign}', expected: ',' or 'end of string'")
            if sign == "," and not _is_word(self._peek()) and self._peek() != "!":
                raise bad_request(f"found '{self._peek()}', expected: identifier after ','")
        return sorted(read, key=lambda requirement: requirement.key)

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if not _is_word(key):
            raise _refused(f"found '{key}', expected: identifier")
        for wrong in label_key(key):
            raise _refused(f'<nil>: Invalid value: "{key}": {wrong}')
        if absent:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        sign = self._next()
        match sign:
            case "=" | "==":
                return self._checked(key, "in", (self._value(),))
            case "!=":
                return self._checked(key, "notin", (self._value(),))
            case "in" | "notin":
                return self._checked(key, sign, self._values())
            case "<" | ">":
                value = self._value()
                if signed_number(value) is None:
                    raise _refused(
                        f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the"
                        " value must be an integer"
                    )
                return Requirement(key, sign, (value,))
        signs = "in, notin, =, ==, !=, gt, lt"
        raise _refused(f"found '{sign}', expected: {signs}")

    def _checked(self, key: str, operator: str, values: tuple[str, ...]) -> Requirement:
        for index, value in enumerate(values):
            for wrong in label_value(value):
                raise _refused(f'values[{index}][{key}]: Invalid value: "{value}": {wrong}')
        return Requirement(key, operator, values)

    def _value(self) -> str:
        """One value; nothing at all is the empty one."""
        if self._peek() in ("", ","):
            return ""
        value = self._next()
        if not _is_word(value):
            raise _refused(f"found '{value}', expected: identifier")
        return value

    def _values(self) -> tuple[str, ...]:
        if (opening := self._next()) != "(":
            raise _refused(f"found '{opening}' expected: '('")
        values: list[str] = []
        while True:
            word = self._next()
            if _is_word(word):
                values.append(word)
                word = self._next()
            elif word in (",", ")"):
                values.append("")
            else:
                raise _refused(f"found '{word}', expected: ',', ')' or identifier")
            if word == ")":
                return tuple(sorted(set(values)))
            if word != ",":
                raise _refused(f"found '{word}', expected: ',' or ')'")


def _is_word(token: str) -> bool:
    return bool(token) and token not in ("!=", "==", "=", "!", "<", ">", "(", ")", ",")
