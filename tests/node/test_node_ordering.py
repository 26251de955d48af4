"""What the agent decides without doing anything: orders, files of volumes, names, statuses."""

from __future__ import annotations

import os
import tracemalloc
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jobyard.node.agent.container_status import Waiting
from jobyard.node.agent.pod_status import Facts, Refusal, patch_of, status_of
from jobyard.node.agent.pod_step import Step, grace_seconds, step_of
from jobyard.node.agent.quality import quality_of
from jobyard.node.network.addresses import AddressPool, NoAddressError
from jobyard.node.network.names import DEAD_BYTES_MAX, Circle, HostsFiles, Names
from jobyard.node.network.redirecting import redirects_of
from jobyard.node.network.services import PodIndex, Service, endpoints_of, members_of
from jobyard.node.objects.pod_book import PodBook
from jobyard.node.objects.pod_object import PodObject, pod_from, pod_of
from jobyard.node.objects.surroundings import (
    ConfigMap,
    Found,
    ImageRule,
    ImageTarget,
    Placed,
    ServiceLink,
    Setup,
)
from jobyard.node.ordering.environment import inherited
from jobyard.node.ordering.expansion import TEXT_BYTES_MAX, expanded
from jobyard.node.ordering.images import ImageRuleError, rule_of
from jobyard.node.ordering.pods import order_of
from jobyard.node.ordering.problems import NeverError, NotYetError, OrderingError
from jobyard.node.ordering.references import (
    CONFIG_MAP,
    SECRET,
    Wanted,
    mounted_wanted,
    variables_wanted,
)
from jobyard.node.shared.folders import PodFolder
from jobyard.node.shared.order import (
    Check,
    ContainerOrder,
    HttpGet,
    Mount,
    MountType,
    PodOrder,
    Probe,
    Probes,
)
from jobyard.node.shared.state import TAKEN_AWAY_REASON, ContainerState, End, PodState, Stage
from jobyard.node.volumes import atomic, placing
from jobyard.node.volumes.claims import ClaimFolders
from jobyard.node.volumes.contents import About, File, VolumeError, files_of
from jobyard.plan.moments import text_of

Json = dict[str, Any]
UID = "0a-1b"
SETUP = Setup(
    node_name="here",
    host_address="10.0.0.1",
    environment={"PATH": "/usr/bin:/bin", "HOME": "/home/me", "LANG": "C.UTF-8"},
    start_folder="/work",
    allocatable={"cpu": "8", "memory": "16Gi"},
)
FOUND = Found(
    address="10.0.0.7",
    config_maps={"words": ConfigMap(name="words", data={"a": b"1", "b.c": b"two"})},
    secrets={"keys": ConfigMap(name="keys", data={"k": b"hidden"})},
)


def container(**fields: Any) -> Json:
    return {"name": "main", "image": "img", "command": ["run"], **fields}


def pod(*containers: Json, **spec: Any) -> PodObject:
    """A pod as an API server would send it; `metadata` and `status` go where they belong."""
    metadata = {
        "name": "p",
        "namespace": "ns",
        "uid": UID,
        "resourceVersion": "7",
        "labels": {"app": "x", "tier": 'a"b'},
        "annotations": {"note": "two\nlines"},
        **spec.pop("metadata", {}),
    }
    status = spec.pop("status", {})
    whole = {"containers": list(containers or (container(),)), **spec}
    return pod_from({"metadata": metadata, "spec": whole, "status": status})


def main_of(order: PodOrder) -> ContainerOrder:
    return order.containers[0]


# $(NAME)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("$(A)", "1", id="known"),
        pytest.param("$(A)$(B)", "12", id="two"),
        pytest.param("x$(A)y", "x1y", id="inside"),
        pytest.param("$(Z)", "$(Z)", id="unknown stays"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$$$(A)", "$1", id="a dollar, then a reference"),
        pytest.param("$$$$(A)", "$$(A)", id="two escaped dollars"),
        pytest.param("$A ${A} $ (A)", "$A ${A} $ (A)", id="a shell's forms are not ours"),
        pytest.param("$(A", "$(A", id="not closed"),
        pytest.param("$", "$", id="a dollar at the end"),
        pytest.param("$$", "$", id="two dollars"),
        pytest.param("$(C)", "$(A)", id="what was put in isn't expanded"),
        pytest.param("$()", "$()", id="no name"),
        pytest.param("$(A))", "1)", id="one bracket too many"),
    ],
)
def test_expansion_is_as_in_kubernetes(text: str, want: str) -> None:
    assert expanded(text, {"A": "1", "B": "2", "C": "$(A)"}, "it") == want


def test_command_and_arguments_are_expanded_with_the_pods_own_variables() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(LATER)-$(HOME)"}]
    made = container(command=["go", "$(B)"], args=["$(A)", "$$(A)"], env=env)
    order = main_of(order_of(pod(made), SETUP, FOUND))
    assert order.argv == ("go", "1-$(LATER)-$(HOME)", "1", "$(A)")
    assert order.env["B"] == "1-$(LATER)-$(HOME)"


def test_arguments_alone_are_the_command() -> None:
    made = container(command=[], args=["python", "x.py"])
    assert main_of(order_of(pod(made), SETUP, FOUND)).argv == ("python", "x.py")


# Variables


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "ns"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, UID),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x"),
        ({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, ""),
        ({"fieldRef": {"fieldPath": "metadata.annotations['note']"}}, "two\nlines"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "here"),
        ({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "robot"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.7"),
        ({"fieldRef": {"fieldPath": "status.hostIP"}}, "10.0.0.1"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "0"}}, "0"),
        ({"resourceFieldRef": {"resource": "limits.memory"}}, str(16 * 2**30)),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Gi"}}, "16"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "97"),
        ({"configMapKeyRef": {"name": "words", "key": "a"}}, "1"),
        ({"secretKeyRef": {"name": "keys", "key": "k"}}, "hidden"),
        ({"secretKeyRef": {"name": "keys", "key": "no", "optional": True}}, None),
        ({"configMapKeyRef": {"name": "no", "key": "no", "optional": True}}, None),
    ],
    ids=str,
)
def test_a_variable_has_its_value_from(source: Json, want: str | None) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "101M"}}
    made = container(env=[{"name": "V", "valueFrom": source}], resources=resources)
    order = order_of(pod(made, serviceAccountName="robot"), SETUP, FOUND)
    assert main_of(order).env.get("V") == want


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(
            {"env": [{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k"}}}]},
            'configmap "no" not found',
            id="no config map",
        ),
        pytest.param(
            {"env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "z"}}}]},
            "couldn't find key z in Secret ns/keys",
            id="no such key",
        ),
        pytest.param(
            {"envFrom": [{"secretRef": {"name": "no"}}]}, 'secret "no" not found', id="all"
        ),
    ],
)
def test_what_is_missing_is_waited_for(fields: Json, message: str) -> None:
    with pytest.raises(NotYetError) as caught:
        order_of(pod(container(**fields)), SETUP, FOUND)
    assert (str(caught.value), caught.value.container) == (message, "main")
    assert caught.value.reason == "CreateContainerConfigError"


def test_variables_come_in_kubernetes_order() -> None:
    made = container(
        envFrom=[
            {"configMapRef": {"name": "words"}},
            {"prefix": "X_", "configMapRef": {"name": "words"}},
            {"configMapRef": {"name": "none", "optional": True}},
        ],
        env=[{"name": "a", "value": "over"}, {"name": "c", "value": "$(X_a)$(a)"}],
    )
    env = main_of(order_of(pod(made), SETUP, FOUND)).env
    wanted = {"a": "over", "b.c": "two", "X_a": "1", "X_b.c": "two", "c": "1over"}
    assert env == {**SETUP.environment, "HOSTNAME": "p", **wanted}


def test_services_are_told_in_variables() -> None:
    link = ServiceLink(name="my-db", address="10.0.0.9", ports=(("sql", 5432, "TCP"),))
    found = msgspec.structs.replace(FOUND, services=(link,))
    env = main_of(order_of(pod(), SETUP, found)).env
    told = {key: value for key, value in env.items() if key.startswith("MY_DB")}
    assert told == {
        "MY_DB_SERVICE_HOST": "10.0.0.9",
        "MY_DB_SERVICE_PORT": "5432",
        "MY_DB_SERVICE_PORT_SQL": "5432",
        "MY_DB_PORT": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP": "tcp://10.0.0.9:5432",
        "MY_DB_PORT_5432_TCP_PROTO": "tcp",
        "MY_DB_PORT_5432_TCP_PORT": "5432",
        "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.9",
    }
    silent = main_of(order_of(pod(enableServiceLinks=False), SETUP, found)).env
    assert not [key for key in silent if key.startswith("MY_DB")]


def test_the_engines_secrets_are_not_inherited() -> None:
    own = {
        "HOME": "/h",
        "LC_ALL": "C",
        "AWS_SECRET_ACCESS_KEY": "s",
        "KUBECONFIG": "k",
        "KUBERNETES_SERVICE_HOST": "h",
        "https_proxy": "http://me:pass@proxy:1",
        "http_proxy": "http://proxy:1",
    }
    assert inherited(own) == {"HOME": "/h", "LC_ALL": "C", "http_proxy": "http://proxy:1"}


@pytest.mark.parametrize(
    ("devices", "counts", "own", "want"),
    [
        pytest.param("4,5", (2,), None, ["4,5"], id="all for one"),
        pytest.param("4,5,6", (1, 0, 2), None, ["4", "", "5,6"], id="cut up in order"),
        pytest.param("4,5", (2,), "1", ["5"], id="its own choice counts from its own devices"),
        pytest.param("4,5", (2,), "7", [""], id="no choice beyond them"),
        pytest.param(None, (0,), None, [""], id="no device without asking"),
    ],
)
def test_devices_belong_to_one_container(
    devices: str | None, counts: tuple[int, ...], own: str | None, want: list[str]
) -> None:
    env = [{"name": "CUDA_VISIBLE_DEVICES", "value": own}] if own is not None else []
    made = [
        container(name=f"c{n}", env=env, resources={"limits": {"nvidia.com/gpu": count}})
        for n, count in enumerate(counts)
    ]
    annotations = {"jobyard.dev/gpu-devices": devices} if devices is not None else {}
    setup = msgspec.structs.replace(SETUP, has_gpus=True)
    order = order_of(pod(*made, metadata={"annotations": annotations}), setup, FOUND)
    assert [each.env["CUDA_VISIBLE_DEVICES"] for each in order.containers] == want


def test_a_sidecar_shares_no_device_with_the_containers_it_runs_beside() -> None:
    asks = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    first, last = container(name="first", **asks), container(name="last", **asks)
    sidecar = {**container(name="side", **asks), "restartPolicy": "Always"}
    order = order_of(
        pod(
            container(name="main", **asks),
            initContainers=[first, sidecar, last],
            metadata={"annotations": {"jobyard.dev/gpu-devices": "4,5"}},
        ),
        msgspec.structs.replace(SETUP, has_gpus=True),
        FOUND,
    )
    seen = {c.name: c.env["CUDA_VISIBLE_DEVICES"] for c in order.init_containers}
    assert seen == {"first": "4", "side": "4", "last": "5"}
    assert order.containers[0].env["CUDA_VISIBLE_DEVICES"] == "5"


# Images


def ordered_with(*rules: ImageRule, image: str = "pytorch/pytorch:2.1", **setup: Any) -> Any:
    with_rules = msgspec.structs.replace(SETUP, image_rules=rules, **setup)
    return main_of(order_of(pod(container(image=image)), with_rules, FOUND))


def test_the_engines_own_virtualenv_comes_first() -> None:
    order = ordered_with(virtualenv="/v")
    assert order.env["PATH"] == "/v/bin:/usr/bin:/bin"
    assert order.env["VIRTUAL_ENV"] == "/v"
    assert (order.working_folder, order.root_folder) == ("/work", "")


@pytest.mark.parametrize("pattern", ["pytorch/*", "pytorch/pytorch", "pytorch/pytorch:2.?", "*"])
def test_an_image_is_mapped_to_a_virtualenv(pattern: str) -> None:
    other = ImageRule(pattern="other/*", folder="/no")
    order = ordered_with(other, ImageRule(pattern=pattern, folder="/torch"), virtualenv="/v")
    assert order.env["PATH"] == "/torch/bin:/usr/bin:/bin"
    assert order.env["VIRTUAL_ENV"] == "/torch"


def test_an_image_is_mapped_to_a_root_folder() -> None:
    rule = ImageRule(pattern="*", folder="/root-fs", type=ImageTarget.ROOT)
    order = ordered_with(rule, virtualenv="/v")
    assert (order.root_folder, order.working_folder) == ("/root-fs", "/")
    assert "VIRTUAL_ENV" not in order.env
    assert order.env["PATH"].startswith("/usr/local/sbin:")
    assert order.env["HOME"] == "/root"


def test_a_rule_is_read_from_its_text(tmp_path: Path) -> None:
    for name, inside in (("venv", "pyvenv.cfg"), ("fs", "usr/bin/x"), ("none", "x")):
        file = tmp_path / name / inside
        file.parent.mkdir(parents=True)
        file.touch()
    assert rule_of(f"a=b:*={tmp_path}/venv") == ImageRule(
        pattern="a=b:*", folder=f"{tmp_path}/venv"
    )
    assert rule_of(f"x={tmp_path}/fs").type is ImageTarget.ROOT
    with pytest.raises(ImageRuleError, match=r"none is neither a virtualenv .* nor a root"):
        rule_of(f"x={tmp_path}/none")
    with pytest.raises(ImageRuleError, match="must look like"):
        rule_of("x")


# The rest of an order


def test_an_order_has_all_of_the_pod() -> None:
    ports = [{"containerPort": 8080, "name": "web"}]
    http = {"port": "web", "path": "ok", "httpHeaders": [{"name": "A", "value": "b"}]}
    made = container(
        ports=ports,
        workingDir="/src",
        tty=True,
        stdin=True,
        resources={"limits": {"cpu": "250m", "memory": "1Gi"}},
        securityContext={"runAsUser": 1000},
        livenessProbe={"httpGet": http, "initialDelaySeconds": 3, "failureThreshold": 1},
        readinessProbe={"tcpSocket": {"port": 99}, "periodSeconds": 2},
        startupProbe={"exec": {"command": ["test", "$(A)"]}, "terminationGracePeriodSeconds": 4},
        lifecycle={
            "preStop": {"exec": {"command": ["bye", "$(A)"]}},
            "postStart": {"sleep": {"seconds": 2}},
        },
        env=[{"name": "A", "value": "1"}],
        terminationMessagePath="/dev/log",
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    first = container(name="first", restartPolicy="Always")
    whole = pod(
        made,
        initContainers=[first],
        restartPolicy="OnFailure",
        hostname="h",
        activeDeadlineSeconds=60,
        terminationGracePeriodSeconds=0,
        securityContext={"runAsGroup": 7},
    )
    found = msgspec.structs.replace(FOUND, hosts_file="/hosts")
    order = order_of(whole, SETUP, found)
    env = {**SETUP.environment, "HOSTNAME": "h"}
    want = ContainerOrder(
        name="main",
        argv=("run",),
        env={**env, "A": "1"},
        working_folder="/src",
        tty=True,
        stdin=True,
        memory_limit_bytes=2**30,
        cpu_limit_millis=250,
        termination_message_path="/dev/log",
        message_from_logs=True,
        post_start=Check(argv=("sleep", "2")),
        pre_stop=Check(argv=("bye", "$(A)")),
        probes=Probes(
            startup=Probe(check=Check(argv=("test", "1")), grace_seconds=4),
            liveness=Probe(
                check=Check(http=HttpGet(port=8080, path="/ok", headers=(("A", "b"),))),
                initial_delay_seconds=3,
                failure_threshold=1,
            ),
            readiness=Probe(check=Check(tcp_port=99), period_seconds=2),
        ),
    )
    sidecar = ContainerOrder(
        name="first", argv=("run",), env=env, working_folder="/work", is_sidecar=True
    )
    assert order == PodOrder(
        uid=UID,
        namespace="ns",
        name="p",
        host_name="h",
        address="10.0.0.7",
        hosts_file="/hosts",
        restart_policy=order.restart_policy,
        grace_seconds=0,
        deadline_seconds=60,
        kept_folders=("/work",),
        init_containers=(sidecar,),
        containers=(want,),
    )
    assert order.restart_policy.value == "OnFailure"
    strict = order_of(whole, msgspec.structs.replace(SETUP, has_real_uids=True), FOUND)
    assert (main_of(strict).uid, main_of(strict).gid) == (1000, 7)
    assert (strict.init_containers[0].uid, strict.init_containers[0].gid) == (None, 7)


def mounted(**mount: Any) -> Json:
    return container(volumeMounts=[{"name": "v", "mountPath": "/data", **mount}])


VOLUMES = {
    "v": Placed(source="/vol/v"),
    "ro": Placed(source="/vol/ro", read_only=True),
    "host": Placed(source="/data/sets", is_of_host=True),
    "shm": Placed(is_memory=True, size_bytes=5),
}


@pytest.mark.parametrize(
    ("mount", "want"),
    [
        pytest.param({}, Mount(target="/data", source="/vol/v", within="/vol/v"), id="a folder"),
        pytest.param(
            {"name": "ro"},
            Mount(target="/data", source="/vol/ro", read_only=True, within="/vol/ro"),
            id="read-only by nature",
        ),
        pytest.param(
            {"name": "host", "readOnly": True},
            Mount(target="/data", source="/data/sets", read_only=True),
            id="a host path",
        ),
        pytest.param(
            {"name": "host", "subPath": "a/b"},
            Mount(target="/data", source="/data/sets/a/b", within="/data/sets"),
            id="below a host path",
        ),
        pytest.param(
            {"name": "shm", "mountPath": "/dev/shm"},
            Mount(target="/dev/shm", type=MountType.TMPFS, size_bytes=5),
            id="memory",
        ),
        pytest.param(
            {"subPathExpr": "x/$(POD)", "mountPath": "relative/"},
            Mount(target="/relative", source="/vol/v/x/p", within="/vol/v"),
            id="a path with variables",
        ),
    ],
)
def test_a_volume_stands_at_its_path(mount: Json, want: Mount) -> None:
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    made = {**mounted(**mount), "env": env}
    found = msgspec.structs.replace(FOUND, volumes=VOLUMES)
    assert main_of(order_of(pod(made), SETUP, found)).mounts == (want,)


def test_parents_are_mounted_before_children() -> None:
    paths = ["/a/b/c", "/x", "/a/b", "/a"]
    made = container(volumeMounts=[{"name": "v", "mountPath": path} for path in paths])
    found = msgspec.structs.replace(FOUND, volumes=VOLUMES)
    order = main_of(order_of(pod(made), SETUP, found))
    assert [mount.target for mount in order.mounts] == ["/x", "/a", "/a/b", "/a/b/c"]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param(
            container(command=[]),
            "image img is not pulled here: give the container a command",
            id="no command",
        ),
        pytest.param(container(command=[""]), "first word of the command is empty", id="empty"),
        pytest.param(mounted(mountPath="/a/../b"), r"mountPath '/a/../b' of volume v", id="target"),
        pytest.param(mounted(mountPath="/"), "the root itself can't be a volume", id="root"),
        pytest.param(mounted(subPath="../x"), r"subPath '../x' of volume v: must stay", id="up"),
        pytest.param(mounted(subPath="/x"), r"subPath '/x' of volume v: must stay", id="absolute"),
        pytest.param(
            mounted(subPathExpr="$(EVIL)"), r"subPath '../../etc' of volume v", id="by a variable"
        ),
        pytest.param(mounted(subPathExpr="$(NO)"), "has no variable NO", id="no such variable"),
        pytest.param(mounted(name="none"), "the pod has no volume 'none'", id="no such volume"),
        pytest.param(
            container(livenessProbe={"tcpSocket": {"port": "web"}}),
            r"port 'web' of a probe or hook: .* \(it has none\)",
            id="no such port",
        ),
        pytest.param(
            container(env=[{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]),
            "fieldRef 'spec.x': not a field",
            id="no such field",
        ),
    ],
)
def test_what_can_never_run_is_refused(made: Json, message: str) -> None:
    env = [*made.get("env", ()), {"name": "EVIL", "value": "../../etc"}]
    found = msgspec.structs.replace(FOUND, volumes=VOLUMES)
    with pytest.raises(NeverError, match=message):
        order_of(pod({**made, "env": env}), SETUP, found)


def test_an_odd_pod_is_known_and_refused() -> None:
    odd = pod_from({"metadata": {"name": "p", "uid": UID}, "spec": {"containers": 5}})
    with pytest.raises(NeverError, match="the pod can't be read: Expected `array`, got `int`"):
        order_of(odd, SETUP, FOUND)
    assert odd.metadata.uid == UID
    nulls = {"containers": [{**container(), "env": None, "lifecycle": None}], "volumes": None}
    raw = msgspec.json.encode({"metadata": {"name": "p", "uid": UID}, "spec": nulls})
    assert main_of(order_of(pod_of(raw), SETUP, FOUND)).argv == ("run",)


def test_everything_a_pod_refers_to_is_found() -> None:
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}}]
    sources = [{"configMap": {"name": "c2"}}, {"secret": {"name": "s2"}}]
    volumes = [
        {"name": "a", "configMap": {"name": "c1"}},
        {"name": "b", "projected": {"sources": sources}},
    ]
    made = pod(
        container(envFrom=[{"configMapRef": {"name": "c3"}}]),
        initContainers=[container(name="i", env=env)],
        volumes=volumes,
    )
    assert variables_wanted(made) == {Wanted(SECRET, "s1"), Wanted(CONFIG_MAP, "c3")}
    assert mounted_wanted(made) == {
        Wanted(CONFIG_MAP, "c1"),
        Wanted(CONFIG_MAP, "c2"),
        Wanted(SECRET, "s2"),
    }


# Volumes


def about(volume: Json, made: PodObject | None = None) -> About:
    return About(made or pod(volumes=[{"name": "v", **volume}]), SETUP, FOUND)


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        pytest.param(
            {"configMap": {"name": "words"}},
            {"a": File(b"1", 0o644), "b.c": File(b"two", 0o644)},
            id="a config map",
        ),
        pytest.param(
            {
                "secret": {
                    "secretName": "keys",
                    "defaultMode": 0o600,
                    "items": [{"key": "k", "path": "deep/down/k"}],
                }
            },
            {"deep/down/k": File(b"hidden", 0o600)},
            id="one key of a secret",
        ),
        pytest.param({"configMap": {"name": "no", "optional": True}}, {}, id="optional"),
        pytest.param(
            {
                "downwardAPI": {
                    "items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {
                            "path": "cpu",
                            "mode": 0o400,
                            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"},
                        },
                        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}},
                    ]
                }
            },
            {
                "labels": File(b'app="x"\ntier="a\\"b"', 0o644),
                "cpu": File(b"8", 0o400),
                "notes": File(b'note="two\\nlines"', 0o644),
            },
            id="facts about the pod",
        ),
        pytest.param(
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"configMap": {"name": "words", "items": [{"key": "a", "path": "x"}]}},
                        {"secret": {"name": "keys", "items": [{"key": "k", "path": "x"}]}},
                        {"clusterTrustBundle": {"path": "ca", "name": "n", "optional": True}},
                    ],
                }
            },
            {"x": File(b"hidden", 0o440)},
            id="projected: the later one stays, nothing of what may be missing",
        ),
    ],
)
def test_a_volume_has_these_files(volume: Json, want: dict[str, File]) -> None:
    given = about(volume)
    assert files_of(given.pod.spec.volumes[0], given) == want


@pytest.mark.parametrize(
    ("volume", "message", "may_pass"),
    [
        ({"configMap": {"name": "no"}}, 'configmap "no" not found', True),
        ({"secret": {"secretName": "no"}}, 'secret "no" not found', True),
        *(
            ({"projected": {"sources": [{word: {"path": "p"}}]}}, f"{word} can't be had on", True)
            for word in ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
            'configmap "kube-root-ca.crt" not found; the embedded engine makes none',
            True,
        ),
        (
            {"configMap": {"name": "words", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent config key: z",
            True,
        ),
        *(
            (
                {"configMap": {"name": "words", "items": [{"key": "a", "path": path}]}},
                f"path {path!r}: must be relative",
                False,
            )
            for path in ("../x", "/etc/x", "a/../../x", "..data", "a//b", "")
        ),
        ({"hostPath": {"path": "/a/../b"}}, "hostPath '/a/../b': must be absolute", False),
        (
            {"hostPath": {"path": "/no/where", "type": "Directory"}},
            "hostPath type check failed: /no/where: No such file",
            True,
        ),
        (
            {"hostPath": {"path": "/etc/passwd", "type": "Directory"}},
            "/etc/passwd is not a directory",
            True,
        ),
        ({"nfs": {"server": "s"}}, "volume v (nfs) can't be had on one machine", False),
        ({"csi": {"driver": "d"}}, "volume v (csi) can't be had on one machine", False),
        ({"persistentVolumeClaim": {"claimName": "../up"}}, "claim '../up': not a name", False),
    ],
    ids=str,
)
def test_a_volume_is_refused(volume: Json, message: str, may_pass: bool, tmp_path: Path) -> None:
    site = placing.Site(PodFolder(tmp_path, UID), ClaimFolders(tmp_path, {}))
    with pytest.raises(VolumeError) as caught:
        placing.place_all(about(volume), site)
    assert message in str(caught.value)
    assert (caught.value.may_pass, caught.value.volume) == (may_pass, "v")


def test_volumes_are_put_on_disk(tmp_path: Path) -> None:
    named, made = tmp_path / "named", tmp_path / "host" / "made"
    named.mkdir()
    volumes = [
        {"name": "empty", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "shared", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": str(made), "type": "DirectoryOrCreate"}},
        {"name": "mine", "persistentVolumeClaim": {"claimName": "sets", "readOnly": True}},
        {"name": "other", "persistentVolumeClaim": {"claimName": "other"}},
        {"name": "words", "configMap": {"name": "words"}},
    ]
    shared = [{"name": "shared", "mountPath": "/s"}]
    whole = pod(
        container(volumeMounts=shared),
        container(name="b", volumeMounts=shared),
        volumes=volumes,
    )
    site = placing.Site(PodFolder(tmp_path, UID), ClaimFolders(tmp_path, {"sets": named}))
    own = tmp_path / "pods" / UID / "volumes"
    assert placing.place_all(about({}, whole), site) == {
        "empty": Placed(source=str(own / "empty")),
        "shm": Placed(is_memory=True, size_bytes=2**30),
        "shared": Placed(source=str(own / "shared")),
        "host": Placed(source=str(made), is_of_host=True),
        "mine": Placed(source=str(named), read_only=True),
        "other": Placed(source=str(tmp_path / "claims" / "ns" / "other")),
        "words": Placed(source=str(own / "words"), read_only=True),
    }
    assert made.is_dir()
    assert (tmp_path / "claims" / "ns" / "other").is_dir()
    assert own.stat().st_mode & 0o777 == 0o700
    (own / "empty" / "kept").touch()
    placing.place_all(about({}, whole), site)
    assert (own / "empty" / "kept").exists()


def test_files_change_all_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "v"
    assert atomic.write(folder, {"a": File(b"1", 0o600), "d/x": File(b"2", 0o644)})
    held = os.open(folder / "..data", os.O_RDONLY | os.O_DIRECTORY)
    assert os.readlink(folder / "a") == "..data/a"
    assert (folder / "d" / "x").read_bytes() == b"2"
    assert (folder / "a").stat().st_mode & 0o777 == 0o600
    before = os.readlink(folder / "..data")
    assert not atomic.write(folder, {"a": File(b"1", 0o600), "d/x": File(b"2", 0o644)})
    assert os.readlink(folder / "..data") == before
    assert atomic.write(folder, {"a": File(b"3", 0o400), "n": File(b"", 0o644)})
    assert (folder / "a").read_bytes() == b"3"
    assert sorted(path.name for path in folder.iterdir() if path.name[:2] != "..") == ["a", "n"]
    versions = [path for path in folder.iterdir() if path.name.startswith("..version")]
    assert [path.name for path in versions] == [os.readlink(folder / "..data")]
    os.close(held)


def test_a_sub_path_is_made_but_never_outside(tmp_path: Path) -> None:
    volume, outside = tmp_path / "v", tmp_path / "outside"
    volume.mkdir()
    outside.mkdir()

    def made(below: str) -> None:
        mount = Mount(target="/x", source=f"{volume}/{below}", within=str(volume))
        order = ContainerOrder(name="c", argv=("x",), env={}, mounts=(mount,))
        whole = PodOrder(uid=UID, namespace="n", name="p", host_name="p", containers=(order,))
        placing.make_sub_paths(whole)

    made("a/b")
    assert (volume / "a" / "b").is_dir()
    (volume / "file").write_text("stays")
    made("file")
    assert (volume / "file").read_text() == "stays"
    (volume / "link").symlink_to(outside)
    with pytest.raises(VolumeError, match="link/x: leads out of the volume"):
        made("link/x")
    assert list(outside.iterdir()) == []


# Addresses and names


def test_addresses_go_round_and_stay_with_their_owners() -> None:
    network = IPv4Network("10.1.0.0/29")
    pool = AddressPool(network, reserved=(IPv4Address("10.1.0.1"),))
    pool.adopt("old", "10.1.0.3")
    assert [pool.take("a"), pool.take("a"), pool.take("b")] == ["10.1.0.4", "10.1.0.4", "10.1.0.5"]
    pool.release("a")
    assert [pool.take("c"), pool.take("d")] == ["10.1.0.6", "10.1.0.2"]
    assert pool.take("e") == "10.1.0.4"
    with pytest.raises(NoAddressError, match=r"all addresses of 10.1.0.0/29 are taken"):
        pool.take("f")
    assert (pool.known("old"), pool.known("a")) == ("10.1.0.3", "")


def resident(name: str, address: str, *, is_ready: bool = True, **more: Any) -> PodObject:
    ready = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    status = {"podIP": address, "phase": "Running", "conditions": ready, **more.pop("status", {})}
    namespace = more.pop("namespace", "ns")
    metadata = {"name": name, "uid": name, "namespace": namespace, **more.pop("metadata", {})}
    return pod(status=status, metadata=metadata, **more)


def service(name: str, **spec: Any) -> Service:
    metadata = {"name": name, "namespace": spec.pop("namespace", "ns"), "uid": f"svc-{name}"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"selector": {"app": "x"}, **spec}}, Service
    )


def test_names_are_those_of_kubernetes() -> None:
    index = PodIndex(
        [
            resident("a", "10.0.0.2", hostname="h", subdomain="sub"),
            resident("b", "10.0.0.3", is_ready=False),
            resident("over", "10.0.0.4", status={"phase": "Succeeded"}),
            resident("far", "10.0.0.5", namespace="far", subdomain="s"),
        ]
    )
    services = [
        service("svc"),
        service("early", publishNotReadyAddresses=True, clusterIP="None"),
        service("other", namespace="far"),
        service("none", selector={}),
        service("fits-not", selector={"app": "x", "more": "y"}),
    ]
    assert Names(index, services).lines(Circle("ns"))[2:] == (
        "10.0.0.2\th.sub.ns.svc.cluster.local h.sub.ns.svc h.sub.ns h.sub h a",
        "10.0.0.3\tb",
        "10.0.0.5\tfar.s.far.svc.cluster.local far.s.far.svc far.s.far",
        "10.0.0.2\tsvc svc.ns svc.ns.svc svc.ns.svc.cluster.local",
        "10.0.0.2\tearly early.ns early.ns.svc early.ns.svc.cluster.local",
        "10.0.0.3\tearly early.ns early.ns.svc early.ns.svc.cluster.local",
        "10.0.0.5\tother.far other.far.svc other.far.svc.cluster.local",
    )


def living(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_a_hosts_file_changes_in_place_and_never_loses_a_line_that_stays(tmp_path: Path) -> None:
    files = HostsFiles(tmp_path / "hosts")
    files.write("ns", ["1 a", "2 b"])
    path = files.path("ns")
    handle = path.open()
    inode = path.stat().st_ino
    files.write("ns", ["2 b", "3 a"])
    assert living(path) == ["2 b", "3 a"]
    # Who has the file open sees what it says now: it is the same file.
    assert handle.read() == "# a\n2 b\n3 a\n"
    handle.close()
    files.add("ns", ["4 c", "2 b"])
    assert living(path)[:3] == ["2 b", "3 a", "127.0.0.1\tlocalhost"]
    again = HostsFiles(tmp_path / "hosts")
    again.write("ns", ["4 c", "5 d"])
    assert living(path) == ["4 c", "5 d"]
    assert path.stat().st_ino == inode
    for number in range(3000):
        again.write("ns", [f"{number} some-name-that-is-not-short"], is_read=False)
    assert path.stat().st_size < DEAD_BYTES_MAX + 100
    assert living(path) == ["2999 some-name-that-is-not-short"]
    assert path.stat().st_ino == inode
    with pytest.raises(ValueError, match=r"namespace '\.\./x': not a name"):
        files.write("../x", [])


def test_a_hosts_file_that_was_cut_off_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "ns"
    path.write_text("1 a\n2 b")
    files = HostsFiles(tmp_path)
    files.write("ns", ["1 a", "3 c"])
    assert path.read_text() == "1 a\n# b\n3 c\n"


def test_what_pods_write_into_a_hosts_file_is_left_whole(tmp_path: Path) -> None:
    path = tmp_path / "ns"
    files = HostsFiles(tmp_path)
    files.write("ns", ["1 a", "2 b"])
    with path.open("a") as file:
        file.write("\n9 theirs")
    files.write("ns", ["1 a", "3 c"])
    assert path.read_text() == "1 a\n# b\n\n9 theirs\n3 c\n"
    path.write_text("9 theirs\n")
    files.add("ns", ["4 d"])
    files.write("ns", ["1 a", "3 c"])
    assert path.read_text().endswith("1 a\n3 c\n")
    assert path.read_text().startswith("9 theirs\n")


def test_endpoints_tell_who_is_behind_a_service() -> None:
    ports = [{"port": 80, "targetPort": "web", "name": "http"}, {"port": 9, "targetPort": 10}]
    made = service("svc", ports=ports)
    web = container(ports=[{"containerPort": 8080, "name": "web"}])
    first = resident("a", "10.0.0.2", containers=[web])
    second = resident("b", "10.0.0.3", is_ready=False, containers=[web])
    index = PodIndex([second, first])
    told = endpoints_of(made, members_of(made, index), "here")["subsets"]

    def address(name: str, number: str) -> Json:
        target = {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}
        return {"ip": number, "nodeName": "here", "targetRef": target}

    assert told == [
        {
            "addresses": [address("a", "10.0.0.2")],
            "notReadyAddresses": [address("b", "10.0.0.3")],
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"port": 10, "protocol": "TCP"},
            ],
        }
    ]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_endpoints_leave_out_who_shares_the_machine_s_loopback(address: str) -> None:
    made = service("svc")
    shared, own = resident("a", address), resident("b", "10.0.0.3")
    assert endpoints_of(made, members_of(made, PodIndex([shared])), "here")["subsets"] == []
    (told,) = endpoints_of(made, members_of(made, PodIndex([shared, own])), "here")["subsets"]
    assert [each["ip"] for each in told["addresses"]] == ["10.0.0.3"]


def test_an_address_that_is_none_is_left_to_the_server() -> None:
    made = service("svc")
    (told,) = endpoints_of(made, members_of(made, PodIndex([resident("a", "x")])), "n")["subsets"]
    assert told["addresses"][0]["ip"] == "x"


def test_pods_change_the_ports_of_services_that_are_called_at_others() -> None:
    web = container(ports=[{"containerPort": 8080, "name": "web"}, {"containerPort": 90}])
    beside = container(name="side", ports=[{"containerPort": 91, "name": "beside"}])
    sidecar = {**beside, "restartPolicy": "Always"}
    running = resident("a", "10.0.0.2", containers=[web], initContainers=[sidecar])
    waiting = resident("b", "10.0.0.3", containers=[web], status={"phase": "Pending"})
    index = PodIndex([running, waiting])

    def led(*ports: Json, **spec: object) -> tuple[Json, list[tuple[str, int]]]:
        made = service("svc", ports=list(ports), **({"clusterIP": "10.96.0.9"} | spec))
        found = redirects_of([made], index)
        told = {
            uid: [(each.protocol, each.port, each.target) for each in redirects]
            for uid, redirects in found.by_pod.items()
        }
        return told, [(clash.pod, clash.port) for clash in found.clashes]

    number, name = {"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "web"}
    both = {"a": [("TCP", 80, 8080), ("TCP", 81, 8080)]}
    assert led(number, name) == (both, [])
    assert led({**number, "protocol": "UDP"}) == ({"a": [("UDP", 80, 8080)]}, [])
    assert led({"port": 80}, {"port": 82, "targetPort": 82}) == ({}, [])
    assert led({"port": 80, "targetPort": "no such name"}) == ({"a": []}, [])
    assert led(number, clusterIP="None") == ({}, []), "a headless service changes no ports"
    assert led({"port": 90, "targetPort": 8080}) == ({"a": []}, [("a", 90)])
    assert led({"port": 91, "targetPort": 8080}) == ({"a": []}, [("a", 91)]), "of the sidecar"
    assert led({"port": 82, "targetPort": "beside"}) == ({"a": [("TCP", 82, 91)]}, [])


def test_two_services_of_a_pod_cannot_lead_elsewhere_from_one_port() -> None:
    index = PodIndex([resident("a", "10.0.0.2")])
    first, second = (
        service(name, ports=[{"port": 80, "targetPort": target}], clusterIP="10.96.0.9")
        for name, target in (("one", 8080), ("two", 8081))
    )
    found = redirects_of([second, first], index)
    assert [each.target for each in found.by_pod["a"]] == [8080]
    assert [(clash.service.metadata.name, clash.target) for clash in found.clashes] == [
        ("two", 8081)
    ]
    straight = service("straight", ports=[{"port": 80}])
    found = redirects_of([first, straight], index)
    assert found.by_pod == {"a": ()}
    assert [clash.service.metadata.name for clash in found.clashes] == ["one"]


# Statuses


NOW = 1_700_000_000.0
THEN = "2023-11-14T22:13:20Z"


def ended(code: int, **more: Any) -> End:
    reason = more.pop("reason", "Completed" if code == 0 else "Error")
    return End(exit_code=code, reason=reason, started_at=NOW, finished_at=NOW, **more)


def running(name: str = "main", **more: Any) -> ContainerState:
    start = {"stage": Stage.RUNNING, "started_at": NOW, "is_ready": True, "has_started": True}
    return ContainerState(name=name, **{**start, **more})


def over(name: str, code: int, **more: Any) -> ContainerState:
    return ContainerState(name=name, stage=Stage.ENDED, end=ended(code), **more)


def facts(state: PodState | None = None, **more: Any) -> Facts:
    return Facts(host_address="10.0.0.1", now=NOW, address="10.0.0.7", state=state, **more)


@pytest.mark.parametrize(
    ("state", "phase", "conditions"),
    [
        pytest.param(None, "Pending", "Initialized", id="not started"),
        pytest.param(
            PodState(uid=UID, containers=(ContainerState(name="main"),)),
            "Pending",
            "PodReadyToStartContainers Initialized",
            id="being made",
        ),
        pytest.param(
            PodState(uid=UID, containers=(running(is_ready=False),)),
            "Running",
            "PodReadyToStartContainers Initialized",
            id="not ready",
        ),
        pytest.param(
            PodState(uid=UID, containers=(running(),)),
            "Running",
            "PodReadyToStartContainers Initialized Ready ContainersReady",
            id="ready",
        ),
        pytest.param(
            PodState(
                uid=UID,
                containers=(
                    ContainerState(name="main", reason="CrashLoopBackOff", last_end=ended(1)),
                ),
            ),
            "Running",
            "PodReadyToStartContainers Initialized",
            id="about to run again",
        ),
        pytest.param(
            PodState(uid=UID, containers=(over("main", 0),), is_over=True),
            "Succeeded",
            "Initialized",
            id="done",
        ),
        pytest.param(
            PodState(uid=UID, containers=(over("main", 3),), is_over=True),
            "Failed",
            "Initialized",
            id="failed",
        ),
        pytest.param(
            PodState(
                uid=UID, containers=(over("main", 0),), is_over=True, reason="DeadlineExceeded"
            ),
            "Failed",
            "Initialized",
            id="too late",
        ),
        pytest.param(
            PodState(uid=UID, containers=(over("main", 3),)), "Running", None, id="not over yet"
        ),
    ],
)
def test_a_phase_and_its_conditions(
    state: PodState | None, phase: str, conditions: str | None
) -> None:
    status = status_of(pod(restartPolicy="Never"), facts(state))
    assert status["phase"] == phase
    if conditions is not None:
        true = [each["type"] for each in status["conditions"] if each["status"] == "True"]
        assert true == [*conditions.split(), "PodScheduled"]


def test_a_status_is_whole() -> None:
    state = PodState(
        uid=UID,
        started_at=NOW - 5,
        init_containers=(over("first", 0),),
        containers=(
            running(run=2, last_end=ended(137, signal=9, reason="OOMKilled", message="too much")),
            ContainerState(name="b", reason="CreateContainerError", message="no such file"),
        ),
    )
    whole = pod(
        container(),
        container(name="b"),
        initContainers=[container(name="first")],
        status={"conditions": [{"type": "PodScheduled", "status": "True"}]},
    )
    status = status_of(whole, facts(state))
    conditions = status.pop("conditions")
    nothing = {"image": "img", "restartCount": 0, "ready": False, "started": False}
    assert status == {
        "phase": "Running",
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.0.0.7",
        "podIPs": [{"ip": "10.0.0.7"}],
        "startTime": "2023-11-14T22:13:15Z",
        "qosClass": "BestEffort",
        "initContainerStatuses": [
            {
                **nothing,
                "name": "first",
                "imageID": "img",
                "ready": True,
                "containerID": f"jobyard://{UID}/first/0",
                "lastState": {},
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": THEN,
                        "finishedAt": THEN,
                        "containerID": f"jobyard://{UID}/first/0",
                    }
                },
            }
        ],
        "containerStatuses": [
            {
                "name": "main",
                "image": "img",
                "imageID": "img",
                "containerID": f"jobyard://{UID}/main/2",
                "ready": True,
                "started": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": THEN}},
                "lastState": {
                    "terminated": {
                        "exitCode": 137,
                        "signal": 9,
                        "reason": "OOMKilled",
                        "message": "too much",
                        "startedAt": THEN,
                        "finishedAt": THEN,
                        "containerID": f"jobyard://{UID}/main/1",
                    }
                },
            },
            {
                **nothing,
                "name": "b",
                "imageID": "img",
                "lastState": {},
                "state": {"waiting": {"reason": "CreateContainerError", "message": "no such file"}},
            },
        ],
    }
    ready = next(each for each in conditions if each["type"] == "Ready")
    assert ready == {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "message": "containers with unready status: [b]",
        "lastTransitionTime": THEN,
    }


def test_times_change_only_with_conditions_and_others_stay() -> None:
    foreign = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "x"}
    before = pod(status={"conditions": [foreign]})
    running_status = status_of(before, facts(PodState(uid=UID, containers=(running(),))))
    after = pod(status=running_status)
    later = Facts(
        host_address="10.0.0.1",
        now=NOW + 100,
        address="10.0.0.7",
        state=PodState(uid=UID, containers=(running(is_ready=False),)),
    )
    status = status_of(after, later)
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times == {
        "DisruptionTarget": "x",
        "PodReadyToStartContainers": THEN,
        "Initialized": THEN,
        "Ready": "2023-11-14T22:15:00Z",
        "ContainersReady": "2023-11-14T22:15:00Z",
        "PodScheduled": THEN,
    }
    patch = patch_of(after, status)
    assert patch is not None
    assert patch["metadata"] == {"uid": UID, "resourceVersion": "7"}
    assert sorted(patch["status"]) == ["conditions", "containerStatuses"]


def test_a_pod_was_taken_away_when_it_was_stopped_not_when_that_is_told() -> None:
    stopped_at = NOW - 3600
    end = msgspec.structs.replace(ended(143), finished_at=stopped_at)
    before = msgspec.structs.replace(ended(0), finished_at=stopped_at - 60)
    containers = tuple(
        ContainerState(name=name, stage=Stage.ENDED, end=each)
        for name, each in (("main", end), ("early", before))
    )
    state = PodState(uid=UID, containers=containers, is_over=True, reason=TAKEN_AWAY_REASON)
    status = status_of(pod(restartPolicy="Never"), facts(state))
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["DisruptionTarget"] == text_of(stopped_at)
    assert times["Ready"] == THEN
    # Of one whose containers never began nothing better is known.
    nothing = PodState(uid=UID, is_over=True, reason=TAKEN_AWAY_REASON)
    status = status_of(pod(restartPolicy="Never"), facts(nothing))
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["DisruptionTarget"] == THEN


def test_what_is_told_already_is_not_told_again() -> None:
    state = PodState(uid=UID, containers=(over("main", 3),), is_over=True)
    for given in (
        facts(state),
        facts(None, waiting={"main": Waiting(reason="X", message="y")}),
        facts(None, refusal=Refusal(reason="R", message="m", container="main")),
    ):
        first = status_of(pod(), given)
        # A server writes nulls where nothing was said.
        stored = {
            **first,
            "conditions": [{**c, "lastProbeTime": None} for c in first["conditions"]],
        }
        later = msgspec.structs.replace(given, now=NOW + 60)
        assert patch_of(pod(status=stored), status_of(pod(status=stored), later)) is None


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {
                "limits": {"cpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "1000m", "memory": "1Gi"},
            },
            "Guaranteed",
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "Burstable",
        ),
        ({"limits": {"nvidia.com/gpu": 1}}, "BestEffort"),
    ],
    ids=str,
)
def test_a_quality_class(resources: Json, want: str) -> None:
    assert quality_of(pod(container(resources=resources))) == want


# What is done next


IS_OVER = PodState(uid=UID, containers=(over("main", 0),), is_over=True)
IS_LIVE = PodState(uid=UID, containers=(running(),))
DELETED = {"deletionTimestamp": THEN, "deletionGracePeriodSeconds": 30}
RAN = {"containerStatuses": [{"containerID": "jobyard://x"}]}


@pytest.mark.parametrize(
    ("given", "state", "was_started", "want"),
    [
        pytest.param(None, None, False, Step.NOTHING, id="nothing is known"),
        pytest.param(None, IS_LIVE, True, Step.STOP, id="an orphan"),
        pytest.param(None, None, True, Step.STOP, id="gone before its state came"),
        pytest.param(None, IS_OVER, True, Step.FORGET, id="over and gone"),
        pytest.param(pod(), None, False, Step.START, id="new"),
        pytest.param(pod(), None, True, Step.REPORT, id="started, no state yet"),
        pytest.param(pod(), IS_LIVE, True, Step.REPORT, id="running"),
        pytest.param(pod(), IS_OVER, True, Step.REPORT, id="over"),
        pytest.param(pod(status=RAN), None, False, Step.LOSE, id="ran, and is lost"),
        pytest.param(pod(status={"phase": "Failed"}), None, False, Step.REPORT, id="had ended"),
        pytest.param(pod(status={"phase": "Failed"}), IS_LIVE, True, Step.STOP, id="evicted"),
        pytest.param(pod(metadata=DELETED), IS_LIVE, True, Step.STOP, id="deleted"),
        pytest.param(pod(metadata=DELETED), IS_OVER, True, Step.REMOVE, id="deleted and over"),
        pytest.param(pod(metadata=DELETED), None, False, Step.REMOVE, id="deleted, never ran"),
        pytest.param(pod(metadata=DELETED), None, True, Step.REPORT, id="deleted while starting"),
        pytest.param(
            pod(metadata=DELETED, status={"phase": "Succeeded"}), None, False, Step.REMOVE, id="end"
        ),
    ],
)
def test_the_next_step(
    given: PodObject | None, state: PodState | None, was_started: bool, want: Step
) -> None:
    assert step_of(given, state, was_started=was_started) is want


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param(None, 2, id="an orphan"),
        pytest.param(pod(metadata=DELETED), 1, id="some of it has passed"),
        pytest.param(pod(metadata={**DELETED, "deletionGracePeriodSeconds": 0}), 0, id="at once"),
        pytest.param(pod(), 30, id="the default"),
        pytest.param(pod(terminationGracePeriodSeconds=5), 5, id="its own"),
    ],
)
def test_the_grace_of_a_pod(given: PodObject | None, seconds: float) -> None:
    assert grace_seconds(given, NOW) == seconds


def test_both_errors_are_one_kind() -> None:
    assert issubclass(NeverError, OrderingError)
    assert issubclass(NotYetError, OrderingError)


# The book of pods


def test_of_every_version_of_a_pod_is_told_once_whoever_brings_it() -> None:
    """The answer to a write and the watch tell of the same versions, in any order."""
    told: list[str] = []
    book = PodBook()
    book.listen(told.append)
    first, second, third = (pod(metadata={"resourceVersion": number}) for number in "789")
    book.absorb(first)
    assert (told, book.pod(UID)) == ([], None), "nothing that the watch has not brought"
    book.changed(first)
    book.absorb(second)
    book.changed(second)
    assert (told, book.pod(UID)) == ([UID] * 2, second)
    book.changed(third)
    book.absorb(third)
    book.absorb(second)
    assert (told, book.pod(UID)) == ([UID] * 3, third)


# Variables that stand for more than a program can be started with


def doubling(times: int) -> list[Json]:
    """A1 is twice A0, A2 twice A1 …"""
    first = {"name": "A0", "value": "x" * 64}
    return [first, *({"name": f"A{n}", "value": f"$(A{n - 1})" * 2} for n in range(1, times))]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        pytest.param({"env": doubling(40)}, "variable A11 would have", id="one in another"),
        pytest.param(
            {"env": [*doubling(11), *({"name": f"B{n}", "value": "$(A10)"} for n in range(40))]},
            "the environment would have",
            id="many of a large one",
        ),
        pytest.param(
            {"env": doubling(11), "args": ["$(A10)$(A10)"]}, "word 1 of the command", id="a word"
        ),
        pytest.param(
            {"env": doubling(11), "args": ["$(A10)"] * 40}, "the command would have", id="words"
        ),
        pytest.param(
            {
                "env": doubling(11),
                "livenessProbe": {"exec": {"command": ["true", "$(A10)" * 1000]}},
            },
            "a word of a probe's command",
            id="a probe",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "x" * 131072}]}, "variable A would have", id="as it is"
        ),
    ],
)
def test_variables_grow_no_further_than_linux_takes_them(fields: Json, what: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(NeverError, match=what) as refused:
            order_of(pod(container(**fields)), SETUP, FOUND)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.value.container == "main"
    assert most < 20_000_000, "it is told before the bytes are put together"


def test_what_linux_takes_is_passed_on() -> None:
    value = "x" * (TEXT_BYTES_MAX - len("A=") - 1)
    given = container(args=["$(A)"], env=[{"name": "A", "value": value}])
    order = main_of(order_of(pod(given), SETUP, FOUND))
    assert order.argv[1] == order.env["A"] == value


@pytest.mark.parametrize("log_bytes", [64 * 1024, 50 * 2**20, 2**40])
def test_a_log_is_as_large_as_was_said(log_bytes: int) -> None:
    order = order_of(pod(), msgspec.structs.replace(SETUP, log_bytes=log_bytes), FOUND)
    assert 0 <= log_bytes - order.log_bytes_max * order.log_files_max < order.log_files_max
