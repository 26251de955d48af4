"""What `get` is asked for, and what both of its ways have in common: once, and as it changes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from jobyard.cli.arguments.selecting import Choice
from jobyard.cli.output.tables import Layout, Table
from jobyard.client.request import JSON_TYPE, Request

TABLE_TYPE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
TABLES: Final = ("table", "wide")
JSON = dict[str, Any]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for, and how it is to look."""

    choices: tuple[Choice, ...]
    # Empty: all namespaces.
    namespace: str
    selector: str
    output: str

    def where(self, choice: Choice) -> str:
        return self.namespace if choice.resource.namespaced else ""

    @property
    def accept(self) -> str:
        """In which form a server is to answer."""
        return TABLE_TYPE if self.output in TABLES else JSON_TYPE

    @property
    def nothing(self) -> str:
        if not any(choice.resource.namespaced for choice in self.choices):
            return "there are none"
        within = f"in namespace {self.namespace}" if self.namespace else "in any namespace"
        return f"there are none {within}"


def list_request(question: Question, choice: Choice) -> Request:
    query = (("labelSelector", question.selector),) if question.selector else ()
    path = choice.resource.collection(question.where(choice))
    return Request(method="GET", path=path, query=query, accept=question.accept)


def whole(choice: Choice, item: JSON) -> JSON:
    """Items of a list don't say what they are."""
    return {"apiVersion": choice.resource.api_version, "kind": choice.resource.kind, **item}


def short_title(obj: JSON) -> str:
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def layout(question: Question, choice: Choice, table: Table) -> Layout:
    return Layout(
        columns=table.column_definitions or (),
        is_wide=question.output == "wide",
        everywhere=choice.resource.namespaced and not question.namespace,
        kind=choice.resource.kind if len(question.choices) > 1 else "",
    )
