"""Which events are a job's, and in which order they happened."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from jobyard.client.request import PODS
from jobyard.jobs.explaining.reading import count, part, text
from jobyard.jobs.explaining.seen import Event as Told
from jobyard.numerals import UINT64_MAX, whole_number

_NUMBERS: Final = re.compile(r"(-[0-9]+)+$")
Event = dict[str, Any]


class Whose:
    """Tells a job's events from those of others: by uid, also of pods that are gone.

    Of these only the last of each replica stands in the status. One before it has the name of a
    replica, but for its number, and nothing happened to it before the job was there: that was a
    pod of an earlier job of the same name.
    """

    def __init__(self, uids: Iterable[str], pod_names: Iterable[str], since: str) -> None:
        self._uids = {uid for uid in uids if uid}
        self._stems = {stem_of(name) for name in pod_names if name}
        self._since = datetime.fromisoformat(since)

    def includes(self, event: Event) -> bool:
        about = event.get("involvedObject") or {}
        if about.get("uid") in self._uids:
            return True
        is_pod = about.get("kind") == PODS.kind
        if not is_pod or stem_of(str(about.get("name"))) not in self._stems:
            return False
        return datetime.fromisoformat(str(event.get("firstTimestamp") or moment_of(event))) >= (
            self._since
        )


def stem_of(pod: str) -> str:
    """What the names of a role's pods have in common: `train-worker` of `train-worker-0`."""
    return _NUMBERS.sub("", pod)


def moment_of(event: Event) -> str:
    """When it happened last."""
    metadata = event.get("metadata") or {}
    return str(
        event.get("lastTimestamp") or event.get("eventTime") or metadata.get("creationTimestamp")
    )


def in_order(events: Iterable[Event]) -> list[Event]:
    """Oldest first. Moments are whole seconds mostly: within one, by when they were written."""
    return sorted(events, key=_order)


def _order(event: Event) -> tuple[str, int, str]:
    moment = moment_of(event)
    version = str((event.get("metadata") or {}).get("resourceVersion"))
    return moment[: len("2024-01-01T00:00:00")], whole_number(version, UINT64_MAX) or 0, moment


def told(event: Event) -> Told:
    """The part of an event that an answer has."""
    about = part(event, "involvedObject")
    return Told(
        time=moment_of(event),
        type=text(event, "type"),
        reason=text(event, "reason"),
        object=f"{text(about, 'kind').lower()}/{text(about, 'name')}",
        message=text(event, "message"),
        count=count(event, "count") or 1,
        uid=text(about, "uid"),
    )
