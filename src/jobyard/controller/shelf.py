"""The objects of one resource as the controller knows them, found by key and by job.

A shelf is fed by a watch, and by the answers to the controller's own writes: what was just
made is known before the watch tells of it, so nothing is made twice from a stale cache. An
answer is taken only if the watch has not passed its version yet; then the watch will still
confirm it, and what it doesn't confirm by the time it has passed is dropped again. That is
what other controllers keep expectations for, without one that could stay open for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from jobyard.numerals import UINT64_MAX, whole_number

ObjectKey = tuple[str, str]


class Shelved(Protocol):
    """What a shelf needs to know of an object."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def job_uid(self) -> str: ...


T = TypeVar("T", bound=Shelved)


def number(version: str) -> int:
    """Versions of one resource can be compared as numbers."""
    return whole_number(version, UINT64_MAX) or 0


def key_of(obj: Shelved) -> ObjectKey:
    return obj.namespace, obj.name


class Shelf(Generic[T]):
    """A cache of one resource. `tell` hears of each object that changed."""

    def __init__(self, tell: Callable[[T], None]) -> None:
        self._tell = tell
        self._objects: dict[ObjectKey, T] = {}
        self._by_job: dict[str, dict[ObjectKey, T]] = {}
        # Taken from answers, not yet confirmed by the watch: their versions.
        self._unconfirmed: dict[ObjectKey, int] = {}
        self._reached = 0
        self.is_synced = False

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: ObjectKey) -> T | None:
        return self._objects.get(key)

    def of_job(self, uid: str) -> Collection[T]:
        return self._by_job.get(uid, {}).values()

    def replaced(self, items: Sequence[T], resource_version: str) -> None:
        self._reached = number(resource_version)
        listed = {key_of(item): item for item in items}
        gone = [
            obj
            for key, obj in self._objects.items()
            if key not in listed and self._unconfirmed.get(key, 0) <= self._reached
        ]
        for obj in gone:
            self._drop(obj)
        for item in items:
            self._put_if_newer(item)
        self._expire()
        self.is_synced = True

    def changed(self, obj: T) -> None:
        self._reached = max(self._reached, number(obj.version))
        self._put_if_newer(obj)

    def confirmed(self, namespace: str, name: str, version: str) -> bool:
        """Whether this is what an answer has told already: most of the news of what we made."""
        key = (namespace, name)
        known = self._objects.get(key)
        if known is None or known.version != version:
            return False
        self._reached = max(self._reached, number(version))
        self._unconfirmed.pop(key, None)
        return True

    def removed(self, obj: T) -> None:
        self._reached = max(self._reached, number(obj.version))
        known = self._objects.get(key_of(obj))
        # A later object of the same name may be known from an answer already.
        if known is not None and (
            known.uid == obj.uid or number(known.version) <= number(obj.version)
        ):
            self._drop(known)

    def reached(self, resource_version: str) -> None:
        self._reached = max(self._reached, number(resource_version))
        self._expire()

    def absorb(self, obj: T) -> None:
        """Take an answer to a write of our own."""
        version = number(obj.version)
        if version > self._reached:
            self._unconfirmed[key_of(obj)] = version
            self._put_if_newer(obj, is_confirmed=False)

    def forget(self, obj: T) -> None:
        """An object that the server says is gone."""
        known = self._objects.get(key_of(obj))
        if known is not None and known.uid == obj.uid:
            self._drop(known)

    def _put_if_newer(self, obj: T, *, is_confirmed: bool = True) -> None:
        key = key_of(obj)
        known = self._objects.get(key)
        is_same = known is not None and known.version == obj.version
        if known is not None and not is_same and number(known.version) > number(obj.version):
            return
        if is_confirmed:
            self._unconfirmed.pop(key, None)
        self._objects[key] = obj
        self._by_job.setdefault(obj.job_uid, {})[key] = obj
        if known is not None and known.job_uid != obj.job_uid:
            # Another one has the name by now: whoever had it before has lost something.
            self._leave(known)
            self._tell(known)
        if not is_same:
            self._tell(obj)

    def _drop(self, obj: T) -> None:
        key = key_of(obj)
        self._objects.pop(key, None)
        self._unconfirmed.pop(key, None)
        self._leave(obj)
        self._tell(obj)

    def _leave(self, obj: T) -> None:
        """It is no longer found by its job."""
        siblings = self._by_job.get(obj.job_uid)
        if siblings is not None:
            siblings.pop(key_of(obj), None)
            if not siblings:
                del self._by_job[obj.job_uid]

    def _expire(self) -> None:
        for key, version in list(self._unconfirmed.items()):
            if version <= self._reached:
                self._drop(self._objects[key])
