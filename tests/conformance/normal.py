"""Answers made comparable: only what must differ between two runs is given a neutral name.

Which uid or version it is doesn't matter, whether it is the same as before does: those are
numbered in the order of their appearance. Managed fields become one line an entry, nothing of
them is lost but the time, and the order that follows from it. Knows the shapes of Kubernetes'
metadata and no kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ADDRESS = re.compile(r"\b10\.\d+\.\d+\.\d+\b")
VERSIONS = (
    (re.compile(r'(\\"resourceVersion\\":\\")\d+'), r"\1<version>"),
    (re.compile(r"(ResourceVersion in (the precondition|record)) \(\d+\)"), r"\1 (<version>)"),
    (
        re.compile(r"(ResourceVersion in (precondition|object meta)): \d+"),
        r"\1: <version>",
    ),
    (
        re.compile(r"too old resource version: \d+ \(\d+\)"),
        "too old resource version: <old> (<new>)",
    ),
    (
        re.compile(r"Too large resource version: \d+, current: \d+"),
        "Too large resource version: <big>, current: <now>",
    ),
)
# How a decoder, a parser for YAML or a library for differences puts it is its own affair: what is
# promised are codes, reasons and the paths of fields.
WORDINGS = (
    (re.compile(r"json: (?!unknown field).*", re.DOTALL), "json: <why>"),
    (
        re.compile(r"(invalid character |unexpected end of JSON|invalid JSON: ).*", re.DOTALL),
        "<no JSON>",
    ),
    (re.compile(r"yaml: line \d+: (?!key)[^\n\"(]*[^\n\"( ]"), "yaml: <why>"),
    (re.compile(r'Invalid value: "(\{\\"|map\[)(?:[^"\\]|\\.)*"'), 'Invalid value: "<object>"'),
    # Of a strategic patch a converter says what a decoder says of the others.
    (re.compile(r'"<object>": (cannot (restore|convert).*|json: <why>)'), "<why>"),
    (re.compile(r"(compilation failed: ).*", re.DOTALL), r"\1<why>"),
    (re.compile(r"(must be a valid regular expression, but isn't: ).*", re.DOTALL), r"\1<why>"),
    (re.compile(r'Invalid value: \[\{"Name":.*\}\]:'), "Invalid value: <versions>:"),
    (re.compile(r"(if it was previously negative\)).*", re.DOTALL), r"\1"),
)
# A generated name that was refused: nothing but the message tells it.
GENERATED = re.compile(r"\b(Made_)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
AGE = re.compile(r"^(\d+(ms|s))+$")


def reworded(text: str) -> str:
    """Without what a library said in its own words."""
    for pattern, name in WORDINGS:
        text = pattern.sub(name, text)
    return text


class Normaliser:
    """Remembers which uid and version were met, so that the same stays the same."""

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names` maps what a run made up (its namespace, say) to what to call it."""
        self._names = sorted(names.items(), key=lambda item: -len(item[0]))
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        match value:
            case {"metadata": {"resourceVersion": str()} as metadata} if not metadata.get("uid"):
                # A list, a table or a bookmark: its version is that of the whole store.
                neutral = {**metadata, "resourceVersion": "<version>"}
                return {
                    **self._members({**value, "metadata": {}}),
                    "metadata": self._members(neutral),
                }
            case {"details": {"causes": list() as causes}, "message": str() as message}:
                told = {**value, "message": without_order(message, causes)}
                return self._members(told)
            case dict():
                return self._members(value)
            case list():
                return [self(each) for each in value]
            case str():
                return self._text(value)
            case _:
                return value

    def _members(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {self._text(key): self._member(key, value[key]) for key in sorted(value)}

    def _member(self, key: str, value: Any) -> Any:
        # A case that picks places names them by their path.
        key = key.rpartition(".")[2]
        if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return self._versions.setdefault(value, f"<version {len(self._versions) + 1}>")
        if key == "managedFields" and isinstance(value, list):
            return self._managed(value)
        if key == "causes" and isinstance(value, list):
            return self._causes(value)
        if key == "columnDefinitions" and isinstance(value, list):
            # What a column means is said in words of one's own.
            return [self({k: v for k, v in c.items() if k != "description"}) for c in value]
        if key == "storageVersionHash":
            return "<hash>"
        if key == "continue" and value:
            return "<continue>"
        if key == "nodePort" or key == "healthCheckNodePort":
            return "<port>"
        if key == "cells":
            return self._cells(value)
        return self(value)

    def _managed(self, entries: list[Any]) -> list[str]:
        """Those of one operation are in the order of their seconds, which may pass at any step."""
        found: list[str] = []
        for _, same in groupby(entries, key=lambda entry: entry.get("operation")):
            found += sorted(self._text(managed_line(entry)) for entry in same)
        return found

    def _cells(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._cells(cell) for cell in value]
        return "<age>" if isinstance(value, str) and AGE.match(value) else self(value)

    def _causes(self, causes: list[Any]) -> list[Any]:
        """Once each: the real server repeats those that it meets on several ways.

        Sorted, because it goes through the fields of a custom resource in any order.
        """
        found: list[Any] = []
        for cause in self(causes):
            found += [] if cause in found else [cause]
        return sorted(found, key=lambda cause: str(sorted(cause.items())))

    def _text(self, text: str) -> str:
        for made_up, name in self._names:
            text = text.replace(made_up, name)
        text = UID.sub(self._uid, text)
        text = MICRO_TIME.sub("<micro time>", text)
        text = TIME.sub("<time>", text)
        text = ADDRESS.sub("<address>", text)
        text = GENERATED.sub(r"\1<generated>", text)
        for pattern, name in VERSIONS:
            text = pattern.sub(name, text)
        return reworded(text)

    def _uid(self, match: re.Match[str]) -> str:
        return self._uids.setdefault(match[0], f"<uid {len(self._uids) + 1}>")


def without_order(message: str, causes: list[Any]) -> str:
    """The message with a mark for its list of faults, if those are just the causes."""
    texts = {f"{cause.get('field', '')}: {cause.get('message', '')}" for cause in causes}
    if len(texts) < 2 or not all(text in message for text in texts):
        return message
    head, _, told = message.partition("[")
    rest = told.removesuffix("]")
    for text in texts:
        rest = rest.replace(text, "")
    return f"{head}[<all causes>]" if not rest.strip(", ") else message


def managed_line(entry: Mapping[str, Any]) -> str:
    """`manager Update v1 status: f:data(. f:a)`; whatever is unusual about it is there too."""
    usual = {"manager", "operation", "apiVersion", "subresource", "fieldsType", "fieldsV1", "time"}
    words = [entry.get("manager", ""), entry.get("operation", ""), entry.get("apiVersion", "")]
    words += [entry["subresource"]] if "subresource" in entry else []
    words += [f"{key}={entry[key]}" for key in sorted(set(entry) - usual)]
    words += [] if entry.get("fieldsType") == "FieldsV1" else ["(no FieldsV1)"]
    words += [] if "time" in entry else ["(no time)"]
    return f"{' '.join(words)}: {_fields(entry.get('fieldsV1', {}))}"


def _fields(fields: Mapping[str, Any]) -> str:
    return " ".join(
        f"{key}({_fields(fields[key])})" if fields[key] else key for key in sorted(fields)
    )
