"""What an API server checks in the metadata of every object."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import re2

from jobyard.schema.core import OBJECT_META, core_schema
from jobyard.schema.finding import Finding, Path, error
from jobyard.schema.node import Node, compiled
from jobyard.schema.wording import shown

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re2.compile(rf"^{_LABEL}(\.{_LABEL})*$")
_DNS_LABEL = re2.compile(rf"^{_LABEL}$")
_QUALIFIED = re2.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_LABEL_VALUE = re2.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")

_NAME_LENGTH_MAX = 253
_LABEL_LENGTH_MAX = 63
_ANNOTATIONS_SIZE_MAX = 256 * 1024
_GENERATED_BASE_LENGTH_MAX = 58
_GENERATED_SUFFIX = "xxxxx"
_PATH: Path = ("metadata",)


@cache
def object_meta() -> Node:
    return compiled(core_schema(OBJECT_META))


def expected_name(metadata: Any) -> str | None:
    """The name the object will have; one made from generateName stands for all of them."""
    if not isinstance(metadata, dict):
        return None
    name, base = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return name
    if isinstance(base, str) and base:
        return base[:_GENERATED_BASE_LENGTH_MAX] + _GENERATED_SUFFIX
    return None


def metadata_faults(metadata: dict[str, Any]) -> Iterator[Finding]:
    """Faults beyond the types of the fields, which the schema of ObjectMeta covers."""
    yield from _name_faults(metadata)
    for name, value in (metadata.get("labels") or {}).items():
        yield from _key_faults(name, (*_PATH, "labels"))
        if len(value) > _LABEL_LENGTH_MAX or not _LABEL_VALUE.search(value):
            yield error(
                (*_PATH, "labels", name),
                f"is {shown(value)}; must have at most {_LABEL_LENGTH_MAX} letters, digits, '-',"
                " '_' and '.', and begin and end with a letter or digit",
            )
    annotations = metadata.get("annotations") or {}
    for name in annotations:
        yield from _key_faults(name.lower(), (*_PATH, "annotations"), shown_as=name)
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > _ANNOTATIONS_SIZE_MAX:
        yield error((*_PATH, "annotations"), f"has {size} bytes; must have at most 256 KiB")
    for n, finalizer in enumerate(metadata.get("finalizers") or ()):
        yield from _key_faults(finalizer, (*_PATH, "finalizers", n))
    yield from _owner_faults(metadata.get("ownerReferences") or [])
    if metadata.get("resourceVersion"):
        yield error((*_PATH, "resourceVersion"), "must not be set on an object to be created")


def _name_faults(metadata: dict[str, Any]) -> Iterator[Finding]:
    name = expected_name(metadata)
    field = "name" if metadata.get("name") else "generateName"
    if name is None:
        yield error((*_PATH, "name"), "is missing, and required: the name of the object")
    elif len(name) > _NAME_LENGTH_MAX or not _SUBDOMAIN.search(name):
        yield error(
            (*_PATH, field),
            f"is {shown(metadata[field])}; must hold only lower-case letters, digits, '-' and '.',"
            " and begin and end with a letter or digit",
        )
    elif metadata.get("name") and metadata.get("generateName"):
        base = metadata["generateName"].removesuffix("-") + "x"
        if not _SUBDOMAIN.search(base):
            yield error(
                (*_PATH, "generateName"),
                f"is {shown(metadata['generateName'])}; must be"
                " a prefix of a name: lower-case letters, digits, '-' and '.'",
            )
    namespace = metadata.get("namespace")
    if namespace and (len(namespace) > _LABEL_LENGTH_MAX or not _DNS_LABEL.search(namespace)):
        yield error(
            (*_PATH, "namespace"),
            f"is {shown(namespace)}; must hold only lower-case letters, digits and '-'",
        )


def _key_faults(key: str, path: Path, *, shown_as: str | None = None) -> Iterator[Finding]:
    prefix, slash, name = key.rpartition("/")
    ok = (
        0 < len(name) <= _LABEL_LENGTH_MAX
        and bool(_QUALIFIED.search(name))
        and (not slash or (len(prefix) <= _NAME_LENGTH_MAX and bool(_SUBDOMAIN.search(prefix))))
    )
    if not ok:
        yield error(
            path,
            f"has the key {shown(shown_as or key)}; a key is a name of letters, digits, '-', '_'"
            " and '.', with a domain before a '/' if any",
        )


def _owner_faults(owners: list[Any]) -> Iterator[Finding]:
    path: Path = (*_PATH, "ownerReferences")
    for n, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                yield error((*path, n, field), "must not be empty")
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        yield error(path, "has several owners with controller: true; must have at most one")
