"""How the controller's log looks: JSON for machines or text for people, one line a record.

The command line calls `configure` once; everybody else uses `logging` as always, with what a
record is about in `extra`: `log.info("made", extra={"job": "default/a", "kind": "MPIJob"})`.
Decides what may be shown. Secrets and environment values live inside of objects, so no object
is ever written out: only the fields listed here, and only values that are text or numbers or
say themselves how they read. Refuses to know what is logged, and by whom.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from numbers import Number
from typing import Any, Final, TextIO

# Anything else in `extra` is left out, so that nobody adds an object in passing.
FIELDS: Final = (
    "job", "kind", "namespace", "uid", "phase", "pod", "node", "child", "attempt", "reason",
    "verb", "code", "count", "seconds",
)  # fmt: skip
# A refusal of the API server can quote a whole object back.
TEXT_LENGTH_MAX: Final = 2000

_PLAIN: Final = (str, bool, Number, type(None))


class LogFormat(StrEnum):
    """The values of --log-format."""

    TEXT = "text"
    JSON = "json"


def configure(
    log_format: LogFormat, level: int = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send all records of this process to `stream`, in place of what was set up before."""
    sink = logging.StreamHandler(stream or sys.stderr)
    sink.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    root = logging.getLogger()
    for former in tuple(root.handlers):
        root.removeHandler(former)
    root.addHandler(sink)
    root.setLevel(level)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "message": _message(record),
            "logger": record.name,
            **dict(_fields(record)),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # ASCII alone, since a name with half a surrogate has no UTF-8.
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Time, level, message, and the fields in brackets."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in _fields(record))
        # A newline in a name or message must not look like another record.
        text = _one_line(f"{_message(record)} [{fields}]" if fields else _message(record))
        line = f"{_time(record)} {record.levelname:<7} {text}"
        if record.exc_info:
            told = self.formatException(record.exc_info).split("\n")
            line = "\n".join((line, *map(_one_line, told)))
        return line


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _message(record: logging.LogRecord) -> str:
    args = record.args
    if not args:
        return _cut(str(record.msg) if isinstance(record.msg, str) else str(_shown(record.msg)))
    if isinstance(args, Mapping):
        return _cut(str(record.msg) % {name: _shown(value) for name, value in args.items()})
    return _cut(str(record.msg) % tuple(_shown(value) for value in args))


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name in FIELDS:
        value = record.__dict__.get(name)
        if value is not None:
            shown = _shown(value)
            yield name, _cut(shown) if isinstance(shown, str) else shown


def _shown(value: Any) -> Any:
    """The value if it is plain, its own text if its type has one, else the type's name."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, _PLAIN):
        return value
    # The default text of a value is its repr, which shows all that is inside; bytes and
    # some mappings have a text of their own, and it is no better.
    kind: Any = type(value)
    if kind.__str__ is object.__str__ or issubclass(kind, bytes | bytearray | Mapping):
        return f"<{kind.__name__}>"
    return str(value)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(map(_printable, text))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
