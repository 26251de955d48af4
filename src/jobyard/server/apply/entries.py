"""The entries of `metadata.managedFields`: who owns which fields, since when, through which door.

Reads them as a client or the store has them and writes them in the order of a real server.
An entry is identified by who, how, in which version and through which door; appliers are the
same in every version. Decides nothing about ownership.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from jobyard.server.apply.elements import ElementError, in_order
from jobyard.server.apply.field_sets import FieldSet, Order, read, sorted_set, union

APPLY: Final = "Apply"
UPDATE: Final = "Update"
FIELDS_TYPE: Final = "FieldsV1"
# Whoever wrote before the tenth last; a server keeps no more than that.
UPDATERS_MAX: Final = 10
ANCIENT: Final = "ancient-changes"

Entry = dict[str, Any]


class EntriesError(Exception):
    """Managed fields that nobody can have meant; the text is a real server's."""


class Owner(msgspec.Struct, frozen=True):
    """Whose entry it is. The version is empty for appliers."""

    manager: str
    operation: str
    api_version: str = ""
    door: str = ""

    @property
    def order(self) -> str:
        """What messages about several owners sort by: the owner as a real server encodes it."""
        parts = {"manager": self.manager, "operation": self.operation}
        if self.api_version:
            parts["apiVersion"] = self.api_version
        if self.door:
            parts["subresource"] = self.door
        return msgspec.json.encode(parts).decode()

    @property
    def shown(self) -> str:
        """The owner as messages name it."""
        name = f'"{self.manager}"'
        if self.door:
            name = f'{name} with subresource "{self.door}"'
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


class Owned(msgspec.Struct, frozen=True):
    """What an owner has. `raw` is the entry it was read from, while nothing about it changed."""

    fields: FieldSet
    api_version: str
    time: str = ""
    raw: Entry | None = None

    def having(self, fields: FieldSet) -> Owned:
        """The same owner's with other fields."""
        if fields is self.fields:
            return self
        return Owned(fields, self.api_version, self.time)


Owners = dict[Owner, Owned]


def owner(manager: str, operation: str, api_version: str, door: str) -> Owner:
    version = "" if operation == APPLY else api_version
    return Owner(manager or "unknown", operation, version, door)


def decoded(entries: Any, is_canonical: bool) -> Owners:
    """Owners by their entries. Raises EntriesError.

    Entries that a client sent are brought into canonical form; stored ones are in it.
    """
    out: Owners = {}
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        operation = entry.get("operation")
        if operation not in (APPLY, UPDATE):
            raise EntriesError("operation must be `Apply` or `Update`")
        version = entry.get("apiVersion") or ""
        if not version:
            raise EntriesError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType") or ""
        if not fields_type:
            raise EntriesError(f"missing fieldsType in managed fields entry {index}")
        if fields_type != FIELDS_TYPE:
            raise EntriesError(
                f'invalid fieldsType "{fields_type}" in managed fields entry {index}'
            )
        who = Owner(
            entry.get("manager") or "",
            operation,
            "" if operation == APPLY else version,
            entry.get("subresource") or "",
        )
        raw = entry if is_canonical else None
        out[who] = Owned(_fields(entry, is_canonical), version, entry.get("time") or "", raw)
    return out


def _fields(entry: Entry, is_canonical: bool) -> FieldSet:
    fields = entry.get("fieldsV1") or {}
    if is_canonical:
        stored: FieldSet = fields
        return stored
    try:
        return read(fields)
    except ElementError as problem:
        raise EntriesError(f"error decoding set: {problem}") from None


def encoded(owners: Owners, is_custom: bool) -> list[Entry]:
    """The entries, in the order and with the keys in the order of a real server.

    It keeps custom objects as plain maps, whose keys are sorted by text.
    """
    rows = sorted(
        owners.items(),
        key=lambda row: (
            row[0].operation,
            row[1].time,
            row[0].manager,
            row[1].api_version,
            row[0].door,
        ),
    )
    order: Order = sorted if is_custom else in_order
    return [owned.raw or _entry(who, owned, is_custom, order) for who, owned in rows]


def _entry(who: Owner, owned: Owned, is_custom: bool, order: Order) -> Entry:
    entry: Entry = {
        "manager": who.manager,
        "operation": who.operation,
        "apiVersion": owned.api_version,
        "time": owned.time,
        "fieldsType": FIELDS_TYPE,
        "fieldsV1": sorted_set(owned.fields, order),
        "subresource": who.door,
    }
    names: Sequence[str] = sorted(entry) if is_custom else tuple(entry)
    return {name: entry[name] for name in names if entry[name] != "" or name == "manager"}


def capped(owners: Owners) -> Owners:
    """The oldest updaters as one per version, when there are too many."""
    updaters = [who for who in owners if who.operation == UPDATE]
    if len(updaters) <= UPDATERS_MAX:
        return owners
    updaters.sort(key=lambda who: (owners[who].time, who.order))
    out = dict(owners)
    first: dict[str, Owner] = {}
    count = len(updaters)
    for who in updaters:
        if count <= UPDATERS_MAX:
            break
        owned = out[who]
        version = owned.api_version
        if version not in first:
            first[version] = who
            continue
        bucket = Owner(ANCIENT, UPDATE, version)
        if bucket not in out:
            out[bucket] = out.pop(first[version])
        together = union(owned.fields, out[bucket].fields)
        del out[who]
        # The later of the times, which is that of the one merged last.
        out[bucket] = Owned(together, version, owned.time)
        count -= 1
    return out
