"""Tables as the server prints them, cell by cell as a real API server does."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from rig.kube.api import ApiCaller
from rig.kube.kubectl import Kubectl
from rig.kube.namespaces import fresh_name
from rig.kube.plane import ControlPlane
from rig.manifests import valid_manifests
from rig.tls import client_context
from rig.waiting import until_it_holds

from jobyard.api.kinds import KINDS, Kind
from jobyard.server.printing import table_of
from jobyard.server.printing.durations import human_duration, moment, since
from jobyard.server.printing.json_path import PathError, found
from jobyard.server.problem import ProblemError
from jobyard.server.resource import ServedResource
from server.pod_statuses import PODS, ago, pod
from server.served_rows import NO_STRATEGY, custom_row, our_rows
from server.server_mirror_kinds import define

Json = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def real_table(plane: ControlPlane, path: str, include: str = "Object") -> tuple[Json, list[float]]:
    """What the real server prints, and moments between which it did."""
    url = f"{plane.url}{path}{'&' if '?' in path else '?'}includeObject={include}"
    request = urllib.request.Request(url, headers={"Accept": TABLE})
    tls = client_context(plane.ca, plane.cert, plane.key)

    def answered() -> tuple[Json, list[float]] | None:
        before = time.time()
        try:
            with urllib.request.urlopen(request, context=tls, timeout=60) as response:
                table: Json = json.load(response)
        except urllib.error.HTTPError as refused:
            with refused:
                # So it says while it is still opening a new CRD's storage.
                if refused.code != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
            return None
        return table, list(between(before, time.time()))

    printed = until_it_holds(answered, f"{path} is printed")
    assert printed is not None
    return printed


def between(before: float, after: float) -> Iterator[float]:
    """Moments close enough that no age, in whole seconds, falls between two of them."""
    steps = 2 + int((after - before) / 0.5)
    return (before + (after - before) * step / steps for step in range(steps + 1))


def native(group: str, plural: str, version: str = "v1") -> ServedResource:
    """A row of one of Kubernetes' own kinds; printing looks at the group and the name alone."""
    return ServedResource(
        group=group,
        version=version,
        plural=plural,
        singular="",
        kind="",
        namespaced=True,
        strategy=NO_STRATEGY,
        schema={},
    )


def assert_same_table(row: ServedResource, real: Json, moments: list[float]) -> None:
    """The same columns, cells, conditions and objects; an age may fall to either side."""
    objects = [line["object"] for line in real["rows"]]
    meta = real["metadata"]
    tables = [
        table_of(row, objects, now=now, include_object="Object", list_meta=meta) for now in moments
    ]
    assert [{**c, "description": ""} for c in tables[0]["columnDefinitions"]] == [
        {**c, "description": ""} for c in real["columnDefinitions"]
    ]
    assert all(c["description"] for c in tables[0]["columnDefinitions"])
    for index, line in enumerate(real["rows"]):
        ours = [table["rows"][index] for table in tables]
        for at, cell in enumerate(line["cells"]):
            column = real["columnDefinitions"][at]["name"]
            name = line["object"]["metadata"]["name"]
            options = [row["cells"][at] for row in ours]
            assert cell in options, f"{name}, {column}: real {cell!r}, ours {options[0]!r}"
            assert any(type(cell) is type(option) for option in options), (name, column)
        assert {**line, "cells": []} == {**ours[0], "cells": []}
    # Everything around the rows.
    assert {**real, "rows": 0, "columnDefinitions": 0} == {
        **tables[0],
        "rows": 0,
        "columnDefinitions": 0,
    }


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """All pods of the table on the real server, with their statuses; the path of their list."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def create() -> None:
        async with ApiCaller(control_plane) as api:
            for name, (_, status, *_) in PODS.items():
                made = await api.request("POST", path, body=pod(name))
                assert made.status == 201, (name, made.text)
                told = await api.request(
                    "PATCH",
                    f"{path}/{name}/status",
                    body={"status": status},
                    content_type="application/merge-patch+json",
                )
                assert told.status == 200, (name, told.text)
                if name.startswith("going"):
                    await api.request("DELETE", f"{path}/{name}")

    async def let_go() -> None:
        async with ApiCaller(control_plane) as api:
            for name in PODS:
                if name.startswith("going"):
                    await api.request(
                        "PATCH",
                        f"{path}/{name}",
                        body={"metadata": {"finalizers": None}},
                        content_type="application/merge-patch+json",
                    )

    asyncio.run(create())
    yield path
    asyncio.run(let_go())


def test_pods_are_printed_as_by_a_real_server(control_plane: ControlPlane, pods: str) -> None:
    real, moments = real_table(control_plane, pods)
    shown = {line["cells"][0]: line["cells"] for line in real["rows"]}
    # The cases are what they say they are, or the comparison proves less than it seems to.
    for name, (_, _, word, restarts) in PODS.items():
        assert shown[name][2] == word, name
        assert str(shown[name][3]).startswith(restarts), name
    assert_same_table(native("", "pods"), real, moments)


def test_what_a_row_includes_is_as_on_a_real_server(control_plane: ControlPlane, pods: str) -> None:
    whole, moments = real_table(control_plane, f"{pods}/running")
    stored = whole["rows"][0]["object"]
    for include in ("None", "Metadata", ""):
        real, moments = real_table(control_plane, f"{pods}/running", include)
        ours = table_of(
            native("", "pods"),
            [stored],
            now=moments[0],
            include_object=include,
            list_meta={"resourceVersion": stored["metadata"]["resourceVersion"]},
        )
        assert ours["rows"][0]["object"] == real["rows"][0]["object"]
        assert ours["metadata"] == real["metadata"]
    with pytest.raises(ProblemError, match='unrecognized includeObject value: "Some"'):
        table_of(native("", "pods"), [stored], now=0, include_object="Some", list_meta={})


OTHERS: tuple[Json, ...] = (
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "plain"},
        "spec": {
            "ports": [
                {"port": 80, "name": "web"},
                {"port": 53, "protocol": "UDP", "name": "dns"},
            ]
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "headless"},
        "spec": {"clusterIP": "None", "selector": {"b": "2", "a": "1"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "outside"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "balanced"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]},
        "status": {
            "loadBalancer": {"ingress": [{"hostname": "b.example.org"}, {"ip": "192.0.2.9"}]}
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "waiting"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "elsewhere"},
        "spec": {"type": "ExternalName", "externalName": "example.org"},
    },
    {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "nobody"}},
    {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "some"},
        "subsets": [
            {
                "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}],
            },
            {"addresses": [{"ip": "10.0.0.3"}]},
        ],
    },
    {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "unready"},
        "subsets": [{"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}],
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"a": "1"},
        "binaryData": {"b": "AA=="},
    },
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "empty"}},
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": {"a": "1", "b": "2"},
    },
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "bound",
            "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
        },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "v",
            "volumeMode": "Block",
        },
        "status": {
            "phase": "Bound",
            "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
        },
    },
    {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "held"},
        "spec": {"holderIdentity": "me"},
    },
    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "free"}},
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "old"},
        "involvedObject": {
            "kind": "Pod",
            "name": "p",
            "fieldPath": "spec.containers{c}",
        },
        "type": "Normal",
        "reason": "Started",
        "message": " Started it \n",
        "source": {"component": "kubelet", "host": "here"},
        "firstTimestamp": ago(4000),
        "lastTimestamp": ago(150),
        "count": 4,
    },
    {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "bare"},
        "involvedObject": {"kind": "Pod"},
        "reason": "Why",
    },
    {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "new"},
        "regarding": {"kind": "GenericJob", "name": "g"},
        "type": "Warning",
        "reason": "Odd",
        "action": "Looking",
        "note": "It is odd",
        "reportingController": "jobyard.dev/c",
        "reportingInstance": "c-0",
        "eventTime": ago(700).replace("Z", ".000000Z"),
        "series": {"count": 9, "lastObservedTime": ago(20).replace("Z", ".000000Z")},
    },
)
SLICES: tuple[Json, ...] = tuple(
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [f"10.0.0.{n}"]} for n in range(1, count + 1)],
        "ports": ports,
    }
    for name, count, ports in (
        ("nothing", 0, []),
        ("three", 3, [{"name": "a", "port": 80}]),
        ("more", 5, [{"name": f"p{n}", "port": n} for n in range(1, 5)]),
        ("any", 1, [{"name": "b"}, {"name": ""}]),
    )
)
PLURALS = {
    "EndpointSlice": "endpointslices",
    "Service": "services",
    "Endpoints": "endpoints",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Lease": "leases",
    "Event": "events",
}


async def put_up(plane: ControlPlane, namespace: str, objects: tuple[Json, ...]) -> None:
    async with ApiCaller(plane) as api:
        for obj in objects:
            version = obj["apiVersion"]
            root = f"/apis/{version}" if "/" in version else f"/api/{version}"
            path = f"{root}/namespaces/{namespace}/{PLURALS[obj['kind']]}"
            about = obj.get("involvedObject") or obj.get("regarding")
            if about is not None:
                about["namespace"] = namespace
            made = await api.request("POST", path, body=obj)
            assert made.status == 201, (obj["metadata"]["name"], made.text)
            if "status" in obj:
                told = await api.request(
                    "PATCH",
                    f"{path}/{obj['metadata']['name']}/status",
                    body={"status": obj["status"]},
                    content_type="application/merge-patch+json",
                )
                assert told.status == 200, (obj["metadata"]["name"], told.text)


def test_other_kinds_are_printed_as_by_a_real_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    asyncio.run(put_up(control_plane, namespace, OTHERS + SLICES))
    for group, plural in (
        *(("", plural) for plural in sorted(set(PLURALS.values()) - {"leases", "endpointslices"})),
        ("coordination.k8s.io", "leases"),
        ("discovery.k8s.io", "endpointslices"),
        ("events.k8s.io", "events"),
    ):
        root = f"/apis/{group}/v1" if group else "/api/v1"
        real, moments = real_table(control_plane, f"{root}/namespaces/{namespace}/{plural}")
        assert real["rows"], plural
        assert_same_table(native(group, plural), real, moments)


def test_kinds_without_a_namespace_are_printed_as_by_a_real_server(
    control_plane: ControlPlane, namespace: str, crds: None
) -> None:
    name = f"n-{namespace[-8:]}"
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "head"},
        },
        "spec": {"unschedulable": True},
    }
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
        "nodeInfo": {
            **dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion"), ""),
            "kernelVersion": "6.1",
            "osImage": "Debian",
            "operatingSystem": "linux",
            "containerRuntimeVersion": "",
            "kubeletVersion": "v1",
            "architecture": "amd64",
        },
    }

    async def create() -> None:
        async with ApiCaller(control_plane) as api:
            bare = {**node, "metadata": {"name": f"{name}-bare"}, "spec": {}}
            for body in (node, bare):
                assert (await api.request("POST", "/api/v1/nodes", body=body)).status == 201
            told = await api.request(
                "PATCH",
                f"/api/v1/nodes/{name}/status",
                body={"status": status},
                content_type="application/merge-patch+json",
            )
            assert told.status == 200, told.text

    async def delete() -> None:
        async with ApiCaller(control_plane) as api:
            for each in (name, f"{name}-bare"):
                await api.request("DELETE", f"/api/v1/nodes/{each}")

    asyncio.run(create())
    try:
        for group, plural in (
            ("", "nodes"),
            ("", "namespaces"),
            ("scheduling.k8s.io", "priorityclasses"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
        ):
            root = f"/apis/{group}/v1" if group else "/api/v1"
            real, moments = real_table(control_plane, f"{root}/{plural}")
            assert real["rows"], plural
            assert_same_table(native(group, plural), real, moments)
    finally:
        asyncio.run(delete())


# Odd columns: each with the JSONPath, the type, and what is in them for both objects below.
COLUMNS: tuple[tuple[str, str, Any, Any], ...] = (
    (".spec.text", "string", "hello", None),
    (".spec.whole", "string", "7", None),
    (".spec.whole", "integer", 7, None),
    (".spec.whole", "number", 7, None),
    (".spec.part", "integer", 2, None),
    (".spec.part", "number", 2.5, None),
    (".spec.part", "string", "2.5", None),
    (".spec.large", "string", "1.23456785e+07", None),
    (".spec.small", "string", "1e-05", None),
    (".spec.yes", "boolean", True, None),
    (".spec.yes", "string", "true", None),
    (".spec.text", "integer", None, None),
    (".spec.text", "boolean", None, None),
    (".spec.text", "date", "<invalid>", None),
    (".spec.void", "string", "<no value>", None),
    (".spec.void", "integer", None, None),
    (".spec.old", "date", "5y", None),
    (".spec.list", "string", '["a","b","c \\u003c"]', "[]"),
    (".spec.map", "string", '{"a.b":"x","z":"y"}', None),
    (".spec.list[0]", "string", "a", None),
    (".spec.list[-1]", "string", "c <", None),
    (".spec.list[9]", "string", None, None),
    (".spec.list[1:]", "string", "b", None),
    (".spec.list[*]", "string", "a", None),
    (".spec.list[0,2]", "string", "a", None),
    (r".spec.map.a\.b", "string", "x", None),
    (r".spec.map['a\.b']", "string", "x", None),
    (".spec.map['z']", "string", "y", None),
    (".spec.map.nothing", "string", None, None),
    ('.status.conditions[?(@.type=="Ready")].status', "string", "True", None),
    (".status.conditions[?(@.type=='Other')].status", "string", None, None),
    (".status.conditions[?(@.number>1)].type", "string", "Number", None),
    (".status.conditions[?(@.number)].type", "string", "Number", None),
    ('.status.conditions[?(@.type!="Ready")].type', "string", "Number", None),
    (".status..number", "integer", 2, None),
    (".spec.map[0]", "string", None, None),
    (".metadata.name", "string", "full", "empty"),
    ("..text", "string", "hello", None),
)
FULL: Json = {
    "spec": {
        "text": "hello",
        "whole": 7,
        "part": 2.5,
        "large": 12345678.5,
        "small": 0.00001,
        "yes": True,
        "void": None,
        "old": "2021-01-01T00:00:00Z",
        "list": ["a", "b", "c <"],
        "map": {"z": "y", "a.b": "x"},
    },
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Number", "number": 2}]
    },
}


def odd_crd(columns: list[Json], plural: str = "odds") -> Json:
    kind = plural[:-1].capitalize()
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": plural[:-1]}
    keep = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.jobyard.test"},
        "spec": {
            "group": "jobyard.test",
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": keep},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def test_odd_columns_are_printed_as_by_a_real_server(
    control_plane: ControlPlane, namespace: str
) -> None:
    columns = [
        {"name": f"c{at}", "jsonPath": path, "type": type_, "priority": at % 2}
        for at, (path, type_, _, _) in enumerate(COLUMNS)
    ]

    async def create(definition: Json, path: str) -> None:
        kind = definition["spec"]["names"]["kind"]
        async with ApiCaller(control_plane) as api:
            await define(api, definition)
            for title, content in (("full", FULL), ("empty", {"spec": {"list": []}})):
                meta = {"name": title}
                obj = {"apiVersion": "jobyard.test/v1", "kind": kind, "metadata": meta, **content}
                made = await api.request("POST", path, body=obj)
                assert made.status == 201, made.text

    for definition in (odd_crd(columns), odd_crd([], "bares")):
        plural = definition["spec"]["names"]["plural"]
        path = f"/apis/jobyard.test/v1/namespaces/{namespace}/{plural}"
        asyncio.run(create(definition, path))
        real, moments = real_table(control_plane, path)
        cells = {line["cells"][0]: line["cells"][1:] for line in real["rows"]}
        if plural == "odds":
            for at, (told, _, full, empty) in enumerate(COLUMNS):
                shown = cells["full"][at]
                assert shown == full or (full == "5y" and shown[:2] in ("5y", "6y")), told
                assert cells["empty"][at] == empty, told
        assert_same_table(custom_row(definition), real, moments)


JOB_STATUS: Json = {"phase": "Running", "ready": "2/4", "restarts": 3}
STATUSES: dict[str, Json] = {
    "TaskSet": {"state": "Running", "phase": "TaskSetAttemptRunning", "totalRetriedCount": 2},
    "Queue": {"pods": {"running": 3, "pending": 4}},
    "PodGroup": {"running": 2},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_our_kinds_are_printed_as_by_a_real_server(
    kind: Kind, control_plane: ControlPlane, kubectl: Kubectl, crds: None
) -> None:
    row = next(row for row in our_rows() if row.kind == kind.name)
    manifest = next(m for m in valid_manifests() if m["kind"] == kind.name)
    manifest["metadata"].pop("namespace", None)
    # A queue is in no namespace, and other tests have that of the example.
    name = manifest["metadata"]["name"] = fresh_name(kind.name)
    # kubectl, because it asks again while the server is still opening a new CRD's storage.
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    target = f"{row.plural}.{row.group}/{name}"
    status = json.dumps({"status": STATUSES.get(kind.name, JOB_STATUS)})
    kubectl("patch", target, "--subresource=status", "--type=merge", "-p", status)
    # Only this one: others of other tests are of any shape, and deeper than Python reads.
    only = f"fieldSelector=metadata.name%3D{name}"
    real, moments = real_table(control_plane, f"/apis/{row.api_version}/{row.plural}?{only}")
    assert any(None not in line["cells"] for line in real["rows"])
    assert_same_table(row, real, moments)
    kubectl("delete", target, "--wait=false")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400, "8d"),
        (2 * 365 * 86400 - 1, "729d"),
        (2 * 365 * 86400, "2y"),
        (2 * 365 * 86400 + 86400, "2y1d"),
        (8 * 365 * 86400 + 86400, "8y"),
        (10**12, "292y"),
    ],
)
def test_a_duration_is_told_as_kubectl_does(seconds: float, told: str) -> None:
    assert human_duration(seconds) == told


def test_times_are_read_as_rfc_3339_alone() -> None:
    assert moment("1970-01-01T00:01:00Z") == 60
    assert moment("1970-01-01T01:01:00.5+01:00") == 60.5
    assert moment("0001-01-01T00:00:00Z") is None
    assert since("", 0) == since(None, 0) == "<unknown>"
    for text in ("yesterday", "1970-01-01", "1970-01-01 00:01:00Z", "1970-01-01T00:01:00"):
        assert since(text, 0) == "<invalid>"


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", "....a", ".a[?(@.b==1]", '.a["b', ".a[?(@.b=~1)]", "a", ".a[]"]
)
def test_a_path_that_cannot_be_read_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        found(path, {"a": [{"b": 1}]})


def test_only_the_first_event_of_a_watch_has_columns() -> None:
    row = our_rows()[0]
    table = table_of(
        row, [], now=0, include_object="None", list_meta={"resourceVersion": "1"}, headers=False
    )
    assert table["columnDefinitions"] is None
    assert table["rows"] == []
