"""The forms of an answer: YAML, tables, metadata alone, discovery and OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.objects import config_map, elastic_job, generic_job, pod, secret, service
from conformance.script import (
    AGGREGATED,
    METADATA,
    METADATA_LIST,
    TABLE,
    YAML,
    Script,
    delete,
    get,
    merge,
    patch,
    post,
    quiet,
)
from conformance.stage import Stage
from conformance.widgets import widget

YAML_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  on: 'yes'\n  n: '1'\n"
RUNNING = {
    "status": {
        "phase": "Running",
        "podIP": "192.0.2.9",
        "podIPs": [{"ip": "192.0.2.9"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 2,
                "image": "busybox",
                "imageID": "",
                "state": {"running": {"startedAt": "2025-01-02T03:04:05Z"}},
            }
        ],
    }
}


def waiting(reason: str) -> dict[str, Any]:
    return {
        "status": {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 0,
                    "image": "busybox",
                    "imageID": "",
                    "state": {"waiting": {"reason": reason}},
                }
            ],
        }
    }


def ended(code: int, phase: str) -> dict[str, Any]:
    return {
        "status": {
            "phase": phase,
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": False,
                    "restartCount": 0,
                    "image": "busybox",
                    "imageID": "",
                    "state": {"terminated": {"exitCode": code, "reason": "Error" if code else ""}},
                }
            ],
        }
    }


EVENT = {
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "${namespace}"},
    "reason": "Because",
    "message": "it is so",
    "type": "Normal",
    "source": {"component": "me"},
    "count": 3,
}
WITHOUT = {"includeObject": "None"}

CASES: dict[str, Script] = {
    "a body and an answer in YAML": (
        post("configmaps", YAML_MAP, content_type=YAML, accept=YAML),
        get("configmaps/a", accept=YAML),
        get("configmaps/b", accept=YAML),
    ),
    "a custom resource in YAML": (
        post(
            "widgets",
            "apiVersion: conformance.example.com/v1\nkind: Widget\n"
            "metadata: {name: a}\nspec: {size: 0x10}\n",
            content_type=YAML,
        ),
        get("widgets", accept=YAML, show=("items.*.spec.size", "kind")),
    ),
    "a list in YAML": (get("secrets", accept=YAML),),
    "a table of widgets": (
        *quiet(
            post("widgets", widget("a", size=3, tags=["t"])),
            merge("widgets/a/status", {"status": {"phase": "New"}}),
            post("widgets", widget("b")),
        ),
        get("widgets", accept=TABLE),
    ),
    "a table of one widget": (*quiet(post("widgets", widget("a"))), get("widgets/a", accept=TABLE)),
    "a table without objects": (
        *quiet(post("widgets", widget("a"))),
        get("widgets", accept=TABLE, query=WITHOUT),
    ),
    "a table with whole objects": (
        *quiet(post("widgets", widget("a"))),
        get("widgets", accept=TABLE, query={"includeObject": "Object"}),
    ),
    "a table with what isn't known of objects": (
        get("widgets", accept=TABLE, query={"includeObject": "Some"}),
    ),
    "a table of nothing": (get("widgets", accept=TABLE), get("pods", accept=TABLE)),
    "a table in pages": (
        *quiet(*(post("widgets", widget(name)) for name in "abc")),
        get(
            "widgets",
            accept=TABLE,
            query={"limit": "2", **WITHOUT},
            show=("rows.*.cells", "metadata"),
        ),
    ),
    "a table of jobs": (
        *quiet(
            post("genericjobs", generic_job("a")),
            merge(
                "genericjobs/a/status",
                {"status": {"phase": "Running", "ready": "1/2", "restarts": 3}},
            ),
            post("pytorchtrainingjobs", elastic_job("b")),
        ),
        get("genericjobs", accept=TABLE, query=WITHOUT),
        get("pytorchtrainingjobs", accept=TABLE, query=WITHOUT),
    ),
    "a table of config maps and secrets": (
        *quiet(
            post("configmaps", config_map("a", {"x": "", "y": ""})), post("secrets", secret("a"))
        ),
        get("configmaps/a", accept=TABLE),
        get("secrets", accept=TABLE, query=WITHOUT),
    ),
    "a table of services": (
        *quiet(
            post("services", service("a", clusterIP="None")),
            post(
                "services",
                service(
                    "b",
                    ports=[{"port": 80, "name": "x"}, {"port": 53, "name": "y", "protocol": "UDP"}],
                ),
            ),
        ),
        get("services", accept=TABLE, query=WITHOUT),
    ),
    "a table of pods": (
        *quiet(
            post("pods", pod("a")),
            post("pods", pod("b", nodeName="n")),
            merge("pods/b/status", RUNNING),
            post("pods", pod("c", nodeName="n")),
            merge("pods/c/status", waiting("ImagePullBackOff")),
            post("pods", pod("d", nodeName="n")),
            merge("pods/d/status", ended(0, "Succeeded")),
            post("pods", pod("e", nodeName="n")),
            merge("pods/e/status", ended(3, "Failed")),
            post("pods", pod("f", nodeName="n")),
            merge("pods/f/status", RUNNING),
            delete("pods/f"),
        ),
        get("pods", accept=TABLE, query=WITHOUT),
        *quiet(delete("pods", {"gracePeriodSeconds": 0})),
    ),
    "a table of events": (
        *quiet(post("events", EVENT)),
        get("events", accept=TABLE, query=WITHOUT),
    ),
    "a table of one namespace": (
        get("/api/v1/namespaces/${namespace}", accept=TABLE, query=WITHOUT),
    ),
    "a table of one node": (
        *quiet(post("/api/v1/nodes", {"metadata": {"name": "${namespace}"}})),
        get("/api/v1/nodes/${namespace}", accept=TABLE, query=WITHOUT),
        *quiet(delete("/api/v1/nodes/${namespace}")),
    ),
    "a table of service accounts and claims": (
        get("serviceaccounts/default", accept=TABLE, query=WITHOUT),
        get("persistentvolumeclaims", accept=TABLE),
        get("endpoints", accept=TABLE),
        get("leases", accept=TABLE),
    ),
    "a table of one definition": (
        get(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.conformance.example.com",
            accept=TABLE,
            query=WITHOUT,
            show=("columnDefinitions", "kind", "rows.*.cells.0"),
        ),
    ),
    "a table or else JSON": (
        get("secrets", accept=f"{TABLE},application/json", show=("kind", "apiVersion")),
        get("/api/v1", accept=f"{TABLE},application/json", show=("kind",)),
        get("secrets/none", accept=f"{TABLE},application/json"),
    ),
    "a table of an older version": (
        get("secrets", accept="application/json;as=Table;g=meta.k8s.io;v=v1beta1"),
    ),
    "metadata of one object": (
        *quiet(post("widgets", widget("a")), post("secrets", secret("a"))),
        get("widgets/a", accept=METADATA),
        get("secrets/a", accept=METADATA),
    ),
    "metadata of a list": (
        *quiet(post("widgets", widget("a")), post("secrets", secret("a"))),
        get("widgets", accept=METADATA_LIST),
        get("secrets", accept=METADATA_LIST),
    ),
    "metadata of a list asked for as of one": (get("secrets", accept=METADATA),),
    "metadata after a write": (
        post("secrets", secret("a"), accept=METADATA),
        patch(
            "secrets/a",
            "application/merge-patch+json",
            {"metadata": {"labels": {"x": "y"}}},
            accept=METADATA,
        ),
        delete("secrets/a", accept=METADATA),
    ),
    "versions of the core group": (get("/api", show=("kind", "versions")),),
    "a group": (get("/apis/conformance.example.com"), get("/apis/coordination.k8s.io")),
    "the resources of a group": (
        get("/apis/conformance.example.com/v1"),
        get("/apis/coordination.k8s.io/v1", show=("resources", "kind", "groupVersion")),
    ),
    # A real server also asks its store, and isn't healthy while that is slow.
    "the health of the server": tuple(
        get(path, accept="*/*", until=lambda status, _: status == 200)
        for path in ("/healthz", "/livez", "/readyz")
    ),
}


def resources(answer: Any, names: tuple[str, ...]) -> list[Any]:
    found = {each["name"]: each for each in answer["body"]["resources"]}
    return [{k: v for k, v in found[name].items() if k != "storageVersionHash"} for name in names]


@pytest.mark.parametrize("sentence", CASES)
def test_forms(api: Stage, sentence: str) -> None:
    api.check("forms", sentence, CASES[sentence])


CORE = (
    *("namespaces", "namespaces/status", "nodes", "nodes/status"),
    *("pods", "pods/status", "pods/log", "pods/exec", "pods/attach", "pods/portforward"),
    *("pods/binding", "pods/eviction", "pods/proxy", "services", "services/status"),
    *("configmaps", "secrets", "endpoints", "events", "serviceaccounts"),
    *("persistentvolumeclaims", "persistentvolumeclaims/status"),
)


@pytest.mark.parametrize("name", CORE)
def test_discovery_of_the_core_resource(api: Stage, name: str) -> None:
    """Row by row: a real server has more resources than Jobyard needs."""
    (answer,) = api.answers((get("/api/v1"),))
    api.compare("core_resources", name, resources(answer, (name,)))


GROUPS = (
    "apiextensions.k8s.io",
    "authorization.k8s.io",
    "batch.tensorstack.dev",
    "conformance.example.com",
    "coordination.k8s.io",
    "events.k8s.io",
    "octopus.openi.pcl.cn",
    "scheduler.tensorstack.dev",
)


@pytest.mark.parametrize("group", GROUPS)
def test_discovery_of_the_group(api: Stage, group: str) -> None:
    (answer,) = api.answers((get("/apis"),))
    api.compare("groups", group, [g for g in answer["body"]["groups"] if g["name"] == group])


@pytest.mark.parametrize("group", GROUPS)
def test_aggregated_discovery_of_the_group(api: Stage, group: str) -> None:
    seen = get("/apis", accept=AGGREGATED)
    (answer,) = api.answers((seen,))
    body = answer["body"]
    assert (body["kind"], body["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    (item,) = [item for item in body["items"] if item["metadata"]["name"] == group]
    api.compare("aggregated", group, item)


def test_aggregated_discovery_of_the_core_group(api: Stage) -> None:
    (answer,) = api.answers((get("/api", accept=AGGREGATED),))
    (item,) = answer["body"]["items"]
    (version,) = item["versions"]
    wanted = {name for name in CORE if "/" not in name}
    rows = [row for row in version["resources"] if row["resource"] in wanted]
    for row in rows:
        doors = row.pop("subresources", ())
        row["doors"] = [d for d in doors if f"{row['resource']}/{d['subresource']}" in CORE]
    api.compare("aggregated", "core", sorted(rows, key=lambda row: str(row["resource"])))


def test_the_index_of_openapi_names_every_group(api: Stage) -> None:
    (answer,) = api.answers((get("/openapi/v3"),))
    paths = answer["body"]["paths"]
    for path in ("api/v1", "apis/conformance.example.com/v1", "apis/batch.tensorstack.dev/v1beta1"):
        assert paths[path]["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash="), path


def undescribed(schema: Any) -> Any:
    """Without the sentences of others; those of the CRD itself are checked elsewhere."""
    match schema:
        case dict():
            return {k: undescribed(v) for k, v in schema.items() if k != "description"}
        case list():
            return [undescribed(each) for each in schema]
    return schema


def test_openapi_describes_a_users_kind(api: Stage) -> None:
    (answer,) = api.answers((get("/openapi/v3/apis/conformance.example.com/v1"),))
    schemas = answer["body"]["components"]["schemas"]
    (widgets,) = [s for name, s in schemas.items() if name.endswith(".v1.Widget")]
    api.compare("openapi", "widget", undescribed(widgets))
    paths = sorted(answer["body"]["paths"])
    api.compare("openapi", "paths of widgets", paths)


def test_openapi_describes_a_secret(api: Stage) -> None:
    (answer,) = api.answers((get("/openapi/v3/api/v1"),))
    secrets = answer["body"]["components"]["schemas"]["io.k8s.api.core.v1.Secret"]
    kinds = secrets["x-kubernetes-group-version-kind"]
    api.compare("openapi", "secret", [sorted(secrets["properties"]), kinds])
