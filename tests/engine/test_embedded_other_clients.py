"""Clients of other people, unmodified, against a running embedded engine; judged by a real server.

Each is there for something that it does and the others don't: fabric8's client for Java watches
over WebSocket, client-go's clientset for definitions sends them as protobuf.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rig.engine import EngineKubectl, Room
from rig.kube.plane import ControlPlane
from rig.needs import needed
from rig.places import ROOT
from rig.waiting import until_it_holds

JSON = dict[str, Any]
TOOLS = ROOT / "tools"
FOLLOW = TOOLS / "clients" / "fabric8" / "Follow.java"
# A virtual machine that compiles its program first, beside other tests.
SECONDS = 120.0


def client(name: str) -> Path:
    done = subprocess.run(
        [sys.executable, str(TOOLS / "get_clients.py"), name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@contextmanager
def following(kubeconfig: Path, namespace: str) -> Iterator[list[str]]:
    """The lines that fabric8's client says while the block runs."""
    java = needed("java", "openjdk-17-jdk-headless")
    needed("javac", "openjdk-17-jdk-headless")
    needed("mvn", "maven")
    words = [java, "-cp", f"{client('fabric8')}/*", str(FOLLOW), namespace]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    lines: list[str] = []
    with subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout
        reader = threading.Thread(target=lambda: lines.extend(iter(said.readline, "")))
        reader.start()
        try:
            yield lines
        finally:
            process.stdin.close()
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            reader.join(SECONDS)


def config(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_fabric8_s_default_client_watches_and_informs(room: Room) -> None:
    room.create("configmaps", config("before"))
    with following(room.engine.kubeconfig, room.name) as lines:

        def has_said(*wanted: str) -> None:
            def is_said() -> bool:
                return set(wanted) <= {line.strip() for line in lines}

            until_it_holds(is_said, f"lines {wanted} of the client", SECONDS)

        has_said("ready VertxHttpClient", "informer added before", "watch ADDED before")
        room.create("configmaps", config("a"))
        has_said("informer added a", "watch ADDED a")
        patch = {"data": {"k": "v"}}
        path = room.path("configmaps", "a")
        merge = "application/merge-patch+json"
        assert room.engine.ask("PATCH", path, patch, content_type=merge).status == 200
        has_said("informer updated a", "watch MODIFIED a")
        assert room.engine.ask("DELETE", path).status == 200
        has_said("informer deleted a", "watch DELETED a")


def definition(group: str) -> JSON:
    """With all that has a form of its own on the wire: either one thing or another, raw JSON."""
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
            "ratio": {"type": "number", "minimum": 0.5, "multipleOf": 0.25},
            "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "port": {"x-kubernetes-int-or-string": True},
            "nested": {"type": "object", "default": {"a": [1, None]}, "nullable": True}
            | {"x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "grow"}],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [column],
    }
    old = {**version, "name": "v1alpha1", "served": False, "storage": False}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "names": {**names, "shortNames": ["th"]},
            "scope": "Namespaced",
            "versions": [version, old],
        },
    }


def defined(kubeconfig: Path, wanted: JSON) -> JSON:
    done = subprocess.run(
        [str(client("define"))],
        input=json.dumps(wanted),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    made: JSON = json.loads(done.stdout)
    return made


def test_client_go_s_clientset_makes_a_definition_as_on_a_real_server(
    room: Room, control_plane: ControlPlane, kubectl_binary: Path
) -> None:
    wanted = definition(f"{secrets.token_hex(4)}.example.com")
    ours = defined(room.engine.kubeconfig, wanted)
    real = defined(control_plane.kubeconfig, wanted)
    assert ours["spec"] == real["spec"]
    assert ours["status"]["storedVersions"] == real["status"]["storedVersions"]
    kubectl = EngineKubectl(kubectl_binary, room)
    thing = {"apiVersion": f"{wanted['spec']['group']}/v1", "kind": "Thing"}
    kubectl("create", "-f", "-", stdin={**thing, "metadata": {"name": "a"}, "spec": {}})
    path = "jsonpath={.spec.size} {.spec.colour}"
    assert kubectl("get", "defined", "a", "-o", path) == "3 red"
    kubectl("delete", "crd", wanted["metadata"]["name"])


@pytest.fixture
def kubectl(room: Room, kubectl_binary: Path) -> EngineKubectl:
    return EngineKubectl(kubectl_binary, room)


def test_describing_a_service_shows_its_endpoints(room: Room, kubectl: EngineKubectl) -> None:
    room.pod("web", "sleep", "1000")
    address = room.running("web")["status"]["podIP"]
    kubectl("expose", "pod", "web", "--port=80", "--target-port=8080")

    def is_told() -> bool:
        lines = [line.split() for line in kubectl("describe", "service", "web").splitlines()]
        return ["Endpoints:", f"{address}:8080"] in lines

    until_it_holds(is_told, "the pod's address in what kubectl describes")
    [name] = kubectl(
        *("get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", "name")
    ).split()
    kubectl("delete", "service", "web")
    kubectl("wait", "--for=delete", name, f"--timeout={SECONDS:.0f}s", code=None)
    assert kubectl("get", "endpointslices", "-o", "name") == ""


def test_a_token_that_can_t_be_had_is_told_of_and_the_pod_waits(
    room: Room, kubectl: EngineKubectl
) -> None:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    volume = {"name": "access", "projected": {"sources": [token]}}
    mount = {"volumeMounts": [{"name": "access", "mountPath": "/access"}]}
    room.pod("caller", "ls", "/access", volumes=[volume], main=mount)
    query = "fieldSelector=involvedObject.name%3Dcaller,reason%3DFailedMount"
    event = room.engine.until(room.path("events"), query, lambda _event: True)
    assert 'failed for volume "access" : serviceAccountToken can\'t be had' in event["message"]
    assert "docs/embedded-server.md" in event["message"]
    assert room.get("pods", "caller")["status"]["phase"] == "Pending"
    assert "serviceAccountToken can't be had" in kubectl("describe", "pod", "caller")


def test_a_bound_claim_says_how_much_it_holds_and_for_whom(
    room: Room, kubectl: EngineKubectl
) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "3Gi"}}}
    room.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    room.pod("user", "sleep", "1000", volumes=[volume])
    room.running("user")
    columns = "STATUS:.status.phase,CAPACITY:.status.capacity.storage,MODES:.status.accessModes"
    told = kubectl("get", "pvc", "data", "--no-headers", "-o", f"custom-columns={columns}")
    assert told.split() == ["Bound", "3Gi", "[ReadWriteMany]"]
    assert {"Bound", "3Gi", "RWX"} <= set(kubectl("get", "pvc", "data", "--no-headers").split())
