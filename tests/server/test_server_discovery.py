"""What the server tells about itself, against a real API server and real kubectls."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.manifests import valid_manifests
from rig.tls import client_context
from rig.waiting import until_it_holds

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.server.call import Call, Reply
from jobyard.server.discovery.documents import described
from jobyard.server.discovery.openapi import schemas
from jobyard.server.discovery.openapi.wire import WIRE_TYPES
from jobyard.server.groups import groups_of
from jobyard.server.problem import ProblemError
from jobyard.server.resource import ServedResource
from server.served_rows import Rows, custom_row, native_rows, our_rows

Json = dict[str, Any]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OLD_AGGREGATED = AGGREGATED.replace("v=v2", "v=v2beta1")
NATIVE = (
    "/api/v1",
    "/apis/events.k8s.io/v1",
    "/apis/authorization.k8s.io/v1",
    "/apis/apiextensions.k8s.io/v1",
    "/apis/scheduling.k8s.io/v1",
    "/apis/coordination.k8s.io/v1",
)
NAMES = ("name", "resource", "version", "groupVersion", "subresource")
PUBLISHED_SECONDS = 60
OUR_VERSIONS = sorted({f"/apis/{kind.api_version}" for kind in KINDS})


def asked(path: str, rows: Rows, accept: str = "application/json", **others: Any) -> Reply:
    url = urllib.parse.urlsplit(path)
    query = tuple(urllib.parse.parse_qsl(url.query))
    reply = described(Call(method="GET", path=url.path, query=query, accept=accept, **others), rows)
    assert reply is not None, path
    return reply


def told(path: str, rows: Rows, accept: str = "application/json") -> Json:
    document: Json = json.loads(asked(path, rows, accept).body)
    return document


def real(plane: ControlPlane, path: str, accept: str = "application/json") -> Json:
    request = urllib.request.Request(f"{plane.url}{path}", headers={"Accept": accept})
    tls = client_context(plane.ca, plane.cert, plane.key)
    with urllib.request.urlopen(request, context=tls, timeout=60) as response:
        document: Json = json.load(response)
    return document


@pytest.fixture(scope="module")
def rows(control_plane: ControlPlane) -> Rows:
    """Ours from the CRDs, Kubernetes' own from what the real server tells of them."""
    native = [row for path in NATIVE for row in native_rows(real(control_plane, path))]
    # What the embedded server doesn't serve has no schema in it.
    known = [row for row in native if not row.schema["$ref"].startswith("nowhere")]
    return Rows([*known, *our_rows()])


@pytest.fixture(scope="module")
def published(control_plane: ControlPlane, crds: None) -> None:
    """The real server tells of a new CRD in several places, each later than it serves it."""
    ours = Rows(our_rows())
    groups = [path.rpartition("/")[0] for path in OUR_VERSIONS]
    plain = [(path, "application/json") for path in (*OUR_VERSIONS, *groups)]
    for path, accept in (*plain, ("/apis", AGGREGATED)):
        wanted = names_in(told(path, ours, accept))
        is_there = partial(is_told, control_plane, path, accept, wanted)
        until_it_holds(is_there, f"{path} tells of our kinds")
    for path in OUR_VERSIONS:
        await_document(control_plane, path)


def is_told(plane: ControlPlane, path: str, accept: str, wanted: set[str]) -> bool:
    try:
        return wanted <= names_in(real(plane, path, accept))
    except urllib.error.HTTPError as refused:
        with refused:
            if refused.code != HTTPStatus.NOT_FOUND:
                raise
        return False


def names_in(document: Any) -> set[str]:
    """All names of groups, versions and resources, wherever they are."""
    match document:
        case dict():
            here = {str(v) for k, v in document.items() if k in NAMES and isinstance(v, str)}
            return here.union(*map(names_in, document.values()))
        case list():
            return set().union(*map(names_in, document))
    return set()


def by_name(entries: list[Json]) -> dict[str, Json]:
    return {entry["name" if "name" in entry else "resource"]: entry for entry in entries}


@pytest.mark.parametrize("path", OUR_VERSIONS)
def test_our_groups_are_discovered_as_on_a_real_server(
    path: str, control_plane: ControlPlane, published: None
) -> None:
    ours = Rows(our_rows())
    theirs, mine = real(control_plane, path), told(path, ours)
    # The order of CRDs is that of a cache there; the hashes are even the same.
    assert by_name(mine.pop("resources")) == by_name(theirs.pop("resources"))
    assert mine == theirs
    group = path.rpartition("/")[0]
    assert told(group, ours) == real(control_plane, group)


@pytest.mark.parametrize("path", NATIVE)
def test_kubernetes_own_kinds_are_discovered_as_on_a_real_server(
    path: str, control_plane: ControlPlane
) -> None:
    theirs = real(control_plane, path)
    mine = told(path, Rows(native_rows(theirs)))
    for entry in (*mine["resources"], *theirs["resources"]):
        # That of what is stored as another kind or version can't be known from outside.
        if "storageVersionHash" in entry:
            entry["storageVersionHash"] = "any"
    assert mine == theirs


def test_aggregated_discovery_is_as_on_a_real_server(
    control_plane: ControlPlane, published: None
) -> None:
    native = [row for path in NATIVE for row in native_rows(real(control_plane, path))]
    everything = Rows([*our_rows(), *native])
    for path in ("/api", "/apis"):
        mine, theirs = told(path, everything, AGGREGATED), real(control_plane, path, AGGREGATED)
        names = [item["metadata"].get("name") for item in mine["items"]]
        kept = [item for item in theirs["items"] if item["metadata"].get("name") in names]
        for item in (*mine["items"], *kept):
            for version in item["versions"]:
                version["resources"] = by_name(version["resources"])
        assert mine["items"] == kept
        assert {**mine, "items": 0} == {**theirs, "items": 0}


def test_groups_and_versions_come_in_the_order_that_clients_rely_on(rows: Rows) -> None:
    listed = [group["name"] for group in told("/apis", rows)["groups"]]
    assert listed == [group.name for group in groups_of(rows)]
    assert listed == [
        *("events.k8s.io", "authorization.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io"),
        *("coordination.k8s.io", "batch.tensorstack.dev", "octopus.openi.pcl.cn"),
        "scheduler.tensorstack.dev",
    ]
    template = our_rows()[0]
    versions = ("v1alpha1", "v1", "v2beta1", "v2beta2", "v11", "odd", "v2")
    several = Rows(msgspec.structs.replace(template, version=version) for version in versions)
    group = told(f"/apis/{template.group}", several)
    wanted = ["v11", "v2", "v1", "v2beta2", "v2beta1", "v1alpha1", "odd"]
    assert [version["version"] for version in group["versions"]] == wanted
    assert group["preferredVersion"]["version"] == "v11"


def test_a_client_gets_the_form_it_names_first() -> None:
    rows = Rows(our_rows())
    for accept, kind in (
        ("", "APIGroupList"),
        ("*/*", "APIGroupList"),
        (f"{AGGREGATED},{OLD_AGGREGATED},application/json", "APIGroupDiscoveryList"),
        (f"application/json;q=0.5,{AGGREGATED}", "APIGroupDiscoveryList"),
        (f"application/vnd.kubernetes.protobuf,{AGGREGATED}", "APIGroupDiscoveryList"),
        ("application/json;g=other;v=v1;as=Thing,application/json", "APIGroupList"),
    ):
        assert told("/apis", rows, accept)["kind"] == kind, accept
    old = told("/apis", rows, OLD_AGGREGATED)
    assert old["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert asked("/apis", rows, OLD_AGGREGATED).content_type == OLD_AGGREGATED
    for path in ("/apis", "/apis/batch.tensorstack.dev/v1beta1", "/openapi/v2"):
        with pytest.raises(ProblemError) as refused:
            asked(path, rows, "application/vnd.kubernetes.protobuf")
        assert refused.value.code == 406
        assert refused.value.reason == "NotAcceptable"
    on_the_wire = asked("/openapi/v2", rows, f"{WIRE_TYPES[0]},application/json")
    assert on_the_wire.content_type == WIRE_TYPES[1]
    assert on_the_wire.body.startswith(b"\x0a\x032.0")


def test_paths_about_anything_else_are_left_to_others() -> None:
    rows = Rows(our_rows())
    for path in (
        *("/healthz", "/metrics", "/apiz", "/apis/none.example.org", "/api/v1/pods"),
        *("/apis/batch.tensorstack.dev/v9", "/apis/batch.tensorstack.dev/v1beta1/genericjobs"),
        *("/openapi/v3/apis/none.example.org/v1", "/openapi/v4", "/openapi"),
    ):
        assert described(Call(method="GET", path=path), rows) is None, path
        assert described(Call(method="POST", path=path), rows) is None, path
    with pytest.raises(ProblemError) as refused:
        described(Call(method="POST", path="/apis"), rows)
    assert refused.value.code == 405


def test_the_index_leads_to_everything(rows: Rows) -> None:
    for path in told("/", rows)["paths"]:
        # Those change from moment to moment, and are no documents.
        if path not in ("/healthz", "/livez", "/metrics", "/readyz"):
            assert asked(path, rows).status == 200, path
    assert re.fullmatch(r"v1\.36\.\d+\+jobyard", told("/version", rows)["gitVersion"])


def bare(schema: Any) -> Any:
    """A schema without descriptions."""
    if isinstance(schema, list):
        return [bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: bare(value)
        for key, value in schema.items()
        # A field may be called so too.
        if key != "description" or isinstance(value, dict)
    }


@pytest.mark.parametrize("path", OUR_VERSIONS)
def test_the_schemas_of_our_kinds_are_published_as_on_a_real_server(
    path: str, control_plane: ControlPlane, crds: None
) -> None:
    theirs = await_document(control_plane, path)
    mine = told(f"/openapi/v3{path}", Rows(our_rows()))
    names = {schemas.model_name(row) for row in our_rows() if path.endswith(row.api_version)}
    assert names
    for name in sorted(names | {f"{name}List" for name in names}):
        ours, other = (d["components"]["schemas"][name] for d in (mine, theirs))
        assert bare(ours) == bare(other), name
    assert set(mine["paths"]) == set(theirs["paths"])
    for place, operations in theirs["paths"].items():
        for method, operation in operations.items():
            if method != "parameters":
                assert_same_operation(mine["paths"][place][method], operation)


def assert_same_operation(mine: Json, theirs: Json) -> None:
    for key in ("x-kubernetes-action", "x-kubernetes-group-version-kind", "tags"):
        assert mine[key] == theirs[key]
    if mine["x-kubernetes-action"] == "patch":
        assert set(mine["requestBody"]["content"]) == set(theirs["requestBody"]["content"])
        names = {parameter["name"] for parameter in mine["parameters"]}
        assert names >= {"dryRun", "fieldValidation", "fieldManager", "force"}
    if mine["x-kubernetes-action"] != "deletecollection":
        assert mine["operationId"] == theirs["operationId"]


def await_document(plane: ControlPlane, path: str) -> Json:
    """The real server publishes a new CRD a little later than it serves it."""
    wanted = {schemas.model_name(row) for row in our_rows() if path.endswith(row.api_version)}
    deadline = time.monotonic() + PUBLISHED_SECONDS
    seen = ""
    while time.monotonic() < deadline:
        entry = real(plane, "/openapi/v3")["paths"].get(path[1:], {})
        url = entry.get("serverRelativeURL", "")
        if url in ("", seen):
            continue
        seen = url
        document = real(plane, url)
        if wanted <= document["components"]["schemas"].keys():
            return document
    raise AssertionError(f"{path} was not published")


def reference_in(schema: Json) -> Any:
    """What a schema refers to; with a description it does so in an `allOf`."""
    one_of_all = schema.get("allOf") or [{}]
    return schema.get("$ref") or one_of_all[0].get("$ref")


def test_kubernetes_own_schemas_have_all_fields_and_references(
    control_plane: ControlPlane, rows: Rows
) -> None:
    mine = told("/openapi/v3/api/v1", rows)["components"]["schemas"]
    theirs = real(control_plane, "/openapi/v3/api/v1")["components"]["schemas"]
    for name in ("Pod", "PodSpec", "Container", "Service", "ConfigMap", "Node", "PodList"):
        full = f"io.k8s.api.core.v1.{name}"
        ours, other = bare(mine[full]), bare(theirs[full])
        assert ours["properties"].keys() == other["properties"].keys()
        for field, schema in other["properties"].items():
            for key in ("type", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"):
                assert ours["properties"][field].get(key) == schema.get(key), (name, field, key)
            assert reference_in(ours["properties"][field]) == reference_in(schema), (name, field)
    for document in (told("/openapi/v3/api/v1", rows), told("/openapi/v2", rows)):
        text = json.dumps(document)
        for reference in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
            place = document
            for word in reference.split("/"):
                place = place[word]
            assert isinstance(place, dict), reference


def test_v2_leaves_out_what_kubectl_misreads() -> None:
    fields = {
        "maybe": {"type": "object", "nullable": True, "properties": {"x": {"type": "string"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
        "whole": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "string"}},
        },
    }
    definition = crd(KINDS[0])
    schema = {"type": "object", "required": ["maybe", "open"], "properties": fields}
    row = msgspec.structs.replace(custom_row(definition), schema=schema)
    name = schemas.model_name(row)
    old = told("/openapi/v2", Rows([row]))["definitions"][name]
    assert old["required"] == ["open"]
    assert old["properties"]["maybe"] == {}
    assert old["properties"]["open"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert old["properties"]["either"] == {"x-kubernetes-int-or-string": True}
    assert old["properties"]["metadata"]["$ref"].startswith("#/definitions/io.k8s.")
    path = f"/openapi/v3/apis/{row.api_version}"
    new = told(path, Rows([row]))["components"]["schemas"][name]
    assert new["properties"]["maybe"] == fields["maybe"]
    whole = new["properties"]["whole"]
    assert whole["required"] == ["kind", "apiVersion"]
    assert whole["properties"].keys() == {"spec", "kind", "apiVersion", "metadata"}


def test_a_document_is_kept_while_its_rows_stay() -> None:
    ours = our_rows()
    index = told("/openapi/v3", Rows(ours))["paths"]
    path = "apis/batch.tensorstack.dev/v1beta1"
    url = index[path]["serverRelativeURL"]
    first = asked(url, Rows(ours))
    # Rows recreated from the same CRDs are the same rows.
    assert asked(url, Rows(our_rows())).body is first.body
    headers = dict(first.headers)
    assert "immutable" in headers["Cache-Control"]
    assert (
        "immutable" not in dict(asked(f"/openapi/v3/{path}", Rows(ours)).headers)["Cache-Control"]
    )
    again = asked(url, Rows(ours), if_none_match=headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    fewer = told("/openapi/v3", Rows(ours[1:]))["paths"]
    changed = {name for name in index if index[name] != fewer.get(name)}
    assert changed == {path}
    tag = dict(asked("/apis", Rows(ours), AGGREGATED).headers)["ETag"]
    assert asked("/apis", Rows(ours), AGGREGATED, if_none_match=tag).status == 304
    assert asked("/apis", Rows(ours[1:]), AGGREGATED, if_none_match=tag).status == 200


class Door(http.server.BaseHTTPRequestHandler):
    """What is asked about the server is answered by us, all else by the real one."""

    rows: Rows
    plane: ControlPlane
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = Call(
            method=self.command,
            path=url.path,
            query=tuple(urllib.parse.parse_qsl(url.query)),
            accept=self.headers.get("Accept", ""),
            if_none_match=self.headers.get("If-None-Match", ""),
        )
        try:
            reply = described(call, self.rows) or self.passed_on(body)
        except ProblemError as problem:
            reply = Reply(status=problem.code, body=msgspec.json.encode(problem.status))
        self.send_response(reply.status)
        for name, value in (("Content-Type", reply.content_type), *reply.headers):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def passed_on(self, body: bytes) -> Reply:
        names = ("Accept", "Content-Type", "User-Agent")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        request = urllib.request.Request(
            f"{self.plane.url}{self.path}", body or None, headers, method=self.command
        )
        tls = client_context(self.plane.ca, self.plane.cert, self.plane.key)
        try:
            with urllib.request.urlopen(request, context=tls, timeout=60) as response:
                return reply_of(response)
        except urllib.error.HTTPError as refused:
            with refused:
                return reply_of(refused)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


def reply_of(response: Any) -> Reply:
    headers = [("Warning", text) for text in response.headers.get_all("Warning", [])]
    return Reply(
        status=response.status,
        body=response.read(),
        content_type=response.headers["Content-Type"],
        headers=tuple(headers),
    )


@pytest.fixture(scope="module")
def told_server(rows: Rows, control_plane: ControlPlane) -> Iterator[str]:
    """The address of a server that tells about itself as ours does."""
    door = type("OurDoor", (Door,), {"rows": rows, "plane": control_plane})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def kubectls(plane: ControlPlane) -> list[Path]:
    """The rig's, and the machine's own if that is another."""
    own = shutil.which("kubectl")
    return [plane.kubectl, *([Path(own)] if own and Path(own) != plane.kubectl else [])]


def run(
    program: Path, server: str, cache: Path, *arguments: str, stdin: str = "", code: int = 0
) -> str:
    """What kubectl prints; it must end with `code`, and without complaint if that is 0."""
    done = subprocess.run(
        [str(program), f"--server={server}", f"--cache-dir={cache}", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        # No kubeconfig of whoever runs the tests.
        env={
            "KUBECONFIG": "/dev/null",
            "HOME": str(cache),
            "PATH": "/usr/bin:/bin",
            "KUBE_EDITOR": "sed -i s/edited-from/edited-to/",
            "KUBECTL_KUBERC": "false",
        },
    )
    assert done.returncode == code, done.stderr
    # The machine's own may be older than it would like to be.
    complaints = [line for line in done.stderr.splitlines() if "version skew" not in line]
    assert code or not complaints, done.stderr
    return done.stdout + done.stderr


def fields_of(explained: str) -> list[str]:
    """The lines that name a field with its type, and its enum."""
    return [line for line in explained.splitlines() if "\t<" in line or "enum:" in line]


@pytest.mark.parametrize(
    "what",
    [
        *("genericjob.spec", "taskset", "queue.spec", "pytorchtrainingjob.spec.elastic"),
        *("mpijob.status", "podgroup.spec"),
    ],
)
def test_explain_says_the_same_about_our_kinds(
    what: str,
    control_plane: ControlPlane,
    kubectl: Kubectl,
    published: None,
    told_server: str,
    tmp_path: Path,
) -> None:
    for arguments in ((what,), (what, "--recursive")):
        theirs = kubectl("explain", *arguments).stdout
        for program in kubectls(control_plane):
            mine = run(program, told_server, tmp_path / program.parent.name, "explain", *arguments)
            assert fields_of(mine) == fields_of(theirs)
            assert len(fields_of(mine)) > 1
            if "." in what and "--recursive" not in arguments:
                assert mine == theirs


@pytest.mark.parametrize("what", ["pods.spec.containers", "pods", "crd.spec", "events", "svc.spec"])
def test_explain_knows_the_fields_of_kubernetes_own_kinds(
    what: str, control_plane: ControlPlane, kubectl: Kubectl, told_server: str, tmp_path: Path
) -> None:
    for arguments in ((what,), (what, "--recursive")):
        theirs = kubectl("explain", *arguments).stdout
        for program in kubectls(control_plane):
            mine = run(program, told_server, tmp_path / program.parent.name, "explain", *arguments)
            assert fields_of(mine) == fields_of(theirs)


def test_kubectl_lists_the_resources(
    control_plane: ControlPlane, told_server: str, rows: Rows, tmp_path: Path
) -> None:
    for program in kubectls(control_plane):
        listed = run(program, told_server, tmp_path / program.parent.name, "api-resources")
        lines = [line.split() for line in listed.splitlines()]
        for row in rows.resources():
            ending = [row.api_version, str(row.namespaced).lower(), row.kind]
            assert any([line[0], *line[-3:]] == [row.plural, *ending] for line in lines), row.kind
        assert "+jobyard" in run(
            program, told_server, tmp_path / program.parent.name, "version", "-o", "json"
        )


def test_rows_without_a_schema_are_open() -> None:
    row: ServedResource = msgspec.structs.replace(our_rows()[0], schema={})
    document = told(f"/openapi/v3/apis/{row.api_version}", Rows([row]))
    published = document["components"]["schemas"][schemas.model_name(row)]
    assert published["type"] == "object"
    assert "properties" not in published


def pod_manifest(image: str, *variables: str) -> Json:
    env = [{"name": name, "value": "1"} for name in variables]
    container = {"name": "c", "image": image, "env": env}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {name.lower(): "edited-from" for name in variables}},
        "spec": {"containers": [container]},
    }


@pytest.mark.long
def test_kubectl_applies_creates_edits_and_tells_differences(
    control_plane: ControlPlane, namespace: str, crds: None, told_server: str, tmp_path: Path
) -> None:
    for program in kubectls(control_plane):

        def kubectl(*arguments: str, stdin: Any = "", code: int = 0, by: Path = program) -> str:
            cache = tmp_path / by.parent.name
            text = stdin if isinstance(stdin, str) else json.dumps(stdin)
            where = f"--namespace={namespace}"
            return run(by, told_server, cache, where, *arguments, stdin=text, code=code)

        job = next(m for m in valid_manifests() if m["kind"] == "GenericJob")
        job["metadata"] = {"name": "j", "labels": {"a": "edited-from"}}
        assert "created" in kubectl("create", "-f", "-", stdin=job)
        assert "edited" in kubectl("edit", "genericjob/j")
        shown = kubectl("get", "genericjob/j", "-o", "jsonpath={.metadata.labels.a}")
        assert shown == "edited-to"
        kubectl("delete", "genericjob/j", "--wait=false")
        assert "created" in kubectl("apply", "-f", "-", stdin=job)
        assert "unchanged" in kubectl("apply", "-f", "-", stdin=job)
        job["spec"]["unheardOf"] = 1
        refused = kubectl("apply", "-f", "-", stdin=job, code=1)
        assert 'unknown field "spec.unheardOf"' in refused
        kubectl("delete", "genericjob/j", "--wait=false")

        kubectl("apply", "-f", "-", stdin=pod_manifest("one", "A", "B"))
        difference = kubectl("diff", "-f", "-", stdin=pod_manifest("two", "A", "B"), code=1)
        assert "+  - image: two" in difference or "+    image: two" in difference
        # One label goes; the rest of the object and its lists stay as they are.
        assert "configured" in kubectl(
            *("apply", "-f", "-"),
            stdin={**pod_manifest("two", "A", "B"), "metadata": {"name": "p"}},
        )
        stored = json.loads(kubectl("get", "pod", "p", "-o", "json"))
        assert [c["image"] for c in stored["spec"]["containers"]] == ["two"]
        assert "labels" not in stored["metadata"]
        kubectl("delete", "pod", "p", "--now", "--wait=false")
