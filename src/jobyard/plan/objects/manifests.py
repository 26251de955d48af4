"""Objects to be made, each built when it is looked at.

A job of thousands of replicas has thousands of pods and services, and in some kinds each pod holds
the addresses of all: built together they would take gigabytes. So a plan has the recipes, and
whoever carries it out builds one object after the other and lets go of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from jobyard.plan.facts.decision import ChildKey
from jobyard.plan.lowering.description import JSON

Build = Callable[[], JSON]


class Manifests(Sequence[JSON]):
    """A sequence of objects, of which only names and recipes are kept."""

    __slots__ = ("keys", "recipes")

    def __init__(self, recipes: Mapping[ChildKey, Build]) -> None:
        self.recipes = recipes
        self.keys = tuple(recipes)

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> JSON: ...
    @overload
    def __getitem__(self, place: slice) -> Manifests: ...
    def __getitem__(self, place: int | slice) -> JSON | Manifests:
        if isinstance(place, slice):
            return Manifests({key: self.recipes[key] for key in self.keys[place]})
        return self.recipes[self.keys[place]]()

    def __eq__(self, other: Any) -> bool:
        """Equal to any sequence of the same objects, also to an empty tuple."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Manifests({', '.join(f'{kind} {name}' for kind, name in self.keys)})"
