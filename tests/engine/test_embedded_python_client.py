"""The official Kubernetes client for Python, unmodified, against a running embedded engine."""

from __future__ import annotations

import base64
import gc
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, dynamic, stream, utils, watch
from kubernetes.client.exceptions import ApiException
from rig.engine import JOBS, Room
from rig.waiting import until_it_holds

# The client leaves connections to the garbage collector; `api` sees to it that it comes here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

JSON = dict[str, Any]
GROUP, VERSION = "batch.tensorstack.dev", "v1beta1"
SLEEPING = ["sh", "-c", "echo up; exec sleep 1000"]
SECONDS = 60


@pytest.fixture
def api(room: Room) -> Iterator[client.ApiClient]:
    """A client that has read the kubeconfig of the engine."""
    made = config.new_client_from_config(str(room.engine.kubeconfig))
    yield made
    made.close()
    made.rest_client.pool_manager.clear()
    gc.collect()


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def customs(api: client.ApiClient) -> client.CustomObjectsApi:
    return client.CustomObjectsApi(api)


def job(name: str, *command: str, **spec: Any) -> JSON:
    main = {"name": "main", "image": "any", "command": list(command) or SLEEPING}
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [{"type": "worker", "template": template}], **spec},
    }


def pod(name: str, *command: str) -> client.V1Pod:
    main = client.V1Container(name="main", image="any", command=list(command))
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": name}),
        spec=client.V1PodSpec(
            containers=[main], restart_policy="Never", termination_grace_period_seconds=1
        ),
    )


def jobs_of(room: Room, plural: str = "genericjobs") -> tuple[str, str, str, str]:
    return GROUP, VERSION, room.name, plural


def test_pods_live_and_are_read_as_typed_objects(core: client.CoreV1Api, room: Room) -> None:
    before = core.list_namespaced_pod(room.name).metadata.resource_version
    created = core.create_namespaced_pod(room.name, pod("web", "sh", "-c", "echo hello"))
    assert created.metadata.uid
    seen = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_pod,
        room.name,
        field_selector="metadata.name=web",
        resource_version=before,
        timeout_seconds=SECONDS,
    ):
        seen.append((event["type"], event["object"].status.phase))
        if event["object"].status.phase == "Succeeded":
            watching.stop()
    assert seen[0] == ("ADDED", "Pending")
    assert seen[-1] == ("MODIFIED", "Succeeded")
    found = core.read_namespaced_pod("web", room.name)
    [status] = found.status.container_statuses
    assert status.state.terminated.exit_code == 0
    assert status.state.terminated.finished_at >= status.state.terminated.started_at
    assert core.read_namespaced_pod_log("web", room.name) == "hello\n"
    listed = core.list_namespaced_pod(room.name, label_selector="app=web", limit=1)
    assert [each.metadata.name for each in listed.items] == ["web"]
    core.delete_namespaced_pod("web", room.name)


def test_logs_are_followed(core: client.CoreV1Api, room: Room) -> None:
    core.create_namespaced_pod(room.name, pod("web", "sh", "-c", "echo a; sleep 0.5; echo b"))
    room.until("pods", "web", lambda pod: pod["status"]["phase"] != "Pending")
    following = watch.Watch().stream(
        core.read_namespaced_pod_log, name="web", namespace=room.name, follow=True
    )
    assert list(following) == ["a", "b"]


def test_logs_of_the_run_before(core: client.CoreV1Api, room: Room) -> None:
    script = "mkdir /v/first 2>&- && echo first && exit 3; echo second; exec sleep 1000"
    body = pod("twice", "sh", "-c", script)
    body.spec.containers[0].volume_mounts = [client.V1VolumeMount(name="v", mount_path="/v")]
    body.spec.volumes = [client.V1Volume(name="v", empty_dir=client.V1EmptyDirVolumeSource())]
    body.spec.restart_policy = "OnFailure"
    core.create_namespaced_pod(room.name, body)

    def is_second(found: JSON) -> bool:
        return any(
            each["restartCount"] == 1 and "running" in each["state"]
            for each in found["status"].get("containerStatuses", ())
        )

    room.until("pods", "twice", is_second)
    assert core.read_namespaced_pod_log("twice", room.name, previous=True) == "first\n"
    following = watch.Watch().stream(core.read_namespaced_pod_log, "twice", room.name)
    assert next(following) == "second"
    following.close()
    core.create_namespaced_pod(room.name, pod("once", "true"))
    room.until("pods", "once", lambda pod: pod["status"]["phase"] == "Succeeded")
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_pod_log("once", room.name, previous=True)
    assert refused.value.status == 400
    told = json.loads(refused.value.body)["message"]
    assert told == 'previous terminated container "main" in pod "once" not found'


def test_eviction(core: client.CoreV1Api, room: Room) -> None:
    core.create_namespaced_pod(room.name, pod("box", *SLEEPING))
    before = room.running("box")["metadata"]["resourceVersion"]
    wanted = client.V1Eviction(metadata=client.V1ObjectMeta(name="box", namespace=room.name))
    core.create_namespaced_pod_eviction("box", room.name, wanted, dry_run="All")
    assert core.read_namespaced_pod("box", room.name).metadata.deletion_timestamp is None
    core.create_namespaced_pod_eviction("box", room.name, wanted)
    evicted = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_pod,
        room.name,
        field_selector="metadata.name=box",
        resource_version=before,
        timeout_seconds=SECONDS,
    ):
        evicted += [each.reason for each in event["object"].status.conditions or ()]
        if event["type"] == "DELETED":
            watching.stop()
    assert "EvictionByEvictionAPI" in evicted
    with pytest.raises(ApiException) as gone:
        core.create_namespaced_pod_eviction("box", room.name, wanted)
    assert gone.value.status == 404


def test_exec_by_stream(core: client.CoreV1Api, room: Room) -> None:
    core.create_namespaced_pod(room.name, pod("box", *SLEEPING))
    room.running("box")
    whole = stream.stream(
        core.connect_get_namespaced_pod_exec,
        "box",
        room.name,
        command=["sh", "-c", "echo out; echo err >&2"],
        stderr=True,
        stdout=True,
        stdin=False,
        tty=False,
    )
    assert sorted(whole.split()) == ["err", "out"]
    talk = stream.stream(
        core.connect_get_namespaced_pod_exec,
        "box",
        room.name,
        command=["sh"],
        stderr=True,
        stdout=True,
        stdin=True,
        tty=False,
        _preload_content=False,
    )
    try:
        talk.write_stdin("echo $((6*7))\n")
        assert talk.readline_stdout(timeout=SECONDS) == "42"
        talk.write_stdin("exit 3\n")
        talk.run_forever(timeout=SECONDS)
        assert talk.returncode == 3
    finally:
        talk.close()


SERVER = """
import socket
door = socket.create_server(("127.0.0.1", 7000))
while True:
    line, _ = door.accept()
    line.sendall(b"you said " + line.recv(100))
    line.close()
"""


def test_port_forward(core: client.CoreV1Api, room: Room) -> None:
    asking = ["bash", "-c", "echo hi > /dev/tcp/127.0.0.1/7000"]
    probe = {"exec": {"command": asking}, "periodSeconds": 1}
    room.pod("box", sys.executable, "-c", SERVER, main={"readinessProbe": probe})
    room.running("box")
    forward = stream.portforward(
        core.connect_get_namespaced_pod_portforward, "box", room.name, ports="7000"
    )
    line = forward.socket(7000)
    line.setblocking(True)
    line.settimeout(SECONDS)
    line.sendall(b"hello")
    heard = b""
    while data := line.recv(100):
        heard += data
    assert heard == b"you said hello"
    assert forward.error(7000) is None
    line.close()


def test_namespaces_config_maps_secrets_and_services(core: client.CoreV1Api, room: Room) -> None:
    settings = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "1"})
    core.create_namespaced_config_map(room.name, settings)
    patched = core.patch_namespaced_config_map("c", room.name, {"data": {"b": "2"}})
    assert patched.data == {"a": "1", "b": "2"}
    patched.data["a"] = "3"
    assert core.replace_namespaced_config_map("c", room.name, patched).data["a"] == "3"
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("c", room.name, patched)
    assert (stale.value.status, json.loads(stale.value.body)["reason"]) == (409, "Conflict")
    secret = client.V1Secret(metadata=client.V1ObjectMeta(name="s"), string_data={"p": "x"})
    made = core.create_namespaced_secret(room.name, secret)
    assert base64.b64decode(made.data["p"]) == b"x"
    service = client.V1Service(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1ServiceSpec(ports=[client.V1ServicePort(port=80)], selector={"a": "b"}),
    )
    assert core.create_namespaced_service(room.name, service).spec.ports[0].target_port == 80
    assert room.name in {each.metadata.name for each in core.list_namespace().items}
    [node] = core.list_node().items
    assert {each.type: each.status for each in node.status.conditions}["Ready"] == "True"
    assert int(node.status.capacity["cpu"]) > 0


def test_jobs_as_custom_objects(customs: client.CustomObjectsApi, room: Room) -> None:
    where = jobs_of(room)
    made = customs.create_namespaced_custom_object(*where, job("train"))
    assert made["metadata"]["generation"] == 1
    with pytest.raises(ApiException) as refused:
        customs.create_namespaced_custom_object(*where, job("train"))
    assert refused.value.status == 409
    with pytest.raises(ApiException) as wrong:
        customs.create_namespaced_custom_object(*where, job("wrong", cleanUpPolicy="Sometimes"))
    assert wrong.value.status == 422
    causes = json.loads(wrong.value.body)["details"]["causes"]
    assert causes[0]["field"] == "spec.cleanUpPolicy"
    patched = customs.patch_namespaced_custom_object(
        *where, "train", {"spec": {"ttlSecondsAfterFinished": 9}}
    )
    assert patched["spec"]["ttlSecondsAfterFinished"] == 9
    listed = customs.list_namespaced_custom_object(*where)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["train"]
    everywhere = customs.list_cluster_custom_object(GROUP, VERSION, "genericjobs")
    assert (room.name, "train") in {
        (each["metadata"]["namespace"], each["metadata"]["name"]) for each in everywhere["items"]
    }
    gone = customs.delete_namespaced_custom_object(
        *where, "train", body=client.V1DeleteOptions(propagation_policy="Foreground")
    )
    assert gone["metadata"]["finalizers"] == ["foregroundDeletion"]


@pytest.mark.parametrize("policy", ["Background", "Orphan"])
def test_deleting_takes_the_pods_along_or_leaves_them(
    customs: client.CustomObjectsApi, core: client.CoreV1Api, room: Room, policy: str
) -> None:
    where = jobs_of(room)
    made = customs.create_namespaced_custom_object(*where, job("train"))
    pod_of_it = room.until(
        "pods", "train-worker-0", lambda pod: pod["status"]["phase"] == "Running"
    )
    assert pod_of_it["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    customs.delete_namespaced_custom_object(
        *where, "train", body=client.V1DeleteOptions(propagation_policy=policy)
    )
    is_gone = {"type": "DELETED", "name": "train-worker-0"}
    seen = []
    watching = watch.Watch()
    for event in watching.stream(
        core.list_namespaced_pod,
        room.name,
        resource_version=pod_of_it["metadata"]["resourceVersion"],
        timeout_seconds=SECONDS,
    ):
        found = event["object"].metadata
        seen.append({"type": event["type"], "name": found.name})
        if seen[-1] == is_gone or (policy == "Orphan" and not found.owner_references):
            watching.stop()
    path = room.path("genericjobs", "train", JOBS)
    # One whose pods are left goes after they were let go.
    until_it_holds(lambda: room.engine.ask("GET", path).status == 404, "the job is gone")
    assert (is_gone in seen) == (policy == "Background")
    if policy == "Orphan":
        left = core.read_namespaced_pod("train-worker-0", room.name)
        assert (left.status.phase, left.metadata.deletion_timestamp) == ("Running", None)


def test_patches_of_each_type(api: client.ApiClient, room: Room) -> None:
    """Of core kinds the client tells a list of operations from a patch by itself."""
    core, customs = client.CoreV1Api(api), client.CustomObjectsApi(api)
    settings = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "1"})
    core.create_namespaced_config_map(room.name, settings)
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "move", "from": "/data/a", "path": "/data/b"},
        {"op": "add", "path": "/metadata/labels", "value": {"x": "y"}},
    ]
    patched = core.patch_namespaced_config_map("c", room.name, operations)
    assert (patched.data, patched.metadata.labels) == ({"b": "1"}, {"x": "y"})
    with pytest.raises(ApiException) as refused:
        core.patch_namespaced_config_map("c", room.name, operations)
    assert refused.value.status == 422
    where = jobs_of(room)
    customs.create_namespaced_custom_object(*where, job("train"))
    changed = customs.patch_namespaced_custom_object(
        *where,
        "train",
        [{"op": "add", "path": "/spec/ttlSecondsAfterFinished", "value": 9}],
        _content_type="application/json-patch+json",
    )
    assert changed["spec"]["ttlSecondsAfterFinished"] == 9


def test_a_job_is_watched_to_its_end(customs: client.CustomObjectsApi, room: Room) -> None:
    where = jobs_of(room)
    customs.create_namespaced_custom_object(*where, job("train", "sh", "-c", "exit 3"))
    phases = []
    watching = watch.Watch()
    for event in watching.stream(
        customs.list_namespaced_custom_object, *where, timeout_seconds=SECONDS
    ):
        phase = event["object"].get("status", {}).get("phase")
        if phase and phase not in phases:
            phases.append(phase)
        if phase == "Failed":
            watching.stop()
    assert phases[-1] == "Failed"
    status = customs.get_namespaced_custom_object_status(*where, "train")["status"]
    assert status["tasks"][0]["status"][0]["containers"][0]["exitCode"] == 3


def test_a_status_is_a_resource_of_its_own(customs: client.CustomObjectsApi, room: Room) -> None:
    where = jobs_of(room, "genericjobs")
    customs.create_namespaced_custom_object(*where, job("train"))
    patch = {"spec": {"ttlSecondsAfterFinished": 5}, "status": {"restarts": 7}}
    after = customs.patch_namespaced_custom_object_status(*where, "train", patch)
    assert "ttlSecondsAfterFinished" not in after["spec"]
    through_spec = {"status": {"restarts": 1234}}
    plain = customs.patch_namespaced_custom_object(*where, "train", through_spec)
    assert plain.get("status", {}).get("restarts") != 1234


def test_scale_of_an_elastic_job(customs: client.CustomObjectsApi, room: Room) -> None:
    where = jobs_of(room, "pytorchtrainingjobs")
    sizes = {"enabled": True, "minReplicas": 1, "maxReplicas": 3, "expectedReplicas": 1}
    main = {"name": "pytorch", "image": "any", "args": ["train.py"]}
    role = {"type": "worker", "replicas": 1, "template": {"spec": {"containers": [main]}}}
    # Paused: nothing has to run for this.
    spec = {
        "elastic": sizes,
        "replicaSpecs": [role],
        "runMode": {"pause": {"enabled": True}},
        "torchrunConfig": {"enabled": True, "maxRestarts": 3},
    }
    kind = {"kind": "PyTorchTrainingJob", "metadata": {"name": "train"}, "spec": spec}
    customs.create_namespaced_custom_object(*where, {**job("train"), **kind})
    scale = customs.get_namespaced_custom_object_scale(*where, "train")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 1)
    scaled = customs.patch_namespaced_custom_object_scale(
        *where, "train", {"spec": {"replicas": 3}}
    )
    assert scaled["spec"]["replicas"] == 3
    found = customs.get_namespaced_custom_object(*where, "train")
    assert found["spec"]["elastic"]["expectedReplicas"] == 3


def test_the_dynamic_client_finds_our_kinds(api: client.ApiClient, room: Room) -> None:
    cluster = dynamic.DynamicClient(api)
    jobs = cluster.resources.get(api_version=f"{GROUP}/{VERSION}", kind="GenericJob")
    assert (jobs.name, jobs.namespaced) == ("genericjobs", True)
    made = jobs.create(body=job("train"), namespace=room.name)
    assert made.metadata.name == "train"
    merged = jobs.patch(
        name="train",
        namespace=room.name,
        body={"metadata": {"labels": {"a": "1"}}},
        content_type="application/merge-patch+json",
    )
    assert merged.metadata.labels.a == "1"
    applied = jobs.server_side_apply(
        body={**job("train"), "metadata": {"name": "train", "labels": {"b": "2"}}},
        name="train",
        namespace=room.name,
        field_manager="tests",
        force_conflicts=True,
    )
    assert applied.metadata.labels.to_dict() == {"a": "1", "b": "2"}
    assert [each.metadata.name for each in jobs.get(namespace=room.name).items] == ["train"]
    for event in jobs.watch(namespace=room.name, timeout=SECONDS):
        if event["object"].status and event["object"].status.phase == "Running":
            break
    jobs.delete(name="train", namespace=room.name)


def definition(group: str) -> JSON:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "maximum": 10},
                    "colour": {"type": "string", "default": "green"},
                },
                "x-kubernetes-validations": [
                    {"rule": "self.size % 2 == 0", "message": "must be even"}
                ],
            }
        },
    }
    names = {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_a_crd_of_ones_own(api: client.ApiClient, room: Room) -> None:
    extensions = client.ApiextensionsV1Api(api)
    customs = client.CustomObjectsApi(api)
    group = f"{room.name}.example.org"
    extensions.create_custom_resource_definition(definition(group))
    try:
        read = extensions.read_custom_resource_definition(f"boxes.{group}")
        assert read.status.accepted_names.kind == "Box"
        conditions = {each.type: each.status for each in read.status.conditions}
        assert conditions["Established"] == "True"
        where = (group, "v1", room.name, "boxes")
        box = {"apiVersion": f"{group}/v1", "kind": "Box", "metadata": {"name": "b"}}
        made = customs.create_namespaced_custom_object(*where, {**box, "spec": {"size": 4}})
        assert made["spec"] == {"size": 4, "colour": "green"}
        for spec, reason in (
            ({}, "Required value"),
            ({"size": 12}, "should be less than or equal to 10"),
            ({"size": 3}, "must be even"),
        ):
            with pytest.raises(ApiException) as refused:
                customs.replace_namespaced_custom_object(*where, "b", {**made, "spec": spec})
            assert refused.value.status == 422
            assert reason in json.loads(refused.value.body)["message"]
    finally:
        extensions.delete_custom_resource_definition(f"boxes.{group}")
    with pytest.raises(ApiException) as gone:
        customs.list_namespaced_custom_object(*where)
    assert gone.value.status == 404


def test_create_from_yaml(api: client.ApiClient, room: Room, tmp_path: Path) -> None:
    core = client.CoreV1Api(api)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
    made = {"apiVersion": "v1", "kind": "Pod", **api.sanitize_for_serialization(pod("p", "true"))}
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([settings, made]))
    utils.create_from_yaml(api, str(path), namespace=room.name)
    assert core.read_namespaced_config_map("c", room.name).metadata.name == "c"
    room.until("pods", "p", lambda pod: pod["status"]["phase"] == "Succeeded")
    with pytest.raises(utils.FailToCreateError) as again:
        utils.create_from_yaml(api, str(path), namespace=room.name)
    assert {each.status for each in again.value.api_exceptions} == {409}
    # Our kinds go the way of any other that the client has no class for.
    path.write_text(yaml.safe_dump(job("train")))
    cluster = dynamic.DynamicClient(api)
    utils.create_from_yaml(api, str(path), namespace=room.name, apply=True)
    found = cluster.resources.get(api_version=f"{GROUP}/{VERSION}", kind="GenericJob")
    assert found.get(name="train", namespace=room.name).metadata.name == "train"


def test_events_leases_and_reviews_are_typed_too(api: client.ApiClient, room: Room) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_pod(room.name, pod("web", *SLEEPING))
    room.running("web")
    until_it_holds(
        lambda: "Started" in {each.reason for each in core.list_namespaced_event(room.name).items},
        "events come after the status",
    )
    moment = datetime.now(UTC)
    told = client.EventsV1Event(
        metadata=client.V1ObjectMeta(name="told"),
        event_time=moment,
        action="Tested",
        reason="Tested",
        type="Normal",
        reporting_controller="tests.example.org/tests",
        reporting_instance="one",
        regarding=client.V1ObjectReference(kind="Pod", name="web", namespace=room.name),
    )
    made = client.EventsV1Api(api).create_namespaced_event(room.name, told)
    assert made.event_time == moment
    assert core.read_namespaced_event("told", room.name).involved_object.name == "web"
    leases = client.CoordinationV1Api(api).list_lease_for_all_namespaces().items
    assert all(each.spec.renew_time for each in leases)
    asked = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods")
        )
    )
    review = client.AuthorizationV1Api(api).create_self_subject_access_review(asked)
    assert review.status.allowed is True
    assert client.VersionApi(api).get_code().minor == "36"
    groups = {each.name for each in client.ApisApi(api).get_api_versions().groups}
    assert {GROUP, "apiextensions.k8s.io"} <= groups
