"""The strategy of Kubernetes' own kinds: one frame, filled in by a value for each kind.

The frame knows the order of things (decode with defaults, drop or keep the status, prepare,
check) and the metadata; the `Particulars` of a kind know the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import cached_property
from typing import Any

import msgspec

from jobyard.server.kinds import metadata
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import NameRule, dns_subdomain
from jobyard.server.kinds.types.decoding import Decoder, Default
from jobyard.server.kinds.types.enumerations import enumeration_faults
from jobyard.server.resource import Admitted, Object, Part

Check = Callable[[Object, Faults], None]
ChangeCheck = Callable[[Object, Object, Faults], None]
Preparation = Callable[[Object], None]
ChangePreparation = Callable[[Object, Object], None]
Advice = Callable[[Object], tuple[str, ...]]


def _accepts(_obj: Object, _faults: Faults) -> None:
    """No rules beyond the types."""


def _leaves(_obj: Object) -> None:
    """Nothing to prepare."""


def _accepts_change(_obj: Object, _old: Object, _faults: Faults) -> None:
    """Any valid object may take the place of another."""


def _leaves_change(_obj: Object, _old: Object) -> None:
    """Nothing to carry over."""


def _no_advice(_obj: Object) -> tuple[str, ...]:
    return ()


class Particulars(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind adds to the frame; the functions may change the fresh object given first."""

    definition: str
    kind: str
    version: str = "v1"
    name_rule: NameRule = dns_subdomain
    # By definition; applied to each value of that type, inner ones first.
    defaults: Mapping[str, Default] = {}
    # Whether the status has a door of its own.
    has_status: bool = False
    # On creation, after the defaults; sets what only the server knows.
    prepare: Preparation = _leaves
    # On every update through the front door, before checking.
    prepare_change: ChangePreparation = _leaves_change
    # Checks a new object, and an updated one unless `checks_change_alone`.
    check: Check = _accepts
    check_change: ChangeCheck = _accepts_change
    check_status: ChangeCheck = _accepts_change
    checks_change_alone: bool = False
    # Whether fields with a closed set of words are checked by the published schema.
    checks_words: bool = True
    advice: Advice = _no_advice


class KubernetesStrategy:
    """Admits objects of one of Kubernetes' own kinds."""

    def __init__(self, particulars: Particulars) -> None:
        self._of = particulars

    @cached_property
    def _decoder(self) -> Decoder:
        of = self._of
        return Decoder(of.definition, of.kind, of.version, of.defaults)

    def created(self, obj: Object) -> Admitted:
        of = self._of
        unknown: list[str] = []
        source = {key: item for key, item in obj.items() if key != "status" or not of.has_status}
        value = self._decoded(source, unknown)
        of.prepare(value)
        faults = Faults()
        metadata.created_faults(value["metadata"], of.name_rule, faults, "metadata")
        metadata.finalizer_standing_faults(value["metadata"], faults, "metadata")
        of.check(value, faults)
        if of.checks_words:
            enumeration_faults(value, of.definition, faults)
        return Admitted(value, faults.causes, tuple(unknown), of.advice(value))

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        of = self._of
        unknown: list[str] = []
        value = self._decoded(obj, unknown, _untouched(obj, old, part))
        value["metadata"] = metadata.carried(value["metadata"], old.get("metadata", {}))
        faults = Faults()
        if part is Part.STATUS:
            value = self._only_status(value, old)
            metadata.updated_faults(value["metadata"], old["metadata"], faults, "metadata")
            of.check_status(value, old, faults)
            return Admitted(value, faults.causes, tuple(unknown))
        if of.has_status:
            self._restore_status(value, old)
        of.prepare_change(value, old)
        metadata.updated_faults(value["metadata"], old["metadata"], faults, "metadata")
        metadata.finalizer_standing_faults(value["metadata"], faults, "metadata")
        of.check_change(value, old, faults)
        if not of.checks_change_alone:
            of.check(value, faults)
            if of.checks_words:
                enumeration_faults(value, of.definition, faults)
        return Admitted(value, faults.causes, tuple(unknown), of.advice(value))

    def _decoded(
        self, obj: Object, unknown: list[str], as_is: Set[str] = frozenset()
    ) -> dict[str, Any]:
        value = self._decoder.decoded(obj, unknown, as_is)
        value.setdefault("metadata", {})
        return value

    @staticmethod
    def _restore_status(value: Object, old: Object) -> None:
        value.pop("status", None)
        if "status" in old:
            value["status"] = old["status"]

    @staticmethod
    def _only_status(value: Object, old: Object) -> Object:
        """The old object with the new status and metadata; owners don't come in by that door."""
        kept = {key: item for key, item in old.items() if key not in ("metadata", "status")}
        meta = dict(value["metadata"])
        meta.pop("ownerReferences", None)
        if old["metadata"].get("ownerReferences"):
            meta["ownerReferences"] = old["metadata"]["ownerReferences"]
        out = {**kept, "metadata": meta}
        if "status" in value:
            out["status"] = value["status"]
        return out


def _untouched(obj: Object, old: Object, part: Part) -> Set[str]:
    """What is the very value of the old object, and is not going to be filled in further."""
    names = obj.keys() - {"status"} if part is Part.STATUS else {"metadata"}
    return {name for name in names if name in old and obj.get(name) is old[name]}
