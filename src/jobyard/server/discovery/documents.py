"""What the server tells about itself: groups, versions, resources, its own version, its OpenAPI.

The core asks `described` first; paths that aren't about the server itself are None. Discovery
comes in two forms, as small lists per group and version and, for clients that ask so in their
Accept header, as one aggregated document. Everything follows from the rows of the catalogue.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from jobyard.server.call import JSON_TYPE, Call, Reply
from jobyard.server.groups import ServedGroup, ServedVersion, groups_of
from jobyard.server.messages.acceptance import not_acceptable, require_json, tagged, wishes
from jobyard.server.problem import method_not_allowed
from jobyard.server.resource import Catalogue, ServedResource, Subresource

MAJOR: Final = "1"
MINOR: Final = "36"
GIT_VERSION: Final = f"v{MAJOR}.{MINOR}.0+jobyard"

_AGGREGATED: Final = "APIGroupDiscoveryList"
# Newest first; v2beta1 is for clients from before 1.30.
_AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")
_OPENAPI_PREFIX: Final = "/openapi/"
_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
# The order in which a real server tells what can be done with a custom resource.
_CUSTOM_VERBS: Final = (
    *("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
)
_STORED: Final = frozenset({"create", "get"})


def described(call: Call, catalogue: Catalogue) -> Reply | None:
    """The answer to a question about the server itself; None for any other path."""
    path = call.path.rstrip("/")
    if path.startswith(_OPENAPI_PREFIX):
        # Imported here: a lot of code for a question that most never ask.
        from jobyard.server.discovery.openapi import openapi_reply

        reply = openapi_reply(call, catalogue)
    elif path == "/version":
        reply = _plain(_version())
    elif path == "":
        reply = _plain({"paths": _paths(catalogue)})
    elif path == "/api" or path.startswith(("/api/", "/apis")):
        reply = _discovered(call, path, catalogue)
    else:
        return None
    if reply is not None and call.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return reply


def _discovered(call: Call, path: str, catalogue: Catalogue) -> Reply | None:
    match path.split("/")[1:]:
        case ["api"]:
            return _negotiated(call, groups_of(catalogue, core=True), _core_versions())
        case ["apis"]:
            groups = groups_of(catalogue)
            return _negotiated(call, groups, _group_list(groups))
        case ["api", version]:
            return _resources(call, groups_of(catalogue, core=True), "", version)
        case ["apis", name]:
            group = next((g for g in groups_of(catalogue) if g.name == name), None)
            if group is None:
                return None
            require_json(call.accept)
            return _plain({"kind": "APIGroup", "apiVersion": "v1", **_group(group)})
        case ["apis", name, version]:
            return _resources(call, groups_of(catalogue), name, version)
    return None


def _negotiated(call: Call, groups: Sequence[ServedGroup], small: dict[str, Any]) -> Reply:
    """The aggregated document or the small one, whichever the client names first."""
    for wish in wishes(call.accept):
        if not wish.is_json:
            continue
        asked = wish.parameters
        if "as" not in asked:
            return _plain(small)
        version = asked.get("v", "")
        is_ours = (asked["as"], asked.get("g")) == (_AGGREGATED, "apidiscovery.k8s.io")
        if is_ours and version in _AGGREGATED_VERSIONS:
            type_ = f"{JSON_TYPE};g=apidiscovery.k8s.io;v={version};as={_AGGREGATED}"
            body = msgspec.json.encode(_aggregated(groups, version))
            return tagged(call, body, content_type=type_)
    raise not_acceptable(is_routed=call.path.rstrip("/") == "/api")


def _plain(document: dict[str, Any]) -> Reply:
    return Reply(status=200, body=msgspec.json.encode(document))


def _core_versions() -> dict[str, Any]:
    # Where else the server can be reached: nowhere, it is on loopback.
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_list(groups: Sequence[ServedGroup]) -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g) for g in groups]}


def _group(group: ServedGroup) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group.name}/{version.name}", "version": version.name}
        for version in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _resources(call: Call, groups: Sequence[ServedGroup], name: str, version: str) -> Reply | None:
    """The list of what one version of a group has; subresources are entries of their own."""
    found = next(
        (v for g in groups for v in g.versions if (g.name, v.name) == (name, version)), None
    )
    if found is None:
        return None
    require_json(call.accept, is_routed=not any(row.is_custom for row in found.rows))
    return _plain(
        {
            "kind": "APIResourceList",
            # Older than API groups, the core list lacks it on a real server too.
            **({"apiVersion": "v1"} if name else {}),
            "groupVersion": f"{name}/{version}" if name else version,
            "resources": [entry for row in found.rows for entry in _entries(row)],
        }
    )


def _entries(row: ServedResource) -> Iterator[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": _verbs(row),
        **_names(row),
    }
    if _STORED.issubset(row.verbs):
        entry["storageVersionHash"] = _storage_hash(row)
    yield entry
    for sub in _subresources(row):
        # Told only where they aren't the resource's own.
        foreign = {"group": sub.group, "version": sub.version} if sub.version else {}
        yield {
            "name": f"{row.plural}/{sub.name}",
            "singularName": "",
            "namespaced": row.namespaced,
            **foreign,
            "kind": sub.kind or row.kind,
            "verbs": list(sub.verbs),
        }


def _names(row: ServedResource) -> dict[str, Any]:
    short = {"shortNames": list(row.short_names)} if row.short_names else {}
    return {**short, "categories": list(row.categories)} if row.categories else short


def _verbs(row: ServedResource) -> list[str]:
    if row.is_custom:
        return [verb for verb in _CUSTOM_VERBS if verb in row.verbs]
    return list(row.verbs)


def _subresources(row: ServedResource) -> Sequence[Subresource]:
    return row.subresources if row.is_custom else sorted(row.subresources, key=lambda s: s.name)


def _storage_hash(row: ServedResource) -> str:
    """Changes when objects are stored as something else; clients only compare it."""
    text = f"{row.group}/{row.version}/{row.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def _aggregated(groups: Sequence[ServedGroup], version: str) -> dict[str, Any]:
    return {
        "kind": _AGGREGATED,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group.name} if group.name else {},
                "versions": [_aggregated_version(served) for served in group.versions],
            }
            for group in groups
        ],
    }


def _aggregated_version(served: ServedVersion) -> dict[str, Any]:
    resources = [_aggregated_resource(row) for row in served.rows]
    return {"version": served.name, "resources": resources, "freshness": "Current"}


def _aggregated_resource(row: ServedResource) -> dict[str, Any]:
    # A real server leaves the group out of its own kinds' entries; it goes without saying.
    own = (row.group, row.version) if row.is_custom else ("", "")
    entry = {
        "resource": row.plural,
        "responseKind": {"group": own[0], "version": own[1], "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": _verbs(row),
        **_names(row),
    }
    subresources = []
    for sub in _subresources(row):
        group, version = (sub.group, sub.version) if sub.version else own
        kind = {"group": group, "version": version, "kind": sub.kind or row.kind}
        told = {"subresource": sub.name, "responseKind": kind, "verbs": list(sub.verbs)}
        subresources.append(told)
    return {**entry, "subresources": subresources} if subresources else entry


def _version() -> dict[str, Any]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }


def _paths(catalogue: Catalogue) -> list[str]:
    """The index of everything that isn't an object."""
    paths = {"/api", "/apis", "/apis/", "/metrics", "/version", *_HEALTH_PATHS}
    paths |= {f"{_OPENAPI_PREFIX}v2", f"{_OPENAPI_PREFIX}v3", f"{_OPENAPI_PREFIX}v3/"}
    paths |= {f"/api/{v.name}" for g in groups_of(catalogue, core=True) for v in g.versions}
    for group in groups_of(catalogue):
        paths.add(f"/apis/{group.name}")
        paths |= {f"/apis/{group.name}/{version.name}" for version in group.versions}
    return sorted(paths)
