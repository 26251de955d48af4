"""`get --watch`: first what is there, then what changes, in the same form.

As with kubectl: another row of the same table for each change, or an object per line or document.
A row says if its object is gone; the others are for programs, which see the object as it was.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NoReturn, Protocol

import click
import msgspec

from jobyard.cli.arguments.questions import (
    JSON,
    TABLES,
    Question,
    layout,
    list_request,
    short_title,
    whole,
)
from jobyard.cli.arguments.selecting import Choice
from jobyard.cli.asking import send
from jobyard.cli.output.printing import as_yaml
from jobyard.cli.output.saying import as_json, say
from jobyard.cli.output.tables import GrowingTable, Table
from jobyard.client.backoff import wait_seconds
from jobyard.client.deep_json import decoded_json
from jobyard.client.errors import RefusedError
from jobyard.client.request import problem_of, watching
from jobyard.client.sender import Sender

WATCH_SECONDS: Final = 3600
# Between a watch that has ended and the next.
PAUSE_SECONDS: Final = 0.5
ADDED: Final = "ADDED"
DELETED: Final = "DELETED"
BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Change(msgspec.Struct, frozen=True):
    """One object, and the lines that show it."""

    name: str
    lines: list[str]


class _Form(Protocol):
    """Reads what a server says; what it was asked for decides how."""

    def listed(self, body: bytes) -> tuple[str, list[_Change]]:
        """The version of a list, and what is in it."""

    def changed(self, event: _Event) -> tuple[str, list[_Change]]:
        """The version of an event, and what it tells."""


async def show_changes(sender: Sender, question: Question) -> NoReturn:
    """Until somebody presses Ctrl-C."""
    if len(question.choices) > 1:
        raise click.UsageError("--watch needs one kind, such as `jobyard get genericjobs -w`")
    (choice,) = question.choices
    form: _Form = (
        _Rows(question, choice) if question.output in TABLES else _Objects(question, choice)
    )
    answer = await send(sender, list_request(question, choice))
    version, there = form.listed(answer.body)
    if missing := [name for name in choice.names if name not in {each.name for each in there}]:
        plural = choice.resource.plural
        raise click.ClickException("\n".join(f'{plural} "{name}" not found' for name in missing))
    _print(there)
    if not there:
        say(question.nothing, err=True)
    while True:
        async with aclosing(_events(sender, question, choice, version)) as events:
            async for event in events:
                told, changes = form.changed(event)
                version = told or version
                _print(changes)
        await wait_seconds(PAUSE_SECONDS)


def _print(changes: list[_Change]) -> None:
    for change in changes:
        for line in change.lines:
            say(line)


async def _events(
    sender: Sender, question: Question, choice: Choice, version: str
) -> AsyncGenerator[_Event, None]:
    request = watching(
        choice.resource,
        question.where(choice),
        label_selector=question.selector,
        field_selector=f"metadata.name={choice.names[0]}" if len(choice.names) == 1 else "",
        resource_version=version,
        timeout_seconds=WATCH_SECONDS,
    )
    asked = msgspec.structs.replace(request, accept=question.accept)
    try:
        async with aclosing(sender.lines(asked)) as lines:
            async for line in lines:
                event = decoded_json(line, type=_Event)
                if event.type == ERROR:
                    raise click.ClickException(problem_of(0, bytes(event.object)).message)
                yield event
    except RefusedError as problem:
        raise click.ClickException(problem.problem.message) from problem


class _Rows:
    """A table to which a row comes with every change."""

    def __init__(self, question: Question, choice: Choice) -> None:
        self._question = question
        self._choice = choice
        self._table: GrowingTable | None = None

    def listed(self, body: bytes) -> tuple[str, list[_Change]]:
        table = decoded_json(body, type=Table)
        self._table = GrowingTable(layout(self._question, self._choice, table))
        return table.metadata.resource_version, self._changes(table, ADDED)

    def changed(self, event: _Event) -> tuple[str, list[_Change]]:
        table = decoded_json(event.object, type=Table)
        changes = [] if event.type == BOOKMARK else self._changes(table, event.type)
        return table.metadata.resource_version, changes

    def _changes(self, table: Table, type_: str) -> list[_Change]:
        assert self._table is not None, "a list comes first"
        names = self._choice.names
        rows = [row for row in table.rows if not names or row.object.metadata.name in names]
        # All at once: columns are as wide as the widest of the first rows.
        lines = self._table.lines(rows)
        head, body = lines[: len(lines) - len(rows)], lines[len(lines) - len(rows) :]
        changes = [
            _Change(row.object.metadata.name, [f"{line}   (deleted)" if type_ == DELETED else line])
            for row, line in zip(rows, body, strict=True)
        ]
        return [*([_Change("", head)] if head else []), *changes]


class _Objects:
    """Objects as they are stored, one after the other."""

    def __init__(self, question: Question, choice: Choice) -> None:
        self._output = question.output
        self._choice = choice

    def listed(self, body: bytes) -> tuple[str, list[_Change]]:
        value = decoded_json(body)
        items = [self._change(item) for item in value["items"] or () if self._is_wanted(item)]
        return value["metadata"]["resourceVersion"], items

    def changed(self, event: _Event) -> tuple[str, list[_Change]]:
        value = decoded_json(event.object)
        is_told = event.type != BOOKMARK and self._is_wanted(value)
        return value["metadata"]["resourceVersion"], [self._change(value)] if is_told else []

    def _is_wanted(self, obj: JSON) -> bool:
        return not self._choice.names or obj["metadata"]["name"] in self._choice.names

    def _change(self, obj: JSON) -> _Change:
        value = whole(self._choice, obj)
        match self._output:
            case "json":
                text = as_json(value)
            case "yaml":
                text = f"---\n{as_yaml(value).rstrip()}"
            case _:
                text = short_title(value)
        return _Change(value["metadata"]["name"], [text])
