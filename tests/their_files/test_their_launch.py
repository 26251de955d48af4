"""Launchers of the platforms' users: debug, resume and images as their files and manuals have them.

Real sshd, ssh and mpirun in the sandboxes of a running engine, and the real kubectl with strict
validation. `colossalai run` by hand is in tests/frameworks.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from rig.engine import EngineKubectl, Room
from rig.kube.kubectl import Kubectl
from rig.needs import lacks, missing
from rig.person import Person, person
from rig.waiting import until_it_holds

from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.node.objects.surroundings import ImageConfig, ImageTarget
from jobyard.node.ordering.images import ImageRuleError, rule_of
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.pods import Replica, replica_pod

needs_ssh = pytest.mark.skipif(
    lacks("sshd") or lacks("ssh"), reason=missing("sshd", "openssh-server openssh-client")
)
needs_mpi = pytest.mark.skipif(lacks("mpirun"), reason=missing("mpirun", "openmpi-bin"))
# A path that some image may have, and this machine hasn't.
NOWHERE = "/usr/bin/sshd"
needs_none_there = pytest.mark.skipif(Path(NOWHERE).exists(), reason=f"there is a {NOWHERE} here")
FILES = "/run/jobyard/files"
WORKER = f"{FILES}/worker.sh"

# The example of the manual, cut down to programs that a machine has. Its image has Open MPI below
# /usr/local, and this machine hasn't.
MPI = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {name: mpi-example}
spec:
  worker:
    replicas: 2
    extraMPIArgs: ["-N", "1", --allow-run-as-root, -bind-to, none]
    cmd: [hostname]
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
        - name: mpi-worker
          image: t9kpublic/mpi-tutorial:2021022-2
          workingDir: /usr/local/code
  mca: {btl: ^openib}
  ssh: {sshdPath: /usr/sbin/sshd}
  mpiHome: /usr/local
"""
COLOSSALAI = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: ColossalAIJob
metadata: {name: colossalai-example}
spec:
  ssh: {authMountPath: /root/.ssh, sshdPath: /usr/sbin/sshd}
  launcher: {image: "hpcaitech/colossalai:0.3.0", workingDir: /workspace, env: []}
  worker:
    replicas: 2
    procPerWorker: 1
    command: [train.py, arg1]
    torchArgs: []
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: worker, image: "hpcaitech/colossalai:0.3.0"}]
"""
GENERIC = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: generic-example}
spec:
  replicaSpecs:
  - type: worker
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: main, image: any, command: ["true"]}]
"""
# The manuals' own, for both kinds.
RESUME = {"type": "worker", "skipInitContainer": True, "command": [NOWHERE]}
DEBUG_SSHD = {"enabled": True, "replicaSpecs": [RESUME]}


def job(text: str, **mode: Any) -> dict[str, Any]:
    """One of the jobs above in a run mode."""
    manifest: dict[str, Any] = yaml.safe_load(text)
    manifest["spec"]["runMode"] = mode
    return manifest


def commands(manifest: dict[str, Any], *, is_resumed: bool = False) -> dict[str, list[str]]:
    """What the first replica of each role runs."""
    (document,) = read(json.dumps(manifest), "job.yaml")
    result = checked(document)
    assert result.kind is not None, result
    description = described(result.kind, result.value)
    assert description is not None
    out = {}
    for role in description.roles:
        pod = replica_pod(description, Replica(role=role, rank=0, is_resumed=is_resumed))
        (main,) = pod["spec"]["containers"]
        out[role.type] = [*main["command"], *main.get("args", [])]
    return out


SSHDS = {
    "a path": ([NOWHERE], [NOWHERE]),
    "another path": (["/usr/local/sbin/sshd"], ["/usr/local/sbin/sshd"]),
    "a name": (["sshd"], ["sshd"]),
    "in the foreground": ([NOWHERE, "-D"], [NOWHERE]),
    "with its log": ([NOWHERE, "-D", "-e"], [NOWHERE]),
    "with flags in one word": ([NOWHERE, "-De"], [NOWHERE]),
    "at the job's port": ([NOWHERE, "-D", "-p", "2222"], [NOWHERE]),
    "at another port": ([NOWHERE, "-p22"], [NOWHERE, "-p", "2222", "-p", "22"]),
    "with an option": (
        [NOWHERE, "-D", "-o", "PermitRootLogin=yes"],
        [NOWHERE, "-o", "PermitRootLogin=yes"],
    ),
    "in a shell": (["/bin/bash", "-c", f"{NOWHERE} -D"], [NOWHERE]),
    "in place of a shell": (["sh", "-lc", f" exec {NOWHERE} "], [NOWHERE]),
}
OTHERS = {
    "a configuration of its own": [NOWHERE, "-D", "-f", "/etc/ssh/own"],
    "a test of the configuration": [NOWHERE, "-t"],
    "one connection": [NOWHERE, "-d"],
    "more than an sshd": ["sh", "-c", f"{NOWHERE} && sleep inf"],
    "a variable": ["sh", "-c", "$SSHD -D"],
    "something like it": ["/usr/bin/sshd-run"],
    "words that no sshd knows": [NOWHERE, "-D", "now"],
    "a program": ["sleep", "inf"],
}


@pytest.mark.parametrize("text", [MPI, COLOSSALAI], ids=["MPIJob", "ColossalAIJob"])
@pytest.mark.parametrize(("given", "want"), SSHDS.values(), ids=SSHDS)
def test_a_workers_bare_sshd_is_that_sshd_with_the_jobs_keys_and_port(
    text: str, given: list[str], want: list[str]
) -> None:
    spec = {"type": "worker", "command": given}
    debugged = commands(job(text, debug={"enabled": True, "replicaSpecs": [spec]}))
    assert debugged["worker"] == ["sh", WORKER, *want]
    resumed = commands(job(text, pause={"resumeSpecs": [spec]}), is_resumed=True)
    assert resumed["worker"] == ["sh", WORKER, *want]
    # In two fields it is the same command.
    halves = {"type": "worker", "command": given[:1], "args": given[1:]}
    assert commands(job(text, pause={"resumeSpecs": [halves]}), is_resumed=True) == resumed
    assert debugged["launcher"][-2:] == ["sleep", "inf"]


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_any_other_command_of_a_worker_stays_as_it_is(given: list[str]) -> None:
    spec = {"type": "worker", "command": given}
    resumed = commands(job(MPI, pause={"resumeSpecs": [spec]}), is_resumed=True)
    assert resumed["worker"] == given
    # After the keys are in place, for who comes in.
    debugged = commands(job(MPI, debug={"enabled": True, "replicaSpecs": [spec]}))["worker"]
    assert debugged[:2] == ["sh", "-c"]
    assert debugged[-len(given) :] == given


@pytest.mark.parametrize("text", [MPI, COLOSSALAI], ids=["MPIJob", "ColossalAIJob"])
def test_a_resume_command_that_no_launcher_can_log_in_to_is_a_warning(text: str) -> None:
    def told(*specs: dict[str, Any]) -> list[str]:
        (document,) = read(json.dumps(job(text, pause={"resumeSpecs": [*specs]})), "job.yaml")
        found = [each for each in checked(document).findings if "in vain" in each.text]
        return [".".join(map(str, each.path)) for each in found]

    launcher = {"type": "launcher", "command": ["again"]}
    assert told(launcher, RESUME) == []
    own = {"type": "worker", "command": OTHERS["a configuration of its own"]}
    assert told(launcher, own) == ["spec.runMode.pause.resumeSpecs.1.command"]


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ([NOWHERE], [NOWHERE, "-D"]),
        ([NOWHERE, "-e", "-p", "22"], [NOWHERE, "-e", "-p", "22", "-D"]),
        ([NOWHERE, "-De"], [NOWHERE, "-De"]),
        (["bash", "-c", NOWHERE], [NOWHERE, "-D"]),
        ([NOWHERE, "-f", "/etc/own"], [NOWHERE, "-f", "/etc/own", "-D"]),
        ([NOWHERE, "-d"], [NOWHERE, "-d"]),
        (["sh", "-c", f"{NOWHERE}; train"], ["sh", "-c", f"{NOWHERE}; train"]),
    ],
    ids=str,
)
def test_a_bare_sshd_of_other_kinds_stays_in_the_foreground(
    given: list[str], want: list[str]
) -> None:
    spec = {"type": "worker", "command": given}
    debugged = commands(job(GENERIC, debug={"enabled": True, "replicaSpecs": [spec]}))
    assert debugged["worker"] == want
    resumed = commands(job(GENERIC, pause={"resumeSpecs": [spec]}), is_resumed=True)
    assert resumed["worker"] == want


@pytest.mark.parametrize("text", [MPI, COLOSSALAI, GENERIC], ids=["MPI", "ColossalAI", "Generic"])
def test_kubectl_takes_the_manuals_modes_strictly(kubectl: Kubectl, crds: None, text: str) -> None:
    for n, mode in enumerate(
        (
            {"debug": {"enabled": True}},
            {"debug": DEBUG_SSHD},
            {"pause": {"enabled": True, "resumeSpecs": [RESUME]}},
        )
    ):
        manifest = job(text, **mode)
        manifest["metadata"]["name"] += f"-{n}"
        told = kubectl("apply", "--validate=strict", "-f", "-", stdin=json.dumps(manifest))
        assert "Warning" not in told.stderr


class Stage:
    """Jobs in a namespace of the engine, applied by kubectl and entered by jobyard."""

    def __init__(self, room: Room, kubectl: EngineKubectl) -> None:
        self._room = room
        self._kubectl = kubectl

    def apply(self, manifest: dict[str, Any]) -> str:
        self._kubectl("apply", "--validate=strict", "-f", "-", stdin=manifest)
        return str(manifest["metadata"]["name"])

    def jobyard(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        engine = self._room.engine
        options = ("-n", self._room.name, "--kubeconfig", str(engine.kubeconfig))
        verb, *rest = words
        done = engine.who.run(verb, *options, *rest, seconds=120)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def inside(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return self.jobyard("exec", name, "launcher", "--", *words, code=None)

    def phase(self, plural: str, name: str) -> str:
        path = f"/apis/batch.tensorstack.dev/v1beta1/namespaces/{self._room.name}/{plural}/{name}"
        answer = self._room.engine.ask("GET", path)
        return str(answer.json.get("status", {}).get("phase", ""))

    def until(self, plural: str, name: str, phase: str) -> None:
        until_it_holds(
            lambda: self.phase(plural, name) == phase, f"{plural}/{name} is {phase}", seconds=90
        )

    def log(self, pod: str) -> str:
        return self._room.engine.ask("GET", self._room.path("pods", pod) + "/log").text


@pytest.fixture
def stage(room: Room, kubectl_binary: Path) -> Stage:
    return Stage(room, EngineKubectl(kubectl_binary, room))


@needs_ssh
@needs_mpi
@needs_none_there
def test_an_mpijob_in_debug_mode_is_started_by_hand(stage: Stage) -> None:
    """With the manual's example of a worker's command, as one that this machine has elsewhere."""
    name = stage.apply(job(MPI, debug=DEBUG_SSHD))
    stage.until("mpijobs", name, "Running")
    hosts = [f"mpi-example-worker-{n}" for n in range(2)]
    launch = ("mpirun", "--hostfile", f"{FILES}/hostfile", "hostname")
    # Running says that containers have started, and that sshd listens comes after that.
    by_script = stage.inside(name, "sh", f"{FILES}/launcher.sh", *launch)
    assert sorted(by_script.stdout.split()) == hosts, by_script
    by_hand = stage.inside(name, *launch)
    assert sorted(by_hand.stdout.split()) == hosts, by_hand
    assert f"jobyard: there is no sshd at {NOWHERE}: running" in stage.log(hosts[0])
    assert stage.phase("mpijobs", name) == "Running"


@needs_ssh
@needs_mpi
@needs_none_there
def test_an_mpijob_goes_on_after_a_pause_with_the_manuals_resume_command(stage: Stage) -> None:
    name = stage.apply(job(MPI, pause={"enabled": True, "resumeSpecs": [RESUME]}))
    stage.until("mpijobs", name, "Paused")
    stage.jobyard("resume", name)
    stage.until("mpijobs", name, "Succeeded")
    said = stage.log("mpi-example-launcher")
    assert {f"mpi-example-worker-{n}" for n in range(2)} <= set(said.split()), said
    # mpiHome is another machine's, too; who reads the log learns of both.
    assert re.search(
        r"^jobyard: spec.mpiHome says /usr/local, and this machine has no"
        r" /usr/local/bin/mpirun: running /\S+/mpirun$",
        said,
        re.MULTILINE,
    ), said
    assert f"jobyard: there is no sshd at {NOWHERE}: running" in stage.log("mpi-example-worker-1")


@needs_ssh
@pytest.mark.parametrize(
    "mode",
    [
        {"enabled": True},
        DEBUG_SSHD,
        {"enabled": True, "replicaSpecs": [{"type": "launcher", "command": ["sleep", "inf"]}]},
    ],
    ids=["by default", "with an sshd", "with a command"],
)
def test_a_colossalaijob_in_debug_mode_has_keys_and_hosts_in_place(
    stage: Stage, mode: dict[str, Any]
) -> None:
    name = stage.apply(job(COLOSSALAI, debug=mode))
    stage.until("colossalaijobs", name, "Running")
    hosts = [f"colossalai-example-worker-{n}.colossalai-example" for n in range(2)]
    assert stage.inside(name, "cat", f"{FILES}/hostfile").stdout.split() == hosts
    listed = stage.inside(name, "ls", "/root/.ssh").stdout.split()
    assert {"config", "identity", "known_hosts"} <= set(listed)
    # The same wait as in a job that runs; then plain ssh, as whoever is there would type it.
    reached = stage.inside(name, "sh", f"{FILES}/launcher.sh", "echo", "reached")
    assert reached.stdout == "reached\n", reached
    if os.geteuid() == 0:
        for host in hosts:
            told = stage.inside(name, "ssh", host, "hostname")
            assert told.stdout.strip() == host.partition(".")[0], told


@needs_ssh
@needs_none_there
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read the machine's host keys")
def test_a_bare_sshd_in_a_debugged_genericjob_runs_on(stage: Stage) -> None:
    spec = {"type": "worker", "command": [NOWHERE]}
    manifest = job(GENERIC, debug={"enabled": True, "replicaSpecs": [spec]})
    # sshd wants this folder, for nobody but root to write into.
    pod = manifest["spec"]["replicaSpecs"][0]["template"]["spec"]
    mounts = [{"name": "sshd", "mountPath": "/run/sshd"}]
    closes = {"name": "closes", "image": "any", "command": ["chmod", "755", "/run/sshd"]}
    pod["volumes"] = [{"name": "sshd", "emptyDir": {}}]
    pod["initContainers"] = [{**closes, "volumeMounts": mounts}]
    pod["containers"][0]["volumeMounts"] = mounts
    name = stage.apply(manifest)
    stage.until("genericjobs", name, "Running")
    answers = ("exec", name, "worker-0", "--", "python3", "-c")
    program = "import socket; print(socket.create_connection(('127.0.0.1', 22)).recv(4))"
    told = until_it_holds(
        lambda: stage.jobyard(*answers, program, code=None).stdout, "sshd answers", seconds=60
    )
    assert told.strip() == "b'SSH-'"
    assert stage.phase("genericjobs", name) == "Running"
    assert f"jobyard: there is no {NOWHERE} on this machine: running" in stage.log(
        "generic-example-worker-0"
    )


# What an image says of itself, as the tools of the day write it down.
DOCKER = [
    {
        "Id": "sha256:0",
        "Config": {
            "Env": ["PATH=/opt/conda/bin:/usr/bin", "MODE=image", "EMPTY="],
            "Cmd": ["train"],
            "Entrypoint": ["/entry"],
            "WorkingDir": "/workspace",
            "User": "",
        },
    }
]
SKOPEO = {"architecture": "amd64", "os": "linux", "config": DOCKER[0]["Config"], "rootfs": {}}
BUNDLE = {
    "ociVersion": "1.0.0",
    "process": {
        "user": {"uid": 7, "gid": 8},
        "args": ["/entry", "train"],
        "env": ["PATH=/opt/conda/bin:/usr/bin"],
        "cwd": "/workspace",
    },
    "root": {"path": "rootfs"},
}
ENV = {"PATH": "/opt/conda/bin:/usr/bin", "MODE": "image", "EMPTY": ""}
OF_IMAGE = ImageConfig(env=ENV, entrypoint=("/entry",), cmd=("train",), working_folder="/workspace")


def root_folder(path: Path) -> Path:
    """All that a root folder needs to be taken for one; programs are mounted."""
    for name in ("usr", "etc", "work", "opt/here"):
        (path / name).mkdir(parents=True)
    (path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nada:x:1815:12::/work:/bin/sh\n")
    (path / "etc/group").write_text("root:x:0:\nmath:x:42:\n")
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (path / name).symlink_to(f"usr/{name}")
    return path


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(DOCKER, OF_IMAGE, id="docker inspect"),
        pytest.param(DOCKER[0], OF_IMAGE, id="one object of it"),
        pytest.param(DOCKER[0]["Config"], OF_IMAGE, id="its Config"),
        pytest.param(SKOPEO, OF_IMAGE, id="skopeo inspect --config"),
        pytest.param(
            {"config": {"Env": None, "Cmd": None, "Entrypoint": None, "Labels": {}}},
            ImageConfig(),
            id="nulls as Go writes them",
        ),
        pytest.param(
            BUNDLE,
            ImageConfig(
                env={"PATH": ENV["PATH"]},
                cmd=("/entry", "train"),
                working_folder="/workspace",
                user="7:8",
                uid=7,
                gid=8,
                home="/",
            ),
            id="a bundle's config.json",
        ),
        pytest.param(
            {"config": {"User": "ada:math"}},
            ImageConfig(user="ada:math", uid=1815, gid=42, home="/work"),
            id="a user by name",
        ),
        pytest.param(
            {"config": {"User": "1815"}},
            ImageConfig(user="1815", uid=1815, gid=12, home="/work"),
            id="a user by number",
        ),
    ],
)
def test_what_an_image_says_is_read_beside_its_root_folder(
    tmp_path: Path, said: Any, want: ImageConfig
) -> None:
    root = root_folder(tmp_path / "root")
    (tmp_path / "root.json").write_text(json.dumps(said))
    rule = rule_of(f"nvcr.io/*={root}")
    assert (rule.pattern, rule.folder, rule.type) == ("nvcr.io/*", str(root), ImageTarget.ROOT)
    assert rule.config == want
    # Wherever the file is.
    (tmp_path / "root.json").rename(tmp_path / "other")
    assert rule_of(f"x={root}").config == ImageConfig()
    assert rule_of(f"x={root},config={tmp_path}/other").config == want


def test_a_bundle_is_named_as_a_whole_or_by_its_root_folder(tmp_path: Path) -> None:
    root = root_folder(tmp_path / "bundle/rootfs")
    (tmp_path / "bundle/config.json").write_text(json.dumps(BUNDLE))
    whole, files = rule_of(f"x={tmp_path}/bundle"), rule_of(f"x={root}")
    assert whole == files
    assert whole.folder == str(root)
    assert whole.config.working_folder == "/workspace"


def test_options_come_before_the_file(tmp_path: Path) -> None:
    root = root_folder(tmp_path / "root")
    (tmp_path / "root.json").write_text(json.dumps(SKOPEO))
    options = "workdir=/work,env=MODE=a,b=c,env=MORE=,user=ada"
    config = rule_of(f"x={root},{options}").config
    assert dict(config.env) == {**ENV, "MODE": "a,b=c", "MORE": ""}
    assert (config.working_folder, config.uid, config.gid) == ("/work", 1815, 12)
    assert config.entrypoint == ("/entry",)


@pytest.mark.parametrize(
    ("said", "options", "want"),
    [
        ("{", "", r"root\.json: Input data was truncated"),
        ("[]", "", "tells of 0 images, not of one"),
        ('{"layers": []}', "", "is no image configuration: neither Config"),
        ('{"config": {"Env": "A=1"}}', "", "Expected `array"),
        ('{"config": {"Env": ["=1"]}}', "", "must look like NAME=VALUE"),
        ('{"config": {"Env": ["A\\u0000=1"]}}', "", "must look like NAME=VALUE"),
        ('{"config": {"WorkingDir": "work"}}', "", "'work' is not absolute"),
        ('{"config": {"User": "nobody"}}', "", "the image has no user 'nobody'"),
        ('{"config": {"User": "ada:poets"}}', "", "the image has no group 'poets'"),
        ("[" * 100_000, "", "root"),
        ("{}", ",env=A", "is not env=NAME=VALUE"),
        ("", ",config=/no/such", "/no/such: No such file"),
    ],
)
def test_what_cant_be_read_of_an_image_is_told(
    tmp_path: Path, said: str, options: str, want: str
) -> None:
    root = root_folder(tmp_path / "root")
    (tmp_path / "root.json").write_text(said if said != "{}" else '{"config": {}}')
    with pytest.raises(ImageRuleError, match=want):
        rule_of(f"x={root}{options}")


def test_a_virtualenv_has_no_options(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    with pytest.raises(ImageRuleError, match="is a virtualenv; 'workdir=/w' is for root folders"):
        rule_of(f"x={tmp_path},workdir=/w")


IMAGES = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: images}
spec:
  replicaSpecs:
  - type: TYPE
    template:
      spec:
        containers:
        - name: main
          image: own/image:1
          volumeMounts: [{name: usr, mountPath: /usr, readOnly: true}]
        volumes: [{name: usr, hostPath: {path: /usr}}]
"""
TELLING = 'echo "$*; $(pwd); $MODE; $PATH; $(id -u):$(id -g); $HOME"'


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who
        assert who.processes() == {}


@pytest.mark.skipif(not Path("/bin").is_symlink(), reason="programs are not all below /usr")
def test_a_replica_runs_as_its_image_says(somebody: Person) -> None:
    """Of three replicas one says nothing, one arguments, one a command and a folder."""
    root = root_folder(somebody.work / "root")
    config = {
        "Env": ["PATH=/opt/here:/usr/bin", "MODE=image"],
        "Entrypoint": ["sh", "-c", TELLING, "entry"],
        "Cmd": ["of", "the", "image"],
        "WorkingDir": "/work",
        "User": "ada:math",
    }
    (somebody.work / "root.json").write_text(json.dumps([{"Config": config}]))
    manifest = yaml.safe_load(IMAGES)
    (first,) = manifest["spec"]["replicaSpecs"]
    for name, more in {
        "plain": {},
        "args": {"args": ["own"], "env": [{"name": "MODE", "value": "pod"}]},
        "command": {"command": ["sh", "-c", TELLING], "workingDir": "/opt/here"},
    }.items():
        spec = json.loads(json.dumps(first))
        spec["type"] = name
        spec["template"]["spec"]["containers"][0] |= more
        manifest["spec"]["replicaSpecs"].append(spec)
    del manifest["spec"]["replicaSpecs"][0]
    path = str(somebody.write("images.yaml", json.dumps(manifest)))

    def said(*options: str) -> dict[str, str]:
        done = somebody.run("run", path, "--image", f"own/image={root}", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.partition(" | ") for line in done.stdout.splitlines() if " | " in line]
        return {prefix.strip(): told for prefix, _, told in lines}

    path_of_image = "/opt/here:/usr/bin"
    who = f"{os.geteuid()}:{os.getegid()}; /root"
    assert said() == {
        "plain-0": f"of the image; /work; image; {path_of_image}; {who}",
        "args-0": f"own; /work; pod; {path_of_image}; {who}",
        "command-0": f"; /opt/here; image; {path_of_image}; {who}",
    }
    if os.geteuid() == 0:
        # As on a cluster, also whom it runs as.
        told = said("--strict")
        assert told["plain-0"] == f"of the image; /work; image; {path_of_image}; 1815:42; /work"


@needs_ssh
@pytest.mark.skipif(os.geteuid() != 0, reason="root folders with other people's files")
@pytest.mark.skipif(not Path("/bin").is_symlink(), reason="programs are not all below /usr")
def test_an_image_without_what_mpi_home_says_is_told_with_the_field(somebody: Person) -> None:
    root = root_folder(somebody.work / "root")
    manifest = yaml.safe_load(MPI)
    worker = manifest["spec"]["worker"]
    pod = worker["template"]["spec"]
    pod["volumes"] = [{"name": "usr", "hostPath": {"path": "/usr"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "usr", "mountPath": "/usr", "readOnly": True}]
    manifest["spec"]["mpiHome"] = "/opt/openmpi"
    pod["containers"][0]["workingDir"] = "/work"
    path = str(somebody.write("mpi.yaml", json.dumps(manifest)))
    done = somebody.run("run", path, "--image", f"t9kpublic/*={root}", seconds=90)
    assert done.returncode == 1, done.stdout + done.stderr
    want = "/opt/openmpi/bin/mpirun: not found: spec.mpiHome says /opt/openmpi, and the image has"
    # In the log, and where one looks for why it failed.
    assert done.stdout.count(want) >= 2, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({"mpiHome": "/opt/mpi"}, "spec.mpiHome"),
        ({"mpiConfig": {"home": "/opt/mpi"}}, "spec.mpiConfig.home"),
    ],
)
def test_the_launcher_knows_the_field_that_says_where_mpirun_is(
    shape: dict[str, Any], field: str
) -> None:
    manifest = yaml.safe_load(MPI)
    worker = manifest["spec"].pop("worker")
    for name in ("mca", "mpiHome"):
        del manifest["spec"][name]
    if "mpiHome" in shape:
        manifest["spec"]["worker"] = worker
    else:
        replicas = {"type": "worker", "template": worker["template"]}
        manifest["spec"]["replicaSpecs"] = [replicas]
    manifest["spec"] |= shape
    (document,) = read(json.dumps(manifest), "job.yaml")
    result = checked(document)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None, result
    start = description.start(description.roles[0], 0)
    assert dict(start.env)["JOBYARD_PLACED_BY"] == field
    words = shlex.join(start.command)
    assert "/opt/mpi/bin/mpirun --prefix /opt/mpi " in words
