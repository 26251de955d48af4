"""The strategy of custom objects, ours and users': everything follows from the CRD's schema.

Prunes, defaults and checks with `jobyard.schema`; the metadata is checked as everywhere. The
schema is compiled when the first object comes, its rules when they are first run.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec

from jobyard.schema.finding import Path
from jobyard.schema.node import Node, compiled_once
from jobyard.schema.objectmeta import expected_name
from jobyard.schema.rule_checks import all_rule_faults
from jobyard.schema.settling import settled
from jobyard.schema.validation import shape_faults
from jobyard.server.crds.wording import UNCHECKED, blocks_rules, causes_of, joined
from jobyard.server.kinds import metadata
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_subdomain
from jobyard.server.kinds.types.decoding import Decoder
from jobyard.server.kinds.types.kubernetes_schemas import OBJECT_META
from jobyard.server.resource import Admitted, JSONSchema, Object, Part

_HEADER = ("apiVersion", "kind", "metadata")
_STANDARD_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
# What of the metadata a schema may speak of.
_VISIBLE = ("name", "generateName")


class CustomStrategy:
    """Admits objects of one version of a custom kind.

    With `keeps_nulls` a null stays where there is no default, so that the check finds it: a real
    server drops such nulls as it reads an object, and what is applied is never read as one.
    """

    def __init__(
        self,
        schema: JSONSchema,
        kind: str,
        version: str,
        *,
        has_status: bool,
        keeps_nulls: bool = False,
    ) -> None:
        self._schema = schema
        self._has_status = has_status
        self._keeps_nulls = keeps_nulls
        self._metadata = Decoder(OBJECT_META, kind, version, {})

    @cached_property
    def _node(self) -> Node:
        return compiled_once(self._schema)

    def created(self, obj: Object) -> Admitted:
        unknown: list[str] = []
        meta = self._decoded_metadata(obj, unknown)
        dropped: list[Path] = []
        body = self._settled(obj, dropped, *(("status",) if self._has_status else ()))
        unknown += map(joined, dropped)
        value = self._whole(obj, meta, body)
        faults = Faults()
        metadata.created_faults(meta, dns_subdomain, faults, "metadata")
        self._check(value, None, faults)
        advice = () if faults.causes else finalizer_advice(meta, {})
        return Admitted(value, faults.causes, tuple(unknown), advice)

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        unknown: list[str] = []
        dropped: list[Path] = []
        before = self._whole(old, old.get("metadata", {}), self._settled(old, dropped))
        is_new = obj.get("metadata") is not old.get("metadata")
        meta = self._decoded_metadata(obj, unknown) if is_new else before["metadata"]
        body = self._settled_after(obj, old, before, dropped)
        unknown += map(joined, dropped)
        if part is Part.STATUS:
            status = {"status": body["status"]} if "status" in body else {}
            kept = {name: before[name] for name in before if name not in (*_HEADER, "status")}
            # Nothing of the metadata comes in by that door; who wrote what is the store's matter.
            meta = {**before["metadata"], **_bookkeeping(meta)}
            body = {**kept, **status}
        else:
            meta = metadata.carried(meta, before["metadata"])
            if self._has_status:
                body.pop("status", None)
                body |= {"status": before["status"]} if "status" in before else {}
        value = self._whole(obj, meta, body)
        faults = Faults()
        metadata.updated_faults(meta, before["metadata"], faults, "metadata")
        self._check(value, before, faults)
        causes = faults.causes
        if part is Part.STATUS:
            # Checked by itself on a real server: messages name its fields from there.
            causes = tuple(
                msgspec.structs.replace(c, message=c.message.replace(": status.", ": ", 1))
                for c in causes
            )
        advice = () if causes else finalizer_advice(meta, before["metadata"])
        return Admitted(value, causes, tuple(unknown), advice)

    def _decoded_metadata(self, obj: Object, unknown: list[str]) -> dict[str, Any]:
        dropped: list[str] = []
        meta = self._metadata.decoded(obj.get("metadata") or {}, dropped)
        unknown += [f"metadata.{path}" for path in dropped]
        return meta

    def _settled(self, obj: Object, dropped: list[Path], *left_out: str) -> dict[str, Any]:
        body = {name: item for name, item in obj.items() if name not in (*_HEADER, *left_out)}
        out: dict[str, Any] = settled(body, self._bare_root, (), dropped)
        return out

    def _settled_after(
        self, obj: Object, old: Object, before: Object, dropped: list[Path]
    ) -> dict[str, Any]:
        """The same for what comes after `old`: what is its very value is as it is in `before`.

        `dropped` is what was dropped of the old object, and then what was of the new one.
        """
        shared = {name for name in obj if name in old and obj[name] is old[name]}
        dropped[:] = [path for path in dropped if path[0] in shared]
        fresh = self._settled(obj, dropped, *shared)
        names = dict.fromkeys((*obj, *fresh))
        sources = ((name, before if name in shared else fresh) for name in names)
        return {name: of[name] for name, of in sources if name in of and name not in _HEADER}

    @cached_property
    def _bare_root(self) -> Node:
        """The root without what every object has: defaults there mean nothing."""
        root = self._node
        properties = {name: sub for name, sub in root.properties.items() if name not in _HEADER}
        defaulted = tuple(name for name in root.defaulted if name in properties)
        bare = msgspec.structs.replace(root, properties=properties, defaulted=defaulted)
        return keeping_nulls(bare) if self._keeps_nulls else bare

    @staticmethod
    def _whole(obj: Object, meta: dict[str, Any], body: dict[str, Any]) -> Object:
        header: Object = {name: obj[name] for name in ("apiVersion", "kind") if name in obj}
        return {**header, "metadata": meta, **body}

    def _check(self, value: Object, before: Object | None, faults: Faults) -> None:
        """Shapes first; rules only on what is of the right shape."""
        new = _visible(value)
        old = _visible(before) if before is not None else None
        found = shape_faults(new, self._node, (), msgspec.UNSET if old is None else old)
        faults.extend(causes_of(found))
        if not self._node.has_rules:
            return
        if blocks_rules(faults.causes):
            faults.extend((UNCHECKED,))
        else:
            faults.extend(causes_of(all_rule_faults(new, self._node, (), old)))


def keeping_nulls(node: Node) -> Node:
    """The same schema, but a null is taken for a value where nothing else would stand."""
    done: dict[int, Node] = {}

    def value_of(sub: Node) -> Node:
        kept = below(sub)
        if sub.default is not msgspec.UNSET:
            return kept
        return msgspec.structs.replace(kept, nullable=True)

    def below(sub: Node) -> Node:
        # Schemas share their parts: pod templates are in all of ours.
        if id(sub) not in done:
            done[id(sub)] = msgspec.structs.replace(
                sub,
                properties={name: value_of(each) for name, each in sub.properties.items()},
                additional=value_of(sub.additional) if sub.additional is not None else None,
                items=below(sub.items) if sub.items is not None else None,
            )
        return done[id(sub)]

    return below(node)


def finalizer_advice(meta: dict[str, Any], before: dict[str, Any]) -> tuple[str, ...]:
    """A word about new finalizers that somebody else might use as well."""
    known = before.get("finalizers") or ()
    return tuple(
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name to avoid'
        " accidental conflicts with other finalizer writers"
        for name in meta.get("finalizers") or ()
        if name not in known and name not in _STANDARD_FINALIZERS and "/" not in name
    )


def _bookkeeping(meta: dict[str, Any]) -> dict[str, Any]:
    return {name: meta[name] for name in ("managedFields", "resourceVersion") if name in meta}


def _visible(obj: Object) -> Object:
    """What a schema can see of an object: of the metadata only its name."""
    meta = {name: obj["metadata"][name] for name in _VISIBLE if name in obj["metadata"]}
    name = expected_name(meta)
    return {**obj, "metadata": meta | ({"name": name} if name else {})}
