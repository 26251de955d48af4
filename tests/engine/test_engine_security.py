"""Who gets into a running engine, what it gives away, and what a hostile manifest can do to it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rig.engine import JOBS, Room, RunningEngine
from rig.needs import needed
from rig.users import free_uid
from rig.waiting import until_it_holds

JSON = dict[str, Any]
LISTENING = "0A"
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


def as_another_user(*words: str) -> subprocess.CompletedProcess[str]:
    with free_uid() as uid:
        somebody = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        return subprocess.run([*somebody, *words], capture_output=True, text=True, timeout=30)


# The door


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="nothing"),
        pytest.param("Bearer ", id="an empty token"),
        pytest.param("Bearer wrong", id="a wrong token"),
        pytest.param("Bearer {token}x", id="too long a token"),
        pytest.param("Bearer {token_but_one}", id="too short a token"),
        pytest.param("Bearer {token_in_capitals}", id="a token in capitals"),
        pytest.param("{token}", id="no scheme"),
        pytest.param("Basic {token}", id="another scheme"),
        pytest.param("Basic {basic}", id="the token as a password"),
        pytest.param("Bearer \u00fc\u00fc", id="no ASCII"),
    ],
)
def test_without_the_token_everything_is_401(engine: RunningEngine, header: str) -> None:
    token = engine.token
    sent = header.format(
        token=token,
        token_but_one=token[:-1],
        token_in_capitals=token.swapcase(),
        basic=base64.b64encode(f"jobyard:{token}".encode()).decode(),
    )
    for method, path in (
        ("GET", "/api/v1/pods"),
        ("GET", "/apis"),
        ("GET", "/openapi/v2"),
        ("POST", "/api/v1/namespaces"),
        ("GET", "/api/v1/namespaces/default/secrets?watch=true"),
        ("GET", "/api/v1/namespaces/default/pods/x/log"),
        ("POST", "/api/v1/namespaces/default/pods/x/exec?command=id"),
        ("GET", "/no/such/place"),
    ):
        answer = engine.ask(method, path, authorization=sent.encode().decode("latin-1"))
        assert answer.status == 401, path
        assert answer.content_type == "application/json"
        assert (answer.json["kind"], answer.json["reason"]) == ("Status", "Unauthorized")
        assert token not in answer.text


def test_another_user_of_the_machine_gets_401_and_no_files(engine: RunningEngine) -> None:
    asked = as_another_user(
        *(needed("curl"), "-sS", "-k", "-w", "%{http_code}", f"{engine.url}/api/v1/secrets")
    )
    assert asked.stdout.endswith("401")
    assert json.loads(asked.stdout[:-3])["reason"] == "Unauthorized"
    for path in (
        engine.kubeconfig,
        engine.folder / "pki" / "token",
        engine.folder / "store.sqlite",
    ):
        assert path.is_file()
        read = as_another_user("cat", str(path))
        assert (read.returncode, read.stdout) == (1, "")
        assert "Permission denied" in read.stderr
    assert as_another_user("ls", str(engine.folder)).returncode == 2


def test_private_files_are_private_even_in_a_folder_that_isnt(engine: RunningEngine) -> None:
    for name in ("kubeconfig", "pki/token", "pki/server.key", "store.sqlite", "store.sqlite-wal"):
        assert stat.S_IMODE((engine.folder / name).stat().st_mode) == 0o600, name
    for folder in (engine.folder, engine.folder / "pki"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_another_user_cant_reach_the_sockets(engine: RunningEngine, room: Room) -> None:
    room.pod("box", "sleep", "1000")
    room.running("box")
    # Not `rglob`, which stumbles over folders of pods that are just being taken away.
    paths = [Path(top, name) for top, _, names in os.walk(engine.folder) for name in names]
    sockets = [path for path in paths if path.is_socket()]
    assert len(sockets) >= 2, "of the hub and of the pod's supervisor"
    script = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
    for path in sockets:
        tried = as_another_user("/usr/bin/python3", "-c", script, str(path))
        assert "PermissionError" in tried.stderr, path
    # Sockets with a name that isn't a file have no owner who could shut others out.
    inodes = {inode for inode, _ in inodes_of(engine)}
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        assert not (fields[6] in inodes and fields[7:] and fields[7].startswith("@")), line


def inodes_of(engine: RunningEngine) -> Iterator[tuple[str, int]]:
    """Every socket of the engine and of what it has started, in any namespace.

    What carries packets of pods has a socket for each that a pod has sent: those are the pods' own.
    """
    for pid, words in engine.who.processes().items():
        if Path(words.split(" ")[0]).name in {"slirp4netns", "pasta"}:
            continue
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
                if found:
                    yield found[1], pid
        except OSError:
            continue


def test_the_engine_listens_on_loopback_only(engine: RunningEngine) -> None:
    inodes = {inode for inode, _ in inodes_of(engine)}
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].rpartition(":")
            if fields[9] in inodes and (fields[3] == LISTENING or table.startswith("udp")):
                found.append((address, int(port, 16)))
    assert engine.port in {port for _, port in found}
    assert {address for address, _ in found} <= LOOPBACK, found
    with socket.socket() as plain:
        plain.connect(("127.0.0.1", engine.port))
        plain.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP/1.1 200" not in plain.recv(1000), "nothing without TLS"


def test_an_answer_is_as_large_as_a_question_may_be(engine: RunningEngine) -> None:
    large = {"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "x" * 4_000_000}}
    answer = engine.ask("POST", "/api/v1/namespaces/default/configmaps", large)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")


# Secrets


@pytest.fixture
def secret(room: Room) -> str:
    value = f"very-secret-{secrets.token_hex(8)}"
    data = {"password": base64.b64encode(value.encode()).decode()}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}
    room.create("secrets", manifest)
    return value


def test_secret_values_are_told_to_nobody_but_the_pod(room: Room, secret: str) -> None:
    engine = room.engine
    reference = {"secretKeyRef": {"name": "s", "key": "password"}}
    script = 'test "$PASSWORD" = "$(cat /secret/password)" && echo same; exit 3'
    main = {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", script],
        "env": [{"name": "PASSWORD", "valueFrom": reference}],
        "volumeMounts": [{"name": "v", "mountPath": "/secret"}],
    }
    template = {
        "spec": {"containers": [main], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}
    }
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "train"},
        "spec": {"replicaSpecs": [{"type": "worker", "template": template}]},
    }
    room.create("genericjobs", job, JOBS)
    done = room.until(
        "genericjobs", "train", lambda job: job.get("status", {}).get("phase") == "Failed", JOBS
    )
    pod = room.get("pods", "train-worker-0")
    assert engine.ask("GET", room.path("pods", "train-worker-0") + "/log").text == "same\n"
    described = engine.who.run(
        *("describe", "genericjob/train", "-n", room.name),
        *("--kubeconfig", str(engine.kubeconfig)),
    )
    assert described.returncode == 0, described.stderr
    assert "exit code 3" in described.stdout or " 3 " in described.stdout
    events = engine.ask("GET", room.path("events")).text
    logs = "".join(path.read_text() for path in sorted(engine.folder.glob("*.log")))
    words = " ".join(engine.who.processes().values())
    encoded = base64.b64encode(secret.encode()).decode()
    for name, text in {
        "describe": described.stdout,
        "events": events,
        "the engine's logs": logs,
        "the job": json.dumps(done),
        "the pod": json.dumps(pod),
        "command lines": words,
    }.items():
        assert secret not in text, name
        assert encoded not in text, name
        assert engine.token not in text, name


def test_refusals_dont_repeat_a_secret(room: Room, secret: str) -> None:
    path = room.path("secrets", "s")
    frozen = {"immutable": True}
    engine = room.engine
    assert (
        engine.ask("PATCH", path, frozen, content_type="application/merge-patch+json").status == 200
    )
    changed = {"data": {"password": base64.b64encode(b"another").decode()}}
    refused = engine.ask("PATCH", path, changed, content_type="application/merge-patch+json")
    assert refused.status == 422
    wrong = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "wrong"},
        "data": {"password": f"!{secret}!"},
    }
    no_base64 = engine.ask("POST", room.path("secrets"), wrong)
    assert no_base64.status == 400
    bad_key = {**wrong, "data": {}, "stringData": {"no key": secret}}
    no_key = engine.ask("POST", room.path("secrets"), bad_key)
    assert no_key.status == 422
    log = engine.log.read_text()
    for answer in (refused, no_base64, no_key):
        assert secret not in answer.text
        assert base64.b64encode(secret.encode()).decode() not in answer.text
    assert secret not in log


def test_files_of_a_secret_have_their_modes_and_stay_below_the_engines_folder(
    room: Room, secret: str
) -> None:
    volume = {"name": "v", "secret": {"secretName": "s", "defaultMode": 0o400}}
    script = "stat -L -c %a /secret/password; cat /secret/password; touch /secret/x 2>&- || echo no"
    main = {"volumeMounts": [{"name": "v", "mountPath": "/secret"}]}
    room.pod("box", "sh", "-c", script, volumes=[volume], main=main)
    assert room.ended("box") == (0, f"400\n{secret}no\n")


# Names


HOSTILE = [
    "a;touch x",
    "$(touch x)",
    "`touch x`",
    "a|b",
    "a&b",
    "a b",
    "a\nb",
    "a'b",
    'a"b',
    "../../etc",
    "a/b",
    "..",
    ".",
    "-rf",
    "a\x00b",
    "%2e%2e",
    "ünïcode",
    "A",
    "x" * 300,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(room: Room, name: str) -> None:
    main = {"name": "main", "image": "any", "command": ["true"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    role = {"type": "worker", "template": {"spec": {"containers": [main]}}}
    job = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "j"},
        "spec": {"replicaSpecs": [role]},
    }
    mounted = {**main, "volumeMounts": [{"name": name, "mountPath": "/x"}]}
    tries = [
        (room.path("pods"), {**pod, "metadata": {"name": name}, "spec": {"containers": [main]}}),
        (room.path("pods"), {**pod, "spec": {"containers": [{**main, "name": name}]}}),
        (
            room.path("pods"),
            {
                **pod,
                "spec": {"containers": [mounted], "volumes": [{"name": name, "emptyDir": {}}]},
            },
        ),
        (room.path("pods"), {**pod, "spec": {"containers": [main], "hostname": name}}),
        (room.path("genericjobs", prefix=JOBS), {**job, "metadata": {"name": name}}),
        (
            room.path("genericjobs", prefix=JOBS),
            {**job, "spec": {"replicaSpecs": [{**role, "type": name}]}},
        ),
        ("/api/v1/namespaces", {"metadata": {"name": name}}),
    ]
    for path, manifest in tries:
        answer = room.engine.ask("POST", path, manifest)
        assert answer.status == 422, (path, answer.text)
        assert answer.json["reason"] == "Invalid"


@pytest.mark.parametrize("key", ["..", ".", "../x", "a/b", "..data", "/etc/passwd", "a\nb", ""])
def test_hostile_keys_are_refused(room: Room, key: str) -> None:
    manifest = {"apiVersion": "v1", "metadata": {"name": "c"}, "data": {key: ""}}
    for plural, kind in (("configmaps", "ConfigMap"), ("secrets", "Secret")):
        answer = room.engine.ask("POST", room.path(plural), {**manifest, "kind": kind})
        assert answer.status == 422, answer.text


@pytest.mark.parametrize(
    "name",
    ["..%2f..%2fstore.sqlite", "%2e%2e", "..%2f", "x%00y", "%0d%0aX-Evil:%201", "a%2fb%2fc"],
)
def test_hostile_paths_find_nothing(room: Room, name: str) -> None:
    for path in (
        room.path("pods", name),
        room.path("pods", name) + "/log",
        f"/api/v1/namespaces/{name}/pods/x/log",
        f"/apis/{name}/v1/x",
    ):
        answer = room.engine.ask("GET", path)
        assert answer.status in (400, 404), (path, answer.text)
        assert "SQLite" not in answer.text


# Values


def own_folder(room: Room, name: str) -> Path:
    """Of whoever the engine belongs to, who could do anything to it."""
    who = room.engine.who
    folder = who.home / f"{name}-{room.name}"
    folder.mkdir()
    os.chown(folder, who.uid, -1)
    return folder


VALUES = [
    "plain",
    "",
    " ",
    'double " quote',
    "single ' quote",
    "two\nlines\n",
    "tab\tand\rreturn",
    "$(touch owned)",
    "`touch owned`",
    "${IFS}; touch owned",
    "a && touch owned",
    "back\\slash \\n \\x41",
    "* ? [a-z] ~",
    "%s %n %d",
    "ünïcödé 漢字 🙂",
    "-rf",
    "x" * 50_000,
]


def test_values_arrive_verbatim_and_no_shell_sees_them(room: Room) -> None:
    script = (
        "import json, os, sys;"
        "print(json.dumps([os.environ[f'V{n}'] for n in range(int(sys.argv[1]))] + sys.argv[2:]));"
        "print(json.dumps(sorted(os.listdir('.'))))"
    )
    env = [{"name": f"V{n}", "value": value} for n, value in enumerate(VALUES)]
    words = [sys.executable, "-c", script, str(len(VALUES)), *VALUES]
    folder = own_folder(room, "empty")
    room.pod("box", *words, main={"env": env, "workingDir": str(folder)})
    code, said = room.ended("box")
    assert code == 0, said
    told, names = (json.loads(line) for line in said.splitlines())
    assert told == VALUES + VALUES
    assert names == []
    assert list(folder.iterdir()) == []


def test_names_of_variables_are_no_way_in(room: Room) -> None:
    for name in ("A=B", "", "x\x00y"):
        main = {"name": "m", "image": "i", "env": [{"name": name, "value": "v"}]}
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [main]}}
        answer = room.engine.ask("POST", room.path("pods"), pod)
        assert answer.status == 422, answer.text


# Volumes


@pytest.fixture
def victim(room: Room) -> Iterator[Path]:
    """A folder that no volume names; whatever happens, it stays as it is."""
    folder = own_folder(room, "victim")
    (folder / "file").write_text("precious")
    os.chown(folder / "file", room.engine.who.uid, -1)
    before = folder.stat().st_mtime_ns
    yield folder
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert (folder / "file").read_text() == "precious"
    assert folder.stat().st_mtime_ns == before


def box(mounts: list[JSON], volumes: list[JSON], **spec: Any) -> JSON:
    main = {"name": "main", "image": "any", "command": ["true"], "volumeMounts": mounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "box"},
        "spec": {"containers": [main], "volumes": volumes, "restartPolicy": "Never", **spec},
    }


SCRATCH = {"name": "v", "emptyDir": {}}


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(
            box([{"name": "v", "mountPath": "/v", "subPath": path}], [SCRATCH]),
            "spec.containers[0].volumeMounts.subPath",
            id=f"subPath {path}",
        )
        for path in ("../x", "a/../../x", "/etc", "..")
    ]
    + [
        pytest.param(
            box([], [{"name": "v", "hostPath": {"path": "/tmp/../etc"}}]),
            "spec.volumes[0].hostPath.path",
            id="hostPath with ..",
        ),
        pytest.param(
            box([], [{"name": "v", "hostPath": {"path": "/tmp", "type": "Anything"}}]),
            "spec.volumes[0].hostPath.type",
            id="unknown hostPath type",
        ),
    ]
    + [
        pytest.param(
            box(
                [], [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": p}]}}]
            ),
            "spec.volumes[0].configMap.items[0].path",
            id=f"configMap item at {p}",
        )
        for p in ("../x", "/etc/x", "a/../../x", "..x/y")
    ]
    + [
        pytest.param(
            box(
                [],
                [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {"secret": {"name": "s", "items": [{"key": "k", "path": p}]}}
                            ]
                        },
                    }
                ],
            ),
            "spec.volumes[0].projected.sources[0].secret.items[0].path",
            id=f"projected item at {p}",
        )
        for p in ("../x", "/etc/x")
    ]
    + [
        pytest.param(
            box(
                [],
                [
                    {
                        "name": "v",
                        "downwardAPI": {
                            "items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]
                        },
                    }
                ],
            ),
            "spec.volumes[0].downwardAPI.path",
            id="downwardAPI item at ../x",
        ),
    ],
)
def test_paths_that_lead_out_are_refused(room: Room, pod: JSON, field: str) -> None:
    answer = room.engine.ask("POST", room.path("pods"), pod)
    assert answer.status == 422, answer.text
    fields = [cause["field"] for cause in answer.json["details"]["causes"]]
    assert any(each.startswith(field) for each in fields), fields


def test_a_sub_path_isnt_followed_through_a_link_that_the_pod_made(
    room: Room, victim: Path
) -> None:
    mount = [{"name": "v", "mountPath": "/v"}]
    script = f"rm -rf /v/way; ln -s {victim} /v/way; mkdir /v/in; ln -s in /v/inside"
    first = {"name": "a", "image": "any", "command": ["sh", "-c", script], "volumeMounts": mount}
    out = box([{"name": "v", "mountPath": "/out", "subPath": "way"}], [SCRATCH])
    out["spec"]["initContainers"] = [first]
    room.create("pods", out)
    state = waiting_or_ended(room, "box")
    assert "leads out of" in state["message"]


def test_a_link_that_stays_in_the_volume_is_followed(room: Room) -> None:
    mount = [{"name": "v", "mountPath": "/v"}]
    script = "rm -rf /v/way; mkdir /v/there; echo kept > /v/there/file; ln -s there /v/way"
    first = {"name": "a", "image": "any", "command": ["sh", "-c", script], "volumeMounts": mount}
    pod = box([{"name": "v", "mountPath": "/out", "subPath": "way"}], [SCRATCH])
    pod["spec"]["initContainers"] = [first]
    pod["spec"]["containers"][0]["command"] = ["cat", "/out/file"]
    room.create("pods", pod)
    assert room.ended("box") == (0, "kept\n")


def test_a_claims_links_lead_nowhere(room: Room, victim: Path) -> None:
    room.create("persistentvolumeclaims", claim("c"))
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    script = f"ln -s {victim} /v/way; ln -s {victim}/file /v/file; ln -s ../../.. /v/up"
    main = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    room.pod("first", "sh", "-c", script, volumes=[volume], main=main)
    assert room.ended("first") == (0, "")
    for number, path in enumerate(("way", "way/new", "way/new/deep", "file", "up", "up/x")):
        second = box([{"name": "v", "mountPath": "/out", "subPath": path}], [volume])
        second["metadata"]["name"] = f"box{number}"
        room.create("pods", second)
    for number in range(6):
        assert "leads out of" in waiting_or_ended(room, f"box{number}")["message"]


def claim(name: str) -> JSON:
    resources = {"requests": {"storage": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }


def waiting_or_ended(room: Room, name: str) -> JSON:
    """Why a pod's container doesn't run: from its status, or from the events."""

    def told(pod: JSON) -> JSON:
        for each in pod["status"].get("containerStatuses", []):
            for state in (each["state"].get("waiting"), each["state"].get("terminated")):
                if state and state.get("message"):
                    return dict(state)
        message = pod["status"].get("message", "")
        return {"message": message} if message else {}

    return told(room.until("pods", name, lambda pod: bool(told(pod))))


@pytest.mark.parametrize(
    ("type_", "what"),
    [("Directory", "file"), ("File", "folder"), ("Socket", "file"), ("BlockDevice", "file")],
)
def test_a_host_path_is_what_it_says(room: Room, tmp_path: Path, type_: str, what: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    volume = {"name": "v", "hostPath": {"path": str(tmp_path / what), "type": type_}}
    room.create("pods", box([{"name": "v", "mountPath": "/v"}], [volume]))
    found = room.engine.until(
        room.path("events"),
        "fieldSelector=involvedObject.name%3Dbox",
        lambda event: "hostPath type check failed" in event.get("message", ""),
    )
    assert (found["type"], found["reason"]) == ("Warning", "FailedMount")
    assert room.get("pods", "box")["status"]["phase"] == "Pending"


def test_mount_points_and_working_folders_leave_no_trace(room: Room, tmp_path: Path) -> None:
    """Also where the way there leads through a link in a volume."""
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    victim.mkdir()
    (shared / "way").symlink_to(victim)
    mounts = [
        {"name": "host", "mountPath": f"/{room.name}"},
        {"name": "v", "mountPath": f"/{room.name}/way/new/deep"},
        {"name": "v", "mountPath": f"/opt/{room.name}/x"},
    ]
    volumes = [{"name": "host", "hostPath": {"path": str(shared)}}, SCRATCH]
    pod = box(mounts, volumes)
    pod["spec"]["containers"][0] |= {
        "command": ["sh", "-c", f"pwd; echo hello > /opt/{room.name}/x/file"],
        "workingDir": f"/srv/{room.name}/such/folder",
    }
    room.create("pods", pod)
    code, said = room.ended("box")
    assert (code, said) == (0, f"/srv/{room.name}/such/folder\n")
    for place in ("/", "/srv", "/opt"):
        assert not Path(place, room.name).exists()
    # The pod is told to have ended before its supervisor has tidied up.
    until_it_holds(lambda: not list(victim.iterdir()), "the mount point is gone")


@pytest.mark.parametrize("folder", ["../../..", "relative", "/proc/self/cwd/../..", "/dev/null"])
def test_odd_working_folders_do_no_harm(room: Room, victim: Path, folder: str) -> None:
    room.pod("box", "sh", "-c", "pwd", main={"workingDir": folder})
    code, said = room.ended("box")
    assert code in (0, 128), said
