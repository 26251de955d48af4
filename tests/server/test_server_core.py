"""The core of the embedded API server: store, watches, writes, deletions, garbage, the door.

Calls go straight into an ApiServer with a clock and dice of the test's own; whatever needs a loop,
a disk or a socket has the real one. How answers compare with a real server's is for the
conformance suite.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import os
import re
import signal
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from rig.kube.binaries import find_binaries

from jobyard.server.call import Call, Reply
from jobyard.server.http.credentials import credentials, write_kubeconfig
from jobyard.server.http.serving import BODY_BYTES_MAX, Doorway, HttpServer
from jobyard.server.live import LiveServer
from jobyard.server.messages.protobuf import ProtobufError, decoded_protobuf
from jobyard.server.messages.selectors import selection
from jobyard.server.resource import Admitted, Object, Part, Scale, ServedResource, Subresource
from jobyard.server.server import ApiServer
from jobyard.server.store.journal import Batch, Journal, JournalError
from jobyard.server.store.store import Store, StoreFailedError
from jobyard.server.verbs.watch import Watch

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/test.example/v1/namespaces/default/widgets"
START = 1_800_000_000.0


class WidgetStrategy:
    """The least that a kind with a status needs."""

    def created(self, obj: Object) -> Admitted:
        known = {name: item for name, item in obj.items() if name not in ("status", "odd")}
        return Admitted(known, unknown=("odd",) if "odd" in obj else ())

    def updated(self, obj: Object, old: Object, part: Part) -> Admitted:
        kept, taken = (old, obj) if part is Part.STATUS else (obj, old)
        value = {name: item for name, item in kept.items() if name != "status"}
        status = taken.get("status")
        return Admitted(value if status is None else {**value, "status": status})


def widget_rows(crd: Object) -> tuple[ServedResource, ...]:
    verbs = ("get", "patch", "update")
    return tuple(
        ServedResource(
            group="test.example",
            version=version["name"],
            plural="widgets",
            singular="widget",
            kind="Widget",
            namespaced=True,
            strategy=WidgetStrategy(),
            schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            subresources=tuple(Subresource(name=n, verbs=verbs) for n in ("status", "scale")),
            columns=(),
            scale=Scale(spec_replicas_path=".spec.size", status_replicas_path=".status.size"),
            is_custom=True,
        )
        for version in crd["spec"]["versions"]
    )


WIDGET_CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.example", "uid": "crd", "creationTimestamp": "x"},
    "spec": {
        "names": {"listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "selectableFields": [{"jsonPath": ".spec.color"}]},
            {"name": "v2"},
        ],
    },
}


class Bench:
    """A server, its clock, and short words for calls."""

    def __init__(self, journal: Journal | None = None, **limits: int) -> None:
        self.time = START
        uids, suffixes = count(1), count(1)
        self.server = ApiServer(
            Store(journal or Journal(None), **limits),
            now=lambda: self.time,
            new_uid=lambda: f"uid-{next(uids)}",
            new_suffix=lambda: f"{next(suffixes):05d}",
            custom=widget_rows,
        )

    def serve_widgets(self) -> None:
        self.server.store.put(
            "customresourcedefinitions.apiextensions.k8s.io", "widgets.test.example", WIDGET_CRD
        )

    def raw(self, method: str, path: str, body: Any = None, **more: Any) -> Reply:
        path, _, query = path.partition("?")
        pairs = tuple(tuple(pair.split("=", 1)) for pair in query.split("&") if pair)
        data = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        call = Call(method=method, path=path, query=pairs, body=data, user_agent="test/1", **more)
        answer = self.server.handle(call)
        assert isinstance(answer, Reply)
        return answer

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        reply = self.raw(method, path, body, **more)
        value = json.loads(reply.body)
        assert reply.status < 400, value["message"]
        return value

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        reply = self.raw(method, path, body, **more)
        assert reply.status >= 400, reply.body
        return reply.status, json.loads(reply.body)["message"]

    def watch(self, path: str) -> Watch:
        path, _, query = path.partition("?")
        pairs = (("watch", "1"), *(tuple(pair.split("=", 1)) for pair in query.split("&") if pair))
        answer = self.server.handle(Call(method="GET", path=path, query=pairs))
        assert isinstance(answer, Watch), answer
        return answer

    def tidy(self) -> None:
        self.server.tidy(10_000)
        assert not self.server.has_work

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self("GET", path)["items"]]


@pytest.fixture
def api() -> Bench:
    return Bench()


@pytest.fixture
def widgets(api: Bench) -> Bench:
    api.serve_widgets()
    return api


def config_map(name: str, **more: Any) -> Object:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def widget(name: str, **more: Any) -> Object:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "test.example/v1", "kind": "Widget", "metadata": metadata, **more}


def pod(name: str, **spec: Any) -> Object:
    whole = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def owned_by(owner: Object, **more: Any) -> dict[str, Any]:
    fields = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **more}
    metadata = owner["metadata"]
    return {"ownerReferences": [{**fields, "name": metadata["name"], "uid": metadata["uid"]}]}


def events(watch: Watch) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in watch.take().splitlines()]
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in lines]


# Reading and writing


def test_the_same_calls_have_the_same_answers() -> None:
    def play() -> list[bytes]:
        api = Bench()
        return [
            api.raw("POST", CONFIG_MAPS, config_map("a", data={"k": "v"})).body,
            api.raw("POST", CONFIG_MAPS, {"metadata": {"generateName": "g-"}}).body,
            api.raw("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, content_type=MERGE).body,
            api.raw("GET", CONFIG_MAPS).body,
            api.raw("DELETE", f"{CONFIG_MAPS}/a").body,
        ]

    assert play() == play()


def test_an_object_comes_back_with_what_the_server_adds(api: Bench) -> None:
    made = api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    assert made["kind"] == "ConfigMap"
    assert made["metadata"]["namespace"] == "default"
    assert made["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert made["metadata"]["uid"].startswith("uid-")
    assert api("GET", f"{CONFIG_MAPS}/a") == made
    assert api("DELETE", f"{CONFIG_MAPS}/a")["status"] == "Success"
    assert api.refused("GET", f"{CONFIG_MAPS}/a") == (404, 'configmaps "a" not found')


@pytest.mark.parametrize(
    ("path", "body", "code", "text"),
    [
        pytest.param(
            "/api/v1/namespaces/nope/configmaps",
            config_map("a"),
            404,
            'namespaces "nope" not found',
            id="no such namespace",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map("a", metadata={"namespace": "kube-system"}),
            400,
            "does not match the namespace",
            id="another namespace",
        ),
        pytest.param(
            CONFIG_MAPS,
            config_map("a", metadata={"resourceVersion": "1"}),
            500,
            "resourceVersion should not be set",
            id="a version",
        ),
        pytest.param(
            CONFIG_MAPS, {"metadata": {}}, 422, "name or generateName is required", id="no name"
        ),
        pytest.param(
            CONFIG_MAPS,
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}},
            400,
            "cannot be handled as a ConfigMap",
            id="another kind",
        ),
        pytest.param(CONFIG_MAPS, b"{", 400, "invalid JSON: Expecting", id="half an object"),
        pytest.param(
            f"{CONFIG_MAPS}?dryRun=Some",
            config_map("a"),
            422,
            'supported values: "All"',
            id="an odd dry run",
        ),
        pytest.param(
            "/api/v1/configmaps",
            config_map("a"),
            405,
            "does not allow this method",
            id="all namespaces",
        ),
    ],
)
def test_a_create_is_refused_for(api: Bench, path: str, body: Any, code: int, text: str) -> None:
    status, message = api.refused("POST", path, body)
    assert status == code
    assert text in message


def test_an_update_of_another_version_is_a_conflict(api: Bench) -> None:
    old = api("POST", CONFIG_MAPS, config_map("a"))
    api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    code, message = api.refused("PUT", f"{CONFIG_MAPS}/a", old)
    assert code == 409
    assert "the object has been modified" in message


def test_a_write_that_changes_nothing_has_no_version_and_no_event(api: Bench) -> None:
    old = api("POST", CONFIG_MAPS, config_map("a", data={"k": "v"}))
    watch = api.watch(f"{CONFIG_MAPS}?resourceVersion={old['metadata']['resourceVersion']}")
    api.time += 5
    assert api("PUT", f"{CONFIG_MAPS}/a", old) == old
    assert api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE) == old
    assert not events(watch)
    api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, content_type=MERGE)
    assert events(watch) == [("MODIFIED", "a")]


@pytest.mark.parametrize("metadata", [[], "text", 7, None])
def test_metadata_that_is_no_object_is_refused_not_a_fault(widgets: Bench, metadata: Any) -> None:
    body = {"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": metadata}
    reply = widgets.raw("POST", WIDGETS, body)
    assert 400 <= reply.status < 500, reply.body


def test_true_is_not_one(widgets: Bench) -> None:
    widgets("POST", WIDGETS, widget("a", spec={"x": 1}))
    after = widgets("PATCH", f"{WIDGETS}/a", {"spec": {"x": True}}, content_type=MERGE)
    assert after["spec"]["x"] is True


def test_a_dry_run_leaves_nothing(api: Bench) -> None:
    version = api.server.store.version
    made = api("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("a"))
    assert "resourceVersion" not in made["metadata"]
    assert api.refused("GET", f"{CONFIG_MAPS}/a")[0] == 404
    api("DELETE", "/api/v1/namespaces/kube-node-lease?dryRun=All")
    assert api.server.store.version == version


def test_apply_creates_and_needs_a_manager(api: Bench) -> None:
    intent = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
    code, message = api.refused("PATCH", f"{CONFIG_MAPS}/a", intent, content_type=APPLY)
    assert (code, "fieldManager: Required value" in message) == (422, True)
    reply = api.raw("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", intent, content_type=APPLY)
    assert reply.status == 201
    assert json.loads(reply.body)["metadata"]["managedFields"][0]["operation"] == "Apply"
    again = api.raw("PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", intent, content_type=APPLY)
    assert (again.status, again.body) == (200, reply.body)


@pytest.mark.parametrize(
    ("mode", "status", "warnings"),
    [
        ("Ignore", 201, ()),
        ("Warn", 201, ('unknown field "x"', 'duplicate field "data.k"')),
        ("Strict", 400, ()),
    ],
)
def test_unknown_and_repeated_fields(api: Bench, mode: str, status: int, warnings: Any) -> None:
    body = b'{"metadata":{"name":"a"},"x":1,"data":{"k":"1","k":"2"}}'
    reply = api.raw("POST", f"{CONFIG_MAPS}?fieldValidation={mode}", body)
    assert (reply.status, reply.warnings) == (status, warnings)
    if status == 400:
        text = 'strict decoding error: unknown field "x", duplicate field "data.k"'
        assert text in json.loads(reply.body)["message"]


def test_yaml_in_and_out(api: Bench) -> None:
    body = b"metadata:\n  name: a\ndata:\n  when: '2020-01-01'\n  yes: 'no'\n"
    api("POST", CONFIG_MAPS, body, content_type="application/yaml")
    text = api.raw("GET", f"{CONFIG_MAPS}/a", accept="application/yaml").body.decode()
    assert "kind: ConfigMap\n" in text
    assert re.search("when: '2020-01-01'", text)


def test_what_a_client_takes_decides_the_shape(api: Bench) -> None:
    api("POST", CONFIG_MAPS, config_map("a", data={"k": "v"}))
    meta = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert "data" not in api("GET", f"{CONFIG_MAPS}/a", accept=meta)
    table = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    assert api("GET", CONFIG_MAPS, accept=table)["rows"][0]["cells"][0] == "a"
    assert api.refused("GET", CONFIG_MAPS, accept="text/html")[0] == 406
    assert api.refused("POST", CONFIG_MAPS, b"x", content_type="text/plain")[0] == 415


# Custom resources


def test_generation_counts_changes_of_the_spec_alone(widgets: Bench) -> None:
    path = f"{WIDGETS}/a"
    made = widgets("POST", WIDGETS, widget("a", spec={"size": 1}, status={"size": 9}))
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    for body, generation in [
        ({"metadata": {"labels": {"x": "y"}}}, 1),
        ({"spec": {"size": 2}}, 2),
        ({"status": {"size": 5}}, 2),
    ]:
        after = widgets("PATCH", path, body, content_type=MERGE)
        assert after["metadata"]["generation"] == generation
    assert "status" not in after
    body = {"spec": {"size": 7}, "status": {"size": 5}}
    after = widgets("PATCH", f"{path}/status", body, content_type=MERGE)
    assert (after["spec"], after["status"]) == ({"size": 2}, {"size": 5})
    assert after["metadata"]["generation"] == 2


def test_an_update_of_a_custom_resource_says_its_version(widgets: Bench) -> None:
    widgets("POST", WIDGETS, widget("a"))
    code, message = widgets.refused("PUT", f"{WIDGETS}/a", widget("a", spec={}))
    assert code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified" in message


def test_versions_of_a_kind_share_their_objects(widgets: Bench) -> None:
    widgets("POST", WIDGETS, widget("a", spec={"size": 1}))
    other = WIDGETS.replace("/v1/", "/v2/")
    assert widgets("GET", f"{other}/a")["apiVersion"] == "test.example/v2"
    listed = widgets("GET", other)
    assert (listed["kind"], listed["items"][0]["apiVersion"]) == ("WidgetList", "test.example/v2")


def test_scale_reads_and_writes_one_number(widgets: Bench) -> None:
    widgets("POST", WIDGETS, widget("a", spec={"size": 3, "color": "red"}))
    path = f"{WIDGETS}/a/scale"
    assert widgets("GET", path)["spec"] == {"replicas": 3}
    sent = {"metadata": {"name": "a"}, "spec": {"replicas": 4}}
    assert widgets("PUT", path, sent)["spec"] == {"replicas": 4}
    widgets("PATCH", path, {"spec": {"replicas": 5}}, content_type=MERGE)
    after = widgets("GET", f"{WIDGETS}/a")
    assert after["spec"] == {"size": 5, "color": "red"}
    assert after["metadata"]["generation"] == 3
    assert widgets.refused("PATCH", path, {"spec": {"replicas": -1}}, content_type=MERGE)[0] == 422


def test_field_selectors_of_a_crd(widgets: Bench) -> None:
    widgets("POST", WIDGETS, widget("a", spec={"color": "red"}))
    widgets("POST", WIDGETS, widget("b", spec={"color": "blue"}))
    assert widgets.names(f"{WIDGETS}?fieldSelector=spec.color=red") == ["a"]
    refusal = (400, "field label not supported: spec.size")
    assert widgets.refused("GET", f"{WIDGETS}?fieldSelector=spec.size=1") == refusal


# Lists


def test_pages_show_one_moment(api: Bench) -> None:
    for name in "bdfh":
        api("POST", CONFIG_MAPS, config_map(name))
    first = api("GET", f"{CONFIG_MAPS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 2
    api("POST", CONFIG_MAPS, config_map("e"))
    api("DELETE", f"{CONFIG_MAPS}/h")
    api("PATCH", f"{CONFIG_MAPS}/f", {"data": {"k": "v"}}, content_type=MERGE)
    second = api("GET", f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["f", "h"]
    assert "data" not in second["items"][0]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    assert api.names(CONFIG_MAPS) == ["b", "d", "e", "f"]


def test_a_page_of_long_ago_is_gone_but_leads_on() -> None:
    api = Bench(changes_max=4)
    for n in range(4):
        api("POST", CONFIG_MAPS, config_map(f"c{n}"))
    token = api("GET", f"{CONFIG_MAPS}?limit=2")["metadata"]["continue"]
    for n in range(20):
        api("PATCH", f"{CONFIG_MAPS}/c0", {"data": {"k": str(n)}}, content_type=MERGE)
    reply = api.raw("GET", f"{CONFIG_MAPS}?limit=2&continue={token}")
    problem = json.loads(reply.body)
    assert (reply.status, problem["reason"]) == (410, "Expired")
    rest = api("GET", f"{CONFIG_MAPS}?continue={problem['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c2", "c3"]


def test_all_namespaces_are_in_the_order_of_their_keys(api: Bench) -> None:
    for namespace, name in (("kube-system", "a"), ("default", "b"), ("default", "a-b")):
        api("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map(name))
    assert api.names("/api/v1/configmaps") == ["a-b", "b", "a"]
    assert api.names(f"{CONFIG_MAPS}?fieldSelector=metadata.name!=b") == ["a-b"]


def test_a_list_of_an_exact_version(api: Bench) -> None:
    version = api("POST", CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api("POST", CONFIG_MAPS, config_map("b"))
    exact = f"{CONFIG_MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"
    assert api.names(exact) == ["a"]
    assert api.names(f"{CONFIG_MAPS}?resourceVersion={version}") == ["a", "b"]
    assert api.refused("GET", f"{CONFIG_MAPS}?resourceVersion=99999")[0] == 504


LABELED: Object = {"metadata": {"name": "a", "labels": {"app": "web", "n": "3"}}}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("app=web", True),
        ("app==api", False),
        ("app!=api,n", True),
        ("app in (api, web)", True),
        ("app notin (web)", False),
        ("tier notin (x)", True),
        ("!tier", True),
        ("!app", False),
        ("n>2", True),
        ("n<3", False),
        ("tier=", False),
    ],
)
def test_a_label_selector(text: str, holds: bool, widgets: Bench) -> None:
    row = widgets.server.catalogue.find("", "v1", "configmaps")
    assert row is not None
    assert selection(text, "", row).matches(LABELED) is holds


# Watches


def test_a_watch_resumes_and_tells_what_changed(api: Bench) -> None:
    version = api("POST", CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api("POST", CONFIG_MAPS, config_map("b"))
    api("DELETE", f"{CONFIG_MAPS}/a")
    watch = api.watch(f"{CONFIG_MAPS}?resourceVersion={version}")
    assert events(watch) == [("ADDED", "b"), ("DELETED", "a")]
    api("POST", "/api/v1/namespaces/kube-system/configmaps", config_map("c"))
    api("POST", CONFIG_MAPS, config_map("d"))
    assert events(watch) == [("ADDED", "d")]


def test_labels_that_change_come_and_go(api: Bench) -> None:
    watch = api.watch(f"{CONFIG_MAPS}?labelSelector=x=1")
    api("POST", CONFIG_MAPS, config_map("a", metadata={"labels": {"x": "0"}}))
    versions = []
    for value in "1", "1", "2":
        body = {"metadata": {"labels": {"x": value}}, "data": {"k": str(len(versions))}}
        after = api("PATCH", f"{CONFIG_MAPS}/a", body, content_type=MERGE)
        versions.append(after["metadata"]["resourceVersion"])
    lines = [json.loads(line) for line in watch.take().splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "MODIFIED", "DELETED"]
    # What went is told as it was, with the version at which it went.
    assert lines[2]["object"]["metadata"]["labels"] == {"x": "1"}
    assert lines[2]["object"]["metadata"]["resourceVersion"] == versions[2]


def test_watches_share_one_encoding(api: Bench) -> None:
    watches = [api.watch(CONFIG_MAPS) for _ in range(3)]
    api("POST", CONFIG_MAPS, config_map("a"))
    change = api.server.store.shelf("configmaps").changes[-1]
    assert len(change.lines) == 1
    assert len({watch.take() for watch in watches}) == 1


def test_what_is_there_first_and_a_mark_after_it(api: Bench) -> None:
    api("POST", CONFIG_MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    lines = [json.loads(line) for line in api.watch(f"{CONFIG_MAPS}?{query}").take().splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK"]
    mark = lines[1]["object"]["metadata"]
    assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["resourceVersion"] == str(api.server.store.version)


def test_a_bookmark_tells_what_other_kinds_did(api: Bench) -> None:
    watch = api.watch(f"{CONFIG_MAPS}?allowWatchBookmarks=true")
    watch.take()
    watch.mark()
    assert not watch.take()
    api("POST", PODS, pod("p"))
    watch.mark()
    line = json.loads(watch.take())
    assert line["type"] == "BOOKMARK"
    assert line["object"]["metadata"]["resourceVersion"] == str(api.server.store.version)


def test_a_version_of_long_ago_is_gone() -> None:
    api = Bench(changes_max=4)
    for n in range(20):
        api("POST", CONFIG_MAPS, config_map(f"c{n}"))
    watch = api.watch(f"{CONFIG_MAPS}?resourceVersion=3")
    line = json.loads(watch.take())
    assert (line["type"], line["object"]["code"], watch.ended) == ("ERROR", 410, True)


def test_a_watch_ends_in_time_and_marks_before() -> None:
    async def story() -> tuple[list[bytes], float]:
        async with LiveServer(Bench().server) as live:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            query = (("watch", "1"), ("timeoutSeconds", "1"), ("resourceVersion", "1"))
            watch = await live.answer(Call(method="GET", path=CONFIG_MAPS, query=query))
            assert isinstance(watch, Watch)
            async with asyncio.timeout(20):
                return [line async for line in live.lines(watch)], loop.time() - begin

    lines, seconds = asyncio.run(story())
    assert lines == []
    assert seconds > 0.9


# Deletion


def test_finalizers_hold_an_object(api: Bench) -> None:
    api("POST", CONFIG_MAPS, config_map("a", metadata={"finalizers": ["x.y/z"]}))
    watch = api.watch(f"{CONFIG_MAPS}?resourceVersion={api.server.store.version}")
    dying = api("DELETE", f"{CONFIG_MAPS}/a")
    assert dying["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert api("DELETE", f"{CONFIG_MAPS}/a") == dying
    more = {"metadata": {"finalizers": ["x.y/z", "n.e/w"]}}
    code, message = api.refused("PATCH", f"{CONFIG_MAPS}/a", more, content_type=MERGE)
    assert (code, "no new finalizers can be added" in message) == (422, True)
    api("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert api.refused("GET", f"{CONFIG_MAPS}/a")[0] == 404
    assert events(watch) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_preconditions_of_a_deletion(api: Bench) -> None:
    made = api("POST", CONFIG_MAPS, config_map("a"))
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        assert api.refused("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": wrong})[0] == 409
    right = {"uid": made["metadata"]["uid"]}
    api("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": right})


def test_pods_have_grace_once_they_have_a_node(api: Bench) -> None:
    path = f"{PODS}/p"
    api("POST", PODS, pod("p"))
    api("DELETE", path)
    assert api.refused("GET", path)[0] == 404
    api("POST", PODS, pod("p"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    assert api.raw("POST", f"{path}/binding", binding).status == 201
    assert api.refused("POST", f"{path}/binding", binding)[0] == 409
    assert api("GET", path)["status"]["conditions"][0]["type"] == "PodScheduled"
    dying = api("DELETE", path)["metadata"]
    assert dying["deletionGracePeriodSeconds"] == 30
    assert dying["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    assert dying["generation"] == 2
    sooner = api("DELETE", f"{path}?gracePeriodSeconds=5")["metadata"]
    assert sooner["deletionTimestamp"] == "2027-01-15T08:00:05Z"
    later = api("DELETE", f"{path}?gracePeriodSeconds=50")["metadata"]
    assert later["deletionGracePeriodSeconds"] == 5
    api("DELETE", path, {"gracePeriodSeconds": 0})
    assert api.refused("GET", path)[0] == 404


def test_an_evicted_pod_says_why(api: Bench) -> None:
    api("POST", PODS, pod("p", nodeName="n"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert api.raw("POST", f"{PODS}/p/eviction", eviction).status == 201
    evicted = api("GET", f"{PODS}/p")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "DisruptionTarget" in {c["type"] for c in evicted["status"]["conditions"]}


def test_a_collection_goes_by_its_labels(api: Bench) -> None:
    for name, label in ("a", "x"), ("b", "y"), ("c", "x"):
        api("POST", CONFIG_MAPS, config_map(name, metadata={"labels": {"l": label}}))
    api("DELETE", f"{CONFIG_MAPS}?labelSelector=l=x")
    assert api.names(CONFIG_MAPS) == ["b"]


# Garbage


def family(api: Bench, **reference: Any) -> Object:
    """An owner, a dependent, and a dependent of that."""
    owner: Object = api("POST", CONFIG_MAPS, config_map("owner"))
    child = api("POST", CONFIG_MAPS, config_map("child", metadata=owned_by(owner, **reference)))
    api("POST", CONFIG_MAPS, config_map("grandchild", metadata=owned_by(child, **reference)))
    api.tidy()
    assert api.names(CONFIG_MAPS) == ["child", "grandchild", "owner"]
    return owner


def test_dependents_go_after_their_owner(api: Bench) -> None:
    family(api)
    api("DELETE", f"{CONFIG_MAPS}/owner")
    assert api.names(CONFIG_MAPS) == ["child", "grandchild"]
    api.tidy()
    assert api.names(CONFIG_MAPS) == []


def test_an_owner_in_the_foreground_waits_for_those_that_block(api: Bench) -> None:
    family(api, blockOwnerDeletion=True)
    hold = {"metadata": {"finalizers": ["x.y/z"]}}
    api("PATCH", f"{CONFIG_MAPS}/grandchild", hold, content_type=MERGE)
    dying = api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert dying["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.tidy()
    assert api.names(CONFIG_MAPS) == ["child", "grandchild", "owner"]
    api(
        "PATCH", f"{CONFIG_MAPS}/grandchild", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    api.tidy()
    assert api.names(CONFIG_MAPS) == []


def test_an_owner_in_the_foreground_waits_for_no_others(api: Bench) -> None:
    family(api)
    hold = {"metadata": {"finalizers": ["x.y/z"]}}
    api("PATCH", f"{CONFIG_MAPS}/child", hold, content_type=MERGE)
    api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Foreground"})
    api.tidy()
    assert "owner" not in api.names(CONFIG_MAPS)


def test_orphans_stay(api: Bench) -> None:
    family(api)
    api("DELETE", f"{CONFIG_MAPS}/owner", {"propagationPolicy": "Orphan"})
    api.tidy()
    assert api.names(CONFIG_MAPS) == ["child", "grandchild"]
    assert "ownerReferences" not in api("GET", f"{CONFIG_MAPS}/child")["metadata"]


def test_what_an_absent_owner_owns_goes_unless_another_keeps_it(api: Bench) -> None:
    owner = api("POST", CONFIG_MAPS, config_map("owner"))
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "never"}
    api("POST", CONFIG_MAPS, config_map("a", metadata={"ownerReferences": [gone]}))
    both = {"ownerReferences": [gone, *owned_by(owner)["ownerReferences"]]}
    api("POST", CONFIG_MAPS, config_map("b", metadata=both))
    strange = {"ownerReferences": [{**gone, "kind": "Unheard"}]}
    api("POST", CONFIG_MAPS, config_map("c", metadata=strange))
    api.tidy()
    assert api.names(CONFIG_MAPS) == ["b", "c", "owner"]
    kept = api("GET", f"{CONFIG_MAPS}/b")["metadata"]["ownerReferences"]
    assert [reference["uid"] for reference in kept] == [owner["metadata"]["uid"]]


def test_an_owner_in_another_namespace_is_none(api: Bench) -> None:
    owner = api("POST", "/api/v1/namespaces/kube-system/configmaps", config_map("owner"))
    api("POST", CONFIG_MAPS, config_map("a", metadata=owned_by(owner)))
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "n", **owned_by(owner)},
    }
    api("POST", "/api/v1/namespaces", namespace)
    api.tidy()
    assert api.names(CONFIG_MAPS) == []
    # Something without a namespace can't name an owner in one; that is left alone.
    assert "n" in api.names("/api/v1/namespaces")


def test_a_circle_of_owners_ends(api: Bench) -> None:
    first = api("POST", CONFIG_MAPS, config_map("a"))
    owner = owned_by(first, blockOwnerDeletion=True)
    second = api("POST", CONFIG_MAPS, config_map("b", metadata=owner))
    body = {"metadata": owned_by(second, blockOwnerDeletion=True)}
    api("PATCH", f"{CONFIG_MAPS}/a", body, content_type=MERGE)
    api("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Foreground"})
    api.tidy()
    assert api.names(CONFIG_MAPS) == []


def test_a_namespace_ends_when_all_in_it_has(api: Bench) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
    api("POST", "/api/v1/namespaces", namespace)
    inside = "/api/v1/namespaces/n"
    assert api.names(f"{inside}/serviceaccounts") == ["default"]
    api("POST", f"{inside}/configmaps", config_map("a", metadata={"finalizers": ["x.y/z"]}))
    api("POST", f"{inside}/pods", pod("p", nodeName="node"))
    assert api("DELETE", inside)["status"]["phase"] == "Terminating"
    code, message = api.refused("POST", f"{inside}/configmaps", config_map("b"))
    assert (code, "because it is being terminated" in message) == (403, True)
    api.tidy()
    assert api.names(f"{inside}/serviceaccounts") == []
    api("PATCH", f"{inside}/configmaps/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    api.tidy()
    assert api("GET", inside)["status"]["phase"] == "Terminating"
    api("DELETE", f"{inside}/pods/p?gracePeriodSeconds=0")
    api.tidy()
    assert api.refused("GET", inside)[0] == 404
    assert api.refused("DELETE", "/api/v1/namespaces/default")[0] == 403


def test_a_crd_takes_its_objects_along(widgets: Bench) -> None:
    store, shelf = widgets.server.store, "customresourcedefinitions.apiextensions.k8s.io"
    widgets("POST", WIDGETS, widget("a"))
    widgets("POST", WIDGETS, widget("b", metadata={"finalizers": ["x.y/z"]}))
    crd = store.get(shelf, "widgets.test.example")
    assert crd is not None
    finalizers = ["customresourcecleanup.apiextensions.k8s.io"]
    metadata = {**crd.metadata, "deletionTimestamp": "x", "finalizers": finalizers}
    store.put(shelf, crd.key, {**crd.value, "metadata": metadata})
    assert widgets.refused("POST", WIDGETS, widget("c"))[0] == 403
    widgets.tidy()
    assert widgets.names(WIDGETS) == ["b"]
    widgets("PATCH", f"{WIDGETS}/b", {"metadata": {"finalizers": None}}, content_type=MERGE)
    widgets.tidy()
    assert store.get(shelf, crd.key) is None
    assert widgets.raw("GET", WIDGETS).status == 404


def test_events_of_both_groups_are_the_same(api: Bench) -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "m",
        "reason": "R",
        "type": "Normal",
        "count": 2,
    }
    core, other = (
        "/api/v1/namespaces/default/events",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    )
    api("POST", core, event)
    told = api("GET", f"{other}/e")
    assert (told["note"], told["regarding"]["name"], told["deprecatedCount"]) == ("m", "p", 2)
    assert api.names(f"{other}?fieldSelector=regarding.name=p") == ["e"]
    assert api.names(f"{core}?fieldSelector=involvedObject.name=q") == []
    api.time += 3599
    api.server.expire()
    assert api.names(core) == ["e"]
    api.time += 2
    api.server.expire()
    assert api.names(core) == []


# The disk


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "db"
    journal = Journal(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    api = Bench(journal)
    first = api("POST", CONFIG_MAPS, config_map("a"))["metadata"]["resourceVersion"]
    api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE)
    api("POST", CONFIG_MAPS, config_map("b"))
    api("DELETE", f"{CONFIG_MAPS}/b")
    before, version = api.raw("GET", CONFIG_MAPS).body, api.server.store.version
    journal.close()
    journal = Journal(path)
    again = Bench(journal)
    assert again.raw("GET", CONFIG_MAPS).body == before
    assert again.server.store.version == version
    # The past stays behind: who watched from there lists again.
    watch = again.watch(f"{CONFIG_MAPS}?resourceVersion={first}")
    assert json.loads(watch.take())["object"]["code"] == 410
    exact = f"{CONFIG_MAPS}?resourceVersion={first}&resourceVersionMatch=Exact"
    assert again.raw("GET", exact).status == 410
    assert events(again.watch(f"{CONFIG_MAPS}?resourceVersion={version}")) == []
    made = again("POST", CONFIG_MAPS, config_map("c"))
    assert int(made["metadata"]["resourceVersion"]) == version + 1
    journal.close()


def test_old_revisions_leave_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "db", durable=False)
    api = Bench(journal, changes_max=10)
    api("POST", CONFIG_MAPS, config_map("still", data={"k": "v"}))
    for n in range(100):
        api("POST", CONFIG_MAPS, config_map(f"c{n}"))
        api("DELETE", f"{CONFIG_MAPS}/c{n}")
    rows = [row for row in journal.revisions() if row.shelf == "configmaps"]
    assert len(rows) < 45
    journal.close()
    journal = Journal(tmp_path / "db")
    again = Bench(journal, changes_max=10)
    assert again.names(CONFIG_MAPS) == ["still"]
    assert again.server.store.version == api.server.store.version
    watch = again.watch(f"{CONFIG_MAPS}?resourceVersion=2")
    assert json.loads(watch.take())["object"]["code"] == 410
    journal.close()


def test_one_server_for_one_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "db")
    Bench(journal)
    with pytest.raises(JournalError, match="locked"):
        Journal(tmp_path / "db")
    journal.close()


WRITER = """
import sys
from pathlib import Path
from jobyard.server.store.journal import Journal
from jobyard.server.store.store import Store, StoreFailedError

store = Store(Journal(Path(sys.argv[1])))
n = 0
while True:
    n += 1
    store.put("things", f"default/t{n}", {"kind": "T", "apiVersion": "v1", "metadata": {"name": n}})
    print(n, flush=True)
"""


def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "db"
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(40):
                writer.stdout.readline()
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
        answered = int(rest[-1]) if rest and rest[-1].isdigit() else 40
        journal = Journal(path)
        store = Store(journal)
        assert len(store.shelf("things").objects) >= answered
        journal.close()


class GatedJournal(Journal):
    """A disk that writes when it is let."""

    def __init__(self) -> None:
        super().__init__(None)
        self.gate = threading.Event()
        self.gate.set()
        # A batch has come as far as the gate.
        self.reached = threading.Event()
        self.batches: list[Batch] = []
        self.broken = False

    def write(self, batch: Batch) -> None:
        self.reached.set()
        assert self.gate.wait(20)
        if self.broken:
            raise JournalError("disk full")
        self.batches.append(batch)
        super().write(batch)


def create_call(name: str) -> Call:
    return Call(method="POST", path=CONFIG_MAPS, body=msgspec.json.encode(config_map(name)))


def test_answers_and_events_wait_for_the_disk() -> None:
    async def story() -> None:
        journal = GatedJournal()
        api = Bench(journal)
        async with LiveServer(api.server) as live:
            watch = api.watch(f"{CONFIG_MAPS}?resourceVersion={api.server.store.version}")
            journal.gate.clear()
            journal.batches.clear()
            tasks = [asyncio.create_task(live.send(create_call(f"c{n}"))) for n in range(8)]
            done, _ = await asyncio.wait(tasks, timeout=0.2)
            assert not done
            assert not watch.take()
            # Other kinds have nothing to wait for.
            pods = await asyncio.wait_for(live.send(Call(method="GET", path=PODS)), 10)
            assert pods.status == 200
            journal.gate.set()
            replies = await asyncio.wait_for(asyncio.gather(*tasks), 20)
            assert {reply.status for reply in replies} == {201}
            assert len(events(watch)) == 8
            assert len(journal.batches) <= 2

    asyncio.run(story())


def test_a_disk_that_fails_ends_it() -> None:
    async def story() -> None:
        journal = GatedJournal()
        api = Bench(journal)
        async with LiveServer(api.server) as live:
            watch = api.watch(CONFIG_MAPS)
            journal.broken = True
            reply = await asyncio.wait_for(live.send(create_call("a")), 20)
            assert reply.status == 500
            assert b"disk full" in reply.body
            with pytest.raises(StoreFailedError, match="disk full"):
                await asyncio.wait_for(live.until_failed(), 20)
            assert watch.ended
            assert not watch.take()
            after = await live.send(Call(method="GET", path=f"{CONFIG_MAPS}/a"))
            assert after.status == 500

    asyncio.run(story())


def test_it_stops_although_writes_were_pending_when_the_disk_failed() -> None:
    async def story() -> None:
        journal = GatedJournal()
        live = LiveServer(Bench(journal).server)
        await live.__aenter__()
        journal.gate.clear()
        journal.reached.clear()
        journal.broken = True
        first = asyncio.create_task(live.send(create_call("a")))
        assert await asyncio.to_thread(journal.reached.wait, 20)
        # The next batch gathers while the disk has the first.
        live.server.handle(create_call("b"))
        assert live.server.store.has_pending
        closing = asyncio.create_task(live.__aexit__())
        # After the closing has begun to wait.
        asyncio.get_running_loop().call_soon(journal.gate.set)
        await asyncio.wait_for(closing, 20)
        assert (await first).status == 500

    asyncio.run(story())


def test_tidying_happens_by_itself() -> None:
    async def story() -> None:
        api = Bench()
        async with LiveServer(api.server) as live:
            gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "never"}
            body = config_map("a", metadata={"ownerReferences": [gone]})
            watch = api.watch(f"{CONFIG_MAPS}?resourceVersion={api.server.store.version}")
            call = msgspec.structs.replace(create_call("a"), body=msgspec.json.encode(body))
            assert (await live.send(call)).status == 201
            seen: list[tuple[str, str]] = []
            async with asyncio.timeout(20):
                async for chunk in live.lines(watch):
                    seen += [(json.loads(line)["type"], "a") for line in chunk.splitlines()]
                    if len(seen) == 2:
                        break
            assert seen == [("ADDED", "a"), ("DELETED", "a")]

    asyncio.run(story())


# The door


class Door:
    """A server behind HTTPS, and a session that knows the token."""

    def __init__(self, http: HttpServer, session: aiohttp.ClientSession, kubeconfig: Path) -> None:
        self.http = http
        self.session = session
        self.kubeconfig = kubeconfig


@asynccontextmanager
async def door(folder: Path) -> AsyncIterator[Door]:
    made = credentials(folder, datetime.datetime.now(datetime.UTC))
    trust = ssl.create_default_context(cafile=made.ca)
    doorway = Doorway(token=made.token, tls=made.tls())
    async with LiveServer(Bench().server) as live, HttpServer(live, doorway) as http:
        write_kubeconfig(folder / "kubeconfig", http.url, made)
        async with aiohttp.ClientSession(
            base_url=http.url,
            connector=aiohttp.TCPConnector(ssl=trust),
            headers={"Authorization": f"Bearer {made.token}"},
        ) as session:
            yield Door(http, session, folder / "kubeconfig")


def run(folder: Path, story: Callable[[Door], Any], seconds: float = 60) -> None:
    async def whole() -> None:
        async with asyncio.timeout(seconds), door(folder) as opened:
            await story(opened)

    asyncio.run(whole())


def test_only_who_has_the_token_comes_in(tmp_path: Path) -> None:
    async def story(opened: Door) -> None:
        for header in ("", "Bearer", "Bearer wrong", "Basic abc"):
            for path in ("/api", "/healthz", "/version", CONFIG_MAPS):
                headers = {"Authorization": header}
                async with opened.session.get(path, headers=headers) as answer:
                    assert answer.status == 401
                    assert (await answer.json())["reason"] == "Unauthorized"
        async with opened.session.get("/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        assert opened.http.url.startswith("https://127.0.0.1:")

    run(tmp_path / "pki", story)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "pki").iterdir()}
    assert set(modes) == {"ca.crt", "server.crt", "server.key", "token", "kubeconfig"}
    assert set(modes.values()) == {0o600}


def test_credentials_are_used_again_while_they_last(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    first = credentials(tmp_path, now)
    token, certificate = first.token, first.certificate.read_bytes()
    assert credentials(tmp_path, now + datetime.timedelta(days=100)).token == token
    assert first.certificate.read_bytes() == certificate
    assert credentials(tmp_path, now + datetime.timedelta(days=800)).token != token


def test_a_body_has_a_limit(tmp_path: Path) -> None:
    async def story(opened: Door) -> None:
        big = io.BytesIO(b"x" * (BODY_BYTES_MAX + 1))
        headers = {"Content-Type": "application/json"}
        async with opened.session.post(CONFIG_MAPS, data=big, headers=headers) as answer:
            assert answer.status == 413
            assert (await answer.json())["message"] == "Request entity too large: limit is 3145728"

    run(tmp_path, story)


def test_warnings_are_headers(tmp_path: Path) -> None:
    async def story(opened: Door) -> None:
        body = {**config_map("a"), "x": 1}
        async with opened.session.post(CONFIG_MAPS, json=body) as answer:
            assert answer.status == 201
            assert answer.headers["Warning"] == '299 - "unknown field \\"x\\""'

    run(tmp_path, story)


def test_a_watch_over_https_ends_with_the_server(tmp_path: Path) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60):
            reading: asyncio.Task[list[bytes]] | None = None
            async with door(tmp_path) as opened:
                session = opened.session
                query = {"watch": "1", "resourceVersion": "0"}
                answer = await session.get(CONFIG_MAPS, params=query)

                async def lines() -> list[bytes]:
                    return [line async for line in answer.content]

                reading = asyncio.create_task(lines())
                async with session.post(CONFIG_MAPS, json=config_map("a")) as made:
                    assert made.status == 201
                await opened.http.__aexit__()
                seen = await reading
                assert [json.loads(line)["type"] for line in seen] == ["ADDED"]

    asyncio.run(whole())


def kubectl(program: Path, kubeconfig: Path, *arguments: str) -> str:
    command = [str(program), "--kubeconfig", str(kubeconfig)]
    cache = ["--cache-dir", str(kubeconfig.parent / "cache")]
    environment = {"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent)}
    done = subprocess.run(
        [*command, *cache, *arguments], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kubectl_gets_creates_and_deletes(tmp_path: Path) -> None:
    program = find_binaries(sys.stderr.write) / "kubectl"

    async def story(opened: Door) -> None:
        async def do(*arguments: str) -> str:
            return await asyncio.to_thread(kubectl, program, opened.kubeconfig, *arguments)

        # Sent as protobuf, which is all that kubectl speaks here.
        made = await do("create", "configmap", "a", "--from-literal=k=v")
        assert made == "configmap/a created\n"
        await do("create", "secret", "generic", "s", "--from-literal=k=v")
        assert await do("get", "secret", "s", "-o", "jsonpath={.data.k}") == "dg=="
        assert re.search(r"^a +1 +\d+s$", await do("get", "configmaps"), re.MULTILINE)
        await do("create", "namespace", "n")
        await do("create", "service", "clusterip", "svc", "--tcp=80:8080")
        port = "jsonpath={.spec.ports[0].targetPort}"
        assert await do("get", "service", "svc", "-o", port) == "8080"
        await do("label", "configmap", "a", "x=y")
        assert (await do("get", "cm", "-l", "x=y", "-o", "name")).strip() == "configmap/a"
        assert "deleted" in await do("delete", "configmap", "a")
        assert "deleted" in await do("delete", "namespace", "n", "--timeout=50s")

    # Ten processes, one after another.
    run(tmp_path, story, seconds=300)


def test_bytes_that_are_no_protobuf_object() -> None:
    for body in (b"", b"k8s\x00\xff", b"k8s\x00\x0a\x7f", b"k8s\x00\x0a\x07\x0a\x02v1\x12\x01X"):
        with pytest.raises(ProtobufError):
            decoded_protobuf(body)
