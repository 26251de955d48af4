"""Small things that people are told: once, where they look, and about what they wrote."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from rig.cli_yard import STAYS, Yard
from rig.engine import Room
from rig.person import Person, person

from jobyard.cli.output.rows import ROWS_MAX, Timed, last_lines
from jobyard.cli.output.screen import Screen
from jobyard.cli.output.showing import Show
from jobyard.cli.output.style import Palette
from jobyard.jobs.happenings import Happenings
from jobyard.jobs.log_lines import Line
from jobyard.jobs.pods import JobPod
from jobyard.jobs.view import JobView, ReplicaView

ELASTIC = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: train}
spec:
  torchrunConfig: {enabled: true, procPerNode: "4"}
  replicaSpecs:
  - type: node
    template: {spec: {containers: [{name: pytorch, image: x, args: [train.py]}]}}
"""
ADVISED = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: advised}
spec:
  replicaSpecs:
  - type: worker
    template:
      spec:
        restartPolicy: Always
        containers: [{name: main, image: x, command: [sleep, "1"]}]
"""
KUBEFLOW = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: theirs}
"""


@pytest.fixture
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def test_what_was_set_on_the_command_line_is_not_looked_for_in_the_file(somebody: Person) -> None:
    path = str(somebody.write("train.yaml", ELASTIC))
    field = "spec.replicaSpecs[0].type"
    done = somebody.run("run", path, "--set", f"{field}=2")
    assert (done.returncode, done.stderr) == (
        2,
        f'--set: {field}: is 2, a whole number; must be a string: write "2",'
        f" as in --set '{field}=\"2\"'\n",
    )
    # What the file says is where it was, also below a field that was set beside it.
    wrong = somebody.write("wrong.yaml", ELASTIC.replace("type: node", "type: 4"))
    done = somebody.run("run", str(wrong), "--set", "spec.replicaSpecs[0].replicas=1")
    assert done.stderr.startswith(f"{wrong}:8: {field}: is 4"), done.stderr


def test_a_kind_that_is_not_run_is_named(somebody: Person) -> None:
    done = somebody.run("run", str(somebody.write("theirs.yaml", KUBEFLOW)))
    assert done.returncode == 2
    assert "PyTorchJob (kubeflow.org/v1) (did you mean PyTorchTrainingJob?)" in done.stderr


def test_what_is_said_of_the_file_is_not_said_of_the_job_again(somebody: Person) -> None:
    path = str(somebody.write("advised.yaml", ADVISED))
    done = somebody.run("run", path)
    assert done.returncode == 0, done.stderr
    told = [
        line for line in (done.stdout + done.stderr).splitlines() if "the job decides on" in line
    ]
    assert len(told) == 1
    assert told[0].startswith(f"{path}:10: warning: spec.replicaSpecs[0].template.spec")


def view(count: int) -> JobView:
    rows = tuple(ReplicaView(name=f"worker-{n}", phase="Failed") for n in range(count))
    named = {"kind": "GenericJob", "namespace": "d", "name": "job", "uid": "uid-of-job"}
    return JobView(**named, phase="Failed", message="why", cause="who", replicas=rows)


def test_the_end_is_told_below_a_table_that_is_longer_than_a_terminal() -> None:
    palette = Palette(is_coloured=False)
    long = last_lines(Timed(view(64), 5.0), palette, 80)
    assert long[:3] == long[-3:] == ["GenericJob/job failed after 5.0s", "why", "who"]
    assert len(long) == 3 + 65 + 3
    short = last_lines(Timed(view(ROWS_MAX), 5.0), palette, 80)
    assert short.count("GenericJob/job failed after 5.0s") == 1


def warning(name: str, message: str) -> dict[str, Any]:
    about = {"kind": "Pod", "name": name, "uid": f"uid-of-{name}"}
    return {"type": "Warning", "reason": "Unhealthy", "message": message, "involvedObject": about}


def show(out: io.StringIO) -> Show:
    screen = Screen(out, is_live=False, clock=lambda: 0.0)
    return Show(screen, Palette(is_coloured=False), is_quiet=False)


def test_a_tensorboard_that_is_starting_is_no_news() -> None:
    out = io.StringIO()
    job = view(1)
    happenings = Happenings({job.uid: job}, show(out))
    for name in ("job-tensorboard", "job-worker-0"):
        own = {"name": name, "namespace": "d", "uid": f"uid-of-{name}"}
        happenings.saw_pod(msgspec.convert({"metadata": own, "spec": {}}, JobPod), job.uid)
    happenings.saw_event(warning("job-tensorboard", "Readiness probe failed: refused"))
    happenings.saw_event(warning("job-tensorboard", "Liveness probe failed: refused"))
    happenings.saw_event(warning("job-worker-0", "Readiness probe failed: refused"))
    assert out.getvalue().splitlines() == [
        "Pod/job-tensorboard: Liveness probe failed: refused",
        "Pod/job-worker-0: Readiness probe failed: refused",
    ]


def test_the_longest_name_of_ours_has_room_in_the_column_of_names() -> None:
    out = io.StringIO()
    write = show(out).lines_of("BeamJob/count")
    write(Line("flinkcluster-taskmanager-0", "taskmanager", b"one"))
    write(Line("submit-0", "", b"two"))
    first, second = out.getvalue().splitlines()
    assert first.index(" | ") == second.index(" | ")


def test_who_deletes_a_job_that_does_not_want_to_go_is_told_what_is_waited_for(room: Room) -> None:
    yard = Yard(room)
    stubborn = STAYS.replace("echo up; exec sleep 600", "trap '' TERM; echo up; sleep 600")
    yard.apply("stubborn", stubborn.replace("GracePeriodSeconds: 1", "GracePeriodSeconds: 5"))
    yard.does("wait", "stays", "--for", "running")
    done = yard("delete", "stays")
    assert (done.returncode, done.stdout) == (0, "GenericJob/stays deleted\n")
    assert done.stderr == (
        "GenericJob/stays: waiting for stays-worker-0, stays-worker-1: told to end, with 5 s to"
        " do so (--grace-period gives less)\n"
    )
