"""What is asked of the server and what it answers, as values.

The HTTP shell and the in-process sender both make a `Call` and carry a `Reply` away;
nothing behind them knows which of the two it was.
"""

from __future__ import annotations

from typing import Final

import msgspec

JSON_TYPE: Final = "application/json"
YAML_TYPE: Final = "application/yaml"

Query = tuple[tuple[str, str], ...]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request; `path` is percent-encoded still, `query` decoded and in its order."""

    method: str
    path: str
    query: Query = ()
    body: bytes = b""
    content_type: str = JSON_TYPE
    accept: str = JSON_TYPE
    user_agent: str = ""
    # What the client has already: the `ETag` of an earlier answer.
    if_none_match: str = ""

    def option(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), default)

    def options(self, name: str) -> tuple[str, ...]:
        """All values of a query parameter that may be repeated, such as `command`."""
        return tuple(value for key, value in self.query if key == name)

    def flag(self, name: str) -> bool:
        """Whether a query parameter is there and true, in the spellings that Go takes."""
        return self.option(name, "false").lower() in ("1", "t", "true")


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One whole answer; it may leave when everything up to `version` is on disk."""

    status: int
    body: bytes
    content_type: str = JSON_TYPE
    warnings: tuple[str, ...] = ()
    version: int = 0
    # Further headers, such as `ETag` and `Cache-Control`.
    headers: tuple[tuple[str, str], ...] = ()
