"""The one way in which a run fails."""

from __future__ import annotations


class ViolationError(Exception):
    """Something that must hold does not; `rule` is its short name."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule
