"""What a replica finds on one machine, as root and as an ordinary user without any rights.

The manifests in `sandbox_jobs/` hold programs that say what they found; here is what they should
say. Where a pod can't tell, the machine is looked at: no traces on it, no processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rig.needs import AS_ROOT, lacks, missing
from rig.person import Person, person
from rig.places import TESTS
from rig.script_job import script_job

from jobyard.node.shared import polling

IS_ROOT = os.geteuid() == 0
JOBS = Path(__file__).parent / "sandbox_jobs"
WITHOUT_NAMESPACES = TESTS / "rig" / "without_namespaces.py"

# Slowly: where the kernel doesn't watch over the limit, somebody looks now and then.
EATING = """
import time
print("eating")
eaten = []
while len(eaten) < 2000:
    eaten.append(bytearray(1 << 20))
    time.sleep(0.01)
print("full")
"""
EATEN = "worker-0   Failed   137    0          OOMKilled, out of memory: eating"
# Where volumes.yaml mounts, and no machine has anything.
ABSENT = ("/t9k", "/usr/local/code", "/etc/jobyard-test", "/readonly", "/kept", "/part")
Ended = tuple[Person, subprocess.CompletedProcess[str]]


# Who runs it differs in few lines: one of the two, another time the other.
pytestmark = pytest.mark.sample(2)


@pytest.fixture(params=["as whoever runs the tests", "as an ordinary user"])
def somebody(request: pytest.FixtureRequest) -> Iterator[Person]:
    is_ordinary = request.param == "as an ordinary user"
    with person(is_ordinary=is_ordinary) as who:
        yield who
        assert who.processes() == {}


@pytest.fixture
def yard(somebody: Person) -> Iterator[Person]:
    """Somebody whose engine is up."""
    said(somebody, "up", "--detach")
    try:
        yield somebody
    finally:
        said(somebody, "down")


def said(who: Person, *words: str) -> str:
    done = who.run(*words) if words[0] in ("up", "down") else who.ask(*words)
    assert done.returncode == 0, f"jobyard {' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def folder(who: Person, name: str) -> Path:
    path = who.work / name
    path.mkdir()
    os.chown(path, who.uid, -1)
    return path


def job(
    who: Person,
    program: str,
    *,
    name: str = "job",
    replicas: int = 1,
    resources: str = "{}",
    image: str = "python:3.11-slim",
) -> str:
    container = {"image": image, "resources": yaml.safe_load(resources)}
    command = ["python3", "-uc", program]
    text = script_job(name, command, replicas=replicas, container=container)
    return str(who.write(f"{name}.yaml", text))


def until(seen: Callable[[], object], what: object, seconds: float = 60) -> None:
    assert polling.until(lambda: bool(seen()), seconds=seconds, interval_seconds=0.05), what


def test_volumes_and_variables(somebody: Person) -> None:
    data = folder(somebody, "data")
    (data / "before").write_text("was here\n")
    text = (JOBS / "volumes.yaml").read_text()
    text = text.replace("FOLDER", str(data)).replace("NUMBER", str(data.stat().st_ino))
    # Names that are nobody else's: a trace of them is one of this test.
    own = uuid.uuid4().hex[:8]
    traces = [f"{path}-{own}" for path in ABSENT]
    for path, trace in zip(ABSENT, traces, strict=True):
        text = text.replace(path, trace)
    path = somebody.write("volumes.yaml", text)
    done = somebody.run("run", "--pvc", f"data={data}", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.removeprefix("worker-0 | ").strip() for line in done.stdout.splitlines()]
    assert [line for line in lines if line.startswith("WRONG")] == []
    asked = text.count("            told(")
    assert len([line for line in lines if line.startswith("fine: ")]) == asked
    # What was written to a named folder stays; nothing else does.
    assert (data / "after").read_text() == "made inside\n"
    assert (data / "after").stat().st_uid == somebody.uid
    assert [trace for trace in traces if Path(trace).exists()] == []
    assert str(somebody.home) not in Path("/proc/self/mountinfo").read_text()
    assert list((somebody.home / "jobyard" / "runs").iterdir()) == []


MOUNTING = """
apiVersion: v1
kind: Pod
metadata: {{name: mounting}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: any
    command: [sh, -c, "echo word >{place}/file && grep -qx word {place}/file"]
    volumeMounts: [{{name: v, mountPath: {place}}}]
  volumes: [{{name: v, emptyDir: {{}}}}]
"""


def test_a_mount_point_may_be_in_a_folder_that_is_closed_to_the_user(yard: Person) -> None:
    """As /root is, where the kinds that log in have their keys."""
    closed = yard.home / "closed"
    closed.mkdir(mode=0o700)
    path = yard.write("mounting.yaml", MOUNTING.format(place=closed / "inside"))
    said(yard, "apply", "-f", str(path))
    until(lambda: pods(yard)["mounting"]["phase"] in ("Succeeded", "Failed"), "its end")
    status = pods(yard)["mounting"]
    assert status["phase"] == "Succeeded", status
    until(lambda: not list(closed.iterdir()), "it is gone")


def test_network_names_and_what_comes_later(yard: Person) -> None:
    said(yard, "apply", "-f", str(JOBS / "network.yaml"))

    def heard() -> dict[str, list[str]]:
        lines: dict[str, list[str]] = {"node-0": [], "node-1": []}
        for line in yard.ask("logs", "net").stdout.splitlines():
            name, _, text = line.partition(" | ")
            lines[name].append(text)
        return lines

    def both_have_said(text: str) -> bool:
        return all(text in lines for lines in heard().values())

    waiting = "waiting for the late one and the second word"
    until(lambda: both_have_said(waiting), "the names", 120)
    said(yard, "apply", "-f", str(JOBS / "late.yaml"))
    until(lambda: both_have_said("done"), "the late one", 120)
    told = heard()
    for me, other in (("node-0", "net-node-1"), ("node-1", "net-node-0")):
        names = (
            other,
            f"{other}.default",
            f"{other}.default.svc",
            f"{other}.default.svc.cluster.local",
            f"{other}.nodes",
            f"{other}.nodes.default.svc.cluster.local",
        )
        assert told[me] == [
            "listening on 4000",
            *(f"asked {name} heard {other}" for name in names),
            f"own name is net-{me} at the own address True",
            f"the file of the own name has net-{me}",
            "front is somebody: True",
            "nodes has 2 addresses",
            "no-such-name has 0 addresses",
            waiting,
            "late answers here I am",
            "the word is second",
            "done",
        ]


def test_a_port_of_a_service_leads_to_the_port_that_replicas_listen_on(somebody: Person) -> None:
    done = somebody.run("run", str(JOBS / "ports.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr
    heard = sorted(line for line in done.stdout.splitlines() if " is node " in line)
    assert heard == [
        f"node-{me} | ports-node-{other}:80 is node {other}" for me in (0, 1) for other in (0, 1)
    ]


def pods(who: Person) -> dict[str, dict[str, Any]]:
    items = json.loads(said(who, "get", "pods", "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["status"] for each in items}


def container(status: dict[str, Any], name: str) -> dict[str, Any]:
    everyone = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    (found,) = (each for each in everyone if each["name"] == name)
    return dict(found)


def ended(status: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(container(status, name)["state"]["terminated"])


def test_the_life_of_containers(yard: Person) -> None:
    """Init containers, several containers, restarts, hooks, probes, messages, deadlines."""
    place = folder(yard, "place")
    text = (JOBS / "life.yaml").read_text().replace("FOLDER", str(place))
    said(yard, "apply", "-f", str(yard.write("life.yaml", text)))
    seen: dict[str, dict[str, Any]] = {}

    def all_stand() -> bool:
        seen.update(pods(yard))
        phases = {name: status["phase"] for name, status in seen.items()}
        sick = seen["sick"].get("containerStatuses", [{}])[0]
        return (
            phases["steps"] == phases["broken"] == phases["slow"] == "Failed"
            and phases["again"] == "Succeeded"
            and phases["shy"] == "Running"
            and (sick.get("restartCount"), sick.get("ready")) == (1, True)
            and (place / "up").exists()
        )

    until(all_stand, seen)
    assert [ended(seen["steps"], name)["exitCode"] for name in ("first", "second")] == [0, 0]
    assert ended(seen["steps"], "writer")["message"] == "one by one"
    reader = ended(seen["steps"], "reader")
    assert (reader["exitCode"], reader["reason"]) == (3, "Error")
    assert reader["message"].startswith("first\nsecond\n")
    assert reader["message"].endswith("and that is that\n")
    assert ended(seen["broken"], "first")["exitCode"] == 4
    assert "waiting" in container(seen["broken"], "main")["state"]
    assert container(seen["again"], "main")["restartCount"] == 1
    assert "terminated" in container(seen["sick"], "main")["lastState"]
    assert seen["slow"]["reason"] == "DeadlineExceeded"
    assert [each["ready"] for each in seen["shy"]["containerStatuses"]] == [False, False]
    (place / "ready").write_text("")
    until(
        lambda: all(each["ready"] for each in pods(yard)["shy"]["containerStatuses"]),
        "both are ready",
    )
    said(yard, "delete", "pod", "polite")
    assert (place / "goodbye").read_text() == "hook\nsignal\n"


SHARED = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {{name: {name}}}
spec:
  config:
    slotsPerWorker: 3
    customCommand: |
      cat /t9k/hostfile; echo over >/t9k/hostfile || echo read-only; ls -d /root/.ssh/config
      touch /root/.ssh/{name} && until [ -e {folder}/seen ]; do sleep 0.05; done
  worker:
    replicas: 1
    template: {{spec: {{containers: [{{name: worker, image: any}}]}}}}
"""


@pytest.mark.skipif(
    lacks("sshd") or lacks("ssh"), reason=missing("sshd", "openssh-server openssh-client")
)
def test_jobs_that_log_in_share_no_path_of_the_machine_with_others(somebody: Person) -> None:
    """Host file and keys are at fixed paths; two runs at once see each their own."""
    token = f"j{uuid.uuid4().hex[:8]}"
    names = [f"{token}-{n}" for n in range(2)]
    meeting = folder(somebody, "meeting")
    runs = []
    for name in names:
        path = somebody.write(f"{name}.yaml", SHARED.format(name=name, folder=meeting))
        runs.append(somebody.start("run", str(path)))
    seen = []
    for run in runs:
        assert run.stdout is not None
        seen.append(next((line for line in run.stdout if " slots=" in line), "none"))
    # Both have theirs while both run.
    (meeting / "seen").touch()
    for name, run, hosts in zip(names, runs, seen, strict=True):
        with run:
            assert run.stdout is not None
            assert run.stderr is not None
            said, problems = run.stdout.read(), run.stderr.read()
        assert run.returncode == 0, said + problems
        assert hosts == f"worker-0 | {name}-worker-0.{name} slots=3\n"
        assert "worker-0 | read-only" in said.splitlines()
        assert "worker-0 | /root/.ssh/config" in said.splitlines()
    with contextlib.suppress(OSError):
        assert token not in Path("/t9k/hostfile").read_text()
    assert not list(Path("/root/.ssh").glob(f"{token}*"))


def test_too_much_memory_is_told_in_the_table(somebody: Person) -> None:
    done = somebody.run("run", job(somebody, EATING, resources="{limits: {memory: 96Mi}}"))
    assert done.returncode == 1
    assert "worker-0 | full" not in done.stdout
    assert EATEN in done.stdout.splitlines()


def test_an_image_stands_for_a_virtualenv(somebody: Person) -> None:
    place = somebody.work / "torch-venv"
    venv.create(place, symlinks=True)
    path = job(somebody, "import sys; print(sys.prefix)", image="pytorch/pytorch:2.4")
    done = somebody.run("run", "--image", f"pytorch/*={place}", path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"worker-0 | {place}" in done.stdout.splitlines()
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("image "))
    assert "pytorch/pytorch:2.4" in told
    assert str(place) in told


def test_requests_that_the_machine_cannot_meet(somebody: Person) -> None:
    """Cut down with one line for all replicas, or with --strict waited for."""
    asks = "{requests: {cpu: 500}, limits: {nvidia.com/gpu: 1000}}"
    program = "import os; print('gpus', repr(os.environ.get('CUDA_VISIBLE_DEVICES', '')))"
    path = job(somebody, program, replicas=3, resources=asks)
    done = somebody.run("run", path)
    assert done.returncode == 0, done.stdout + done.stderr
    (told,) = (line for line in done.stdout.splitlines() if "asks for" in line)
    assert told.startswith("GenericJob/job: worker: ")
    assert re.search(r"cpu: asks for 500, gets \d+; nvidia.com/gpu: asks for 1000, gets \d+$", told)
    assert any(line.startswith("worker-2 | gpus ") for line in done.stdout.splitlines())
    waiting = somebody.start("run", "--strict", "--timeout", "50s", path)
    assert waiting.stdout is not None
    why = next((line for line in waiting.stdout if "Insufficient" in line), "")
    os.killpg(waiting.pid, signal.SIGINT)
    said, problems = waiting.communicate(timeout=60)
    assert waiting.returncode == 130, said + problems
    assert re.search(r"Insufficient cpu \(asks for 500, (\d+) of \1 free\)", why)
    assert "Insufficient nvidia.com/gpu (asks for 1000, " in why


# Where there can be no sandbox.

# A container engine gives root no more than this.
WITHOUT_PRIVILEGES = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")


@pytest.fixture(params=["an ordinary user without user namespaces", "root without privileges"])
def deprived(request: pytest.FixtureRequest) -> Iterator[Callable[..., Ended]]:
    """Runs `jobyard run` as somebody who can't have namespaces; tells who that is, and the end."""
    if not IS_ROOT:
        pytest.skip(f"only root can take namespaces from somebody{AS_ROOT}")
    is_ordinary = request.param.startswith("an ordinary user")
    way = (sys.executable, str(WITHOUT_NAMESPACES)) if is_ordinary else WITHOUT_PRIVILEGES
    with person(is_ordinary=is_ordinary) as who:

        def run(program: str, **more: Any) -> Ended:
            words = [*way, *who.jobyard("run", job(who, program, **more))]
            done = subprocess.run(
                words, cwd=who.work, env=who.environment, capture_output=True, text=True, timeout=60
            )
            return who, done

        yield run
        assert who.processes() == {}


def test_where_the_kernel_forbids_namespaces_plain_processes_run_and_one_line_says_why(
    deprived: Callable[..., Ended],
) -> None:
    who, done = deprived("import os; print('uid', os.getuid())")
    assert done.returncode == 0, done.stdout + done.stderr
    (told,) = (line for line in done.stdout.splitlines() if "plain processes" in line)
    if who.uid:
        assert "no user namespaces: user.max_user_namespaces is 0" in told
        assert "sudo sysctl user.max_user_namespaces=15000" in told
    else:
        assert "no network namespaces: Operation not permitted" in told
    assert f"worker-0 | uid {who.uid}" in done.stdout.splitlines()


def test_too_much_memory_is_told_of_plain_processes_too(deprived: Callable[..., Ended]) -> None:
    _, done = deprived(EATING, resources="{limits: {memory: 96Mi}}")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worker-0 | full" not in done.stdout
    assert EATEN in done.stdout.splitlines()
