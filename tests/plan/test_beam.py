"""BeamJob's pods: the clusters, the program's Python beside their workers, the submitting pod."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from rig.manifests import ROOT

from jobyard.api.parts.replicas import RestartPolicy
from jobyard.api.parts.run_policy import CleanUpPolicy
from jobyard.jobs.pods import JobPod
from jobyard.manifest.checking import Checked, checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.description import Description, Ending, Restart
from jobyard.plan.lowering.table import described
from jobyard.plan.objects.pods import Replica, replica_pod
from jobyard.plan.objects.rendering import children
from jobyard.schema.finding import is_error

FLINK_HOST = "words-flinkcluster-jobmanager-0.words"
FLINK_OPTIONS = [
    "--runner=FlinkRunner",
    f"--flink_master={FLINK_HOST}:8081",
    "--flink_version=1.19",
    "--environment_type=EXTERNAL",
    "--environment_config=localhost:50000",
]
SPARK_HOST = "words-sparkcluster-master-0.words"
SPARK_OPTIONS = [
    "--runner=SparkRunner",
    f"--spark_master_url=spark://{SPARK_HOST}:7077",
    "--spark_version=3",
    f"--spark_rest_url=http://{SPARK_HOST}:6066",
    "--job_server_jvm_properties=--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--job_server_jvm_properties=--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--job_server_jvm_properties=--add-opens=java.base/java.util=ALL-UNNAMED",
    "--job_server_jvm_properties=--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
    "--environment_type=EXTERNAL",
    "--environment_config=localhost:50000",
]
SCRATCH_PATH = "/run/jobyard/scratch"
TEMPORARY = f"-Djava.io.tmpdir={SCRATCH_PATH}"
SCRATCH = {"name": "jobyard-scratch", "emptyDir": {}}
SUBMITTING: dict[str, Any] = {"name": "submit", "image": "beam", "command": ["python3", "w.py"]}


def flink(**fields: Any) -> dict[str, Any]:
    cluster = {"flinkVersion": "1.19.1", "image": {"name": "flink"}, **fields}
    return {"flinkClusterTemplate": {"spec": cluster}}


def spark(**fields: Any) -> dict[str, Any]:
    cluster = {"sparkVersion": "3.5", "image": {"name": "spark"}, **fields}
    return {"sparkClusterTemplate": {"spec": cluster}}


def submitted(
    container: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **job: Any
) -> dict[str, Any]:
    spec = {**(pod or {}), "containers": [{**SUBMITTING, **(container or {})}]}
    return {"jobTemplate": {"spec": {**job, "template": {"spec": spec}}}}


def check(*parts: dict[str, Any]) -> Checked:
    spec: dict[str, Any] = {}
    for part in (submitted(), *parts):
        spec |= part
    manifest = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "BeamJob",
        "metadata": {"name": "words"},
        "spec": spec,
    }
    (document,) = read(yaml.safe_dump(manifest), "job.yaml")
    return checked(document)


def job(*parts: dict[str, Any]) -> Description:
    result = check(*parts)
    assert not result.has_errors, result
    assert result.kind is not None
    description = described(result.kind, result.value)
    assert description is not None
    return description


def pods(description: Description) -> dict[str, dict[str, Any]]:
    return {
        child["metadata"]["name"]: child["spec"]
        for child in children(description)
        if child["kind"] == "Pod"
    }


def container(description: Description, pod: str, name: str) -> dict[str, Any]:
    (found,) = [c for c in pods(description)[f"words-{pod}"]["containers"] if c["name"] == name]
    return dict(found)


def env(found: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in found["env"]}


def properties(found: dict[str, Any]) -> dict[str, str]:
    lines = env(found)["FLINK_PROPERTIES"].splitlines()
    return {key: value for key, _, value in (line.partition(": ") for line in lines)}


def warnings(*parts: dict[str, Any]) -> list[str]:
    return [finding.text for finding in check(*parts).findings if not is_error(finding)]


@pytest.mark.parametrize(
    ("cluster", "want"),
    [
        (
            flink(taskManager={"replicas": 2}),
            {
                "words-flinkcluster-jobmanager-0": ["jobmanager"],
                "words-flinkcluster-taskmanager-0": ["taskmanager", "sdk-worker"],
                "words-flinkcluster-taskmanager-1": ["taskmanager", "sdk-worker"],
                "words-batchjob-0": ["submit"],
            },
        ),
        (
            spark(worker={"replicas": 2}),
            {
                "words-sparkcluster-master-0": ["master"],
                "words-sparkcluster-worker-0": ["worker", "sdk-worker"],
                "words-sparkcluster-worker-1": ["worker", "sdk-worker"],
                "words-batchjob-0": ["submit"],
            },
        ),
    ],
    ids=["on Flink", "on Spark"],
)
def test_pods_and_their_containers(cluster: dict[str, Any], want: dict[str, list[str]]) -> None:
    found = pods(job(cluster))
    assert {pod: [c["name"] for c in spec["containers"]] for pod, spec in found.items()} == want
    assert {spec["restartPolicy"] for spec in found.values()} == {"Never"}
    assert {pod: (spec["hostname"], spec["subdomain"]) for pod, spec in found.items()} == {
        pod: (pod, "words") for pod in want
    }


def test_roles_say_when_pods_restart_what_ends_the_job_and_what_is_cleaned_up() -> None:
    description = job(flink(), {"runPolicy": {"cleanUpCluster": True}})
    manager, worker, batch = description.roles
    for role in (manager, worker):
        assert role.restart == Restart(RestartPolicy.ON_FAILURE, 6)
        assert role.serves
        assert role.clean_up is CleanUpPolicy.ALL
        assert not role.waits_for_others
    assert batch.restart == Restart(RestartPolicy.ON_FAILURE, 6)
    assert batch.clean_up is CleanUpPolicy.NONE
    assert batch.is_single
    assert batch.is_numbered
    assert batch.waits_for_others
    assert not batch.serves
    assert description.ending == Ending(
        success=({"batchjob": (0,)},),
        failure=({"batchjob": (0,)},),
        vital_roles=frozenset({"flinkcluster-jobmanager", "flinkcluster-taskmanager"}),
    )


def test_the_cluster_stays_unless_the_job_says_otherwise() -> None:
    assert {role.clean_up for role in job(spark()).roles} == {CleanUpPolicy.NONE}


def test_what_the_batch_job_says_of_time_and_tries_is_heeded() -> None:
    description = job(
        flink(),
        submitted(backoffLimit=2, activeDeadlineSeconds=60, ttlSecondsAfterFinished=9),
    )
    assert description.roles[-1].restart == Restart(RestartPolicy.ON_FAILURE, 2)
    assert description.active_deadline_seconds == 60
    assert description.ttl_seconds_after_finished == 9


@pytest.mark.parametrize("own", [0, 5])
def test_the_run_policys_time_to_live_comes_before_the_batch_jobs(own: int) -> None:
    policy = {"runPolicy": {"ttlSecondsAfterFinished": own}}
    description = job(flink(), submitted(ttlSecondsAfterFinished=9), policy)
    assert description.ttl_seconds_after_finished == own


def test_each_try_has_a_pod_of_its_own() -> None:
    description = job(flink())
    pod = replica_pod(description, Replica(role=description.roles[-1], rank=0, attempt=3))
    assert pod["metadata"]["name"] == "words-batchjob-3"
    assert pod["metadata"]["labels"]["beamjob-replica"] == "words-batchjob-3"
    assert pod["spec"]["hostname"] == "words-batchjob-3"


@pytest.mark.parametrize("attempt", [0, 3])
def test_logs_tell_the_tries_apart(attempt: int) -> None:
    description = job(flink())
    for role, want in zip(
        description.roles,
        ("flinkcluster-jobmanager-0", "flinkcluster-taskmanager-0", f"batchjob-{attempt}"),
        strict=True,
    ):
        pod = replica_pod(description, Replica(role=role, rank=0, attempt=attempt))
        made = {**pod, "metadata": {**pod["metadata"], "namespace": "default", "uid": "1"}}
        assert msgspec.convert(made, JobPod).replica == want


def test_a_pod_of_the_cluster_keeps_its_name_when_it_is_made_anew() -> None:
    description = job(flink())
    pod = replica_pod(description, Replica(role=description.roles[1], rank=0, attempt=3))
    assert pod["metadata"]["name"] == "words-flinkcluster-taskmanager-0"


def test_flinks_settings_without_a_word_of_the_user() -> None:
    description = job(flink())
    shared = {
        "jobmanager.rpc.address": FLINK_HOST,
        "jobmanager.rpc.port": "6123",
        "blob.server.port": "6124",
        "rest.port": "8081",
        "io.tmp.dirs": SCRATCH_PATH,
    }
    manager = container(description, "flinkcluster-jobmanager-0", "jobmanager")
    assert properties(manager) == {
        **shared,
        "jobmanager.bind-host": "0.0.0.0",
        "rest.address": FLINK_HOST,
        "rest.bind-address": "0.0.0.0",
    }
    assert manager["readinessProbe"]["httpGet"] == {"path": "/overview", "port": 8081}
    assert [port["containerPort"] for port in manager["ports"]] == [6123, 6124, 8081]
    worker = container(description, "flinkcluster-taskmanager-0", "taskmanager")
    assert properties(worker) == {
        **shared,
        "taskmanager.host": "$(JOBYARD_HOST)",
        "taskmanager.bind-host": "0.0.0.0",
        "taskmanager.rpc.port": "6122",
        "taskmanager.numberOfTaskSlots": "1",
    }
    assert env(worker)["JOBYARD_HOST"] == "words-flinkcluster-taskmanager-0.words"
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 6122}
    assert (manager["args"], worker["args"]) == (["jobmanager"], ["taskmanager"])


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        ({"limits": {"cpu": 4, "memory": "8Gi"}}, ("4", "8192m")),
        ({"limits": {"cpu": "2500m", "memory": "1G"}}, ("2", "953m")),
        ({"requests": {"cpu": "200m", "memory": "1Gi"}}, ("1", None)),
        ({"requests": {"cpu": "3"}, "limits": {"memory": "2Gi"}}, ("3", "2048m")),
    ],
    ids=["limits", "fractions", "requests set no bound on memory", "both"],
)
def test_flinks_slots_and_memory_follow_its_resources(
    resources: dict[str, Any], want: tuple[str, str | None]
) -> None:
    both = {"resources": resources}
    description = job(flink(taskManager=both, jobManager=both))
    worker = container(description, "flinkcluster-taskmanager-0", "taskmanager")
    manager = container(description, "flinkcluster-jobmanager-0", "jobmanager")
    found = properties(worker)
    assert found["taskmanager.numberOfTaskSlots"] == want[0]
    assert found.get("taskmanager.memory.process.size") == want[1]
    assert properties(manager).get("jobmanager.memory.process.size") == want[1]
    assert worker["resources"] == manager["resources"] == resources


def test_the_users_flink_properties_win_and_probes_follow_them() -> None:
    given = {
        "taskmanager.numberOfTaskSlots": "7",
        "taskmanager.memory.process.size": "1g",
        "taskmanager.rpc.port": "7000-7010",
        "rest.port": "9091",
        "state.backend.type": "rocksdb",
    }
    resources = {"limits": {"cpu": 4, "memory": "8Gi"}}
    description = job(flink(taskManager={"resources": resources}, flinkProperties=given))
    worker = container(description, "flinkcluster-taskmanager-0", "taskmanager")
    assert properties(worker).items() >= given.items()
    assert len(env(worker)["FLINK_PROPERTIES"].splitlines()) == len(properties(worker))
    assert worker["readinessProbe"]["tcpSocket"] == {"port": 7000}
    manager = container(description, "flinkcluster-jobmanager-0", "jobmanager")
    assert manager["readinessProbe"]["httpGet"]["port"] == 9091
    submitting = container(description, "batchjob-0", "submit")
    assert f"--flink_master={FLINK_HOST}:9091" in submitting["args"]


def test_flink_properties_with_spaces_arrive_whole() -> None:
    given = {
        "env.java.opts.all": "-Da=1 -Db=2",
        "env.java.opts.taskmanager": "-Dc=3",
        "metrics.scope.tm": "host tm",
    }
    description = job(flink(flinkProperties=given))
    worker = container(description, "flinkcluster-taskmanager-0", "taskmanager")
    assert not properties(worker).keys() & given.keys()
    assert env(worker)["FLINK_ENV_JAVA_OPTS_TM"] == f"{TEMPORARY} -Da=1 -Db=2 -Dc=3"
    assert worker["args"] == ["taskmanager", "-D", "metrics.scope.tm=host tm"]
    manager = container(description, "flinkcluster-jobmanager-0", "jobmanager")
    assert env(manager)["FLINK_ENV_JAVA_OPTS_JM"] == f"{TEMPORARY} -Da=1 -Db=2"


def test_sparks_master_and_worker() -> None:
    worker_spec = {"cores": 2, "resources": {"limits": {"memory": "4Gi"}}}
    description = job(
        spark(worker=worker_spec, sparkProperties={"spark.a": "1", "spark.b": 'x "y"'})
    )
    options = '-Dspark.a=1 "-Dspark.b=x \\"y\\""'
    master = container(description, "sparkcluster-master-0", "master")
    assert master["args"] == [
        "org.apache.spark.deploy.master.Master",
        *("--host", "$(JOBYARD_HOST)", "--port", "7077", "--webui-port", "8080"),
    ]
    assert env(master)["SPARK_MASTER_OPTS"] == (
        f"{TEMPORARY} -Dspark.master.rest.enabled=true {options}"
    )
    assert env(master)["JOBYARD_HOST"] == SPARK_HOST
    assert master["readinessProbe"]["httpGet"] == {"path": "/", "port": 8080}
    worker = container(description, "sparkcluster-worker-0", "worker")
    assert worker["args"] == [
        "org.apache.spark.deploy.worker.Worker",
        *("--host", "$(JOBYARD_HOST)", "--webui-port", "8081"),
        *("--work-dir", SCRATCH_PATH, "--cores", "2", "--memory", "3072m"),
        f"spark://{SPARK_HOST}:7077",
    ]
    assert env(worker)["SPARK_WORKER_OPTS"] == f"{TEMPORARY} {options}"
    assert worker["readinessProbe"]["httpGet"] == {"path": "/", "port": 8081}
    assert pods(description)["words-sparkcluster-master-0"]["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("worker", "want"),
    [
        ({}, []),
        ({"resources": {"requests": {"cpu": 1, "memory": "4Gi"}}}, []),
        ({"resources": {"limits": {"memory": "1Gi"}}}, ["--memory", "512m"]),
        ({"cores": 3}, ["--cores", "3"]),
    ],
    ids=["nothing said", "requests alone", "a small limit", "cores alone"],
)
def test_what_a_spark_worker_offers(worker: dict[str, Any], want: list[str]) -> None:
    found = container(job(spark(worker=worker)), "sparkcluster-worker-0", "worker")
    assert found["args"][7:-1] == want


def test_the_users_spark_properties_win_and_reach_the_driver() -> None:
    description = job(spark(sparkProperties={"spark.master.rest.enabled": "false"}))
    master = container(description, "sparkcluster-master-0", "master")
    assert env(master)["SPARK_MASTER_OPTS"] == f"{TEMPORARY} -Dspark.master.rest.enabled=false"
    submitting = container(description, "batchjob-0", "submit")
    assert "--job_server_jvm_properties=-Dspark.master.rest.enabled=false" in submitting["args"]


@pytest.mark.parametrize(
    ("cluster", "options"),
    [(flink(), FLINK_OPTIONS), (spark(), SPARK_OPTIONS)],
    ids=["on Flink", "on Spark"],
)
@pytest.mark.parametrize("args", [None, ["--input", "a"]], ids=["without args", "with args"])
def test_the_runners_options_follow_the_programs_own(
    cluster: dict[str, Any], options: list[str], args: list[str] | None
) -> None:
    given = {"args": args} if args is not None else {}
    found = container(job(cluster, submitted(given)), "batchjob-0", "submit")
    assert found["command"] == ["python3", "w.py"]
    assert found["args"] == [*(args or []), *options]
    assert env(found)["BEAM_RUNNER_ARGS"] == " ".join(options)


@pytest.mark.parametrize(
    "given",
    [
        {"args": ["--runner=DirectRunner"]},
        {"args": ["--runner", "DirectRunner"]},
        {"command": ["python3", "w.py", "--runner=FlinkRunner"], "args": ["-v"]},
        {"command": ["sh", "-c"], "args": ["python3 w.py --runner=FlinkRunner -v"]},
    ],
    ids=["in one word", "in two", "in the command", "in a shell's line"],
)
def test_a_runner_of_the_users_is_left_alone(given: dict[str, Any]) -> None:
    found = container(job(flink(), submitted(given)), "batchjob-0", "submit")
    assert found["args"] == given["args"]
    assert env(found)["BEAM_RUNNER_ARGS"] == " ".join(FLINK_OPTIONS)


def test_an_option_that_only_begins_like_the_runners_is_none() -> None:
    given = {"args": ["--runner_log=x", "--no--runner"]}
    found = container(job(flink(), submitted(given)), "batchjob-0", "submit")
    assert found["args"] == [*given["args"], *FLINK_OPTIONS]


@pytest.mark.parametrize(
    ("cluster", "manager", "worker"),
    [
        (flink(), "flinkcluster-jobmanager-0", "flinkcluster-taskmanager-0"),
        (spark(), "sparkcluster-master-0", "sparkcluster-worker-0"),
    ],
    ids=["on Flink", "on Spark"],
)
def test_the_programs_python_runs_beside_each_worker_as_it_would_when_submitting(
    cluster: dict[str, Any], manager: str, worker: str
) -> None:
    twin = {
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "workingDir": "/data",
        "imagePullPolicy": "Always",
    }
    own = {"resources": {"limits": {"memory": "1Gi"}}, "securityContext": {"runAsGroup": 7}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = {
        "volumes": volumes,
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "reader",
        "securityContext": {"runAsUser": 5, "runAsGroup": 6, "fsGroup": 8},
    }
    description = job(cluster, submitted({**twin, **own}, pod))
    found = container(description, worker, "sdk-worker")
    assert found["image"] == "beam"
    assert {key: found[key] for key in twin} | {"env": found["env"][-1:]} == twin
    assert env(found)["JOBYARD_JOB"] == "words"
    assert found["securityContext"] == {"runAsUser": 5, "runAsGroup": 7}
    assert found["readinessProbe"]["tcpSocket"] == {"port": 50000}
    assert "resources" not in found
    assert "args" not in found
    spec = pods(description)[f"words-{worker}"]
    assert spec["volumes"] == [*volumes, SCRATCH]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["serviceAccountName"] == "reader"
    assert spec["securityContext"] == {"fsGroup": 8}
    alone = pods(description)[f"words-{manager}"]
    assert alone["imagePullSecrets"] == [{"name": "registry"}]
    assert alone["volumes"] == [SCRATCH]
    assert "serviceAccountName" not in alone


@pytest.mark.parametrize("cluster", [flink(), spark()], ids=["on Flink", "on Spark"])
def test_what_the_cluster_writes_goes_with_its_pods(cluster: dict[str, Any]) -> None:
    for name, spec in pods(job(cluster)).items():
        if "batchjob" in name:
            assert "volumes" not in spec
            continue
        (own, *beside) = spec["containers"]
        assert own["volumeMounts"] == [{"name": SCRATCH["name"], "mountPath": SCRATCH_PATH}]
        assert not any("volumeMounts" in each for each in beside)


def test_the_gang_is_the_cluster_alone() -> None:
    queue = {"scheduler": {"t9kScheduler": {"queue": "q", "priority": 3}}}
    description = job(flink(taskManager={"replicas": 3}), queue)
    gang = description.gang
    assert gang is not None
    assert gang.min_member == 4
    assert gang.roles == (("flinkcluster-jobmanager", 1), ("flinkcluster-taskmanager", 3))
    for child in children(description):
        if child["kind"] != "Pod":
            continue
        in_gang = "batchjob" not in child["metadata"]["name"]
        labels = {k for k in child["metadata"]["labels"] if k.startswith("scheduler.")}
        assert bool(labels) == in_gang, child["metadata"]["name"]
        assert ("schedulerName" in child["spec"]) == in_gang


@pytest.mark.parametrize("version", ["1.19", "1.20.1", "2.0", "2.1.0", "2.2"])
def test_versions_of_flink_that_fit(version: str) -> None:
    assert warnings(flink(flinkVersion=version)) == []


@pytest.mark.parametrize("version", ["1.9", "1.18.1", "2.3", "3.0"])
def test_versions_of_flink_that_do_not_fit_are_told(version: str) -> None:
    (text,) = warnings(flink(flinkVersion=version))
    assert text.startswith(f"asks for Flink {version}, for which Beam 2.77 has no runner: use 1.19")


def test_a_spark_that_fits_is_not_worth_a_word() -> None:
    assert warnings(spark(sparkVersion="3.4.1")) == []


def test_what_only_a_batch_job_would_do_is_told() -> None:
    (text,) = warnings(flink(), submitted(suspend=True, completions=1))
    assert text.startswith("has no effect: one pod submits")


def test_a_container_that_leaves_its_command_to_the_image_is_told_what_that_means() -> None:
    (text,) = warnings(flink(), submitted({"command": []}))
    assert text.startswith("has neither command nor args: the runner")


def test_a_restart_policy_has_its_place_in_a_batch_job() -> None:
    assert warnings(flink(), submitted(pod={"restartPolicy": "OnFailure"})) == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "beamjob").glob("*.yaml")))
def test_examples_have_nothing_to_warn_of(path: Path) -> None:
    results = [checked(document) for document in read(path.read_text(), path.name)]
    assert [finding for result in results for finding in result.findings] == []


def run(found: dict[str, Any], **variables: str) -> list[str]:
    """Runs a container's command as a kubelet would; its program prints a line per argument."""
    sh = shutil.which("sh")
    assert sh is not None
    values = {"JOBYARD_HOST": "localhost", "PATH": "/usr/bin:/bin"} | variables
    values |= {k: v.replace("$(JOBYARD_HOST)", "localhost") for k, v in env(found).items() if v}
    values |= {"JOBYARD_HOST": "localhost"}
    command = [sh, *found["command"][1:], *found.get("args", ())]
    ended = subprocess.run(
        command, env=values, capture_output=True, text=True, check=True, timeout=20
    )
    return ended.stdout.splitlines()


def program(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)


def test_a_flink_that_is_only_unpacked_gets_its_settings_as_options(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "taskmanager.sh")
    description = job(flink(flinkProperties={"a.b": "x:y $HOME", "c.d": "1"}))
    found = container(description, "flinkcluster-taskmanager-0", "taskmanager")
    words = run(found, FLINK_HOME=str(tmp_path))
    # Each in two words: the job manager's script would take `-Da.b=...` for a host.
    assert words[:3] == ["start-foreground", "-D", "a.b=x:y $HOME"]
    assert set(words[1::2]) == {"-D"}
    assert f"jobmanager.rpc.address={FLINK_HOST}" in words
    assert "taskmanager.host=localhost" in words
    assert words[-1] == "c.d=1"


def test_spark_is_started_where_it_is(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "spark-class")
    found = container(job(spark()), "sparkcluster-worker-0", "worker")
    words = run(found, SPARK_HOME=str(tmp_path))
    assert words == found["args"]


def test_the_worker_pool_is_started_by_the_python_on_the_path(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python")
    found = container(job(flink()), "flinkcluster-taskmanager-0", "sdk-worker")
    assert run(found, PATH=f"{tmp_path}/bin:/usr/bin:/bin") == [
        *("-m", "apache_beam.runners.worker.worker_pool_main", "--service_port=50000")
    ]


def test_a_template_without_a_container_still_has_a_plan() -> None:
    # The API server takes it; what it says of the pod then stands in the status.
    found = pods(job(flink(), {"jobTemplate": {"spec": {"template": {}}}}))
    assert [c["name"] for c in found["words-flinkcluster-taskmanager-0"]["containers"]] == [
        "taskmanager"
    ]
    assert found["words-batchjob-0"]["containers"] == []
