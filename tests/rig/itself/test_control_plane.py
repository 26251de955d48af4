"""The rig itself: a real control plane that works, is shared fairly and leaves nothing behind."""

import asyncio
import json
import os
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rig.kube import kubeconfig
from rig.kube.api import Answer, ApiCaller, warnings_of
from rig.kube.component import StartError
from rig.kube.control_plane import Parts, running
from rig.kube.kubectl import Kubectl, KubectlError
from rig.kube.namespaces import fresh_name
from rig.kube.plane import ControlPlane
from rig.kube.sharing import KUBECONFIG_VARIABLE
from rig.places import TESTS

PINNED = "v1.36.4"
END_SECONDS = 30
# The collector has the garbage of all other tests too.
COLLECTED_SECONDS = 120
INNER_SECONDS = 240


def config_map(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **more}


def call(plane: ControlPlane, method: str, path: str, **more: Any) -> Answer:
    async def once() -> Answer:
        async with ApiCaller(plane) as api:
            return await api.request(method, path, **more)

    return asyncio.run(once())


def test_the_server_is_the_pinned_kubernetes(control_plane: ControlPlane, kubectl: Kubectl) -> None:
    versions = json.loads(kubectl("version", "--output=json").stdout)
    assert versions["serverVersion"]["gitVersion"] == control_plane.version
    # Whoever brings other binaries or a cluster brings their version too.
    if control_plane.kubectl.parent.name == PINNED:
        assert control_plane.version == PINNED


@pytest.mark.parametrize("attempt", ["first", "second"])
def test_a_namespace_is_the_tests_own(kubectl: Kubectl, attempt: str) -> None:
    # `create` fails on a name that is taken, so both pass only in separate namespaces.
    kubectl("create", "configmap", "same-name")
    names = kubectl("get", "configmaps", "--output=name").stdout.split()
    assert set(names) - {"configmap/kube-root-ca.crt"} == {"configmap/same-name"}


def test_a_pod_is_admitted_into_a_namespace_at_once(kubectl: Kubectl) -> None:
    kubectl("run", "one", "--image=example.com/none")
    assert kubectl("get", "pod", "one", "--output=jsonpath={.status.phase}").stdout == "Pending"


def test_a_config_map_makes_the_round_trip_by_kubectl(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=json.dumps(config_map("settings", data={"a": "ü"})))
    found = json.loads(kubectl("get", "configmap", "settings", "--output=json").stdout)
    assert found["data"] == {"a": "ü"}


def test_kubectl_shows_what_went_wrong(kubectl: Kubectl) -> None:
    with pytest.raises(KubectlError, match='configmaps "absent" not found'):
        kubectl("get", "configmap", "absent")
    assert kubectl("get", "configmap", "absent", check=False).returncode == 1


def test_a_config_map_makes_the_round_trip_by_the_api(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = call(control_plane, "POST", path, body=config_map("settings", data={"a": "1"}))
    assert (made.status, made.warnings) == (201, ())
    changed = call(
        control_plane,
        "PATCH",
        f"{path}/settings",
        body={"data": {"b": "2"}},
        content_type="application/merge-patch+json",
    )
    assert (changed.status, changed.body["data"]) == (200, {"a": "1", "b": "2"})
    assert call(control_plane, "GET", f"{path}/absent").body["reason"] == "NotFound"


def test_warnings_of_the_server_are_read(control_plane: ControlPlane, namespace: str) -> None:
    answer = call(
        control_plane,
        "POST",
        f"/api/v1/namespaces/{namespace}/configmaps",
        body=config_map("settings", colour="red"),
        query={"fieldValidation": "Warn"},
    )
    assert (answer.status, answer.warnings) == (201, ('unknown field "colour"',))


@pytest.mark.parametrize(
    ("headers", "texts"),
    [
        pytest.param([], (), id="no header, no warning"),
        pytest.param(['299 - "old"'], ("old",), id="one plain text"),
        pytest.param([r'299 - "a \"b\" \\ c"'], (r'a "b" \ c',), id="escapes are undone"),
        pytest.param(['299 - "a, 299"', '299 - "b"'], ("a, 299", "b"), id="two headers"),
        pytest.param(['299 - "a", 299 - "b"'], ("a", "b"), id="two in one header"),
        pytest.param(
            ['299 kube "a" "Sat, 25 Aug 2012 23:34:45 GMT"'], ("a",), id="a date is left out"
        ),
    ],
)
def test_the_warning_header_is_parsed(headers: list[str], texts: tuple[str, ...]) -> None:
    assert warnings_of(headers) == texts


def test_a_flood_of_requests_is_not_throttled(control_plane: ControlPlane, namespace: str) -> None:
    async def flood() -> list[int]:
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        async with ApiCaller(control_plane) as api:
            answers = await asyncio.gather(
                *(api.request("POST", path, body=config_map(f"c{i}")) for i in range(500))
            )
        return [answer.status for answer in answers]

    assert asyncio.run(flood()) == [201] * 500


def test_a_watch_tells_what_is_and_what_comes(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def follow() -> list[str]:
        seen = []
        async with ApiCaller(control_plane) as api:
            # Longer than a line may be by default, to see that big objects pass.
            await api.request("POST", path, body=config_map("old", data={"a": "x" * 900_000}))
            query = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}
            async with aclosing(api.watch(path, query=query)) as events:
                async for event in events:
                    seen.append(f"{event['type']} {event['object']['metadata']['name']}")
                    if len(seen) == 2:
                        break
                    await api.request("POST", path, body=config_map("new"))
        return seen

    assert asyncio.run(follow()) == ["ADDED old", "ADDED new"]


def test_dependents_are_garbage_collected(controllers: ControlPlane, kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "owner")
    uid = kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}").stdout
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    dependent = config_map("dependent")
    dependent["metadata"]["ownerReferences"] = [owner]
    kubectl("create", "--filename=-", stdin=json.dumps(dependent))
    kubectl("delete", "configmap", "owner")
    kubectl(
        *("wait", "--for=delete", "configmap/dependent", f"--timeout={COLLECTED_SECONDS}s"),
        timeout_seconds=COLLECTED_SECONDS + END_SECONDS,
    )


def test_credentials_are_private(control_plane: ControlPlane, tmp_path: Path) -> None:
    plane, written = control_plane, tmp_path / "kubeconfig"
    kubeconfig.write(written, plane.url, plane.ca, plane.cert, plane.key)
    for path in (written, plane.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_brought_kubeconfig_is_used_as_it_is(control_plane: ControlPlane, tmp_path: Path) -> None:
    adopted = kubeconfig.adopt(control_plane.kubeconfig, control_plane.kubectl, tmp_path)
    assert (adopted.url, adopted.version) == (control_plane.url, control_plane.version)
    assert call(adopted, "GET", "/readyz").text == "ok"


def test_names_of_namespaces_are_labels() -> None:
    name = fresh_name("test_[A name, much too long]" + "x" * 80)
    assert name.startswith("test-a-name-much-too-long")
    assert len(name) <= 63
    assert name != fresh_name("test_[A name, much too long]" + "x" * 80)


@dataclass(frozen=True, slots=True)
class Kept:
    """A keeper of our own, the process it watches, and pidfds of its etcd and kube-apiserver."""

    watched: subprocess.Popen[bytes]
    keeper: subprocess.Popen[bytes]
    components: tuple[int, ...]


@contextmanager
def kept_plane(binaries: Path, folder: Path) -> Iterator[Kept]:
    # Reads its standard input to the end, which never comes: it lives until it is killed.
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as watched,
        subprocess.Popen(
            [
                *(sys.executable, "-m", "rig.kube.keeper", "--no-controllers"),
                *(f"--folder={folder}", f"--binaries={binaries}", f"--watch={watched.pid}"),
            ],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
        ) as keeper,
    ):
        try:
            assert keeper.stdout is not None
            assert keeper.stdout.read() == b""
            assert (folder / "plane.json").exists()
            children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
            yield Kept(watched, keeper, tuple(os.pidfd_open(int(pid)) for pid in children))
        finally:
            watched.kill()


def await_ends(pidfds: tuple[int, ...]) -> None:
    for pidfd in pidfds:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        assert poller.poll(END_SECONDS * 1000), "a component outlived its keeper"
        os.close(pidfd)


@pytest.mark.sample(3)
@pytest.mark.parametrize("end", ["watched process killed", "keeper told", "keeper killed"])
def test_a_plane_ends_with_its_run(control_plane: ControlPlane, tmp_path: Path, end: str) -> None:
    if os.environ.get(KUBECONFIG_VARIABLE):
        pytest.skip(f"the cluster is that of {KUBECONFIG_VARIABLE}: we have no commands to keep")
    with kept_plane(control_plane.kubectl.parent, tmp_path) as kept:
        assert len(kept.components) == 2
        match end:
            case "watched process killed":
                kept.watched.kill()
            case "keeper told":
                kept.keeper.send_signal(signal.SIGTERM)
            case "keeper killed":
                kept.keeper.kill()
        await_ends(kept.components)
    if end != "keeper killed":
        assert kept.keeper.returncode == 0
        left = {path.name for path in (tmp_path / "plane").iterdir()}
        assert left == {"etcd.log", "kube-apiserver.log", "audit.log"}


def test_a_component_that_dies_early_shows_its_log(tmp_path: Path) -> None:
    etcd = tmp_path / "etcd"
    etcd.write_text("#!/bin/sh\necho the disk is on fire\nexit 3\n")
    etcd.chmod(0o755)
    with (
        pytest.raises(StartError, match=r"(?s)etcd ended with 3; .*the disk is on fire"),
        running(tmp_path, tmp_path / "plane", Parts()),
    ):
        pytest.fail("a plane without etcd was called running")


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StartError, match=r"etcd can't be started: .*No such file"),
        running(tmp_path, tmp_path / "plane", Parts()),
    ):
        pytest.fail("a plane without etcd was called running")


def run_pytest(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run pytest with the plugin on two tests that use a namespace and one that doesn't."""
    (folder / "test_inner.py").write_text(
        "def test_one(namespace): pass\ndef test_two(namespace): pass\ndef test_three(): pass\n"
    )
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {TESTS}\nmarkers = kube: real\nfilterwarnings = error\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "rig.plugin", "-p", "no:cacheprovider"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, f"--basetemp={folder / 'base'}", *arguments, str(folder)],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(TESTS), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=INNER_SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "with xdist"])
def test_tests_on_a_real_server_are_counted(
    control_plane: ControlPlane, tmp_path: Path, workers: tuple[str, ...]
) -> None:
    code, output = run_pytest(
        tmp_path, *workers, JOBYARD_TEST_KUBECONFIG=str(control_plane.kubeconfig)
    )
    assert code == 0, output
    expected = f"2 tests ran against a real API server (Kubernetes {control_plane.version})"
    assert expected in output
    # Ours is the last section: only the line of totals follows.
    after = output[output.index(expected) :].split("\n", 1)[1].split()
    assert after[1:3] == ["3", "passed"], output


def test_the_marker_selects_what_uses_the_plane(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, "-m", "not kube", "-v")
    assert code == 0, output
    assert "1 passed, 2 deselected" in output
    assert "0 tests ran against a real API server" in output


def test_without_kubernetes_tests_fail_with_the_reason(tmp_path: Path) -> None:
    code, output = run_pytest(
        tmp_path,
        PATH="/nonexistent",
        JOBYARD_CACHE=str(tmp_path / "cache"),
        KUBEBUILDER_ASSETS="",
        JOBYARD_TEST_KUBECONFIG="",
    )
    assert code == 1, output
    assert "1 passed, 2 errors" in output
    assert "there is no go command on the PATH" in output
    assert "set KUBEBUILDER_ASSETS to a folder" in output


def test_a_brought_kubeconfig_that_is_missing_is_named(tmp_path: Path) -> None:
    code, output = run_pytest(tmp_path, JOBYARD_TEST_KUBECONFIG="/nonexistent/config")
    assert code == 1, output
    assert "kubeconfig /nonexistent/config: there is no such file" in output
