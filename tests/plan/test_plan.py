"""What a job comes down to: roles, names, services, gangs, variables, advice."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig import job_manifests
from rig.job_manifests import xgboost
from rig.manifests import EXAMPLES, ORIGINALS, ROOT, documents

from jobyard.api.genericjob import GenericJob
from jobyard.api.kinds import KINDS
from jobyard.api.parts.quantity import Quantity
from jobyard.api.parts.tensorboard import TensorboardSpec
from jobyard.manifest.checking import Checked, checked
from jobyard.manifest.reading import Document, read
from jobyard.plan.lowering.description import Description, Identity, Role
from jobyard.plan.lowering.names import pod_names
from jobyard.plan.lowering.sharing import shares
from jobyard.plan.lowering.slots import slots_per_worker
from jobyard.plan.lowering.table import described
from jobyard.plan.lowering.variables import Facts, UnresolvedVariableError, replaced
from jobyard.plan.objects.pods import Replica, replica_pod
from jobyard.plan.objects.supporting import supporting_objects
from jobyard.plan.objects.tensorboard import tensorboard_objects
from jobyard.schema.finding import dotted, is_error

DNS_LABEL_LENGTH_MAX = 63


def check(text: str) -> Checked:
    (document,) = read(text, "job.yaml")
    return checked(document)


def copied(document: Document) -> Document:
    """A document whose value a test may change; the shared one stays as it is."""
    return msgspec.structs.replace(document, value=copy.deepcopy(document.value))


def lowered(path: str) -> Description:
    (result,) = [r for r in map(checked, documents(ROOT / path)) if r.kind]
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    return description


def names(description: Description) -> list[str]:
    return [name for _, _, name in pod_names(description)]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (
            "tests/originals/genericjob-rules.yaml",
            [f"generic-example-worker-{n}" for n in range(4)],
        ),
        (
            "tests/originals/mpijob.yaml",
            ["mpi-example-launcher", *(f"mpi-example-worker-{n}" for n in range(5))],
        ),
        (
            "tests/originals/colossalaijob.yaml",
            ["colossalai-example-launcher", *(f"colossalai-example-worker-{n}" for n in (0, 1))],
        ),
        (
            "examples/beamjob/flink.yaml",
            [
                "beam-flink-flinkcluster-jobmanager-0",
                "beam-flink-flinkcluster-taskmanager-0",
                "beam-flink-flinkcluster-taskmanager-1",
                "beam-flink-batchjob-0",
            ],
        ),
    ],
)
def test_pods_are_named_after_job_type_and_rank(path: str, want: list[str]) -> None:
    assert names(lowered(path)) == want


@pytest.mark.parametrize("path", [*ORIGINALS, *EXAMPLES], ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_job_has_a_description_with_possible_names(path: Path) -> None:
    for result in map(checked, documents(path)):
        if result.kind is None or result.kind.name in ("Queue", "PodGroup"):
            continue
        description = described(result.kind, result.value)
        assert description is not None
        found = names(description)
        assert len(set(found)) == len(found) == description.replicas
        assert max(map(len, found)) <= DNS_LABEL_LENGTH_MAX
        assert all(role.main_container for role in description.roles)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_replicas_work_together_in_all_kinds_but_two(path: Path) -> None:
    """In the others a failure may be the consequence of another one."""
    for document in documents(path):
        result = checked(document)
        description = described(result.kind, result.value) if result.kind else None
        if result.kind is not None and description is not None:
            is_collective = result.kind.name not in ("GenericJob", "TaskSet")
            assert description.is_collective is is_collective


def test_every_kind_with_replicas_has_a_lowering() -> None:
    without = {"Queue", "PodGroup"}
    shown = {
        result.kind.name
        for path in (*ORIGINALS, *EXAMPLES)
        for result in map(checked, documents(path))
        if result.kind and described(result.kind, result.value)
    }
    assert shown == {kind.name for kind in KINDS} - without


def test_a_service_per_replica_is_headless_unless_it_maps_ports() -> None:
    text = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: ring, namespace: lab}
spec:
  service: {ports: [{name: http, port: 80, targetPort: 8080}]}
  replicaSpecs:
  - {type: worker, replicas: 2, template: {spec: {containers: [{name: main, image: i}]}}}
"""
    result = check(text)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    mapped = list(supporting_objects(description))
    assert [o["metadata"]["name"] for o in mapped] == ["ring-worker-0", "ring-worker-1"]
    assert [o["metadata"]["namespace"] for o in mapped] == ["lab", "lab"]
    assert "clusterIP" not in mapped[0]["spec"]
    assert mapped[1]["spec"]["selector"] == {"genericjob-replica": "ring-worker-1"}
    plain = msgspec.structs.replace(description, ports=({"name": "http", "port": 80},))
    assert [o["spec"]["clusterIP"] for o in supporting_objects(plain)] == ["None", "None"]


def test_a_gang_is_all_replicas_with_their_roles() -> None:
    description = lowered("examples/genericjob/queue.yaml")
    (group,) = supporting_objects(description)
    assert group["spec"] == {
        "queue": "default",
        "priority": 50,
        "minMember": 3,
        "roles": [{"name": "master", "minMember": 1}, {"name": "worker", "minMember": 2}],
    }


@pytest.mark.parametrize(
    ("total", "weights", "want"),
    [
        (1, (1, 1), (1, 0)),
        (2, (1, 3), (1, 1)),
        (4, (1, 3), (1, 3)),
        (5, (1, 1), (3, 2)),
        (7, (1, 1, 1), (3, 2, 2)),
        (1, (1, 1000), (1, 0)),
    ],
)
def test_replicas_are_shared_by_weight(
    total: int, weights: tuple[int, ...], want: tuple[int, ...]
) -> None:
    assert shares(total, weights) == want


@given(st.integers(1, 5000), st.lists(st.integers(1, 1000), min_size=1, max_size=16).map(tuple))
def test_shares_add_up_and_the_first_never_goes_without(
    total: int, weights: tuple[int, ...]
) -> None:
    found = shares(total, weights)
    more = shares(total + 1, weights)
    assert all(now >= before for before, now in zip(found, more, strict=True)), "one more for one"
    assert sum(found) == total
    assert found[0] >= 1
    assert min(found) >= 0


FACTS = Facts("train", {"worker": 4, "ps": 1}, {"http": 2222})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$(type)-$(rank)", "worker-3"),
        ("$(replicas[ps]) $(replicas[worker])", "1 4"),
        ("$(service.worker[0].host):$(service.port[http])", "train-worker-0:2222"),
        ("$$(rank) stays, $(rank) goes", "$$(rank) stays, 3 goes"),
        ("$$$(rank)", "$$3"),
        ("$(NAME) $(HOME", "$(NAME) $(HOME"),
        ("$()", "$()"),
    ],
)
def test_variables_are_replaced(text: str, want: str) -> None:
    assert replaced(text, FACTS, "worker", 3) == want


@pytest.mark.parametrize(
    ("text", "facts", "told"),
    [
        ("$(replicas[nobody])", FACTS, "there is no replica type nobody; the job has worker, ps"),
        ("$(service.worker[4].host)", FACTS, "worker has the ranks 0 to 3, 4 is not one"),
        ("$(service.worker[x].host)", FACTS, "worker has the ranks 0 to 3, x is not one"),
        ("$(service.port[ssh])", FACTS, "no service port is named ssh; add it to"),
        (
            "$(service.port[http])",
            Facts("train", {"worker": 1}, None),
            "the job has no spec.service; add service.ports with a port named http",
        ),
    ],
)
def test_a_variable_that_names_nothing_says_what_to_add(text: str, facts: Facts, told: str) -> None:
    with pytest.raises(UnresolvedVariableError, match=re.escape(told)):
        replaced(text, facts, "worker", 0)


@given(st.text(), st.integers(0, 10))
def test_any_text_is_replaced_or_refused_with_words(text: str, rank: int) -> None:
    with contextlib.suppress(UnresolvedVariableError):
        assert isinstance(replaced(text, FACTS, "worker", rank), str)


def test_the_originals_tf_config_is_told_to_add_a_port_named_http() -> None:
    (document,) = documents(ROOT / "tests/originals/genericjob-tf-config.yaml")
    (finding,) = checked(document).findings
    assert is_error(finding)
    assert dotted(finding.path).endswith("containers[0].env[0].value")
    assert "container tensorflow" in finding.text
    assert "add service.ports with a port named http" in finding.text


def test_with_the_service_added_the_tf_config_is_json() -> None:
    document = copied(*documents(ROOT / "tests/originals/genericjob-tf-config.yaml"))
    document.value["spec"]["service"] = {"ports": [{"name": "http", "port": 2222}]}
    result = checked(document)
    assert not result.findings
    job = msgspec.convert(result.value, GenericJob)
    value = job.spec.replica_specs[0].template["spec"]["containers"][0]["env"][0]["value"]
    config = msgspec.json.decode(
        replaced(value, Facts.of(job.metadata.name, job.spec), "worker", 2)
    )
    assert config["task"] == {"type": "worker", "index": 2}
    assert config["cluster"]["worker"][3] == "generic-example-worker-3:2222"


def test_task_ids_of_xgboost_sort_as_text_in_the_order_of_ranks() -> None:
    result = check(msgspec.json.encode(xgboost(workers=11)).decode())
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    made = [
        dict(description.start(role, rank).env)
        for role in description.roles
        for rank in range(role.replicas)
    ]
    assert [int(env["RANK"]) for env in made] == list(range(12))
    task_ids = [env["DMLC_TASK_ID"] for env in made]
    assert sorted(task_ids) == task_ids
    assert [int(task_id) for task_id in task_ids] == list(range(12))


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("500m", 1), ("1Ki", "1025"), ("1e3", "1Ki"), ("999M", "1Gi"), ("-1", 0), ("1n", "1u")],
)
def test_quantities_compare_by_amount(smaller: str | int, larger: str | int) -> None:
    assert Quantity.of(smaller) < Quantity.of(larger)


def job(container: str, extra: str = "") -> str:
    return f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: train}}
spec:
  replicaSpecs:
  - type: worker
    template:
      spec:
        {extra}
        containers:
        - {container}
"""


@pytest.mark.parametrize(
    ("text", "path", "told"),
    [
        (job("{name: main}"), "image", "is missing: Kubernetes refuses such a pod"),
        (
            job("{name: main, image: i}", "restartPolicy: OnFailure"),
            "restartPolicy",
            "has no effect",
        ),
        (
            job("{name: main, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 500m}}}"),
            "resources.limits.cpu",
            "is 500m, below the request of 2",
        ),
        (
            job("{name: main, image: i, volumeMounts: [{name: data, mountPath: /data}]}"),
            "volumeMounts[0].name",
            "names the volume data, which is not among the pod's volumes: it has none",
        ),
    ],
)
def test_what_a_pod_would_be_refused_for_is_a_warning(text: str, path: str, told: str) -> None:
    (finding,) = check(text).findings
    assert not is_error(finding)
    assert dotted(finding.path).endswith(path)
    assert told in finding.text


def test_a_launcher_with_a_program_only_for_after_a_pause_is_a_warning() -> None:
    document = copied(*documents(ROOT / "tests/originals/mpijob.yaml"))
    spec = document.value["spec"]
    del spec["worker"]["cmd"]
    spec["worker"]["extraMPIArgs"] = ["-N", "3"]
    (finding,) = checked(document).findings
    assert is_error(finding)
    spec["runMode"] = {"pause": {"resumeSpecs": [{"type": "launcher", "command": ["again"]}]}}
    (finding,) = checked(document).findings
    assert not is_error(finding)
    assert finding.text == "no program to launch: the job would fail at once"
    spec["runMode"] = {"debug": {"enabled": True}}
    assert not checked(document).findings


@pytest.mark.parametrize("policy", ["None", "Unfinished", "All"])
@pytest.mark.parametrize(
    "make",
    [
        job_manifests.pytorch,
        job_manifests.xgboost,
        job_manifests.deepspeed,
        lambda **spec: job_manifests.tensorflow({"worker": 1}, **spec),
    ],
    ids=["pytorch", "xgboost", "deepspeed", "tensorflow"],
)
def test_a_deadline_that_stops_nothing_is_a_warning(make: Any, policy: str) -> None:
    run_policy = {"activeDeadlineSeconds": 60, "cleanUpPolicy": policy}
    found = [f.text for f in check(json.dumps(make(runPolicy=run_policy))).findings]
    wanted = (
        "ends the job while its pods run on: set runPolicy.cleanUpPolicy to Unfinished or All to"
        " stop them"
    )
    assert (wanted in found) is (policy == "None")


def test_mpirun_that_would_hide_failures_is_a_warning() -> None:
    document = copied(*documents(ROOT / "tests/originals/mpijob.yaml"))
    (finding,) = checked(document).findings
    assert not is_error(finding)
    assert finding.text == (
        "gives mpirun --enable-recovery and --max-restarts: it then ends with 0, and the job"
        " succeeds, even if a process failed; only the log tells"
    )


def test_torchrun_without_a_script_is_a_warning() -> None:
    text = job("{name: main, image: i}").replace("GenericJob", "PyTorchTrainingJob")
    (finding,) = check(text + "  torchrunConfig: {enabled: true}\n").findings
    assert not is_error(finding)
    assert dotted(finding.path) == "spec.replicaSpecs[0].template.spec.containers[0]"
    assert finding.text == "has no args: torchrun takes its script from there"


def test_a_command_that_sshd_replaces_is_a_warning() -> None:
    document = copied(*documents(ROOT / "tests/originals/mpijob.yaml"))
    container: dict[str, Any] = document.value["spec"]["worker"]["template"]["spec"]["containers"][
        0
    ]
    container["command"] = ["sleep", "1"]
    document.value["spec"]["worker"]["extraMPIArgs"] = ["-N", "3"]
    (finding,) = checked(document).findings
    assert dotted(finding.path) == "spec.worker.template.spec.containers[0].command"
    assert finding.text == "has no effect: it is replaced by sshd"


SECRETIVE = [
    {"name": "OPEN", "value": "1"},
    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "URL", "value": "https://me:$(TOKEN)@host"},
    {"name": "FROM_MAP", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    {"name": "not.for.shells", "value": "1"},
]


@pytest.mark.parametrize(
    ("path", "role", "variable"),
    [
        ("examples/deepspeedjob/debug.yaml", "worker", "JOBYARD_HANDED_ON"),
        ("tests/originals/colossalaijob.yaml", "launcher", "JOBYARD_KEPT"),
    ],
)
def test_a_launcher_that_tells_variables_is_told_which(path: str, role: str, variable: str) -> None:
    document = copied(documents(ROOT / path)[-1])
    spec = document.value["spec"]
    is_launcher = role == "launcher"
    place = spec[role] if is_launcher else spec[role]["template"]["spec"]["containers"][0]
    place["env"] = SECRETIVE
    result = checked(document)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    (teller,) = (each for each in description.roles if each.type == role)
    assert dict(description.start(teller, 0).env)[variable] == "OPEN FROM_MAP"


def test_what_does_not_reach_colossalais_processes_is_a_warning() -> None:
    document = copied(*documents(ROOT / "tests/originals/colossalaijob.yaml"))
    spec = document.value["spec"]
    spec["launcher"]["env"] = SECRETIVE[:3]
    spec["worker"]["template"]["spec"]["containers"][0]["env"] = [{"name": "URL", "value": "u"}]
    told = [finding for finding in checked(document).findings if "TOKEN" in finding.text]
    assert [(is_error(finding), finding.text) for finding in told] == [
        (
            False,
            "gives TOKEN to the launcher alone, and colossalai run would print it: to reach the"
            " processes it must stand in the workers' template",
        )
    ]


RESUMABLE = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: {kind}
metadata: {{name: train}}
spec:
  {extra}
  runMode:
    {mode}
  replicaSpecs:
  - type: worker
    template:
      metadata: {{labels: {{team: a}}, annotations: {{note: b}}}}
      spec:
        initContainers: [{{name: fetch, image: i, args: [data]}}]
        containers:
        - name: main
          image: i
          command: [train]
          args: [fresh]
          livenessProbe: {{exec: {{command: [check]}}}}
          env: [{{name: RANK, value: mine}}]
        - {{name: side, image: i, command: [watch]}}
"""
PAUSE = "pause: {resumeSpecs: [{type: worker, command: [again], args: [%s]%s}]}"
SKIP = "{type: worker, skipInitContainer: true}"
TORCHRUN = "torchrunConfig: {enabled: true}"


def pod(
    mode: str, *, resumed: bool = False, extra: str = "", kind: str = "PyTorchTrainingJob"
) -> dict[str, Any]:
    result = check(RESUMABLE.format(mode=mode, extra=extra, kind=kind))
    assert not result.has_errors, result.findings
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    (role,) = description.roles
    return replica_pod(description, Replica(role=role, rank=0, attempt=3, is_resumed=resumed))


def main(found: dict[str, Any]) -> tuple[list[str] | None, list[str] | None]:
    container = found["spec"]["containers"][0]
    return container.get("command"), container.get("args")


@pytest.mark.parametrize(
    ("mode", "resumed", "extra", "want"),
    [
        pytest.param("{}", False, "", (["train"], ["fresh"]), id="as the template says"),
        pytest.param(PAUSE % ("x", ""), False, "", (["train"], ["fresh"]), id="before a pause"),
        pytest.param(PAUSE % ("x", ""), True, "", (["again"], ["x"]), id="after a pause"),
        pytest.param(
            "pause: {resumeSpecs: [{type: worker, command: [again]}]}",
            True,
            "",
            (["again"], None),
            id="a resume command without args does not take the template's",
        ),
        pytest.param(
            "pause: {resumeSpecs: [{type: worker, args: [x]}]}",
            True,
            "",
            (["train"], ["x"]),
            id="resume args keep the template's command",
        ),
        pytest.param(
            "debug: {enabled: true}", False, "", (["sleep", "inf"], None), id="debug sleeps"
        ),
        pytest.param(
            "debug: {enabled: true, replicaSpecs: [{type: worker, command: [sh]}]}",
            True,
            TORCHRUN,
            (["sh"], None),
            id="debug with a command of its own, even with torchrun",
        ),
    ],
)
def test_the_run_mode_decides_the_main_command(
    mode: str,
    resumed: bool,
    extra: str,
    want: tuple[list[str] | None, list[str] | None],
) -> None:
    assert main(pod(mode, resumed=resumed, extra=extra)) == want


def test_with_torchrun_only_the_args_of_a_resume_count() -> None:
    command, args = main(pod(PAUSE % ("x", ""), resumed=True, extra=TORCHRUN))
    assert command is not None
    assert command[0] == "torchrun"
    assert args == ["x"]


@pytest.mark.parametrize(("extra", "want"), [("", []), (TORCHRUN, ["1"])])
def test_torchrun_tells_newcomers_where_its_group_meets(extra: str, want: list[str]) -> None:
    """Else a replica that is added, or started again beside others, waits in vain."""
    container, _side = pod("{}", extra=extra)["spec"]["containers"]
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    told = [values[name] for name in values if name == "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"]
    assert told == want


MEETING = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {{name: job}}
spec:
  torchrunConfig: {{enabled: true{config}}}
  replicaSpecs:
  - type: node
    replicas: 2
    template:
      spec:
        containers:
        - {{name: pytorch, image: i, args: [train.py], env: [{env}]}}
"""
PET = "{name: PET_RDZV_CONF, value: last_call_timeout=1}"


@pytest.mark.parametrize(
    ("rank", "config", "env", "want"),
    [
        pytest.param(0, "", "", ["is_host=1"], id="the first"),
        pytest.param(1, "", "", ["is_host=0"], id="another"),
        pytest.param(1, "", PET, ["is_host=0,$(PET_RDZV_CONF)"], id="with settings of its own"),
        pytest.param(
            0, ", extraOptions: [--rdzv_endpoint=there:1]", "", [], id="who meet elsewhere"
        ),
    ],
)
def test_torchrun_is_told_which_replica_is_the_host(
    rank: int, config: str, env: str, want: list[str]
) -> None:
    """Left to itself it goes by names, and may find that nobody is."""
    result = check(MEETING.format(config=config, env=env))
    assert not result.has_errors, result.findings
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    (role,) = description.roles
    made = replica_pod(description, Replica(role=role, rank=rank, attempt=0, is_resumed=False))
    command, _ = main(made)
    assert command is not None
    told = [after for word, after in pairwise(command) if word == "--rdzv_conf"]
    assert told == want


@pytest.mark.parametrize(
    ("mode", "resumed", "kept"),
    [
        (f"debug: {{enabled: true, replicaSpecs: [{SKIP}]}}", False, False),
        ("debug: {enabled: true}", False, True),
        (PAUSE % ("x", ", skipInitContainer: true"), False, True),
        (PAUSE % ("x", ", skipInitContainer: true"), True, False),
    ],
)  # fmt: skip
def test_init_containers_are_left_out_when_asked(mode: str, resumed: bool, kept: bool) -> None:
    assert ("initContainers" in pod(mode, resumed=resumed)["spec"]) is kept


def test_debug_drops_what_would_end_a_sleeping_container() -> None:
    container = pod("debug: {enabled: true}")["spec"]["containers"][0]
    assert "livenessProbe" not in container
    assert "livenessProbe" in pod("{}")["spec"]["containers"][0]


def test_a_pod_keeps_what_the_template_says_and_adds_ours_before_it() -> None:
    found = pod("{}")
    assert found["metadata"]["labels"]["team"] == "a"
    assert found["metadata"]["labels"]["pytorchtrainingjob-replica"] == "train-worker-0"
    notes = found["metadata"]["annotations"]
    assert re.fullmatch(r"spec1-[0-9a-f]{12}", notes.pop("batch.tensorstack.dev/revision"))
    assert notes == {"note": "b", "batch.tensorstack.dev/attempt": "3"}
    assert found["spec"]["restartPolicy"] == "Never"
    assert found["spec"]["hostname"] == "train-worker-0"
    assert found["spec"]["subdomain"] == "train"
    for container in (*found["spec"]["containers"], *found["spec"]["initContainers"]):
        assert {"name": "JOBYARD_ATTEMPT", "value": "3"} in container["env"]
    env = found["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "MASTER_ADDR", "value": "train-worker-0.train"}
    assert [e["value"] for e in env if e["name"] == "RANK"] == ["0", "mine"]


def workers(count: int, gpus: int = 0) -> Role:
    limits = {"nvidia.com/gpu": gpus} if gpus else {"cpu": 1}
    container = {"name": "worker", "resources": {"limits": limits}}
    template = {"spec": {"containers": [container]}}
    return Role(type="worker", replicas=count, template=template, place=(), main_container="worker")


@pytest.mark.parametrize(
    ("arguments", "role", "want"),
    [
        ((), workers(2), 1),
        ((), workers(2, gpus=4), 4),
        (("-N", "3"), workers(5), 3),
        (("-npernode", "2"), workers(5, gpus=8), 2),
        (("--map-by", "ppr:4:node"), workers(2), 4),
        (("-np", "5"), workers(2), 3),
        (("-n", "4"), workers(4), 1),
        (("-np", "8", "-N", "2"), workers(4), 2),
        (("-np",), workers(4), 1),
    ],
    ids=str,
)
def test_slots_of_a_worker(arguments: tuple[str, ...], role: Role, want: int) -> None:
    assert slots_per_worker(arguments, role) == want


def test_a_launcher_asks_for_no_devices() -> None:
    document = copied(*documents(ROOT / "tests/originals/mpijob.yaml"))
    container = document.value["spec"]["worker"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["nvidia.com/gpu"] = 1
    result = checked(document)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    launcher, worker = description.roles
    assert launcher.containers[0]["resources"]["limits"] == {"cpu": "100m"}
    assert worker.containers[0]["resources"]["limits"]["nvidia.com/gpu"] == 1


# With the job's keys and port, which a bare one would not know.
OWN_SSHD = ["sh", "/usr/bin/sshd"]
BOTH_PORTS = ["-p", "2222", "-p", "22"]


@pytest.mark.parametrize(
    ("type_", "resume", "want"),
    [
        ("launcher", "command: [again], args: [x]", ["sh", "mpirun", "again", "x"]),
        ("worker", "command: [/usr/bin/sshd]", OWN_SSHD),
        ("worker", "command: [/usr/bin/sshd, -D]", OWN_SSHD),
        ("worker", "command: [/usr/bin/sshd, -D, -p, '22']", [*OWN_SSHD, *BOTH_PORTS]),
    ],
)
def test_a_resume_replaces_the_launched_program_or_sshd(
    type_: str, resume: str, want: list[str]
) -> None:
    text = f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: MPIJob
metadata: {{name: train}}
spec:
  runMode: {{pause: {{resumeSpecs: [{{type: {type_}, {resume}}}]}}}}
  worker:
    cmd: [fresh]
    template: {{spec: {{containers: [{{name: mpi-worker, image: i}}]}}}}
"""
    result = check(text)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    (role,) = [role for role in description.roles if role.type == type_]
    found = replica_pod(description, Replica(role=role, rank=0, is_resumed=True))
    command, args = main(found)
    assert args is None
    assert command is not None
    shown = [word for word in command if not word.startswith(("--hostfile", "/run/"))]
    assert shown == want


@pytest.mark.parametrize(
    "mode",
    [
        {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["sshd"]}]}},
        {"pause": {"resumeSpecs": [{"type": "worker", "command": ["sshd"]}]}},
    ],
    ids=["debug", "resume"],
)
def test_an_sshd_in_place_of_a_colossalai_worker_has_the_jobs_keys_and_port(
    mode: dict[str, Any],
) -> None:
    result = check(json.dumps(job_manifests.colossalai(runMode=mode)))
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    worker = description.roles[1]
    found = replica_pod(description, Replica(role=worker, rank=0, is_resumed=True))
    script = "/run/jobyard/files/worker.sh"
    assert main(found) == (["sh", script, "sshd"], None)


@pytest.mark.parametrize(
    ("rank", "want"),
    [
        (0, ["sh", "/run/jobyard/files/first.sh", "again", "x"]),
        (1, ["sh", "/run/jobyard/files/worker.sh"]),
    ],
)
def test_a_resume_of_deepspeed_leaves_the_sshd_of_the_others_alone(
    rank: int, want: list[str]
) -> None:
    text = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepSpeedJob
metadata: {name: train}
spec:
  runMode: {pause: {resumeSpecs: [{type: worker, command: [again], args: [x]}]}}
  config: {customCommand: "deepspeed --hostfile /t9k/hostfile train.py"}
  worker:
    replicas: 2
    template: {spec: {containers: [{name: worker, image: i, args: [ignored]}]}}
"""
    result = check(text)
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    (role,) = description.roles
    found = replica_pod(description, Replica(role=role, rank=rank, is_resumed=True))
    assert main(found) == (want, None)


@pytest.mark.parametrize(
    ("filesets", "folders", "claims"),
    [
        (("t9k://pvc/logs/run",), "--logdir=/run/jobyard/logs/logs/run", ["logs"]),
        (("t9k://pvc/logs",), "--logdir=/run/jobyard/logs/logs", ["logs"]),
        (
            ("t9k://pvc/logs/a", "t9k://pvc/logs/b/", "t9k://pvc/other/c"),
            "--logdir_spec=0:/run/jobyard/logs/logs/a,1:/run/jobyard/logs/logs/b,"
            "2:/run/jobyard/logs/other/c",
            ["logs", "other"],
        ),
    ],
)
def test_tensorboard_mounts_each_claim_once(
    filesets: tuple[str, ...], folders: str, claims: list[str]
) -> None:
    spec = TensorboardSpec(image="i", training_log_filesets=filesets)
    _, found = tensorboard_objects(spec, Identity("PyTorchTrainingJob", "train"))
    assert found["metadata"]["name"] == "train-tensorboard"
    assert found["spec"]["containers"][0]["args"][0] == folders
    mounted = [v["persistentVolumeClaim"]["claimName"] for v in found["spec"]["volumes"]]
    assert mounted == claims
    assert "scheduler.tensorstack.dev/group-name" not in found["metadata"]["labels"]
