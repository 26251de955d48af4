"""Lists: selectors and their errors, pages, and which version a list shows."""

from __future__ import annotations

import pytest

from conformance.objects import pod, secret
from conformance.script import Script, Step, get, merge, post, quiet
from conformance.stage import Stage
from conformance.widgets import widget

NAMES = ("items.*.metadata.name",)
PAGE = (*NAMES, "metadata.continue", "metadata.remainingItemCount")
LABELLED = quiet(
    post("secrets", secret("a", labels={"app": "one", "tier": "front"})),
    post("secrets", secret("b", labels={"app": "two", "tier": "front"})),
    post("secrets", secret("c", labels={"app": "two"})),
    post("secrets", secret("d")),
)
SELECTORS = {
    "equality": "app=one",
    "equality with two signs": "app==two",
    "inequality": "app!=one",
    "two requirements": "app=two,tier=front",
    "one of several": "app in (one, two)",
    "none of several": "app notin (one)",
    "exists": "tier",
    "doesn't exist": "!tier",
    "an empty value": "app=",
    "nothing": "",
    "spaces": " app = two , tier ",
    "a set and equality": "app in (two),tier!=front",
    "greater than": "app>1",
    "what nobody has": "app=three",
    "a bad value": "app=a b c",
    "a bad key": "a/b/c=1",
    "an open bracket": "app in (one",
    "a bad operator": "app ~ one",
    "a bare comma": "app=one,,tier",
    "an empty set": "app in ()",
    "a prefixed key": "example.com/app=one",
}
FIELDS = {
    "by name": "metadata.name=b",
    "by name, with two signs": "metadata.name==b",
    "by another name": "metadata.name!=b",
    "by namespace": "metadata.namespace=nowhere",
    "by an unknown field": "data.k=v",
    "by the type of a secret": "type=Opaque",
    "by two fields": "metadata.name=a,type!=Opaque",
    "by an operator that isn't there": "metadata.name in (a)",
    "by nothing": "",
}
CREATED = quiet(*(post("secrets", secret(name)) for name in "abcde"))
SECRET_VERSION = get("secrets", capture={"rv": "metadata.resourceVersion"}, silent=True)


def listed(resource: str = "secrets", show: tuple[str, ...] | None = NAMES, **query: str) -> Step:
    return get(resource, query=query, show=show)


CASES: dict[str, Script] = {
    "an empty list": (get("secrets"), get("widgets"), get("pods"), get("leases")),
    "a list of secrets": (*LABELLED[:2], get("secrets")),
    "a list of widgets": (
        *quiet(post("widgets", widget("b")), post("widgets", widget("a"))),
        get("widgets"),
    ),
    "a list over all namespaces": (
        *quiet(post("secrets", secret("a", labels={"one": "${namespace}"}))),
        listed("/api/v1/secrets", labelSelector="one=${namespace}"),
    ),
    "a list over all namespaces has no single objects": (get("/api/v1/secrets/a"),),
    "nothing is created without a namespace": (
        post("/api/v1/secrets", secret("a")),
        post("/apis/conformance.example.com/v1/widgets", widget("a")),
    ),
    "pages of two": (
        *CREATED,
        get("secrets", query={"limit": "2"}, show=PAGE, capture={"next": "metadata.continue"}),
        get(
            "secrets",
            query={"limit": "2", "continue": "${next}"},
            show=PAGE,
            capture={"next": "metadata.continue"},
        ),
        get("secrets", query={"limit": "2", "continue": "${next}"}, show=PAGE),
    ),
    "pages of a custom resource": (
        *quiet(*(post("widgets", widget(name)) for name in "abc")),
        get("widgets", query={"limit": "2"}, show=PAGE, capture={"next": "metadata.continue"}),
        get("widgets", query={"limit": "2", "continue": "${next}"}, show=PAGE),
    ),
    "a page as large as the list": (*CREATED, get("secrets", query={"limit": "5"}, show=PAGE)),
    "a page that isn't limited": (*CREATED, get("secrets", query={"limit": "0"}, show=PAGE)),
    "pages with a selector don't tell what remains": (
        *LABELLED,
        get("secrets", query={"limit": "1", "labelSelector": "tier"}, show=PAGE),
    ),
    "a later page shows the state of the first": (
        *CREATED,
        get("secrets", query={"limit": "2"}, show=PAGE, capture={"next": "metadata.continue"}),
        *quiet(
            post("secrets", secret("cc")), merge("secrets/d", {"metadata": {"labels": {"x": "y"}}})
        ),
        get(
            "secrets",
            query={"continue": "${next}"},
            show=(*NAMES, "items.*.metadata.labels"),
        ),
    ),
    "a token that is none": (
        get("secrets", query={"continue": "???"}),
        get("secrets", query={"continue": "abcd"}),
        get("widgets", query={"continue": "abcd"}),
    ),
    "a token together with a version": (
        *CREATED,
        get("secrets", query={"limit": "2"}, show=PAGE, capture={"next": "metadata.continue"}),
        get("secrets", query={"continue": "${next}", "resourceVersion": "5"}),
    ),
    "a limit that is none": (
        get("secrets", query={"limit": "two"}),
        get("secrets", query={"limit": "-1"}, show=NAMES),
    ),
    "any version will do": (*CREATED, listed(resourceVersion="0", labelSelector="none=none")),
    "exactly a version of the past": (
        *CREATED[:2],
        SECRET_VERSION,
        *CREATED[2:],
        listed(resourceVersion="${rv}", resourceVersionMatch="Exact"),
        listed(resourceVersion="${rv}", resourceVersionMatch="Exact", limit="1", show=PAGE),
    ),
    "not older than a version": (
        *CREATED[:2],
        SECRET_VERSION,
        *CREATED[2:],
        *(
            # What came later may be missing for a while: such lists are from a cache.
            get("secrets", query=query, show=NAMES, until=lambda _, body: len(body["items"]) == 5)
            for query in (
                {"resourceVersion": "${rv}", "resourceVersionMatch": "NotOlderThan"},
                {"resourceVersion": "${rv}"},
            )
        ),
    ),
    "versions that make no sense": (
        get("secrets", query={"resourceVersion": "x"}),
        get("secrets", query={"resourceVersionMatch": "Exact"}),
        get("secrets", query={"resourceVersion": "0", "resourceVersionMatch": "Exact"}),
        get("secrets", query={"resourceVersion": "1", "resourceVersionMatch": "Maybe"}),
    ),
    "a version of the future": (get("secrets", query={"resourceVersion": "999999999999"}),),
    "one object at a version": (
        *CREATED[:1],
        get(
            "secrets/a", query={"resourceVersion": "0"}, until=lambda s, _: s == 200, show=("kind",)
        ),
        get("secrets/a", query={"resourceVersion": "x"}),
    ),
    "pods by phase and node": (
        *quiet(
            post("pods", pod("a")),
            post("pods", pod("b", nodeName="n")),
            merge("pods/a/status", {"status": {"phase": "Running"}}),
        ),
        listed("pods", fieldSelector="status.phase=Running"),
        listed("pods", fieldSelector="spec.nodeName=n"),
        listed("pods", fieldSelector="spec.nodeName=,status.phase!=Failed"),
        listed("pods", fieldSelector="spec.restartPolicy=Always"),
        listed("pods", fieldSelector="status.podIP="),
        get("pods", query={"fieldSelector": "spec.hostname=x"}),
    ),
    "a custom resource by the field that it names": (
        *quiet(
            post("widgets", widget("a", colour="red")),
            post("widgets", widget("b", colour="blue")),
            post("widgets", widget("c")),
        ),
        listed("widgets", fieldSelector="spec.colour=red"),
        listed("widgets", fieldSelector="spec.colour!=red"),
        listed("widgets", fieldSelector="metadata.name=c"),
        get("widgets", query={"fieldSelector": "spec.size=1"}),
    ),
    "events by what they are about": (
        *quiet(
            *(
                post(
                    "events",
                    {
                        "metadata": {"name": name},
                        "involvedObject": {
                            "kind": "Pod",
                            "name": name,
                            "namespace": "${namespace}",
                        },
                        "reason": name.upper(),
                        "type": "Normal",
                    },
                )
                for name in "ab"
            )
        ),
        listed("events", fieldSelector="involvedObject.name=a"),
        listed("events", fieldSelector="reason=B,type=Normal"),
        listed("events", fieldSelector="involvedObject.kind=Node"),
        get("events", query={"fieldSelector": "message=x"}),
    ),
    "namespaces by phase": (
        listed(
            "/api/v1/namespaces", fieldSelector="metadata.name=${namespace},status.phase=Active"
        ),
    ),
}


@pytest.mark.parametrize("sentence", SELECTORS)
def test_a_label_selector_with(api: Stage, sentence: str) -> None:
    query = {"labelSelector": SELECTORS[sentence]}
    api.check("labels", sentence, (*LABELLED, get("secrets", query=query, show=NAMES)))


@pytest.mark.parametrize("sentence", FIELDS)
def test_a_field_selector(api: Stage, sentence: str) -> None:
    query = {"fieldSelector": FIELDS[sentence]}
    api.check("fields", sentence, (*LABELLED, get("secrets", query=query, show=NAMES)))


@pytest.mark.parametrize("sentence", CASES)
def test_listing(api: Stage, sentence: str) -> None:
    api.check("listing", sentence, CASES[sentence])
