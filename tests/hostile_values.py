"""Values that somebody may write where a sensible one is expected, repeatable from a seed.

Numbers of up to ten thousand digits, exponents, other scripts' digits, halves of characters, depth.
What an API server makes of each is its own business; nothing of ours may stumble over any.
"""

from __future__ import annotations

from typing import Any

# As deep as a real API server takes JSON, less the levels around it.
DEPTH_MAX = 9_990


def deep_fields(depth: int) -> dict[str, Any]:
    """Managed fields of that depth."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"f:a": value}
    return value
