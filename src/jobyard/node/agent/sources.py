"""Sinks that tell which pods a change concerns: of config maps, of secrets, of pods themselves.

Nothing of the objects is kept but their names: values are read when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from jobyard.node.objects.pod_book import PodBook
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.ordering.references import (
    Wanted,
    has_files_about_itself,
    mounted_wanted,
    variables_wanted,
)


class Touched(Protocol):
    """Who wants to know that something a pod refers to changed."""

    def __call__(self, uid: str, *, is_mounted: bool) -> None: ...


class _Identity(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class Named(msgspec.Struct, frozen=True):
    """Any object: only who it is."""

    metadata: _Identity


_decoder: Final = msgspec.json.Decoder(Named)


def named(raw: bytes) -> Named:
    """Of an object's JSON, its name."""
    return _decoder.decode(raw)


class Sources:
    """A sink for config maps or secrets."""

    def __init__(self, kind: str, book: PodBook, touched: Touched) -> None:
        self._kind = kind
        self._book = book
        self._touched = touched

    def replaced(self, items: Sequence[Named], resource_version: str) -> None:  # noqa: ARG002
        # Changes may have been missed: everybody who refers to any looks again.
        for pod in list(self._book.pods()):
            is_mounted = any(each.kind == self._kind for each in mounted_wanted(pod))
            self._touched(pod.metadata.uid, is_mounted=is_mounted)

    def changed(self, obj: Named) -> None:
        wanted = Wanted(self._kind, obj.metadata.name)
        for pod in list(self._book.pods()):
            if pod.metadata.namespace != obj.metadata.namespace:
                continue
            is_mounted = wanted in mounted_wanted(pod)
            if is_mounted or wanted in variables_wanted(pod):
                self._touched(pod.metadata.uid, is_mounted=is_mounted)

    def removed(self, obj: Named) -> None:
        """Files stay as they were."""

    def reached(self, resource_version: str) -> None:
        """Nothing is kept, so nothing can be missing."""


def has_other_files(known: PodObject | None, pod: PodObject) -> bool:
    """Whether files about the pod itself say something else by now."""
    return has_files_about_itself(pod) and (
        known is None
        or known.metadata.labels != pod.metadata.labels
        or known.metadata.annotations != pod.metadata.annotations
    )


class PodChanges:
    """Between the watch and the book: also notices labels that have to reach files."""

    def __init__(self, book: PodBook, spoil: Callable[[str], None]) -> None:
        self._book = book
        self._spoil = spoil
        self.removed = book.removed
        self.reached = book.reached

    def replaced(self, items: Sequence[PodObject], resource_version: str) -> None:
        for pod in items:
            self._compare(pod)
        self._book.replaced(items, resource_version)

    def changed(self, obj: PodObject) -> None:
        self._compare(obj)
        self._book.changed(obj)

    def _compare(self, pod: PodObject) -> None:
        if has_other_files(self._book.pod(pod.metadata.uid), pod):
            self._spoil(pod.metadata.uid)
