"""Events of both groups, which are one kind in two spellings.

`as_core` and `as_events` turn one spelling into the other; both keep everything.
"""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import label_key, path_segment
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

_LENGTH_MAX = 128
_NOTE_LENGTH_MAX = 1024
_GLOBAL_NAMESPACES = ("default", "kube-system")
# Core's names on the left, those of events.k8s.io on the right.
NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_FIXED = (*NAMES, "reason", "type", "action", "related", "reportingInstance", "eventTime")


def as_core(event: Object) -> Object:
    """The event as the core group spells it, whichever way it was spelled."""
    return _respelled(event, {new: core for core, new in NAMES.items()}, "v1")


def as_events(event: Object) -> Object:
    """The event as events.k8s.io spells it."""
    return _respelled(event, NAMES, "events.k8s.io/v1")


def _respelled(event: Object, names: dict[str, str], api_version: str) -> Object:
    out = {names.get(field, field): value for field, value in event.items()}
    return {**out, "apiVersion": api_version} if "apiVersion" in event else out


def core_event_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Event",
            kind="Event",
            name_rule=path_segment,
            check=lambda event, faults: _legacy_faults(event, faults, "reportingComponent"),
        )
    )


def event_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition="io.k8s.api.events.v1.Event",
            kind="Event",
            check=_new_faults,
            check_change=_change_faults,
            checks_change_alone=True,
        )
    )


def _new_faults(event: Object, faults: Faults) -> None:
    core = as_core(event)
    _legacy_faults(core, faults, "reportingController")
    _series_faults(core, faults)
    if not core.get("eventTime"):
        faults.required("eventTime")
    kind = core.get("type", "")
    if kind not in ("Normal", "Warning"):
        faults.invalid("type", "", f"has invalid value: {kind}")
    source = core.get("source", {})
    unset = {
        "firstTimestamp": core.get("firstTimestamp"),
        "lastTimestamp": core.get("lastTimestamp"),
        "count": core.get("count"),
        "source": source.get("component") or source.get("host"),
    }
    for field, value in unset.items():
        if value:
            faults.invalid(field, "", "needs to be unset")


def _change_faults(event: Object, old: Object, faults: Faults) -> None:
    new, before = as_core(event), as_core(old)
    _legacy_faults(new, faults, "reportingController")
    if new.get("series") != before.get("series"):
        _series_faults(new, faults)
    for field in _FIXED:
        name = "reportingController" if field == "reportingComponent" else field
        faults.immutable(name, new.get(field), before.get(field))


def _series_faults(event: Object, faults: Faults) -> None:
    series: dict[str, Any] | None = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        faults.invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        faults.required("series.lastObservedTime")


def _legacy_faults(event: Object, faults: Faults, controller_field: str) -> None:
    """What holds for both, on an event in core's spelling."""
    namespace = event["metadata"].get("namespace", "")
    involved = event["involvedObject"].get("namespace", "")
    mismatch = "does not match event.namespace"
    if not event.get("eventTime"):
        expected = ("", "default") if not involved else (involved,)
        if namespace not in expected:
            faults.invalid("involvedObject.namespace", involved, mismatch)
        return
    if not involved and namespace not in _GLOBAL_NAMESPACES:
        faults.invalid("involvedObject.namespace", involved, mismatch)
    controller = event.get("reportingComponent", "")
    if not controller:
        faults.required(controller_field)
    faults.invalid(controller_field, controller, *label_key(controller))
    for field in ("reportingInstance", "action", "reason"):
        _sized(event, field, _LENGTH_MAX, faults)
        if not event.get(field):
            faults.required(field)
    _sized(event, "message", _NOTE_LENGTH_MAX, faults)


def _sized(event: Object, field: str, length_max: int, faults: Faults) -> None:
    if len(event.get(field, "").encode()) > length_max:
        faults.invalid(field, "", f"can have at most {length_max} characters")
