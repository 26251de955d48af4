"""Requests that can't be served: which Status they get, for every code."""

from __future__ import annotations

import pytest

from conformance.objects import config_map, pod, secret
from conformance.script import (
    JSON,
    YAML,
    Script,
    apply,
    delete,
    get,
    merge,
    patch,
    post,
    put,
    quiet,
)
from conformance.stage import Stage
from conformance.widgets import widget

TEXT = "text/plain"
WIDGETS = "/apis/conformance.example.com/v1"


CASES: dict[str, Script] = {
    "an object that isn't there": (
        get("secrets/a"),
        get("widgets/a"),
        get("/api/v1/namespaces/no"),
    ),
    "a resource that isn't there": (
        get("gadgets"),
        get(f"{WIDGETS}/namespaces/${{namespace}}/gadgets"),
        get("/apis/batch.tensorstack.dev/v1beta1/namespaces/${namespace}/gadgets/a"),
        get("/apis/coordination.k8s.io/v1/namespaces/${namespace}/gadgets"),
    ),
    "a group or a version that isn't there": (
        get("/apis/nobody.example.com/v1/things"),
        get("/apis/nobody.example.com/v1"),
        get("/apis/nobody.example.com"),
        get("/apis/conformance.example.com/v9/widgets"),
        get("/apis/conformance.example.com/v9"),
        get("/apis/coordination.k8s.io/v9/leases"),
        get("/api/v2"),
        get("/api/v2/pods"),
    ),
    "a path that means nothing": (get("/nothing"), get("/nothing/at/all"), post("/nothing", {})),
    "a subresource that isn't there": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        get("secrets/a/frob"),
        get("widgets/a/frob"),
        get("secrets/a/status/deeper"),
    ),
    "methods that a list doesn't take": (
        put("secrets", secret("a")),
        merge("secrets", {}),
        put("widgets", widget("a")),
        merge("widgets", {}),
    ),
    "methods that an object doesn't take": (
        *quiet(post("secrets", secret("a")), post("widgets", widget("a"))),
        post("secrets/a", secret("a")),
        post("widgets/a", widget("a")),
    ),
    "methods that a subresource doesn't take": (
        *quiet(post("widgets", widget("a")), post("pods", pod("a"))),
        post("widgets/a/status", widget("a")),
        delete("widgets/a/status"),
        delete("widgets/a/scale"),
        post("widgets/a/scale", {}),
        get("pods/a/binding"),
        delete("pods/a/status"),
    ),
    "methods that discovery doesn't take": (post("/api", {}), delete("/api/v1")),
    "an answer in a form that isn't known": (
        get("secrets", accept="text/html"),
        get("secrets/a", accept="image/png"),
        get("widgets", accept="text/html"),
        get("/api/v1", accept="text/html"),
        get("secrets", accept="application/json;as=Chart;v=v1;g=meta.k8s.io"),
    ),
    "any form will do": (
        get("secrets", accept="*/*", show=("kind",)),
        get("secrets", accept="application/*", show=("kind",)),
        get("secrets", accept="text/html, application/json", show=("kind",)),
        get("secrets", accept="text/html;q=0.9,*/*;q=0.8", show=("kind",)),
    ),
    "a body in a form that isn't known": (
        post("secrets", "hello", content_type=TEXT),
        post("widgets", "hello", content_type=TEXT),
        put("secrets/a", "hello", content_type=TEXT),
    ),
    "a body that isn't JSON": (
        post("secrets", "{"),
        post("widgets", "{"),
        post("secrets", "hello"),
        post("widgets", "hello"),
        post("secrets", "[]"),
        post("secrets", '"text"'),
    ),
    "an empty body": (post("secrets", ""), post("widgets", ""), merge("widgets/a", "")),
    "a body that isn't YAML": (
        post("secrets", "a: [", content_type=YAML),
        post("widgets", "a: [", content_type=YAML),
    ),
    "a body with a wrong shape": (
        post("secrets", {**secret("a"), "metadata": "x"}),
        post("widgets", {**widget("a"), "metadata": "x"}),
        post("secrets", {**secret("a"), "data": []}),
        post("widgets", {**widget("a"), "spec": "x"}),
        post("pods", {**pod("a"), "spec": []}),
        post("secrets", {**secret("a"), "kind": 5}),
        post("widgets", {**widget("a"), "apiVersion": 5}),
    ),
    "a body that is too large": (
        post("configmaps", config_map("a", {"x": "y" * (3 * 1024 * 1024 + 100)})),
        merge("widgets/a", {"spec": {"code": "y" * (3 * 1024 * 1024 + 100)}}),
    ),
    "a config map that is too large": (
        post("configmaps", config_map("a", {"x": "y" * (1024 * 1024 + 1)})),
    ),
    "a name that can't be in a path": (
        get("secrets/a%2Fb"),
        get("secrets/A_B"),
        get("widgets/A_B"),
    ),
    "flags that are none": (
        get("secrets", query={"timeoutSeconds": "soon"}),
        apply("widgets/a", widget("a"), query={"force": "perhaps"}),
        delete("secrets/a", query={"gracePeriodSeconds": "soon"}),
    ),
    "unknown options are ignored": (
        get("secrets", query={"frob": "1", "pretty": "false"}, show=("kind",)),
    ),
    "force without apply": (
        *quiet(post("secrets", secret("a"))),
        merge("secrets/a", {}, query={"force": "true"}),
    ),
    "a patch with another content type": (
        *quiet(post("widgets", widget("a"))),
        patch("widgets/a", JSON, {}),
        patch("widgets/a", "", {}),
    ),
    "credentials that nobody gave out": (
        get("secrets", stranger=True, headers={"Authorization": "Bearer wrong"}),
        get("/api", stranger=True, headers={"Authorization": "Bearer wrong"}),
        post("secrets", secret("a"), stranger=True, headers={"Authorization": "Bearer wrong"}),
    ),
    "a slash at the end": (
        get("/api/v1/", show=("kind",)),
        get("/apis/", show=("kind",)),
        get("secrets/", show=("kind",)),
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_errors(api: Stage, sentence: str) -> None:
    api.check("errors", sentence, CASES[sentence])
