"""Where the two OpenAPI versions differ in how they name a schema."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """OpenAPI v2 ("swagger") or v3; the value is the prefix of a reference to a schema."""

    V2 = "#/definitions/"
    V3 = "#/components/schemas/"
