"""Every verb of an unmodified kubectl against a running embedded engine, with what it prints."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.engine import JOBS, EngineKubectl, Room, RunningEngine
from rig.needs import needed
from rig.waiting import until_it_holds

JSON = dict[str, Any]
OWN_KUBECTL = shutil.which("kubectl")
SLEEPING = ["sh", "-c", "echo up; exec sleep 1000"]


# One verb in four; with the newer kubectl, which is all but the same program, every one of them.
OLDER = pytest.param("the machine's own kubectl", marks=pytest.mark.sample(4, "an older kubectl"))


@pytest.fixture(params=["kubectl 1.36", *([OLDER] if OWN_KUBECTL else [])])
def kubectl(request: pytest.FixtureRequest, room: Room, kubectl_binary: Path) -> EngineKubectl:
    """Both speak to the same engine; the machine's own is usually older."""
    is_ours = request.param == "kubectl 1.36" or OWN_KUBECTL is None
    return EngineKubectl(kubectl_binary if is_ours else Path(OWN_KUBECTL or ""), room)


def job(name: str, replicas: int = 1, command: list[str] | None = None, **spec: Any) -> JSON:
    main = {"name": "main", "image": "any", "command": command or SLEEPING}
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}}
    role = {"type": "worker", "replicas": replicas, "template": template}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name, "labels": {"team": "red"}},
        "spec": {"replicaSpecs": [role], **spec},
    }


def elastic(name: str, path: Path) -> JSON:
    main = {"name": "pytorch", "image": "any", "args": ["train.py"]}
    # Here a stand-in for torchrun is found.
    main["env"] = [{"name": "PATH", "value": f"{path}:/usr/bin:/bin"}]
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}}
    sizes = {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 1}
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "PyTorchTrainingJob",
        "metadata": {"name": name},
        "spec": {
            "torchrunConfig": {"enabled": True, "maxRestarts": 3},
            "elastic": sizes,
            "replicaSpecs": [{"type": "worker", "replicas": 1, "template": template}],
        },
    }


def config(name: str, **data: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
def running(room: Room) -> Room:
    """A job `train` with two workers that are up."""
    room.create("genericjobs", job("train", 2), JOBS)
    until_running(room, ready=2)
    return room


def until_running(room: Room, ready: int) -> None:
    def is_running(found: JSON) -> bool:
        status = found.get("status", {})
        return (status.get("phase"), status.get("readyReplicas")) == ("Running", ready)

    room.until("genericjobs", "train", is_running, JOBS)


def until_told(room: Room, pod: str, reason: str) -> None:
    """Waits for an event about a pod: events come after the status."""
    query = f"fieldSelector=involvedObject.name%3D{pod},reason%3D{reason}"
    room.engine.until(room.path("events"), query, lambda _event: True)


def spec_of(room: Room, name: str, plural: str = "genericjobs") -> JSON:
    spec: JSON = room.get(plural, name, JOBS)["spec"]
    return spec


# What the server is


def test_an_engine_on_a_new_folder_has_nothing_to_complain_of(engine: RunningEngine) -> None:
    """Its parts watch their kinds from the first moment on, before these are on disk."""
    words = [line.split()[0] for line in engine.first_words.splitlines()]
    assert words == ["engine", "data", "kubectl"]


def test_version(kubectl: EngineKubectl) -> None:
    server = json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    assert (server["major"], server["minor"]) == ("1", "36")
    assert server["gitVersion"].endswith("+jobyard")


def test_cluster_info(kubectl: EngineKubectl) -> None:
    told = kubectl("cluster-info")
    assert f"Kubernetes control plane is running at {kubectl.room.engine.url}" in _plain(told)


def test_api_versions(kubectl: EngineKubectl) -> None:
    told = kubectl("api-versions").splitlines()
    ours = {"batch.tensorstack.dev/v1beta1", "octopus.openi.pcl.cn/v1alpha1"}
    assert {"v1", "apiextensions.k8s.io/v1", "coordination.k8s.io/v1", *ours} <= set(told)


def test_api_resources(kubectl: EngineKubectl) -> None:
    lines = kubectl("api-resources").splitlines()
    assert re.fullmatch(r"NAME +SHORTNAMES +APIVERSION +NAMESPACED +KIND", lines[0])
    rows = {tuple(line.split()) for line in lines[1:]}
    assert ("genericjobs", "gj", "batch.tensorstack.dev/v1beta1", "true", "GenericJob") in rows
    assert ("tasksets", "ts", "octopus.openi.pcl.cn/v1alpha1", "true", "TaskSet") in rows
    assert ("pods", "po", "v1", "true", "Pod") in rows
    named = kubectl("api-resources", "--api-group=batch.tensorstack.dev", "-o", "name")
    assert "mpijobs.batch.tensorstack.dev" in named.splitlines()
    scalable = kubectl("api-resources", "--verbs=deletecollection,watch", "-o", "name")
    assert "pods" in scalable.splitlines()


def test_auth_whoami(kubectl: EngineKubectl) -> None:
    told = json.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert told["username"] == "jobyard"
    assert "system:authenticated" in told["groups"]


def test_auth_can_i(kubectl: EngineKubectl) -> None:
    assert kubectl("auth", "can-i", "create", "genericjobs").strip() == "yes"
    assert kubectl("auth", "can-i", "get", "pods", "--subresource=log").strip() == "yes"
    listed = kubectl("auth", "can-i", "--list")
    assert re.search(r"^\*\.\* +\[\] +\[\] +\[\*\]", listed, re.MULTILINE)


def test_explain(kubectl: EngineKubectl) -> None:
    told = kubectl("explain", "genericjob.spec.replicaSpecs.replicas")
    assert re.search(r"^GROUP: +batch\.tensorstack\.dev$", told, re.MULTILINE)
    assert re.search(r"^FIELD: +replicas <integer>$", told, re.MULTILINE)
    assert "containers\t<[]Container> -required-" in kubectl("explain", "pod.spec")
    whole = kubectl("explain", "taskset.spec", "--recursive")
    assert "maxRetryCount" in whole
    wrong = kubectl("explain", "genericjob.spec.nothing", code=1)
    assert 'field "nothing" does not exist' in wrong


def test_top_fails_and_says_why(kubectl: EngineKubectl) -> None:
    assert "Metrics API not available" in kubectl("top", "pods", code=1)


# Making things


def test_create(kubectl: EngineKubectl) -> None:
    told = kubectl("create", "-f", "-", stdin=job("train"))
    assert told == "genericjob.batch.tensorstack.dev/train created\n"
    again = kubectl("create", "-f", "-", stdin=job("train"), code=1)
    assert '(AlreadyExists): error when creating "STDIN"' in again
    assert 'genericjobs.batch.tensorstack.dev "train" already exists' in again


def test_create_of_core_kinds_by_words(kubectl: EngineKubectl) -> None:
    assert kubectl("create", "configmap", "c", "--from-literal=a=1") == "configmap/c created\n"
    assert kubectl("create", "secret", "generic", "s", "--from-literal=p=x") == "secret/s created\n"
    assert kubectl("get", "cm", "c", "-o", "jsonpath={.data.a}") == "1"
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.p}") == "eA=="
    assert kubectl("create", "sa", "robot") == "serviceaccount/robot created\n"
    assert kubectl("create", "service", "clusterip", "web", "--tcp=80") == "service/web created\n"


def test_create_refuses_what_is_wrong(kubectl: EngineKubectl) -> None:
    negative = kubectl("create", "-f", "-", stdin=job("train", -1), code=1)
    assert 'The GenericJob "train" is invalid: spec.replicaSpecs[0].replicas: ' in negative
    assert "Invalid value: -1" in negative
    unknown = kubectl("create", "-f", "-", stdin=job("train", nothing=1), code=1)
    assert 'strict decoding error: unknown field "spec.nothing"' in unknown
    relaxed = kubectl("create", "-f", "-", "--validate=warn", stdin=job("train", nothing=1))
    assert relaxed == "genericjob.batch.tensorstack.dev/train created\n"


def test_create_of_a_list_is_validated(kubectl: EngineKubectl) -> None:
    many = {"apiVersion": "v1", "kind": "List", "items": [job("a"), config("b")]}
    told = kubectl("create", "-f", "-", stdin=many).splitlines()
    assert told == ["genericjob.batch.tensorstack.dev/a created", "configmap/b created"]
    wrong = {"apiVersion": "v1", "kind": "List", "items": [{**config("c"), "dat": {}}]}
    assert 'unknown field "dat" in io.k8s.api.core.v1.ConfigMap' in kubectl(
        "create", "-f", "-", stdin=wrong, code=1
    )
    wrong["items"] = [job("d", nothing=1)]
    refused = kubectl("create", "-f", "-", stdin=wrong, code=1)
    assert 'unknown field "nothing" in dev.tensorstack.batch.v1beta1.GenericJob.spec' in refused


def test_create_with_a_generated_name_and_dry_run(kubectl: EngineKubectl) -> None:
    generated = job("x")
    generated["metadata"] = {"generateName": "train-"}
    name = kubectl("create", "-f", "-", "-o", "name", stdin=generated).strip()
    assert re.fullmatch(r"genericjob.batch.tensorstack.dev/train-[a-z0-9]{5}", name)
    dry = kubectl("create", "-f", "-", "--dry-run=server", stdin=job("other"))
    assert dry == "genericjob.batch.tensorstack.dev/other created (server dry run)\n"
    assert "NotFound" in kubectl("get", "gj", "other", code=1)


def test_apply(kubectl: EngineKubectl) -> None:
    name = "genericjob.batch.tensorstack.dev/train"
    assert kubectl("apply", "-f", "-", stdin=job("train")) == f"{name} created\n"
    assert kubectl("apply", "-f", "-", stdin=job("train")) == f"{name} unchanged\n"
    changed = job("train", ttlSecondsAfterFinished=600)
    assert kubectl("apply", "-f", "-", stdin=changed) == f"{name} configured\n"
    assert spec_of(kubectl.room, "train")["ttlSecondsAfterFinished"] == 600
    # What is no longer in the file goes.
    assert kubectl("apply", "-f", "-", stdin=job("train")) == f"{name} configured\n"
    assert "ttlSecondsAfterFinished" not in spec_of(kubectl.room, "train")


def test_apply_of_core_kinds_merges_lists_by_their_keys(kubectl: EngineKubectl) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": ports, "selector": {"app": "web"}},
    }
    assert kubectl("apply", "-f", "-", stdin=service) == "service/web created\n"
    service["spec"] = {"ports": ports[1:], "selector": {"app": "web"}}
    assert kubectl("apply", "-f", "-", stdin=service) == "service/web configured\n"
    assert kubectl("get", "svc", "web", "-o", "jsonpath={.spec.ports[*].name}") == "b"


def test_apply_server_side(kubectl: EngineKubectl) -> None:
    name = "genericjob.batch.tensorstack.dev/train"
    first = kubectl("apply", "--server-side", "-f", "-", stdin=job("train"))
    assert first == f"{name} serverside-applied\n"
    changed = job("train", cleanUpPolicy="All")
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert kubectl(*other, stdin=changed) == f"{name} serverside-applied\n"
    changed["spec"]["replicaSpecs"][0]["replicas"] = 2
    conflict = kubectl(*other, stdin=changed, code=1)
    assert "Apply failed with 1 conflict" in conflict
    assert 'conflict with "kubectl"' in conflict
    assert ".spec.replicaSpecs" in conflict
    managers = kubectl(
        *("get", "gj", "train", "--show-managed-fields"),
        *("-o", "jsonpath={.metadata.managedFields[*].manager}"),
    )
    assert {"kubectl", "other"} <= set(managers.split())


def test_diff(kubectl: EngineKubectl) -> None:
    kubectl("apply", "-f", "-", stdin=job("train"))
    # A status that changes meanwhile is a difference too.
    until_running(kubectl.room, ready=1)
    assert kubectl("diff", "-f", "-", stdin=job("train")) == ""
    changed = job("train", ttlSecondsAfterFinished=60)
    told = kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert "+  ttlSecondsAfterFinished: 60" in told.splitlines()
    assert "-  generation: 1" in told.splitlines()


def test_replace(kubectl: EngineKubectl) -> None:
    kubectl("create", "-f", "-", stdin=config("c", a="1", b="2"))
    assert kubectl("replace", "-f", "-", stdin=config("c", a="3")) == "configmap/c replaced\n"
    assert kubectl.room.get("configmaps", "c")["data"] == {"a": "3"}
    before = kubectl.room.get("configmaps", "c")["metadata"]["uid"]
    forced = kubectl("replace", "--force", "-f", "-", stdin=config("c", a="4"))
    assert forced.endswith("configmap/c replaced\n")
    assert kubectl.room.get("configmaps", "c")["metadata"]["uid"] != before
    stale = config("c", a="5")
    stale["metadata"]["resourceVersion"] = "1"
    assert "the object has been modified" in kubectl("replace", "-f", "-", stdin=stale, code=1)


# Changing things


def test_edit(kubectl: EngineKubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", stdin=job("train"))
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\nexec sed -i "s/team: red/team: blue/" "$@"\n')
    script.chmod(0o755)
    told = kubectl("edit", "gj", "train", KUBE_EDITOR=str(script))
    assert told == "genericjob.batch.tensorstack.dev/train edited\n"
    assert kubectl("get", "gj", "-l", "team=blue", "-o", "name") != ""
    unchanged = kubectl("edit", "gj", "train", code=None, KUBE_EDITOR="true")
    assert "no changes made" in unchanged


@pytest.mark.parametrize(
    ("type_", "patch"),
    [
        ("merge", {"spec": {"ttlSecondsAfterFinished": 70}}),
        ("json", [{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 70}]),
    ],
)
def test_patch_of_a_job(kubectl: EngineKubectl, type_: str, patch: Any) -> None:
    kubectl("create", "-f", "-", stdin=job("train"))
    told = kubectl("patch", "gj", "train", f"--type={type_}", "-p", json.dumps(patch))
    assert told == "genericjob.batch.tensorstack.dev/train patched\n"
    assert spec_of(kubectl.room, "train")["ttlSecondsAfterFinished"] == 70
    assert kubectl("get", "gj", "train", "-o", "jsonpath={.metadata.generation}") == "2"
    same = kubectl("patch", "gj", "train", f"--type={type_}", "-p", json.dumps(patch))
    assert same == "genericjob.batch.tensorstack.dev/train patched (no change)\n"


def test_patch_strategic_is_for_core_kinds_only(kubectl: EngineKubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("train"))
    refused = kubectl("patch", "gj", "train", "-p", '{"spec":{}}', code=1)
    assert "application/strategic-merge-patch+json is not supported" in refused
    kubectl.room.pod("web", *SLEEPING)
    patch = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    assert kubectl("patch", "pod", "web", "-p", json.dumps(patch)) == "pod/web patched\n"
    main = kubectl.room.get("pods", "web")["spec"]["containers"]
    assert [(each["image"], each["command"]) for each in main] == [("other", SLEEPING)]


def test_patch_of_a_status(kubectl: EngineKubectl) -> None:
    kubectl("create", "service", "clusterip", "web", "--tcp=80")
    patch = {"metadata": {"labels": {"no": "no"}}, "status": {"conditions": [condition("Fine")]}}
    told = kubectl(
        *("patch", "svc", "web", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
    )
    assert told == "service/web patched\n"
    found = kubectl.room.get("services", "web")
    assert found["status"]["conditions"][0]["type"] == "Fine"


def condition(type_: str) -> JSON:
    moment = "2026-01-01T00:00:00Z"
    reason = {"reason": "Because", "message": "", "lastTransitionTime": moment}
    return {"type": type_, "status": "True", **reason}


def test_label(kubectl: EngineKubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("train"))
    name = "genericjob.batch.tensorstack.dev/train"
    assert kubectl("label", "gj", "train", "a=1") == f"{name} labeled\n"
    refused = kubectl("label", "gj", "train", "a=2", code=1)
    assert "'a' already has a value (1), and --overwrite is false" in refused
    assert kubectl("label", "gj", "train", "a=2", "--overwrite") == f"{name} labeled\n"
    assert kubectl("get", "gj", "-l", "a in (2,3),team=red", "-o", "name") == f"{name}\n"
    assert kubectl("label", "gj", "train", "a-") == f"{name} unlabeled\n"
    assert "invalid label value" in kubectl("label", "gj", "train", "a=not ok", code=1)


def test_annotate(kubectl: EngineKubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("train"))
    name = "genericjob.batch.tensorstack.dev/train"
    assert kubectl("annotate", "gj", "train", "why=two words") == f"{name} annotated\n"
    shown = kubectl("get", "gj", "train", "-o", "jsonpath={.metadata.annotations.why}")
    assert shown == "two words"
    assert kubectl("annotate", "gj", "--all", "why-") == f"{name} annotated\n"
    assert "annotations" not in kubectl.room.get("genericjobs", "train", JOBS)["metadata"]


def test_scale_of_an_elastic_job(kubectl: EngineKubectl) -> None:
    torchrun = kubectl.room.engine.who.write("torchrun", "#!/bin/sh\nexec sleep 1000\n")
    torchrun.chmod(0o755)
    kubectl("create", "-f", "-", stdin=elastic("train", torchrun.parent))
    name = "pytorchtrainingjob.batch.tensorstack.dev/train"
    assert kubectl("scale", "--replicas=2", "ptj/train") == f"{name} scaled\n"
    assert spec_of(kubectl.room, "train", "pytorchtrainingjobs")["elastic"]["expectedReplicas"] == 2
    waiting = ("wait", "--timeout=30s", "ptj/train", "--for=jsonpath={.status.readyReplicas}=2")
    assert kubectl(*waiting) == f"{name} condition met\n"
    refused = kubectl("scale", "--replicas=3", "--current-replicas=1", "ptj/train", code=1)
    assert "Expected replicas to be 1, was 2" in refused
    beyond = kubectl("scale", "--replicas=9", "ptj/train", code=1)
    assert "maxReplicas" in beyond
    assert kubectl("scale", "--replicas=1", "ptj/train") == f"{name} scaled\n"
    kubectl("wait", "--timeout=30s", "--for=delete", "pod/train-worker-1")


# Looking at things


def test_get_prints_our_columns(kubectl: EngineKubectl, running: Room) -> None:
    lines = kubectl("get", "gj").splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert re.fullmatch(r"train +Running +2/2 +0 +\d+s", lines[1])
    wide = kubectl("get", "pods", "-o", "wide").splitlines()
    assert re.match(r"NAME +READY +STATUS +RESTARTS +AGE +IP +NODE", wide[0])
    assert re.match(r"train-worker-0 +1/1 +Running +0 +\d+s +100\.96\.\d+\.\d+ +\S+", wide[1])
    labels = kubectl("get", "gj", "--show-labels", "--no-headers")
    assert labels.split()[-1] == "team=red"
    assert kubectl("get", "gj", "-L", "team", "--no-headers").split()[-1] == "red"


def test_get_in_other_forms(kubectl: EngineKubectl, running: Room) -> None:
    whole = json.loads(kubectl("get", "gj", "train", "-o", "json"))
    assert whole["status"]["phase"] == "Running"
    assert "\n  phase: Running\n" in kubectl("get", "gj", "train", "-o", "yaml")
    names = "{range .items[*]}{.metadata.name}={.status.phase};{end}"
    told = kubectl("get", "pods", "-o", f"jsonpath={names}")
    assert told == "train-worker-0=Running;train-worker-1=Running;"
    assert kubectl("get", "gj", "-o", "name") == "genericjob.batch.tensorstack.dev/train\n"
    columns = "custom-columns=N:.metadata.name,P:.status.phase"
    assert [line.split() for line in kubectl("get", "gj", "-o", columns).splitlines()] == [
        ["N", "P"],
        ["train", "Running"],
    ]
    template = "{{range .items}}{{.metadata.name}} {{end}}"
    assert kubectl("get", "pods", "-o", f"go-template={template}").split() == [
        "train-worker-0",
        "train-worker-1",
    ]
    both = kubectl("get", "gj,pods", "-o", "name", "--sort-by=.metadata.name").splitlines()
    assert len(both) == 3


def test_get_selects(kubectl: EngineKubectl, running: Room) -> None:
    one = ("get", "pods", "-o", "name", "-l", "batch.tensorstack.dev/replica-rank=1")
    assert kubectl(*one) == "pod/train-worker-1\n"
    assert kubectl("get", "pods", "-o", "name", "-l", "genericjob!=train") == ""
    by_field = ("get", "pods", "-o", "name", "--field-selector")
    assert kubectl(*by_field, "metadata.name=train-worker-0") == "pod/train-worker-0\n"
    running_ones = kubectl(*by_field, "status.phase=Running,metadata.name!=train-worker-0")
    assert running_ones == "pod/train-worker-1\n"
    assert "field label not supported" in kubectl(*by_field, "spec.nothing=1", code=1)
    everywhere = kubectl("get", "gj", "-A", "--no-headers").splitlines()
    assert [kubectl.room.name, "train"] in [line.split()[:2] for line in everywhere]


def test_get_says_what_isnt_there(kubectl: EngineKubectl) -> None:
    assert kubectl("get", "gj") == ""
    missing = kubectl("get", "gj", "no", code=1)
    assert (
        missing
        == 'Error from server (NotFound): genericjobs.batch.tensorstack.dev "no" not found\n'
    )
    assert kubectl("get", "gj", "no", "--ignore-not-found") == ""
    unknown = kubectl("get", "nothings", code=1)
    assert 'the server doesn\'t have a resource type "nothings"' in unknown


def test_get_pages_through_many(kubectl: EngineKubectl) -> None:
    many = {"apiVersion": "v1", "kind": "List", "items": [config(f"c{n}") for n in range(7)]}
    kubectl("create", "-f", "-", stdin=many)
    assert len(kubectl("get", "cm", "--chunk-size=2", "-o", "name").splitlines()) == 7


def test_get_watches(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    room.create("genericjobs", job("before"), JOBS)
    watching = kubectl.start("get", "gj", "-w", "--output-watch-events")
    try:
        assert watching.stdout is not None
        # What was there already is told first: from here on it watches.
        head, first = watching.stdout.readline().split(), watching.stdout.readline().split()
        assert head == ["EVENT", "NAME", "PHASE", "READY", "RESTARTS", "AGE"]
        assert first[:2] == ["ADDED", "before"]
        room.create("genericjobs", job("train", command=["sh", "-c", "true"]), JOBS)
        seen = []
        for line in watching.stdout:
            event, name, *rest = line.split()
            if name != "train":
                continue
            seen.append(event)
            if rest[0] == "Succeeded" and event == "MODIFIED":
                room.engine.ask("DELETE", room.path("genericjobs", "train", JOBS))
            if event == "DELETED":
                break
        assert (seen[0], seen[-1]) == ("ADDED", "DELETED")
        assert set(seen[1:-1]) == {"MODIFIED"}
    finally:
        end(watching)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=10)


def test_describe_a_job(kubectl: EngineKubectl, running: Room) -> None:
    told = kubectl("describe", "gj", "train")
    assert re.search(r"^Kind: +GenericJob$", told, re.MULTILINE)
    assert re.search(r"^  Phase: +Running$", told, re.MULTILINE)
    assert re.search(r"^  Normal +CreatedPods .* jobyard +Created 2 pods: ", told, re.MULTILINE)


def test_describe_a_pod(kubectl: EngineKubectl, running: Room) -> None:
    until_told(running, "train-worker-0", "Started")
    told = kubectl("describe", "pod", "train-worker-0")
    assert re.search(r"^Controlled By: +GenericJob/train$", told, re.MULTILINE)
    assert re.search(r"^    State: +Running$", told, re.MULTILINE)
    assert re.search(r"^  Ready +True *$", told, re.MULTILINE)
    assert re.search(r"^  Normal +Started .* Started container main$", told, re.MULTILINE)


def test_describe_the_node(kubectl: EngineKubectl, running: Room) -> None:
    told = kubectl("describe", "nodes")
    assert re.search(r"^  Ready +True .* kubelet is posting ready status$", told, re.MULTILINE)
    assert re.search(r"^  cpu: +\d+$", told, re.MULTILINE)
    assert re.search(rf"^  {kubectl.room.name} +train-worker-0 ", told, re.MULTILINE)


def test_describe_other_core_kinds(kubectl: EngineKubectl) -> None:
    kubectl("create", "secret", "generic", "s", "--from-literal=p=hidden")
    assert "hidden" not in kubectl("describe", "secret", "s")
    kubectl("create", "configmap", "c", "--from-literal=a=seen")
    assert "seen" in kubectl("describe", "cm", "c")
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    assert re.search(r"^Port: +80-8080 +80/TCP$", kubectl("describe", "svc", "web"), re.MULTILINE)
    assert re.search(
        r"^Status: +Active$", kubectl("describe", "ns", kubectl.room.name), re.MULTILINE
    )


def test_events(kubectl: EngineKubectl, running: Room) -> None:
    until_told(running, "train-worker-0", "Started")
    told = kubectl("events", "--for", "pod/train-worker-0").splitlines()
    assert told[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert any("Started container main" in line for line in told[1:])
    of_job = kubectl("events", "--types=Normal", "--no-headers")
    assert re.search(r"CreatedPods +GenericJob/train +Created 2 pods", of_job)
    by_reason = kubectl("get", "events", "--field-selector", "reason=CreatedPods", "-o", "name")
    assert len(by_reason.splitlines()) == 1


def test_wait_for_a_condition(kubectl: EngineKubectl) -> None:
    kubectl("create", "-f", "-", stdin=job("train", command=["sh", "-c", "true"]))
    name = "genericjob.batch.tensorstack.dev/train condition met\n"
    assert kubectl("wait", "--for=condition=Completed", "gj/train", "--timeout=30s") == name
    met = kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "gj/train", "--timeout=30s")
    assert met == name
    never = kubectl("wait", "--for=condition=Failed", "gj/train", "--timeout=1s", code=1)
    assert "timed out waiting for the condition on genericjobs/train" in never


def test_wait_for_the_end(kubectl: EngineKubectl, running: Room) -> None:
    waiting = kubectl.start("wait", "--for=delete", "gj/train", "--timeout=40s", "-v=8")
    assert waiting.stdout is not None
    # It tells its requests: once it watches, the job may go.
    assert any("watch=true" in line for line in waiting.stdout)
    running.engine.ask("DELETE", running.path("genericjobs", "train", JOBS))
    out, _ = waiting.communicate(timeout=40)
    assert waiting.returncode == 0
    assert out.splitlines()[-1] == "genericjob.batch.tensorstack.dev/train condition met"


# Taking things away


def pods_of(room: Room) -> list[JSON]:
    items: list[JSON] = room.engine.ask("GET", room.path("pods")).json["items"]
    return items


def test_delete_in_the_background_takes_the_pods_along(
    kubectl: EngineKubectl, running: Room
) -> None:
    told = kubectl("delete", "gj", "train")
    deleted = 'genericjob.batch.tensorstack.dev "train" deleted'
    assert told.strip() in (deleted, f"{deleted} from {running.name} namespace")
    kubectl("wait", "--for=delete", "pod", "--all", "--timeout=30s")
    assert pods_of(running) == []


def test_delete_in_the_foreground_ends_after_the_pods(
    kubectl: EngineKubectl, running: Room
) -> None:
    kubectl("delete", "gj", "train", "--cascade=foreground")
    assert pods_of(running) == []


def test_delete_orphans(kubectl: EngineKubectl, running: Room) -> None:
    kubectl("delete", "gj", "train", "--cascade=orphan")
    left = pods_of(running)
    assert [pod["metadata"]["name"] for pod in left] == ["train-worker-0", "train-worker-1"]
    assert not any("ownerReferences" in pod["metadata"] for pod in left)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in left)


def test_delete_with_a_grace_period(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    # The shell sees SIGTERM and would take its time.
    script = 'trap "echo asked to go" TERM; echo up; while :; do sleep 1000 & wait $!; done'
    room.pod("slow", "sh", "-c", script, terminationGracePeriodSeconds=500)
    room.running("slow")
    path = room.path("pods", "slow") + "/log"
    until_it_holds(lambda: room.engine.ask("GET", path).text == "up\n", "the trap is set")
    kubectl("delete", "pod", "slow", "--grace-period=500", "--wait=false")
    going = room.get("pods", "slow")["metadata"]
    assert going["deletionGracePeriodSeconds"] == 500
    kubectl("delete", "pod", "slow", "--grace-period=1")
    assert pods_of(room) == []


def test_delete_by_force(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    room.pod("stubborn", "sh", "-c", 'trap "" TERM; echo up; while :; do sleep 1000; done')
    room.running("stubborn")
    told = kubectl("delete", "pod", "stubborn", "--force", "--grace-period=0")
    assert '"stubborn" force deleted' in told
    assert pods_of(room) == []


def test_delete_many(kubectl: EngineKubectl) -> None:
    many = {"apiVersion": "v1", "kind": "List", "items": [config(f"c{n}") for n in range(3)]}
    kubectl("create", "-f", "-", stdin=many)
    kubectl("label", "cm", "c0", "c1", "old=yes")
    assert len(kubectl("delete", "cm", "-l", "old=yes").splitlines()) == 2
    assert kubectl("get", "cm", "-o", "name").split() == ["configmap/c2"]
    kubectl("delete", "cm", "--all")
    assert "NotFound" in kubectl("delete", "cm", "c2", code=1)
    assert kubectl("delete", "cm", "c2", "--ignore-not-found") == ""


def test_delete_of_a_namespace_takes_everything(kubectl: EngineKubectl, running: Room) -> None:
    kubectl("delete", "ns", running.name, "--timeout=40s")
    assert running.engine.ask("GET", f"/api/v1/namespaces/{running.name}").status == 404
    assert pods_of(running) == []


# The proxy


@pytest.fixture
def proxy(kubectl: EngineKubectl) -> Iterator[str]:
    going = kubectl.start("proxy", "--port=0")
    try:
        assert going.stdout is not None
        line = going.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found, line
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        end(going)


def test_proxy(kubectl: EngineKubectl, proxy: str) -> None:
    kubectl("create", "-f", "-", stdin=config("c", a="1"))
    path = kubectl.room.path("configmaps", "c")
    got = subprocess.run(
        [needed("curl"), "-sS", proxy + path], capture_output=True, text=True, timeout=30
    )
    assert json.loads(got.stdout)["data"] == {"a": "1"}
    assert json.loads(kubectl("get", "--raw", path))["data"] == {"a": "1"}


def _plain(text: str) -> str:
    """Without the colours of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# What the node answers

TALKING = "echo one; echo two; echo three >&2; exec sleep 1000"


@pytest.fixture
def talking(room: Room) -> Room:
    """A pod `web` with two containers, that has said everything it has to say."""
    second = {"name": "side", "image": "any", "command": ["sh", "-c", "echo aside"]}
    main = {"name": "main", "image": "any", "command": ["sh", "-c", TALKING]}
    # Ready only when the lines are there to be read.
    room.pod("web", containers=[main, second])
    room.until("pods", "web", lambda pod: "terminated" in _states(pod).get("side", {}))
    followed = room.engine.connection()
    path = room.path("pods", "web") + "/log?container=main&follow=true"
    followed.request("GET", path, headers={"Authorization": f"Bearer {room.engine.token}"})
    lines = followed.getresponse()
    assert sorted(lines.readline().decode() for _ in range(3)) == ["one\n", "three\n", "two\n"]
    followed.close()
    return room


def _states(pod: JSON) -> dict[str, JSON]:
    return {each["name"]: each["state"] for each in pod["status"].get("containerStatuses", [])}


def test_logs(kubectl: EngineKubectl, talking: Room) -> None:
    lines = kubectl("logs", "web").splitlines()
    assert sorted(lines) == ["one", "three", "two"]
    assert lines.index("one") < lines.index("two")
    assert kubectl("logs", "web", "-c", "side") == "aside\n"
    assert kubectl("logs", "web", "--tail=1") == f"{lines[-1]}\n"
    every = kubectl("logs", "web", "--all-containers", "--prefix").splitlines()
    assert "[pod/web/side] aside" in every
    assert len(every) == 4
    selected = kubectl("logs", "-l", "app=web", "-c", "main", "--tail=-1")
    assert sorted(selected.splitlines()) == sorted(lines)
    unknown = kubectl("logs", "web", "-c", "no", code=1)
    assert "container no is not valid for pod web" in unknown
    no_other = kubectl("logs", "web", "-c", "main", "--previous", code=1)
    assert 'previous terminated container "main" in pod "web" not found' in no_other
    assert 'pods "nobody" not found' in kubectl("logs", "nobody", code=1)


def test_logs_by_time(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    room.pod("web", "sh", "-c", "echo early; sleep 1.5; echo late")
    assert room.ended("web") == (0, "early\nlate\n")
    stamped = [line.split() for line in kubectl("logs", "web", "--timestamps").splitlines()]
    assert [words[1] for words in stamped] == ["early", "late"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$", words[0]) for words in stamped)
    assert kubectl("logs", "web", f"--since-time={stamped[1][0]}") == "late\n"
    assert kubectl("logs", "web", "--since=10m") == "early\nlate\n"
    assert kubectl("logs", "web", "--limit-bytes=5") == "early"


def test_logs_follow_to_the_end(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    gate = room.engine.who.home / f"gate-{room.name}"
    script = f"echo begun; until [ -e {gate} ]; do sleep 0.1; done; echo done"
    room.pod("web", "sh", "-c", script)
    room.running("web")
    following = kubectl.start("logs", "-f", "web")
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    gate.touch()
    out, _ = following.communicate(timeout=30)
    assert (following.returncode, out) == (0, "done\n")


def test_logs_of_the_previous_attempt(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    mark = room.engine.who.home / f"mark-{room.name}"
    script = (
        f"[ -e {mark} ] && {{ echo again; exec sleep 1000; }}; touch {mark}; echo first; exit 1"
    )
    room.pod("web", "sh", "-c", script, restartPolicy="OnFailure")
    room.until("pods", "web", lambda pod: _restarts(pod) == 1 and "running" in _states(pod)["main"])
    assert kubectl("logs", "web", "--previous") == "first\n"
    following = kubectl.start("logs", "-f", "web")
    assert following.stdout is not None
    assert following.stdout.readline() == "again\n"
    end(following)


def _restarts(pod: JSON) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))


@pytest.fixture
def shell(room: Room) -> Room:
    """A pod `box` to run things in."""
    room.pod("box", *SLEEPING, main={"env": [{"name": "COLOUR", "value": "green"}]})
    room.running("box")
    return room


def test_exec(kubectl: EngineKubectl, shell: Room) -> None:
    assert kubectl("exec", "box", "--", "sh", "-c", "echo $COLOUR; hostname") == "green\nbox\n"
    assert kubectl("exec", "-i", "box", "--", "tr", "a-z", "A-Z", stdin="shout") == "SHOUT"
    failed = kubectl("exec", "box", "--", "sh", "-c", "echo out; echo err >&2; exit 7", code=7)
    assert failed == "out\nerr\ncommand terminated with exit code 7\n"
    missing = kubectl("exec", "box", "--", "no-such-command", code=None)
    assert "no-such-command" in missing
    # Words are words: no shell looks at them.
    words = ["$HOME", "a b", "`id`", "$(id)", "'", '"', "*"]
    told = kubectl("exec", "box", "--", "printf", "%s\\n", *words)
    assert told.splitlines() == words


def test_exec_with_much_data_both_ways(kubectl: EngineKubectl, shell: Room) -> None:
    text = "0123456789abcde\n" * 100_000
    assert kubectl("exec", "-i", "box", "--", "cat", stdin=text) == text


def test_exec_on_a_terminal(kubectl: EngineKubectl, shell: Room) -> None:
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    # A session of its own, with the terminal as the one that controls it.
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *kubectl.words("exec", "-it", "box", "--", "sh")],
        env={**kubectl.environment, "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    try:
        # The size comes right after the start, not with it.
        sized = b"while [ \"$(stty size)\" != '33 101' ]; do :; done; "
        os.write(master, sized + b"tty; stty size; echo $((6*7))-$COLOUR\n")
        seen = _read_until(master, rb"42-green")
        assert re.search(rb"/dev/(pts/\d+|console)\r\n33 101\r\n42-green", seen)
        # Ctrl-C is for the program inside, not for kubectl.
        # It says when it is there: an interrupt before that would be the shell's.
        os.write(master, b"sh -c 'echo up-$((1+1)); exec sleep 1000'\n")
        _read_until(master, rb"up-2\r\n")
        os.write(master, b"\x03")
        _read_until(master, rb"\^C[\r\n]+.*[#$] ")
        os.write(master, b"echo still-$((1+1))\n")
        _read_until(master, rb"still-2")
        os.write(master, b"exit 5\n")
        assert process.wait(timeout=30) == 5
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _read_until(terminal: int, wanted: bytes, seconds: float = 30) -> bytes:
    seen = b""
    while not re.search(wanted, seen):
        ready, _, _ = select.select([terminal], [], [], seconds)
        assert ready, f"{wanted!r} never came: {seen!r}"
        seen += os.read(terminal, 4096)
    return seen


def test_attach(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    room.pod("echo", "cat", main={"stdin": True, "stdinOnce": True})
    room.running("echo")
    assert kubectl("attach", "-i", "echo", stdin="hello there\n", seconds=30) == "hello there\n"
    assert room.ended("echo") == (0, "hello there\n")


def test_run_on_the_fly(kubectl: EngineKubectl) -> None:
    words = ("run", "once", "--image=any", "--restart=Never", "--rm", "-i", "-q", "--")
    told = kubectl(*words, "sh", "-c", "read x; echo got $x", stdin="something\n", code=None)
    assert "got something" in told


def test_cp_both_ways(kubectl: EngineKubectl, shell: Room, tmp_path: Path) -> None:
    inside = shell.engine.who.home / f"inside-{shell.name}"
    here = tmp_path / "here"
    (here / "deep").mkdir(parents=True)
    (here / "deep" / "file").write_bytes(bytes(range(256)) * 5000)
    (here / "script").write_text("#!/bin/sh\n")
    (here / "script").chmod(0o755)
    kubectl("cp", str(here), f"box:{inside}")
    assert kubectl("exec", "box", "--", "stat", "-c", "%a", f"{inside}/script") == "755\n"
    back = tmp_path / "back"
    kubectl("cp", f"box:{inside}", str(back))
    assert (back / "deep" / "file").read_bytes() == (here / "deep" / "file").read_bytes()


SERVER = """
import http.server
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from " + self.path.encode() + b"x" * 100000)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
"""


def test_port_forward(kubectl: EngineKubectl) -> None:
    room = kubectl.room
    asking = ["bash", "-c", "echo > /dev/tcp/127.0.0.1/8000"]
    probe = {"exec": {"command": asking}, "periodSeconds": 1}
    room.pod("web", sys.executable, "-c", SERVER, main={"readinessProbe": probe})
    room.running("web")
    forwarding = kubectl.start("port-forward", "pod/web", ":8000")
    try:
        assert forwarding.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+) -> 8000", forwarding.stdout.readline())
        assert found
        url = f"http://127.0.0.1:{found[1]}/"
        # Several at once, each with its own connection.
        done = subprocess.run(
            [needed("curl"), "-sS", "--parallel", "--parallel-immediate", url + "[1-5]"],
            capture_output=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        assert {b"hello from /%d" % n in done.stdout for n in range(1, 6)} == {True}
        assert done.stdout.count(b"x") == 500000
    finally:
        end(forwarding)
