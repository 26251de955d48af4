"""Kubernetes' own kinds in the embedded API server: the same verdict as a real one, case by case.

Every row of the tables goes to a real server and to our strategy; what is stored is compared
field by field, what is refused cause by cause.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Callable
from typing import Any

import pytest
import served_schemas
from rig.kube.api import ApiCaller
from rig.kube.plane import ControlPlane

from jobyard.server.built_in_kinds import builtin_resources
from jobyard.server.kinds.events import as_core, as_events
from jobyard.server.kinds.types.kubernetes_schemas import definitions, resolved
from jobyard.server.kinds.types.quantities import QuantityError, canonical
from jobyard.server.problem import ProblemError
from jobyard.server.resource import Part, ServedResource
from jobyard.server.verbs.reviews import GROUPS, USER
from server.server_tables import BAD_PODS, GOOD_PODS, OTHERS, UNDECODABLE, obj, pod
from server.server_verdicts import change_differences, creation_differences, place

Object = dict[str, Any]
Edit = Callable[[Object], None]

ROWS = {(row.api_version, row.kind): row for row in builtin_resources()}
# What we leave to others, or do without: addresses are given out by who knows which are free;
# nobody here would take the claim's finalizer off again, or the taint off the node.
LEFT_OUT = ("spec.clusterIP", "metadata.finalizers", "spec.taints")


def row_of(value: Object) -> ServedResource:
    return ROWS[value["apiVersion"], value["kind"]]


def compared(control_plane: ControlPlane, value: Object) -> list[str]:
    async def compare() -> list[str]:
        async with ApiCaller(control_plane) as api:
            return await creation_differences(api, row_of(value), value, ignored=LEFT_OUT)

    return asyncio.run(compare())


@pytest.mark.parametrize("name", GOOD_PODS)
def test_a_pod_is_stored_as_on_a_real_server(name: str, controllers: ControlPlane) -> None:
    assert compared(controllers, GOOD_PODS[name]) == []


@pytest.mark.parametrize("name", BAD_PODS)
def test_a_pod_is_refused_as_by_a_real_server(name: str, controllers: ControlPlane) -> None:
    assert compared(controllers, BAD_PODS[name]) == []


@pytest.mark.parametrize("name", OTHERS)
def test_an_object_is_judged_as_by_a_real_server(name: str, controllers: ControlPlane) -> None:
    assert compared(controllers, OTHERS[name]) == []


@pytest.mark.parametrize("name", UNDECODABLE)
def test_a_wrong_type_is_refused_in_go_s_words(name: str, controllers: ControlPlane) -> None:
    assert compared(controllers, UNDECODABLE[name]) == []


def put(*path: Any) -> Edit:
    """Sets the last but one step to the last; `...` takes it away."""
    *steps, last, value = path

    def edit(target: Object) -> None:
        inner: Any = target
        for step in steps:
            inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
        if value is ...:
            inner.pop(last)
        else:
            inner[last] = value

    return edit


def added(*path: Any) -> Edit:
    *steps, value = path

    def edit(target: Object) -> None:
        inner: Any = target
        for step in steps:
            inner = inner[step]
        inner.append(value)

    return edit


def every(*edits: Edit) -> Edit:
    def edit(target: Object) -> None:
        for one in edits:
            one(target)

    return edit


POD = pod(
    container={"image": "a:1"},
    activeDeadlineSeconds=100,
    tolerations=[{"key": "a", "operator": "Exists"}],
)
SERVICE = obj("Service", spec={"ports": [{"port": 80}], "selector": {"a": "b"}})
FIXED = obj("ConfigMap", data={"a": "b"}, immutable=True)
SECRET = obj("Secret", data={"a": "eA=="})
CLAIM = obj(
    "PersistentVolumeClaim",
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
)
NEW_EVENT = OTHERS["events.k8s.io Event"]
RUNNING = {
    "phase": "Running",
    "podIP": "1.2.3.4",
    "podIPs": [{"ip": "1.2.3.4"}],
    "hostIP": "1.1.1.1",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {"name": "main", "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}
    ],
}
OWNER = {"apiVersion": "v1", "kind": "A", "name": "n", "uid": "u"}
IMAGE = ("spec", "containers", 0, "image")

CHANGES: dict[str, tuple[Object, Edit]] = {
    "pod: image": (POD, put(*IMAGE, "b:2")),
    "pod: no image": (POD, put(*IMAGE, "")),
    "pod: command": (POD, put("spec", "containers", 0, "command", ["x"])),
    "pod: no containers": (POD, put("spec", "containers", [])),
    "pod: one more container": (POD, added("spec", "containers", {"name": "z", "image": "z"})),
    "pod: shorter deadline": (POD, put("spec", "activeDeadlineSeconds", 50)),
    "pod: longer deadline": (POD, put("spec", "activeDeadlineSeconds", 200)),
    "pod: no deadline": (POD, put("spec", "activeDeadlineSeconds", ...)),
    "pod: one more toleration": (
        POD,
        added("spec", "tolerations", {"key": "b", "operator": "Exists"}),
    ),
    "pod: no tolerations": (POD, put("spec", "tolerations", [])),
    "pod: node": (POD, put("spec", "nodeName", "n1")),
    "pod: labels": (POD, put("metadata", "labels", {"a": "b"})),
    "pod: bad labels": (POD, put("metadata", "labels", {"a b": "b"})),
    "pod: no uid": (POD, put("metadata", "uid", ...)),
    "pod: birthday": (POD, put("metadata", "creationTimestamp", "2020-01-01T00:00:00Z")),
    "pod: death": (POD, put("metadata", "deletionTimestamp", "2020-01-01T00:00:00Z")),
    "pod: finalizer": (POD, put("metadata", "finalizers", ["foo"])),
    "pod: status by the front door": (POD, put("status", "phase", "Running")),
    "service: address": (SERVICE, put("spec", "clusterIP", "10.0.0.77")),
    "service: spec anew": (SERVICE, put("spec", {"ports": [{"port": 81}]})),
    "service: headless": (SERVICE, put("spec", "clusterIP", "None")),
    "service: a name instead": (
        SERVICE,
        every(put("spec", "type", "ExternalName"), put("spec", "externalName", "a.b")),
    ),
    "immutable map: data": (FIXED, put("data", {"a": "c"})),
    "immutable map: no more": (FIXED, put("immutable", False)),
    "immutable map: labels": (FIXED, put("metadata", "labels", {"z": ""})),
    "map: key": (obj("ConfigMap", data={"a": "b"}), put("data", "x y", "c")),
    "secret: type": (SECRET, put("type", "a/b")),
    "secret: stringData": (SECRET, put("stringData", {"b": "c"})),
    "immutable secret": (obj("Secret", immutable=True), put("data", {"a": ""})),
    "claim: size": (CLAIM, put("spec", "resources", "requests", "storage", "2Gi")),
    "claim: volume": (CLAIM, put("spec", "volumeName", "pv")),
    "claim: modes": (CLAIM, put("spec", "accessModes", ["ReadWriteMany"])),
    "namespace: spec": (obj("Namespace"), put("spec", {})),
    "namespace: labels": (obj("Namespace"), put("metadata", "labels", {})),
    "node: provider": (obj("Node", spec={"providerID": "a"}), put("spec", "providerID", "b")),
    "node: status by the front door": (obj("Node"), put("status", {"capacity": {"cpu": 1}})),
    "lease": (
        obj("Lease", "coordination.k8s.io/v1", spec={"holderIdentity": "a"}),
        put("spec", "leaseDurationSeconds", 0),
    ),
    "priority": (obj("PriorityClass", "scheduling.k8s.io/v1", value=3), put("value", 4)),
    "event": (obj("Event", involvedObject={"namespace": "default"}), put("count", 5)),
    "new event": (NEW_EVENT, put("note", "z")),
}

STATUSES: dict[str, tuple[Object, Edit]] = {
    "pod: running": (POD, put("status", RUNNING)),
    "pod: nonsense": (
        POD,
        put(
            "status",
            {
                "phase": "x",
                "qosClass": "Guaranteed",
                "podIPs": [{"ip": "x"}],
                "hostIPs": [{"ip": "1.1.1.1"}],
            },
        ),
    ),
    "pod: and more": (
        POD,
        every(
            put("status", {"phase": "Running"}),
            put(*IMAGE, "zz"),
            put("metadata", "labels", {"q": "r"}),
            put("metadata", "ownerReferences", [OWNER]),
        ),
    ),
    "service": (SERVICE, put("status", "loadBalancer", {"ingress": [{"ip": "1.2.3.4"}]})),
    "claim": (CLAIM, put("status", {"phase": "Bound"})),
    "namespace": (obj("Namespace"), put("status", {"phase": "Terminating"})),
    "node": (obj("Node"), put("status", {"capacity": {"cpu": 1}})),
}


def changed(control_plane: ControlPlane, base: Object, edit: Edit, part: Part) -> list[str]:
    row = row_of(base)
    name = f"t{secrets.token_hex(4)}"
    given = {**base, "metadata": {**base["metadata"], "name": name}}

    async def compare() -> list[str]:
        async with ApiCaller(control_plane) as api:
            answer = await api.request("POST", place(row), body=given)
            assert answer.status == 201, answer.text
            try:
                # Controllers may touch a fresh object; a version that is old proves nothing.
                for _ in range(5):
                    stored = (await api.request("GET", f"{place(row)}/{name}")).body
                    new = copy.deepcopy(stored)
                    edit(new)
                    try:
                        return await change_differences(api, row, stored, new, part)
                    except AssertionError as problem:
                        if "the object has been modified" not in str(problem):
                            raise
                raise AssertionError("somebody else keeps changing it")
            finally:
                query = {"gracePeriodSeconds": "0"}
                await api.request("DELETE", f"{place(row)}/{name}", query=query)

    return asyncio.run(compare())


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_judged_as_by_a_real_server(name: str, controllers: ControlPlane) -> None:
    assert changed(controllers, *CHANGES[name], Part.WHOLE) == []


@pytest.mark.parametrize("name", STATUSES)
def test_a_status_is_judged_as_by_a_real_server(name: str, controllers: ControlPlane) -> None:
    assert changed(controllers, *STATUSES[name], Part.STATUS) == []


def test_admitting_what_is_stored_changes_nothing() -> None:
    for value in (*GOOD_PODS.values(), *OTHERS.values()):
        row = row_of(value)
        once = row.strategy.created(value)
        if once.causes or row.kind == "Service":
            continue
        again = row.strategy.updated(once.value, once.value, Part.WHOLE)
        assert again.value == once.value
        assert not again.causes
        assert not again.unknown


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("0", "0"),
        ("1000m", "1"),
        (0.5, "500m"),
        (2, "2"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1023", "1023"),
        ("1024Ki", "1Mi"),
        ("100Mi ", "100Mi"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("0.1m", "100u"),
        ("0.0000000001", "1n"),
        ("-5", "-5"),
        ("1000k", "1M"),
        (".5", "500m"),
    ],
)
def test_a_quantity_has_one_spelling(given: object, want: str) -> None:
    assert canonical(given) == want


@pytest.mark.parametrize("given", ["", "abc", "1 Gi", "1GiB", "1ki", "--1", "1e", True, None, []])
def test_what_is_no_quantity_is_refused(given: object) -> None:
    with pytest.raises(QuantityError):
        canonical(given)


def test_a_map_has_a_largest_size() -> None:
    full = obj("ConfigMap", data={"a": "x" * 1024 * 1024})
    assert not row_of(full).strategy.created(full).causes
    (cause,) = row_of(full).strategy.created(full | {"binaryData": {"b": "AA=="}}).causes
    assert cause.reason == "FieldValueTooLong"


def test_an_event_keeps_everything_in_the_other_spelling() -> None:
    event = OTHERS["Event"]
    assert as_core(as_events(event)) == event
    assert as_events(event)["regarding"] == event["involvedObject"]


REVIEWS: dict[str, tuple[str, Object]] = {
    "one of both": ("SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}}),
    "neither": ("SelfSubjectAccessReview", {}),
    "both": (
        "SelfSubjectAccessReview",
        {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/x"}},
    ),
    "about nobody": ("SubjectAccessReview", {"resourceAttributes": {}}),
    "about a user": (
        "SubjectAccessReview",
        {"groups": ["system:masters"], "user": "a", "resourceAttributes": {"verb": "get"}},
    ),
}


@pytest.mark.parametrize("name", REVIEWS)
def test_a_review_is_answered_as_by_a_real_server(name: str, control_plane: ControlPlane) -> None:
    kind, spec = REVIEWS[name]
    assert compared(control_plane, obj(kind, "authorization.k8s.io/v1", meta={}, spec=spec)) == []


def test_the_user_is_told_who_they_are() -> None:
    row = ROWS["authentication.k8s.io/v1", "SelfSubjectReview"]
    answer = row.strategy.created({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}})
    assert answer.value["status"]["userInfo"] == {"username": USER, "groups": list(GROUPS)}
    assert "get" not in row.verbs


def test_the_user_may_do_everything_in_a_namespace() -> None:
    row = ROWS["authorization.k8s.io/v1", "SelfSubjectRulesReview"]
    answer = row.strategy.created({"spec": {"namespace": "default"}})
    assert answer.value["status"]["resourceRules"] == [
        {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    ]
    with pytest.raises(ProblemError, match="no namespace on request"):
        row.strategy.created({"spec": {}})


def test_the_schemas_are_those_of_the_real_api_server(control_plane: ControlPlane) -> None:
    async def published() -> list[Object]:
        async with ApiCaller(control_plane) as api:
            return [(await api.request("GET", path)).body for path in served_schemas.DOCUMENTS]

    text = served_schemas.text(asyncio.run(published()))
    assert served_schemas.TARGET.read_text() == text, "run `make core-schema`"


def test_every_reference_leads_somewhere() -> None:
    def walk(schema: Any) -> None:
        if isinstance(schema, dict):
            if isinstance(schema.get("$ref"), str):
                assert "$ref" not in resolved(schema)
            for sub in schema.values():
                walk(sub)
        elif isinstance(schema, list):
            for sub in schema:
                walk(sub)

    for definition in definitions().values():
        walk(definition)
    for row in ROWS.values():
        assert resolved(row.schema)["type"] == "object", row.kind
