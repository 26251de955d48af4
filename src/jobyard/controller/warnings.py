"""The events about a pod that doesn't start: how they are asked for, and which one tells.

Anybody who may create events can write some about a pod of theirs, so an answer is bounded, and
what is said is cut.
"""

from __future__ import annotations

from typing import Final

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import EVENTS, Request, listing
from jobyard.plan.facts.decision import PodWarning

ANSWER_BYTES_MAX: Final = 1024 * 1024
EVENTS_MAX: Final = 100
REASON_LENGTH_MAX: Final = 64
MESSAGE_LENGTH_MAX: Final = 300


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: str | None = None


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta = _Meta()
    reason: str | None = ""
    message: str | None = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def moment(self) -> str:
        """As text: those of one kubelet are written alike, so that they can be compared."""
        return self.last_timestamp or self.event_time or self.metadata.creation_timestamp or ""


class _Events(msgspec.Struct, frozen=True):
    items: tuple[_Event, ...] = ()


def warnings_about(namespace: str, uid: str) -> Request:
    request = listing(
        EVENTS, namespace, field_selector=f"involvedObject.uid={uid},type=Warning", limit=EVENTS_MAX
    )
    return msgspec.structs.replace(request, answer_bytes_max=ANSWER_BYTES_MAX)


def last_warning(body: bytes) -> PodWarning | None:
    """What the latest of the events says; None if there is none, or it can't be read."""
    try:
        items = decoded_json(body, type=_Events).items
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not items:
        return None
    last = max(items, key=lambda event: event.moment)
    reason = (last.reason or "Warning")[:REASON_LENGTH_MAX]
    return PodWarning(reason, " ".join((last.message or "").split())[:MESSAGE_LENGTH_MAX])
