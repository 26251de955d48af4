"""What the embedded server lacks: the page names all of it, and answers lead to the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from multidict import CIMultiDict
from rig.engine import EngineKubectl, Room
from rig.places import ROOT

from jobyard.server.built_in_kinds import builtin_resources
from jobyard.server.call import Call, Reply
from jobyard.server.discovery import unserved
from jobyard.server.http.impersonation import impersonation_refused
from jobyard.server.opening import open_server
from jobyard.server.server import ApiServer

PAGE = ROOT / unserved.PAGE
HOME = "/api/v1/namespaces/default"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    opened = open_server(None)
    yield opened
    opened.store.journal.close()


def asked(server: ApiServer, path: str, method: str = "GET") -> Reply:
    path, _, query = path.partition("?")
    pairs = tuple((name, value) for name, _, value in (q.partition("=") for q in query.split("&")))
    reply = server.handle(Call(method=method, path=path, query=pairs if query else ()))
    assert isinstance(reply, Reply)
    return reply


def test_the_page_names_everything_that_is_served_and_that_is_not() -> None:
    served, _, lacking = PAGE.read_text().partition("Not served")
    for row in builtin_resources(None):
        assert row.kind in served, row.kind
    for name in (*unserved.GROUPS, *unserved.RESOURCES):
        assert f"`{name}`" in lacking
        assert f"`{name}`" not in served
    for resource, part in unserved.SUBRESOURCES:
        assert f"`{resource}/{part}`" in lacking


def test_what_is_said_to_be_missing_is_missing(server: ApiServer) -> None:
    groups = {row.group for row in builtin_resources(None)}
    assert not groups & unserved.GROUPS
    assert not {row.plural for row in builtin_resources(None)} & unserved.RESOURCES
    for row in builtin_resources(None):
        for part in row.subresources:
            assert (row.plural, part.name) not in unserved.SUBRESOURCES


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("POST", "/apis/batch/v1/namespaces/default/jobs", "API group batch"),
        ("GET", "/apis/apps/v1/deployments", "API group apps"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/x", "rbac.authorization.k8s.io"),
        ("GET", "/api/v1/persistentvolumes", "persistentvolumes"),
        ("POST", f"{HOME}/resourcequotas", "resourcequotas"),
        ("POST", f"{HOME}/serviceaccounts/default/token", "serviceaccounts/token"),
        ("GET", f"{HOME}/services/x/proxy/y", "services/proxy"),
        ("GET", "/api/v1/nodes/x/proxy/metrics", "nodes/proxy"),
        ("PATCH", f"{HOME}/pods/x/ephemeralcontainers", "pods/ephemeralcontainers"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "TokenReviews"),
    ],
)
def test_what_is_not_served_leads_to_the_page(
    server: ApiServer, method: str, path: str, what: str
) -> None:
    reply = asked(server, path, method)
    assert reply.status == 404
    status = json.loads(reply.body)
    assert (status["kind"], status["reason"]) == ("Status", "NotFound")
    [told] = [text for text in (status["message"], *reply.warnings) if unserved.PAGE in text]
    assert what in told


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/pods/x",
        f"{HOME}/gadgets",
        "/apis/example.com/v1/gadgets",
        "/apis/batch/v1",
        "/apis/batch",
        "/nothing",
        "/api/v1/namespaces/limitranges",
    ],
)
def test_what_no_kubernetes_has_leads_nowhere(server: ApiServer, path: str) -> None:
    reply = asked(server, path)
    assert (reply.status, reply.warnings) == (404, ())


def test_health_in_many_words(server: ApiServer) -> None:
    def told(path: str) -> tuple[int, str]:
        reply = asked(server, path)
        return reply.status, reply.body.decode()

    assert told("/readyz") == (200, "ok")
    assert told("/livez/ping") == (200, "ok")
    assert told("/readyz?verbose") == (200, "[+]ping ok\n[+]store ok\nreadyz check passed\n")
    assert told("/healthz?verbose=true&exclude=store") == (
        200,
        "[+]ping ok\n[+]store excluded: ok\nhealthz check passed\n",
    )
    assert told("/readyz/nothing")[0] == 404
    assert told("/readyzz")[0] == 404


@pytest.mark.parametrize(
    ("header", "who", "resource"),
    [
        ("Impersonate-User", "alice", "users"),
        ("impersonate-group", "system:masters", "groups"),
        ("Impersonate-Uid", "1", "uids"),
        ("Impersonate-Extra-Scopes", "x", "userextras"),
        ("Impersonate-User", "\udcff", "users"),
    ],
)
def test_nobody_speaks_in_another_s_name(header: str, who: str, resource: str) -> None:
    headers = CIMultiDict({"Accept": "*/*", header: who})
    problem = impersonation_refused(f"{HOME}/pods", headers)
    assert problem is not None
    assert (problem.code, problem.reason) == (403, "Forbidden")
    assert f'cannot impersonate resource "{resource}"' in problem.message
    assert json.dumps(problem.status).encode()
    assert impersonation_refused("/apis/example.com/v1/gadgets", headers) is not None
    for path in ("/api/v1", "/apis/", "/apis/example.com/v1", "/version", "/readyz"):
        assert impersonation_refused(path, headers) is None
    assert impersonation_refused(f"{HOME}/pods", CIMultiDict({"Accept": "*/*"})) is None


def test_kubectl_and_jobyard_lead_to_the_page(room: Room, kubectl_binary: Path) -> None:
    kubectl = EngineKubectl(kubectl_binary, room)
    assert 'users "alice" is forbidden' in kubectl("get", "pods", "--as=alice", code=1)
    told = kubectl("create", "job", "j", "--image=any", code=1)
    assert unserved.hint("/apis/batch/v1/namespaces/x/jobs") in told
    told = kubectl("create", "token", "default", code=1)
    assert unserved.hint("/api/v1/namespaces/x/serviceaccounts/default/token") in told
    job = room.engine.who.home / f"{room.name}.json"
    job.write_text(json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}))
    done = room.engine.who.run(
        *("apply", "-f", str(job), "--kubeconfig", str(room.engine.kubeconfig))
    )
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "Job of batch/v1: the embedded engine serves Jobyard's kinds" in said
    assert unserved.PAGE in said
