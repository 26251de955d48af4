"""The embedded engine as people start it: `jobyard up`, one for all tests of a pytest worker.

Fixtures: `engine` (running, with a way to speak to it), `room` (a namespace of the test's own on
it). What is running when the worker is done is stopped by `jobyard down`, and nothing may be left.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rig.kube import namespaces
from rig.kube.binaries import find_binaries
from rig.kube.kubectl import NO_COLLECTING
from rig.person import Person, person

JSON = dict[str, Any]
SECONDS = 60.0
JOBS = "/apis/batch.tensorstack.dev/v1beta1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one request."""

    status: int
    text: str
    content_type: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class RunningEngine:
    """An engine that answers: where its files are, and requests to it without any client."""

    def __init__(self, who: Person, folder: Path) -> None:
        self.who = who
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        config = json.loads(self.kubeconfig.read_text())
        self.url: str = config["clusters"][0]["cluster"]["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self.ca = folder / "pki" / "ca.crt"
        self.log = folder / "engine.log"
        # Only an engine that went into the background has one.
        self.first_words = self.log.read_text() if self.log.exists() else ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def connection(self, seconds: float = SECONDS) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.ca))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=seconds)

    def ask(self, method: str, path: str, body: JSON | str | None = None, **header: str) -> Answer:
        """One request with the token; `content_type=…` and the like are headers."""
        headers = {name.replace("_", "-"): text for name, text in header.items()}
        headers.setdefault("authorization", f"Bearer {self.token}")
        headers.setdefault("content-type", "application/json")
        content = json.dumps(body) if isinstance(body, dict) else body
        line = self.connection()
        try:
            line.request(method, path, content, headers)
            answer = line.getresponse()
            return Answer(
                answer.status, answer.read().decode(), answer.getheader("content-type", "")
            )
        finally:
            line.close()

    def until(self, path: str, query: str, done: Callable[[JSON], bool]) -> JSON:
        """Watches a collection until an object of it is as wanted; the object."""
        line = self.connection()
        try:
            asked = f"{path}?watch=true&timeoutSeconds={SECONDS:.0f}&{query}"
            line.request("GET", asked, headers={"Authorization": f"Bearer {self.token}"})
            answer = line.getresponse()
            assert answer.status == 200, answer.read()
            last = None
            for text in answer:
                event = json.loads(text)
                last = event["object"]
                if event["type"] != "DELETED" and done(last):
                    return last
            raise AssertionError(f"{asked} never became as wanted; last: {json.dumps(last)}")
        finally:
            line.close()


class Room:
    """A namespace of one test: pods and jobs go in, and everything goes with it."""

    def __init__(self, engine: RunningEngine, name: str) -> None:
        self.engine = engine
        self.name = name

    def path(self, plural: str, name: str = "", prefix: str = "/api/v1") -> str:
        return f"{prefix}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def create(self, plural: str, manifest: JSON, prefix: str = "/api/v1") -> JSON:
        answer = self.engine.ask("POST", self.path(plural, prefix=prefix), manifest)
        assert answer.status == 201, answer.text
        created: JSON = answer.json
        return created

    def get(self, plural: str, name: str, prefix: str = "/api/v1") -> JSON:
        answer = self.engine.ask("GET", self.path(plural, name, prefix))
        assert answer.status == 200, answer.text
        found: JSON = answer.json
        return found

    def until(
        self, plural: str, name: str, done: Callable[[JSON], bool], prefix: str = "/api/v1"
    ) -> JSON:
        query = f"fieldSelector=metadata.name%3D{name}"
        return self.engine.until(self.path(plural, prefix=prefix), query, done)

    def pod(self, name: str, *command: str, **spec: Any) -> JSON:
        """Creates a pod of one container, `main`; what is named goes into its spec."""
        main = {"name": "main", "image": "any", "command": list(command)}
        main |= spec.pop("main", {})
        whole = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        manifest = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": whole | spec,
        }
        return self.create("pods", manifest)

    def running(self, name: str) -> JSON:
        """Waits until the pod is ready."""
        return self.until("pods", name, _is_ready)

    def ended(self, name: str) -> tuple[int, str]:
        """Waits for the end of a pod's container: its exit code, and all that it said."""
        pod = self.until(
            "pods", name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed")
        )
        code: int = pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        return code, self.engine.ask("GET", self.path("pods", name) + "/log").text


def _is_ready(pod: JSON) -> bool:
    assert pod["status"]["phase"] not in ("Failed", "Succeeded"), json.dumps(pod["status"])
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="session")
def kubectl_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubectl that the tests bring along."""
    return find_binaries(lambda _line: None) / "kubectl"


@pytest.fixture(scope="session")
def engine() -> Iterator[RunningEngine]:
    """One engine for the tests of this worker, started and stopped as a person would."""
    with person(is_ordinary=False) as who:
        folder = who.home / "engine"
        started = who.run("up", "--detach", "--data-dir", str(folder))
        assert started.returncode == 0, started.stderr
        yield RunningEngine(who, folder)
        stopped = who.run("down", "--data-dir", str(folder))
        assert stopped.returncode == 0, stopped.stderr
        assert "nothing is running any more" in stopped.stdout
        assert who.processes() == {}


@pytest.fixture
def room(engine: RunningEngine, request: pytest.FixtureRequest) -> Iterator[Room]:
    """A namespace on the engine that is this test's own."""
    # Short: a pod's own name and its name in DNS are made from it.
    name = (
        f"{namespaces.fresh_name(request.node.originalname)[:40].strip('-')}-{secrets.token_hex(3)}"
    )
    answer = engine.ask(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )
    assert answer.status == 201, answer.text
    yield Room(engine, name)
    assert engine.ask("DELETE", f"/api/v1/namespaces/{name}").status in (200, 202, 404, 409)


@dataclass(frozen=True, slots=True)
class EngineKubectl:
    """`kubectl("get", "pods")` in one namespace of an engine, with any kubectl."""

    binary: Path
    room: Room

    @property
    def environment(self) -> dict[str, str]:
        # Of whoever runs the tests neither preferences nor configuration are used.
        kept = {"PATH": os.environ["PATH"], "HOME": str(self.room.engine.who.home)}
        told = {"KUBECONFIG": str(self.room.engine.kubeconfig), "KUBECTL_KUBERC": "false"}
        return {**kept, **NO_COLLECTING, **told}

    def words(self, *arguments: str) -> list[str]:
        return [str(self.binary), f"--namespace={self.room.name}", *arguments]

    def __call__(
        self,
        *arguments: str,
        stdin: str | JSON = "",
        code: int | None = 0,
        seconds: float = SECONDS,
        **env: str,
    ) -> str:
        """Runs it to its end; what it said, without its complaints if 0 is the `code` to expect."""
        done = subprocess.run(
            self.words(*arguments),
            env=self.environment | env,
            input=json.dumps(stdin) if isinstance(stdin, dict) else stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        told = f"kubectl {' '.join(arguments)} ended with {done.returncode}\n"
        assert code is None or done.returncode == code, told + done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """Starts it and leaves it running, with a pipe for what it says."""
        return subprocess.Popen(
            self.words(*arguments),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **more,
        )
