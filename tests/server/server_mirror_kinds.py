"""Kinds with every way to merge, and random manifests of them that often meet in their fields."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from rig.kube.api import ApiCaller

from jobyard.schema.node import compiled
from jobyard.schema.settling import settled
from jobyard.server.resource import JSONSchema, ServedResource
from server.server_mirror import Json, served

GROUP = "mirror.jobyard.dev"
DEFINED_SECONDS = 60
_TEXT: JSONSchema = {"type": "string"}
_PAIR: JSONSchema = {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}}
_ITEM: JSONSchema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "port": {"type": "integer", "default": 80},
        "value": _TEXT,
        "nested": _PAIR,
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
    },
}
_SPEC: JSONSchema = {
    "type": "object",
    "properties": {
        "plain": {"type": "array", "items": _TEXT},
        "texts": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "numbers": {
            "type": "array",
            "items": {"type": "integer"},
            "x-kubernetes-list-type": "set",
        },
        "items": {
            "type": "array",
            "items": _ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
        },
        "rows": {"type": "array", "items": _ITEM, "x-kubernetes-list-type": "atomic"},
        "whole": {**_PAIR, "x-kubernetes-map-type": "atomic"},
        "map": {"type": "object", "additionalProperties": _TEXT},
        "pairs": {"type": "object", "additionalProperties": _PAIR},
        "pair": _PAIR,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "some": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": _TEXT, "pair": _PAIR},
        },
        "number": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True},
        "inner": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
_STATUS: JSONSchema = {
    "type": "object",
    "properties": {
        "phase": _TEXT,
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": _TEXT, "status": _TEXT, "reason": _TEXT},
            },
        },
        "map": {"type": "object", "additionalProperties": _TEXT},
    },
}
SCHEMA: JSONSchema = {
    "type": "object",
    "properties": {"spec": _SPEC, "status": _STATUS},
}


def definition(plural: str, kind: str, schema: JSONSchema, *, has_status: bool) -> Json:
    """A CRD of one version."""
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if has_status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "singular": kind.lower()},
            "versions": [version],
        },
    }


def custom(plural: str, kind: str, schema: JSONSchema, *, has_status: bool) -> ServedResource:
    return served((GROUP, "v1", kind, plural), schema, has_status=has_status, is_custom=True)


_NODE = compiled(SCHEMA)


def settled_thing(obj: Json) -> Json:
    """The object as the schema leaves it: pruned, and with its one default."""
    body = {name: obj[name] for name in ("spec", "status") if name in obj}
    out: Json = {**obj, **settled(body, _NODE, (), [])}
    return out


async def define(api: ApiCaller, crd: Json) -> None:
    """Create a CRD and wait until objects of it are taken."""
    name = crd["metadata"]["name"]
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = await api.request("POST", path, body=crd)
    assert answer.status in (201, 409), answer.text
    async with asyncio.timeout(DEFINED_SECONDS):
        async for event in api.watch(path, query={"fieldSelector": f"metadata.name={name}"}):
            conditions = event["object"].get("status", {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
    listing = f"/apis/{crd['spec']['group']}/v1/{crd['spec']['names']['plural']}"
    async with asyncio.timeout(DEFINED_SECONDS):
        # Established says that names are accepted; serving begins a moment later.
        while (await api.request("GET", listing)).status != 200:
            pass


class Chance:
    """Random parts of manifests; few names and few values, so that writers meet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, *names: str) -> list[str]:
        return [name for name in names if self.random.random() < 0.5]

    def text(self) -> str:
        return self.random.choice(["x", "y", "z<&>", 'q"ü'])

    def shuffled(self, values: list[Any]) -> list[Any]:
        return self.random.sample(values, len(values))

    def texts(self) -> list[str]:
        return self.shuffled(self.some("t1", "t2", "t3", "t4", "t<5"))

    def pair(self) -> Json:
        return {name: self.text() for name in self.some("a", "b")}

    def map(self, *names: str) -> Json:
        return {name: self.text() for name in self.some(*(names or ("k1", "k2", "k.3")))}

    def labels(self) -> Json:
        return {name: f"v{len(self.text())}" for name in self.some("l1", "l2")}

    def item(self, name: str) -> Json:
        port = self.random.choice([None, 80, 443])
        out: Json = {"name": name} if port is None else {"name": name, "port": port}
        for part in self.some("value", "nested", "tags"):
            out[part] = {"value": self.text, "nested": self.pair, "tags": self.texts}[part]()
        return out

    def items(self) -> list[Json]:
        found = {}
        for name in self.texts():
            item = self.item(name)
            found[name, item.get("port", 80)] = item
        return self.shuffled(list(found.values()))

    def free(self, depth: int = 0) -> Any:
        match self.random.randrange(8 if depth < 2 else 5):
            case 0:
                return self.random.choice([True, False, 0, 1, 1.5])
            case 1 | 2:
                return self.text()
            case 3:
                return self.texts()
            case 4:
                return [self.map(), 1]
        return {name: self.free(depth + 1) for name in self.some("u", "v", "w")}

    def free_map(self) -> Json:
        return {name: self.free(1) for name in self.some("u", "v", "w")}

    def spec(self, density: float = 0.35) -> Json:
        makers: dict[str, Any] = {
            "plain": self.texts,
            "texts": self.texts,
            "numbers": lambda: self.shuffled(
                [n for n in (3, 20, 100) if self.random.random() < 0.6]
            ),
            "items": self.items,
            "rows": self.items,
            "whole": self.pair,
            "map": self.map,
            "pairs": lambda: {name: self.pair() for name in self.some("p", "q")},
            "pair": self.pair,
            "free": self.free_map,
            "some": lambda: {**self.free_map(), **self.pair(), "pair": self.pair()},
            "number": lambda: self.random.randrange(3),
            "ratio": lambda: self.random.choice([1, 1.0, 1.5]),
            "flag": lambda: self.random.random() < 0.5,
            "either": lambda: self.random.choice([1, "1", "10%"]),
            "inner": lambda: {
                "apiVersion": "v1",
                "kind": "Inner",
                "metadata": {"name": "inner", "labels": self.labels()},
                "spec": self.free_map(),
            },
        }
        out = {name: maker() for name, maker in makers.items() if self.random.random() < density}
        if "some" in out:
            out["some"].pop("b", None)
        return out

    def status(self) -> Json:
        out: Json = {}
        if self.random.random() < 0.7:
            out["phase"] = self.text()
        if self.random.random() < 0.5:
            out["map"] = self.map()
        if self.random.random() < 0.7:
            out["conditions"] = [
                {"type": name, "status": self.random.choice(["True", "False"])}
                for name in self.shuffled(self.some("Ready", "Done", "Lost"))
            ]
        return out

    def metadata(self) -> Json:
        out: Json = {}
        if self.random.random() < 0.5:
            out["labels"] = self.labels()
        if self.random.random() < 0.3:
            out["annotations"] = self.map("n1", "n2")
        if self.random.random() < 0.2:
            out["finalizers"] = [f"{GROUP}/{name}" for name in self.some("f1", "f2")]
        if self.random.random() < 0.2:
            # Of a kind that the garbage collector can't look for.
            out["ownerReferences"] = [
                {"apiVersion": "none.dev/v1", "kind": "None", "name": self.text()[0], "uid": uid}
                for uid in self.shuffled(self.some("u1", "u2"))
            ]
        return out


CORE = "io.k8s.api.core.v1."
# Kubernetes' own kinds: definition, plural, whether the status has a door, body, and the fields
# that admission and storage add when it is created.
OWN_KINDS: dict[str, tuple[str, str, bool, Json, tuple[str, ...]]] = {
    "ConfigMap": (
        CORE + "ConfigMap",
        "configmaps",
        False,
        {"data": {"b": "1", "a": "2"}, "binaryData": {"x": "AA=="}, "immutable": False},
        (),
    ),
    "Secret": (CORE + "Secret", "secrets", False, {"data": {"b": "MQ=="}}, ()),
    "Service": (
        CORE + "Service",
        "services",
        True,
        {
            "spec": {
                "clusterIP": "None",
                "selector": {"a": "b"},
                "ports": [
                    {"port": 443, "name": "b"},
                    {"port": 80, "name": "a", "targetPort": "http"},
                    {"port": 80, "protocol": "UDP", "name": "c"},
                ],
            }
        },
        ("spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"),
    ),
    "Pod": (
        CORE + "Pod",
        "pods",
        True,
        {
            "spec": {
                "automountServiceAccountToken": False,
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "c", "configMap": {"name": "x", "items": [{"key": "a", "path": "b"}]}},
                ],
                "initContainers": [{"name": "i", "image": "x"}],
                "containers": [
                    {
                        "name": "main",
                        "image": "a",
                        "command": ["x"],
                        "env": [
                            {
                                "name": "B",
                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                            },
                            {"name": "A", "value": "1"},
                        ],
                        "ports": [{"containerPort": 443}, {"containerPort": 80}],
                        "resources": {"limits": {"cpu": "1"}},
                        "volumeMounts": [
                            {"name": "v", "mountPath": "/b"},
                            {"name": "v", "mountPath": "/a"},
                        ],
                    },
                    {"name": "a", "image": "b:1"},
                ],
            }
        },
        (
            "spec.serviceAccount",
            "spec.serviceAccountName",
            "spec.tolerations",
            "spec.priority",
            "spec.preemptionPolicy",
        ),
    ),
    "PersistentVolumeClaim": (
        CORE + "PersistentVolumeClaim",
        "persistentvolumeclaims",
        True,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            }
        },
        ("metadata.finalizers",),
    ),
    "ServiceAccount": (
        CORE + "ServiceAccount",
        "serviceaccounts",
        False,
        {"secrets": [{"name": "x"}], "imagePullSecrets": [{"name": "y"}]},
        (),
    ),
    "Event": (
        CORE + "Event",
        "events",
        False,
        {
            "involvedObject": {"kind": "Node", "name": "x"},
            "reason": "r",
            "message": "m",
            "source": {"component": "c"},
            "count": 1,
            "firstTimestamp": "2020-01-01T00:00:00Z",
        },
        (),
    ),
    "new Event": (
        "io.k8s.api.events.v1.Event",
        "events",
        False,
        {
            "regarding": {"kind": "Node", "name": "x"},
            "reason": "r",
            "note": "m",
            "type": "Normal",
            "action": "a",
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "reportingController": "a.b/c",
            "reportingInstance": "i",
        },
        (),
    ),
    "Lease": (
        "io.k8s.api.coordination.v1.Lease",
        "leases",
        False,
        {"spec": {"holderIdentity": "x", "renewTime": "2020-01-01T00:00:00.000000Z"}},
        (),
    ),
    "Endpoints": (
        CORE + "Endpoints",
        "endpoints",
        False,
        {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
        (),
    ),
}
