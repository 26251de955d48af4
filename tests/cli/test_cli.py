"""The commands as a person meets them: what they print, where, and their exit codes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import strategies as st
from rig.manifests import ROOT

from jobyard import __version__
from jobyard.api.kinds import KINDS
from jobyard.cli.commands.down import stop_engine
from jobyard.cli.main import COMMANDS, cli
from jobyard.cli.output.lost_output import is_lost_output
from jobyard.cli.output.printing import as_yaml
from jobyard.cli.until import until
from jobyard.engine.homes import DataFolder
from jobyard.jobs.explaining.happened import in_order
from jobyard.manifest.reading import read

JOBYARD = Path(sys.executable).parent / "jobyard"
JOBYARD_AS_LIMITED = ("sh", "-c", f'ulimit -v {1 << 20} && exec "$@"', "sh", str(JOBYARD))

THREE_FAULTS = """\
# A comment, so that lines and documents differ.
apiVersion: v1
kind: ConfigMap
metadata: {name: data}
---
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: train
spec:
  cleanUpPolicy: Sometimes
  successRules:
    - {"worker": [7]}
  replicaSpecs:
    - type: worker
      replicas: 0
      template:
        spec:
          containers:
            - name: main
              image: python:3.11
    - type: Bad_Type
      template: {spec: {containers: [{name: main, image: i}]}}
"""
VALID = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  replicaSpecs:
    - type: worker
      template: {spec: {containers: [{name: main, image: i}]}}
"""


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, args, input=stdin)


def really_run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(JOBYARD), *args], capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def test_three_faults_give_three_errors_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(THREE_FAULTS)
    result = run("validate", str(file))
    assert result.exit_code == 1
    found = [line.removeprefix(f"{file}:") for line in result.stdout.splitlines()]
    assert found == [
        '11: spec.cleanUpPolicy: is "Sometimes"; must be None, All or Unfinished',
        "16: spec.replicaSpecs[0].replicas: is 0; must be at least 1",
        '22: spec.replicaSpecs[1].type: is "Bad_Type"; must hold only lower-case letters,'
        " digits and '-', and neither begin nor end with '-'",
    ]
    assert "ConfigMap data: not a kind of Jobyard, skipped" in result.stderr
    assert "1 object, 3 errors" in result.stderr


def test_the_installed_command_tells_the_same(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(THREE_FAULTS)
    done = really_run("validate", str(file))
    assert (done.returncode, done.stdout) == (1, run("validate", str(file)).stdout)


@pytest.mark.parametrize(
    ("text", "arguments", "code"),
    [
        pytest.param(VALID, (), 0, id="a valid file"),
        pytest.param(VALID, ("--strict",), 0, id="a valid file, strictly"),
        pytest.param(VALID + "  bogus: 1\n", (), 0, id="a warning"),
        pytest.param(VALID + "  bogus: 1\n", ("--strict",), 1, id="a warning, strictly"),
        pytest.param(VALID + "  elastic: {enabled: true}\n", (), 1, id="an error"),
        pytest.param("a: b: c", (), 2, id="not YAML"),
        pytest.param("", (), 2, id="an empty file"),
        pytest.param("- 1\n", (), 1, id="a list"),
        pytest.param("kind: Pod\n", (), 1, id="no apiVersion"),
        pytest.param("apiVersion: v1\nkind: Pod\n", (), 0, id="another kind"),
    ],
)
def test_exit_codes_of_validate(text: str, arguments: tuple[str, ...], code: int) -> None:
    result = run("validate", "-", *arguments, stdin=text)
    assert result.exit_code == code, result.output


def test_a_file_that_is_not_there_ends_with_2() -> None:
    done = really_run("validate", "nowhere.yaml")
    assert done.returncode == 2
    assert done.stderr == "nowhere.yaml: No such file or directory\n"


@pytest.mark.parametrize("way", ["by its name", "on standard input"])
def test_a_file_without_end_is_given_up(way: str) -> None:
    """With the memory that a file of so many bytes takes, and no more."""
    words = [*JOBYARD_AS_LIMITED, "validate", "/dev/zero" if way == "by its name" else "-"]
    with Path("/dev/zero").open("rb") as zeros:
        done = subprocess.run(words, stdin=zeros, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"{words[-1]}: is larger than 64 MiB, which no manifest is; split it\n"


def test_an_unreadable_file_does_not_hide_the_faults_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: b: c")
    (tmp_path / "b.yaml").write_text(VALID.replace("worker", "Worker"))
    result = run("validate", str(tmp_path))
    assert result.exit_code == 2
    assert "b.yaml:6: spec.replicaSpecs[0].type" in result.stdout
    assert f"{tmp_path}/a.yaml:1:" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("validate",), ("run",), ("render",), ("apply", "-f"), ("delete", "-f")],
    ids=" ".join,
)
def test_no_name_is_not_the_current_folder(words: tuple[str, ...]) -> None:
    # There are manifests below ROOT.
    done = really_run(*words, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == '"": not the name of a file\n'


def test_a_source_without_files_does_not_hide_the_faults_of_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "b.yaml").write_text(VALID.replace("worker", "Worker"))
    long_name = "x" * 300
    result = run("validate", f"{tmp_path}/empty", "", long_name, f"{tmp_path}/b.yaml")
    assert result.exit_code == 2
    assert "b.yaml:6: spec.replicaSpecs[0].type" in result.stdout
    assert result.stderr.splitlines()[:3] == [
        f"{tmp_path}/empty: no .yaml, .yml, .json file in this folder",
        '"": not the name of a file',
        f"{long_name}: File name too long",
    ]


def test_strict_says_that_warnings_count() -> None:
    told = run("validate", "--strict", "-", stdin=VALID + "  bogus: 1\n").stderr
    assert "✗ 1 object, 1 warning, which --strict takes for errors" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            VALID + "  cleanupPolicy: All\n",
            "-:8: warning: spec.cleanupPolicy: is not a field of spec, and is ignored"
            " (did you mean cleanUpPolicy?)",
            id="an unknown field, with a near match",
        ),
        pytest.param(
            VALID + "  cleanUpPolicy: All\n  cleanUpPolicy: None\n",
            "spec.cleanUpPolicy: is set twice (lines 8 and 9); the last one wins",
            id="a key that stands twice",
        ),
        pytest.param(
            VALID + "status: {phase: Running}\n",
            "warning: status: is ignored: only the controller writes it",
            id="a status",
        ),
        pytest.param(
            VALID.replace("GenericJob", "GenericJobs"),
            "-:2: kind: is GenericJobs; the kinds of batch.tensorstack.dev are",
            id="a kind that is nearly right",
        ),
        pytest.param(
            VALID.replace("v1beta1", "v1"),
            "-:1: apiVersion: is batch.tensorstack.dev/v1; GenericJob is in"
            " batch.tensorstack.dev/v1beta1",
            id="another version",
        ),
        pytest.param(
            VALID.replace("image: i", "image: i, resources: {limits: {cpu: 0.5}}"),
            'is 0.5; a quantity is a whole number or a string: write "500m"',
            id="a fraction for a quantity",
        ),
    ],
)
def test_what_validate_says_of(text: str, told: str) -> None:
    assert told in run("validate", "-", stdin=text).stdout


def test_other_spellings_of_deepspeedjob_are_taken_with_a_warning() -> None:
    text = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: DeepspeedJob
metadata: {name: train}
spec:
  config: {run: {python: train.py}}
  worker: {template: {spec: {containers: [{name: worker, image: i}]}}}
"""
    result = run("validate", "-", stdin=text)
    assert result.exit_code == 0, result.output
    assert "kind: is DeepspeedJob; the API server knows only DeepSpeedJob" in result.stdout
    assert (
        'config.run.python: is a string; the API server takes a list only: write ["train.py"]'
        in (result.stdout)
    )


def test_validate_as_json_is_stable() -> None:
    result = run("validate", "-o", "json", "-", stdin=VALID + "  elastic: {enabled: true}\n")
    (found,) = json.loads(result.stdout)
    assert found["kind"] == "GenericJob"
    assert found["object"] == "GenericJob train"
    assert {f["path"] for f in found["findings"]} == {"spec.elastic"}
    assert set(found["findings"][0]) == {"severity", "line", "path", "text"}


def test_a_change_is_checked_against_what_stood_before(tmp_path: Path) -> None:
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(VALID)
    after.write_text(VALID)
    assert run("validate", str(after), "--update-of", str(before)).exit_code == 0
    after.write_text(VALID.replace("image: i", "image: j"))
    result = run("validate", str(after), "--update-of", str(before))
    assert result.exit_code == 1
    assert "can be changed only while the job is paused" in result.stdout
    before.write_text(VALID.replace("name: train", "name: train, namespace: default"))
    assert run("validate", str(after), "--update-of", str(before)).exit_code == 1
    before.write_text(VALID.replace("name: train", "name: other"))
    unmatched = run("validate", str(after), "--update-of", str(before))
    assert unmatched.exit_code == 0
    assert "GenericJob train: not in the file of --update-of, checked as new" in unmatched.stderr
    paused = VALID + "  runMode: {pause: {enabled: true}}\n"
    before.write_text(paused)
    after.write_text(paused.replace("image: i", "image: j"))
    assert run("validate", str(after), "--update-of", str(before)).exit_code == 0


def test_explain_lists_the_kinds() -> None:
    told = run("explain").stdout
    assert [line.split()[0] for line in told.splitlines()] == [kind.name for kind in KINDS]


def test_explain_describes_a_field() -> None:
    told = run("explain", "ptj.spec.elastic").stdout
    assert "PyTorchTrainingJob" in told
    assert "minReplicas <integer>  0 to 5000" in told
    assert "The fewest replicas the job can work with; never changes." in told


@pytest.mark.parametrize("index", ["[0]", "[12]", "[*]", "[]"])
def test_explain_takes_a_path_as_findings_name_it(index: str) -> None:
    told = run("explain", f"gj.spec.replicaSpecs{index}.template").stdout
    plain = run("explain", "gj.spec.replicaSpecs.template").stdout
    assert told == plain.replace("replicaSpecs.", f"replicaSpecs{index}.")
    assert "metadata <ObjectMeta>" in told


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("ptj.spec.elastik", "has no field elastik (did you mean elastic?)"),
        ("pytorchjob", "there is no kind pytorchjob"),
        ("gj.spec[0].replicaSpecs", "genericjob.spec is no list; write it without [0]"),
        ("gj.spec.replicaSpec[0]", "has no field replicaSpec (did you mean replicaSpecs?)"),
    ],
)
def test_explain_suggests_what_was_meant(what: str, told: str) -> None:
    result = run("explain", what)
    assert result.exit_code == 2
    assert told in result.stderr


def test_a_command_that_is_nearly_right_is_suggested() -> None:
    result = run("validat")
    assert result.exit_code == 2
    assert "(did you mean validate?)" in result.stderr


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("a: 1", "apiVersion and kind and metadata.name"),
        ("[1]", "apiVersion and kind and metadata.name"),
        (VALID.replace("kind: GenericJob", ""), "kind"),
        (VALID.replace("name: train", ""), "metadata.name"),
    ],
)
def test_delete_says_what_a_file_does_not_name(text: str, missing: str) -> None:
    result = run("delete", "-f", "-", stdin=text)
    told = f"-:1: {missing} must be there to tell what to delete\n"
    assert (result.exit_code, result.stderr) == (2, told)


def test_an_engine_that_has_just_ended_isstop_engine(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    asyncio.run(stop_engine(DataFolder(tmp_path), ended.pid, 10))


def test_an_engine_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    """One that holds its folder and takes no notice of SIGTERM."""
    script = (
        "import signal, sys; from pathlib import Path; from jobyard.engine import homes;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "with homes.DataFolder(Path(sys.argv[1])) as folder:"
        "  folder.announce(homes.Presence(1, '', '', '')); print('up', flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == "up\n"
        asyncio.run(stop_engine(DataFolder(tmp_path), engine.pid, 0.1))
        assert engine.wait(10) == -signal.SIGKILL
    assert not DataFolder(tmp_path).is_in_use


def test_what_is_looked_for_is_found_or_given_up() -> None:
    looks = iter([None, None, "found"])
    assert asyncio.run(until(lambda: next(looks), 10)) == "found"
    assert asyncio.run(until(lambda: None, 0.1)) is None


def test_crds_prints_what_kubectl_can_apply() -> None:
    found = read(run("crds").stdout, "crds")
    assert [crd.value["spec"]["names"]["kind"] for crd in found] == [kind.name for kind in KINDS]
    (one,) = read(run("crds", "gj", "-o", "json").stdout, "crds")
    assert one.value["metadata"]["name"] == "genericjobs.batch.tensorstack.dev"


def test_render_shows_services_and_names_the_pods() -> None:
    result = run("render", str(ROOT / "tests/originals/mpijob.yaml"))
    found = [document.value for document in read(result.stdout, "rendered")]
    assert [child["kind"] for child in found] == ["Service", "ConfigMap", "Secret", *["Pod"] * 6]
    assert set(found[2]["stringData"].values()) == {"<hidden>"}
    assert "6 pods: mpi-example-launcher, mpi-example-worker-0 to mpi-example-worker-4" in (
        result.stderr
    )


def test_render_shows_the_pods_of_a_beam_job() -> None:
    result = run("render", str(ROOT / "examples/beamjob/flink.yaml"))
    assert "kind: Pod\n" in result.stdout
    assert "not shown" not in run("render", "--help").output


def test_render_refuses_what_validate_refuses() -> None:
    result = run("render", "-", stdin=VALID.replace("worker", "Worker"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "-:6: spec.replicaSpecs[0].type:" in result.stderr


def test_render_says_that_there_is_no_job() -> None:
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}\n"
    result = run("render", "-", stdin=config)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "-: there is no job in it, so there is nothing to show\n"


@pytest.mark.parametrize(
    ("number", "told"),
    [
        # As Kubernetes reads it: what doesn't fit into 64 bits becomes a float.
        ("99999999999999999999", "is 100000000000000000000; must be at most 5000"),
        ("-99999999999999999999", "is -100000000000000000000; must be at least 1"),
        ("1e+20", "is 100000000000000000000; must be at most 5000"),
        ("1.5", "is 1.5; must be a whole number"),
    ],
)
def test_a_number_that_is_not_taken_for_a_whole_one_is_named(number: str, told: str) -> None:
    text = THREE_FAULTS.replace("replicas: 0", f"replicas: {number}")
    assert told in run("validate", "-", stdin=text).output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("wait", "train", "--for", "condition="), "condition= names no condition"),
        (("wait", "train", "--for", "condition==False"), "condition==False names no condition"),
        (("scale", "train", "0"), "0 is not in the range 1<=x<=5000"),
        (("scale", "train", "99999999999999999999"), "is not in the range 1<=x<=5000"),
    ],
)
def test_what_nobody_can_have_is_not_asked_for(words: tuple[str, ...], told: str) -> None:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_events_of_one_second_are_in_the_order_they_were_written() -> None:
    def event(reason: str, moment: str, version: str) -> dict[str, Any]:
        return {
            "reason": reason,
            "lastTimestamp": f"2024-05-01T10:00:{moment}Z",
            "metadata": {"resourceVersion": version},
        }

    events = [
        event("fourth", "02", "3"),
        event("third", "01", "100"),
        event("second", "01", "99"),
        # Versions are any text, by their contract; the moment is then all there is.
        event("first", "00.5", "b"),
        event("zeroth", "00.25", "a"),
    ]
    told = [each["reason"] for each in in_order(events)]
    assert told == ["zeroth", "first", "second", "third", "fourth"]


def test_version_imports_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from jobyard.cli.main import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "heavy = {'msgspec', 'yaml', 're2', 'cel_expr_python', 'jobyard.api', 'asyncio'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"jobyard {__version__}", "[]"]


# `controller` logs what it does, the others hand over to another program or to a shell.
ACTS = {"controller", "exec", "shell", "completion"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_of_its_options(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    parts = list(command.commands) if isinstance(command, click.Group) else [""]
    for part in parts:
        result = run(*filter(None, (name, part)), "--help")
        assert result.exit_code == 0
        # What tells of objects tells it as JSON too.
        assert ("-o, --output" in result.stdout) == (name not in ACTS)


def test_a_reader_that_leaves_early_gets_no_traceback() -> None:
    done = subprocess.run(
        f"{JOBYARD} crds | head -n 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("apiVersion: apiextensions.k8s.io/v1\n", "")


def test_a_full_disk_is_no_fault_of_jobyard() -> None:
    done = subprocess.run(
        f"{JOBYARD} crds > /dev/full", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == "Error: the output can't be written: No space left on device\n"


def test_a_full_disk_is_no_fault_of_the_engine_of_a_run(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(VALID.replace("image: i}", "image: i, command: [echo, hello]}"))
    done = subprocess.run(
        f"{JOBYARD} run {job} > /dev/full",
        env=os.environ | {"JOBYARD_HOME": str(tmp_path / "home")},
        shell=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    left, error = done.stderr.splitlines()
    assert left.startswith("the jobs keep running: `jobyard attach train-")
    assert error == "Error: the output can't be written: No space left on device"


PIPE, FULL = BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("problem", "is_lost", "told"),
    [
        pytest.param(PIPE, True, "", id="a reader that has left"),
        pytest.param(
            ExceptionGroup("", [PIPE, ExceptionGroup("", [PIPE])]), True, "", id="told by many"
        ),
        pytest.param(ExceptionGroup("", [PIPE, KeyError()]), False, "", id="and a fault"),
        pytest.param(
            ExceptionGroup("", [FULL]),
            True,
            "Error: the output can't be written: No space left on device\n",
            id="a full disk",
        ),
        pytest.param(OSError(28, "", "state.json"), False, "", id="a file, not the output"),
        pytest.param(ValueError("x"), False, "", id="a fault"),
    ],
)
def test_what_is_lost_output(
    problem: Exception, is_lost: bool, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert is_lost_output(problem) == is_lost
    assert capfd.readouterr().err == told


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
@example("1e3")
@example({"y": "on", "0o17": ".inf", "~": "<<"})
def test_what_is_printed_as_yaml_is_read_as_it_was(value: Any) -> None:
    documents = read(as_yaml({"value": value}), "printed")
    assert [document.value for document in documents] == [{"value": value}]
