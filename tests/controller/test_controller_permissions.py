"""The controller with exactly the permissions that `jobyard install` prints.

One scenario makes it do everything it ever does. The API server's audit log tells what it
asked for: all of it must be granted, and all that is granted must have been asked for, so a
verb too many fails this test as well as one too few.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from rig.kube.api import ApiCaller
from rig.kube.jobyard_controller import running_controller
from rig.kube.kubectl import Kubectl
from rig.kube.kubelet import FakeKubelet
from rig.kube.plane import ControlPlane, write_private
from rig.kube.pod_life import Life
from rig.manifests import valid_manifests
from rig.waiting import until_it_holds

from jobyard.api.kinds import KINDS
from jobyard.client.backoff import wait_seconds
from jobyard.install.bundle import bundle
from jobyard.install.rbac import CLUSTER, OWN_NAMESPACE, granted, without
from jobyard.install.settings import Settings
from jobyard.plan.lowering.table import JOB_KINDS

DEADLINE_SECONDS = 120
LOOK_SECONDS = 0.5
BATCH = "batch.tensorstack.dev/v1beta1"
# Asked for by an admission plugin and not by a request, so no audit tells of it.
ASKED_BY_ADMISSION = "/finalizers"


@pytest.fixture
def account(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, crds: None, tmp_path: Path
) -> Iterator[Path]:
    """A kubeconfig for the controller's own service account, in the test's namespace."""
    settings = Settings(namespace=namespace, crds=False)
    objects = [each for each in bundle(settings) if each["kind"] not in ("Namespace", "Deployment")]
    kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    )
    user = f"system:serviceaccount:{namespace}:jobyard-controller"
    # Who decides about requests learns of roles a moment after they were made.
    for resource in ("pods", "leases.coordination.k8s.io"):
        until_it_holds(
            partial(may, kubectl, user, "create", resource), f"{user} may create {resource}"
        )
    yield kubeconfig_for(control_plane, kubectl, tmp_path)
    for each in objects:
        if each["kind"].startswith("Cluster"):
            kubectl("delete", each["kind"].lower(), each["metadata"]["name"])


def may(kubectl: Kubectl, user: str, *what: str) -> bool:
    return kubectl("auth", "can-i", *what, f"--as={user}", check=False).returncode == 0


def kubeconfig_for(plane: ControlPlane, kubectl: Kubectl, folder: Path) -> Path:
    token = kubectl("create", "token", "jobyard-controller").stdout.strip()
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    write_private(path, yaml.safe_dump(document).encode())
    return path


def asked(plane: ControlPlane, namespace: str) -> Iterator[tuple[tuple[str, str, str], bool]]:
    """What the account has asked for, and whether it may."""
    assert plane.audit_log is not None
    user = f"system:serviceaccount:{namespace}:jobyard-controller"
    # What comes after the last end of a line is still being written.
    *lines, _ = plane.audit_log.read_text().split("\n")
    for line in lines:
        # Of all tests' requests only a few are this one's, and it looks again and again.
        if user not in line:
            continue
        entry = json.loads(line)
        if entry["user"]["username"] != user or "objectRef" not in entry:
            continue
        ref = entry["objectRef"]
        resource = ref["resource"] + (f"/{ref['subresource']}" if "subresource" in ref else "")
        what = (ref.get("apiGroup", ""), resource, entry["verb"])
        # Not the answer's code: a server also says 403 for a pod whose address it won't call.
        yield what, entry["annotations"]["authorization.k8s.io/decision"] == "allow"


def jobs_of_every_kind() -> Iterator[dict[str, Any]]:
    """One job of each kind, which is deleted soon after its end, once all else of it is."""
    for kind in JOB_KINDS:
        job = next(
            m for m in valid_manifests() if m["kind"] == kind.name and "runMode" not in m["spec"]
        )
        job["metadata"] = {"name": f"any-{kind.short_name}"}
        if kind.name == "GenericJob":
            job["spec"] |= {"ttlSecondsAfterFinished": 5, "cleanUpPolicy": "All"}
        elif kind.name != "TaskSet":
            job["spec"].setdefault("runPolicy", {})["ttlSecondsAfterFinished"] = 5
        if kind.name == "MPIJob":
            job["spec"]["runPolicy"]["cleanUpWorkers"] = True
        yield job


def generic(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox"}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    worker = {"type": "worker", "template": {"spec": pod}}
    return {
        "apiVersion": BATCH,
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": [worker], **spec},
    }


def stranger(kind: str, name: str, **more: Any) -> dict[str, Any]:
    api_version = "scheduler.tensorstack.dev/v1beta1" if kind == "PodGroup" else "v1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def taken_names() -> Iterator[dict[str, Any]]:
    """Objects of strangers, and jobs that want their names."""
    container = {"name": "main", "image": "busybox"}
    ports = {"ports": [{"name": "http", "port": 80}]}
    queue = {"scheduler": {"t9kScheduler": {"queue": "default"}}}
    yield stranger("Pod", "pod-taken-worker-0", spec={"containers": [container]})
    yield generic("pod-taken")
    yield stranger("Service", "service-taken-worker-0", spec=ports)
    yield generic("service-taken", service=ports)
    yield stranger("PodGroup", "gang-taken", spec={"minMember": 1})
    yield generic("gang-taken", **queue)
    yield generic("gang", **queue, cleanUpPolicy="All")
    yield stranger("ConfigMap", "files-taken-launch")
    mpi = next(m for m in valid_manifests() if m["kind"] == "MPIJob")
    yield mpi | {"metadata": {"name": "files-taken"}}


def life(pod: dict[str, Any]) -> Life:
    """Launchers and programs end; what serves them runs, and one pod won't go."""
    name = pod["metadata"]["name"]
    if name.startswith("slow"):
        # Its volumes can't be mounted, say: that stands in events alone.
        return Life(waiting="ContainerCreating")
    if name.startswith("stuck"):
        return Life(run_seconds=None, stop_seconds=None)
    if "flinkcluster" in name or "sparkcluster" in name or ("any-mj" in name and "worker" in name):
        return Life(run_seconds=None)
    if "any-caj-worker" in name:
        return Life(run_seconds=None)
    return Life(run_seconds=1.0 if "batchjob" in name else 0.0)


@asynccontextmanager
async def scene(plane: ControlPlane, namespace: str, account: Path) -> AsyncIterator[ApiCaller]:
    lease = f"--lease={namespace}/jobyard-controller"
    async with (
        ApiCaller(plane) as api,
        FakeKubelet(plane, namespace=namespace, script=life),
        running_controller(account, namespace, lease) as controller,
    ):
        try:
            yield api
        finally:
            for line in controller.lines:
                print(line)


async def pod_running(api: ApiCaller, namespace: str, name: str) -> None:
    watch = api.watch(f"/api/v1/namespaces/{namespace}/pods", deadline_seconds=DEADLINE_SECONDS)
    async with aclosing(watch) as events:
        async for event in events:
            pod = event["object"]
            if pod["metadata"]["name"] == name and pod["status"]["phase"] == "Running":
                return
    raise AssertionError(f"pod {name}: the watch ended before it ran")


async def a_moment() -> None:
    """A log file tells nobody that it has grown, so it is read now and then."""
    await wait_seconds(LOOK_SECONDS)


async def gone(api: ApiCaller, path: str) -> None:
    """Until the job of a kind that has ended is deleted, by its ttl."""
    listed = await api.request("GET", path)
    if not any(each["metadata"]["name"].startswith("any-") for each in listed.body["items"]):
        return
    # From there on: it may go before the watch has begun.
    since = {"resourceVersion": listed.body["metadata"]["resourceVersion"]}
    watch = api.watch(path, query=since, deadline_seconds=DEADLINE_SECONDS)
    async with aclosing(watch) as events:
        async for event in events:
            name = event["object"]["metadata"]["name"]
            if event["type"] == "DELETED" and name.startswith("any-"):
                return
    raise AssertionError(f"{path}: the watch ended before the job was gone")


def by_requests() -> set[tuple[str, str, str]]:
    """What is granted, but for what only admission asks for."""
    everything = set(granted((*CLUSTER, *OWN_NAMESPACE)))
    return {each for each in everything if not each[1].endswith(ASKED_BY_ADMISSION)}


async def everything(plane: ControlPlane, namespace: str, account: Path) -> None:
    wanted = by_requests()
    plural = {kind.name: kind.plural for kind in KINDS}
    async with scene(plane, namespace, account) as api:
        for each in (*jobs_of_every_kind(), *taken_names(), generic("stuck"), generic("slow")):
            root = "/api" if each["apiVersion"] == "v1" else "/apis"
            name = plural.get(each["kind"], each["kind"].lower() + "s")
            path = f"{root}/{each['apiVersion']}/namespaces/{namespace}/{name}"
            answer = await api.request("POST", path, body=each)
            assert answer.status == 201, answer.text
        await pod_running(api, namespace, "stuck-worker-0")
        await api.request(
            "PATCH",
            f"/apis/{BATCH}/namespaces/{namespace}/genericjobs/stuck",
            body={"spec": {"runMode": {"pause": {"enabled": True}}}},
            content_type="application/merge-patch+json",
        )
        async with asyncio.timeout(DEADLINE_SECONDS):
            for kind in JOB_KINDS:
                if kind.name != "TaskSet":
                    await gone(api, f"/apis/{BATCH}/namespaces/{namespace}/{kind.plural}")
            # The rest comes by itself, the question about a silent node last.
            while not wanted <= {what for what, _ in asked(plane, namespace)}:
                await a_moment()


@pytest.mark.long
def test_the_controller_asks_for_exactly_what_install_grants(
    control_plane: ControlPlane, namespace: str, account: Path, crds: None
) -> None:
    try:
        asyncio.run(everything(control_plane, namespace, account))
    finally:
        seen = list(asked(control_plane, namespace))
        unused = by_requests() - {what for what, _ in seen}
        print("never asked for:", sorted(unused))
    assert {what for what, is_allowed in seen if not is_allowed} == set()
    assert unused == set()


def reduced(kubectl: Kubectl, namespace: str, *withheld: tuple[str, str]) -> None:
    """Takes `update` on these away from the controller's role."""
    user = f"system:serviceaccount:{namespace}:jobyard-controller"
    (group, resource), name = withheld[-1], Settings(namespace=namespace).cluster_wide_name
    plural, _, subresource = resource.partition("/")
    what = (f"{plural}.{group}".rstrip("."), f"--subresource={subresource}")
    may_update = partial(may, kubectl, user, "update", *what)
    assert may_update()
    role = json.loads(kubectl("get", "clusterrole", name, "-o", "json").stdout)
    for each in withheld:
        role = without(role, *each, "update")
    kubectl("replace", "-f", "-", stdin=json.dumps(role))
    until_it_holds(lambda: not may_update(), f"{user} may no longer update {resource}")


async def told(api: ApiCaller, path: str, name: str, words: str) -> None:
    """Until the status of a job says so."""
    async with aclosing(api.watch(path, deadline_seconds=DEADLINE_SECONDS)) as events:
        async for event in events:
            job = event["object"]
            if job["metadata"]["name"] == name and words in json.dumps(job.get("status", {})):
                return
    raise AssertionError(f"{path}: the watch ended before {name} said {words!r}")


def test_without_the_owners_finalizers_no_kind_gets_its_children(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, account: Path, crds: None
) -> None:
    reduced(kubectl, namespace, *((str(k.group), f"{k.plural}/finalizers") for k in JOB_KINDS))

    async def refused() -> None:
        async with scene(control_plane, namespace, account) as api:
            for kind, job in zip(JOB_KINDS, jobs_of_every_kind(), strict=True):
                path = f"/apis/{job['apiVersion']}/namespaces/{namespace}/{kind.plural}"
                assert (await api.request("POST", path, body=job)).status == 201
                await told(api, path, job["metadata"]["name"], "cannot set blockOwnerDeletion")

    asyncio.run(refused())


def test_without_the_control_units_finalizers_a_taskset_gets_no_pods(
    control_plane: ControlPlane, kubectl: Kubectl, namespace: str, account: Path, crds: None
) -> None:
    reduced(kubectl, namespace, ("", "configmaps/finalizers"))

    async def refused() -> None:
        async with scene(control_plane, namespace, account) as api:
            (job,) = (each for each in jobs_of_every_kind() if each["kind"] == "TaskSet")
            path = f"/apis/{job['apiVersion']}/namespaces/{namespace}/tasksets"
            assert (await api.request("POST", path, body=job)).status == 201
            await told(api, path, job["metadata"]["name"], "cannot set blockOwnerDeletion")

    asyncio.run(refused())
