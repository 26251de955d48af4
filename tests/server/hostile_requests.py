"""Random requests to an API server, most of them odd, repeatable from a seed.

Objects grow along the schemas of their kinds, so that they get past the first look, and then get
values that `hostility` draws; paths, parameters and patches likewise. Knows what a request may
hold, and nothing of what is answered.
"""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from manifest.hostile_manifests import dumped
from manifest.hostility import Hostility, Raw
from manifest.mutation import at, paths
from rig.manifests import valid_manifests

from jobyard.server.call import Call
from jobyard.server.kinds.types.kubernetes_schemas import definitions

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
LEVELS_MAX = 5
FITTING: Mapping[str, tuple[Any, ...]] = {
    "integer": (0, 1, 2, 80, 443, 3600, 65535, -1, 2**31 - 1),
    "number": (0, 0.5, 1),
    "boolean": (True, False),
    "string": ("a", "b", "Always", "Never", "TCP", "ClusterIP", "/a", "1.2.3.4", "Exists", "main"),
}
FITTING_REFERRED: Mapping[str, tuple[Any, ...]] = {
    "Quantity": ("1", "500m", "1Gi", "0.5"),
    "MicroTime": ("2026-01-01T00:00:00.000000Z",),
    "Time": ("2026-01-01T00:00:00Z", None),
    "IntOrString": (80, "http", "50%"),
}
NAMES = ("a", "b", "c", "default", "kube-root-ca.crt", "x" * 260, "A", "", "..", "a/b", "²", "%FF")
ACCEPTS = (
    *("application/json", "application/json", "application/json", "*/*", "", "application/yaml"),
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    *(
        "application/vnd.kubernetes.protobuf",
        "text/html;q=1e999",
        "a;b;c=d;=,,",
        "application/*;q=²",
    ),
)
TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "", "a/b")
PARAMETERS = (
    *("limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "watch"),
    *("labelSelector", "fieldSelector", "allowWatchBookmarks", "sendInitialEvents", "pretty"),
    *("dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "includeObject"),
    *("propagationPolicy", "orphanDependents", "a"),
)
WORDS = (
    *("true", "false", "1", "0", "All", "Exact", "NotOlderThan", "Strict", "Warn", "Ignore"),
    *("Foreground", "Orphan", "a", "a=b", "a in (b)", "a>5", "!a", "metadata.name=a", "a!=b,c"),
    *("status.phase=Running", "spec.nodeName!=", "(", "a in (", "None", "Object", "Table", ""),
)
STREAMED = (
    *("container", "command", "ports", "stdin", "tty", "follow", "previous", "tailLines", "run"),
    *("sinceSeconds", "sinceTime", "limitBytes", "attempt", "timestamps", "path"),
)
HEADERS = (
    *("Accept", "Accept-Encoding", "Content-Encoding", "User-Agent", "If-None-Match", "Range"),
    *("Sec-WebSocket-Protocol", "X-Stream-Protocol-Version", "Expect", "Content-Type"),
)
ODD_HEADERS = ("\xff", "gzip", "a/b;q=1e999", "*", "", "v5.channel.k8s.io", "ü" * 100, "x" * 5_000)
KINDS: tuple[tuple[str, str, str, bool], ...] = (
    ("v1", "configmaps", "ConfigMap", True),
    ("v1", "pods", "Pod", True),
    ("v1", "pods", "Pod", True),
    ("v1", "services", "Service", True),
    ("v1", "secrets", "Secret", True),
    ("v1", "events", "Event", True),
    ("v1", "endpoints", "Endpoints", True),
    ("v1", "nodes", "Node", False),
    ("v1", "namespaces", "Namespace", False),
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim", True),
    ("v1", "serviceaccounts", "ServiceAccount", True),
    ("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", False),
    ("coordination.k8s.io/v1", "leases", "Lease", True),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", True),
    ("events.k8s.io/v1", "events", "Event", True),
    ("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("batch.tensorstack.dev/v1beta1", "genericjobs", "GenericJob", True),
    ("batch.tensorstack.dev/v1beta1", "mpijobs", "MPIJob", True),
    ("octopus.openi.pcl.cn/v1alpha1", "tasksets", "TaskSet", True),
    ("probe.dev/v1", "widgets", "Widget", True),
)
PACKAGES = {
    "v1": "io.k8s.api.core.v1.",
    "apiextensions.k8s.io/v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "coordination.k8s.io/v1": "io.k8s.api.coordination.v1.",
    "discovery.k8s.io/v1": "io.k8s.api.discovery.v1.",
    "events.k8s.io/v1": "io.k8s.api.events.v1.",
    "scheduling.k8s.io/v1": "io.k8s.api.scheduling.v1.",
    "authorization.k8s.io/v1": "io.k8s.api.authorization.v1.",
}
# The least that is taken, so that what is added gets a closer look.
SPECS: Mapping[str, Json] = {
    "Pod": {"spec": {"containers": [{"name": "a", "image": "i"}]}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
    },
    "PriorityClass": {"value": 5},
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"]}]},
    "Event": {"involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"}},
    "SelfSubjectAccessReview": {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}},
    "Widget": {"spec": {"n": 1, "any": {"a": [1, {"b": "c"}]}}},
}
WIDGETS: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.probe.dev"},
    "spec": {
        "group": "probe.dev",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.n",
                        "statusReplicasPath": ".status.n",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
                    {"name": "F", "type": "number", "jsonPath": ".spec.f"},
                    {"name": "D", "type": "date", "jsonPath": ".spec.when"},
                    {"name": "Any", "type": "string", "jsonPath": ".spec.any"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "n": {"type": "integer", "default": 1},
                                    "f": {"type": "number", "multipleOf": 0.5},
                                    "when": {"type": "string", "format": "date-time"},
                                    "span": {"type": "string", "format": "duration"},
                                    "either": {"x-kubernetes-int-or-string": True},
                                },
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.n) || self.n < 1000"},
                                    {"rule": "!has(self.span) || self.span > duration('1s')"},
                                ],
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


class Requests:
    """Draws calls. `fits`: only what the schemas of the kinds allow, so that more gets through."""

    def __init__(self, seed: int, *, fits: bool = False) -> None:
        self._fits = fits
        self._dice = random.Random(seed)
        self._values = Hostility(self._dice)
        jobs = valid_manifests()
        self._jobs = {
            job["kind"]: job for job in jobs if job["kind"] in ("GenericJob", "MPIJob", "TaskSet")
        }

    def plain(self) -> list[Call]:
        """Objects of every kind as they should be, for the others to meet."""
        calls = []
        for api_version, plural, kind, namespaced in dict.fromkeys(KINDS):
            root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
            home = "/namespaces/default" if namespaced else ""
            for name in "abc":
                base = copy.deepcopy(self._jobs.get(kind) or SPECS.get(kind) or {})
                obj = {**base, "apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
                body = dumped(obj).encode()
                calls.append(Call(method="POST", path=f"{root}{home}/{plural}", body=body))
        return calls

    def draw(self) -> Call:
        api_version, plural, kind, namespaced = self._dice.choice(KINDS)
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        home = f"/namespaces/{self._home()}" if namespaced else ""
        path = f"{root}{home}/{plural}"
        name = self._name(0.1)
        method = self._dice.choice(
            (*("POST",) * 4, *("PUT",) * 3, *("PATCH",) * 6, *("GET",) * 2, "DELETE")
        )
        obj = self._object(api_version, kind, name)
        one = f"{path}/{quote(name, safe='')}"
        if self._dice.random() < 0.25:
            one += "/" + self._dice.choice(
                ("status", "status", "scale", "binding", "eviction", "x")
            )
            method = self._dice.choice(("PUT", "PATCH", "POST", "GET"))
        match method:
            case "POST":
                target = one if one.endswith(("binding", "eviction")) else path
                if target is one:
                    obj = self._action(one, name)
                return self._sent("POST", target, dumped(obj), self._type())
            case "PUT":
                return self._sent("PUT", one, dumped(obj), self._type())
            case "PATCH":
                sort = self._dice.choice((MERGE, JSON_PATCH, STRATEGIC, APPLY))
                return self._sent("PATCH", one, self._patch(sort, obj), sort)
            case "DELETE":
                target = self._dice.choice((one, one, path))
                body = dumped(self._delete_options()) if self._dice.random() < 0.7 else ""
                return self._sent("DELETE", target, body, "application/json")
        return self._sent("GET", self._dice.choice((one, path)), "", "")

    def at_the_door(self) -> tuple[str, str, bytes, dict[str, str]]:
        """A request with all that HTTP adds: method, target, body and headers."""
        call = self.draw()
        path = call.path
        if self._dice.random() < 0.5:
            path = self._node_path()
        target = quote(path.encode("utf-8", "replace"), safe="/%:") or "/"
        words = [f"{name}={quote(value.encode('utf-8', 'replace'))}" for name, value in call.query]
        words += [f"{self._dice.choice(STREAMED)}={quote(self._word())}" for _ in range(2)]
        method = self._dice.choice(
            (call.method, call.method, "GET", "POST", "HEAD", "OPTIONS", "FOO")
        )
        headers = {"Accept": call.accept, "Content-Type": call.content_type}
        for name in self._dice.sample(HEADERS, 2):
            headers[name] = self._dice.choice(ODD_HEADERS)
        # Of a method that is none the rest isn't read, and a long body would break off.
        body = b"" if method == "FOO" else call.body
        # A watch would not end by itself.
        return method, f"{target}?{'&'.join([*words, 'timeoutSeconds=1'])}", body, headers

    def _node_path(self) -> str:
        pod = self._dice.choice(
            ("a", "a:80", "http:a:80", "https:a:", f"a:{self._values.digits()}", "a:²")
        )
        part = self._dice.choice(
            ("log", "exec", "attach", "portforward", "proxy", "proxy/a/../b", "x")
        )
        return f"/api/v1/namespaces/default/pods/{pod}/{part}"

    def _sent(self, method: str, path: str, body: str, content_type: str) -> Call:
        count = 0 if self._fits else self._dice.choice((0, 0, 0, 1, 2))
        query = [(self._dice.choice(PARAMETERS), self._word()) for _ in range(count)]
        if method == "PATCH" and content_type == APPLY:
            query.append(("fieldManager", "m"))
        data = body.encode("utf-8", "replace")
        if self._dice.random() < 0.03 and data and not self._fits:
            # Cut off, or with a byte that is no character.
            place = self._dice.randrange(len(data))
            data = data[:place] + self._dice.choice((b"", b"\xff" + data[place:]))
        return Call(
            method=method,
            path=path,
            query=tuple(query),
            body=data,
            content_type=content_type,
            accept=self._dice.choice(ACCEPTS if self._dice.random() < 0.2 else ACCEPTS[:1]),
            user_agent=self._dice.choice(("curl/1", "", "ü" * 200)),
        )

    def _word(self) -> str:
        if self._dice.random() < 0.5:
            return self._dice.choice(WORDS)
        if self._dice.random() < 0.2:
            version = dumped(self._values.number())
            token = f'{{"v":"meta.k8s.io/v1","rv":{version},"start":"/a\\u0000"}}'
            return base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
        return self._values.text().encode("utf-8", "replace").decode()

    def _home(self) -> str:
        if self._fits or self._dice.random() >= 0.05:
            return "default"
        return quote(self._name(0.5), safe="")

    def _name(self, odd: float) -> str:
        if self._dice.random() < odd and not self._fits:
            return self._dice.choice(NAMES)
        return self._dice.choice(("a", "b", "c", f"n{self._dice.randrange(50)}"))

    def _type(self) -> str:
        is_odd = self._dice.random() < 0.05 and not self._fits
        return self._dice.choice(TYPES) if is_odd else "application/json"

    # Objects.

    def _object(self, api_version: str, kind: str, name: str) -> Json:
        base = copy.deepcopy(self._jobs.get(kind) or SPECS.get(kind) or {})
        obj = {**base, "apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
        if kind == "CustomResourceDefinition":
            obj = copy.deepcopy(WIDGETS)
        if self._dice.random() < (0.1 if self._fits else 0.3):
            obj["metadata"] |= self._grown("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", 0)
            obj["metadata"]["name"] = name
        definition = f"{PACKAGES.get(api_version, '')}{kind}"
        if definition in definitions() and self._dice.random() < 0.7:
            self._graft(obj, definition)
        for _ in range(self._dice.choice((0, 0, 1, 1, 2))):
            self._harm(obj)
        return obj

    def _graft(self, obj: Json, definition: str) -> None:
        """Some fields that its kind has, below what is there already."""
        schema = definitions()[definition]
        names = [
            n for n in schema.get("properties", {}) if n not in ("metadata", "kind", "apiVersion")
        ]
        for name in self._dice.sample(names, min(len(names), 2)):
            below = schema["properties"][name]
            grown = self._value(below, 0)
            if isinstance(obj.get(name), dict) and isinstance(grown, dict):
                obj[name] |= {k: v for k, v in grown.items() if k not in obj[name]}
            else:
                obj[name] = grown

    def _grown(self, definition: str, level: int) -> Json:
        schema = definitions()[definition]
        properties = schema.get("properties", {})
        wanted = set(schema.get("required", ()))
        others = [name for name in properties if name not in wanted]
        wanted |= set(self._dice.sample(others, min(len(others), self._dice.choice((0, 1, 2, 3)))))
        return {name: self._value(properties[name], level + 1) for name in sorted(wanted)}

    def _value(self, schema: Json, level: int) -> Any:
        if self._fits and schema.get("type") in FITTING:
            return self._dice.choice(FITTING[schema["type"]])
        if self._dice.random() < 0.05 and not self._fits:
            return self._values.value()
        if "$ref" in schema:
            return self._referred(schema["$ref"], level)
        match schema.get("type"):
            case "object" if level < LEVELS_MAX:
                below = schema.get("additionalProperties")
                return {"a": self._value(below, level + 1)} if isinstance(below, dict) else {}
            case "array" if level < LEVELS_MAX:
                count = self._dice.choice((0, 1, 2))
                return [self._value(schema["items"], level + 1) for _ in range(count)]
            case "integer":
                return self._dice.choice(
                    (0, 1, -1, 80, 65536, 2**31, 2**63 - 1, 2**63, 1.5, Raw("1e2"))
                )
            case "number":
                return self._dice.choice((0, 0.5, 1e300, Raw("1e999")))
            case "boolean":
                return self._dice.choice((True, False, "true"))
            case "string":
                return self._dice.choice(
                    ("a", "b", "Always", "", "/a", "1.2.3.4", self._values.text())
                )
        return self._dice.choice(({}, [], None, "a"))

    def _referred(self, name: str, level: int) -> Any:
        if self._fits and name.endswith(tuple(FITTING_REFERRED)):
            ending = next(each for each in FITTING_REFERRED if name.endswith(each))
            return self._dice.choice(FITTING_REFERRED[ending])
        if name.endswith("Quantity"):
            return self._dice.choice(("1", "500m", 5, self._values.text(), self._values.number()))
        if name.endswith(("Time", "MicroTime")):
            return self._dice.choice(
                ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", None,
                 "2026-01-01T00:00:00+99:99", "2026-01-01t00:00:00z", "10000-01-01T00:00:00Z",
                 "2026-02-30T00:00:60Z", self._values.text())
            )  # fmt: skip
        if name.endswith("IntOrString"):
            return self._dice.choice((80, "http", "50%", 2**31, self._values.text()))
        if level >= LEVELS_MAX or name not in definitions():
            return {}
        return self._grown(name, level)

    def _harm(self, obj: Json) -> None:
        if self._fits:
            return
        places = [path for path in paths(obj) if not _is_raw(obj, path)]
        path = self._dice.choice(places)
        if path[-1] in ("kind", "apiVersion") and self._dice.random() < 0.8:
            return
        at(obj, path[:-1])[path[-1]] = self._values.value()

    # Patches and the rest.

    def _patch(self, sort: str, obj: Json) -> str:
        if sort != JSON_PATCH:
            if sort == STRATEGIC and self._dice.random() < 0.3:
                words = (
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/finalizers",
                    "$deleteFromPrimitiveList/finalizers",
                )
                word = self._dice.choice(("delete", "replace", ["a"], {}, self._values.value()))
                obj["metadata"] = {"name": "a", self._dice.choice(words): word}
            return dumped(obj)
        places = ["/" + "/".join(map(str, path)) for path in paths(obj)] or [""]
        return dumped(
            [
                {
                    "op": self._dice.choice(
                        ("add", "remove", "replace", "move", "copy", "test", "x")
                    ),
                    "path": self._pointer(places),
                    "from": self._pointer(places),
                    "value": {"a": "b"} if self._fits else self._values.value(),
                }
                for _ in range(self._dice.choice((1, 2, 3)))
            ]
        )

    def _pointer(self, places: list[str]) -> Any:
        if self._dice.random() < 0.1:
            return self._dice.choice(("", "/", "a", 5, None, "/metadata", "/~2", "/spec/-"))
        place = self._dice.choice(places)
        return place + self._dice.choice(
            ("", "", f"/{self._values.digits()}", "/-", f"/{self._values.text()}")
        )

    def _delete_options(self) -> Json:
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        name = self._dice.choice(
            (
                "gracePeriodSeconds",
                "propagationPolicy",
                "orphanDependents",
                "preconditions",
                "dryRun",
            )
        )
        value = self._dice.choice(
            (5, "Foreground", True, {"uid": "a"}, ["All"], self._values.value())
        )
        if name == "preconditions" and self._dice.random() < 0.5:
            value = {self._dice.choice(("uid", "resourceVersion")): self._values.value()}
        return {**options, name: value}

    def _action(self, path: str, name: str) -> Json:
        metadata = {"name": name}
        if path.endswith("binding"):
            obj: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata}
            obj["target"] = self._dice.choice(
                ({"name": "n"}, {"kind": "Node", "name": "n"}, "n", 5, None)
            )
        else:
            obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            obj["deleteOptions"] = self._delete_options()
        if self._dice.random() < 0.5:
            self._harm(obj)
        return obj


def _is_raw(obj: Json, path: Any) -> bool:
    return isinstance(at(obj, path), Raw)


def as_text(call: Call) -> str:
    """For a failure's message."""
    about = f"{call.method} {call.path} {json.dumps(call.query)[:200]} {call.content_type}"
    return f"{about} {call.body[:600]!r}"
