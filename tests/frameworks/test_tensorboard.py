"""TensorBoard itself beside a job that says where its logs are as the platform's manual has it."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import get_frameworks
import pytest
import yaml
from rig.places import ROOT

from frameworks.yard import Yard
from jobyard.plan.objects.tensorboard import DEFAULT_IMAGE

JOB, BOARD = "ptj/pytorch-curves", "pytorch-curves-tensorboard"


def theirs() -> str:
    """The example, with logDir in place of filesets, without an image, and suspended."""
    text = (ROOT / "examples/pytorchtrainingjob/tensorboard.yaml").read_text()
    claim, job = yaml.safe_load_all(text)
    job["spec"]["tensorboardSpec"] = {
        "logDir": {"pvc": [{"name": claim["metadata"]["name"], "subPath": ["run"]}]},
        "suspend": True,
    }
    return yaml.safe_dump_all([claim, job])


def suspend(yard: Yard, value: bool) -> None:
    text = re.sub(r"suspend: \w+", f"suspend: {json.dumps(value)}", theirs())
    yard.said("apply", "-f", str(yard.person.write("curves.yaml", text)))


@pytest.mark.proves("tensorboard", "PyTorchTrainingJob", "TensorBoard of logDir, suspended")
def test_a_suspended_tensorboard_serves_the_logs_of_a_claim_once_it_is_wanted(yard: Yard) -> None:
    def board() -> dict[str, Any]:
        found: dict[str, Any] = yard.job(JOB)["status"].get("tensorboard", {})
        return found

    def pods() -> list[str]:
        return yard.said("get", "pods", "-o", "name").split()

    def served() -> list[list[float]]:
        url = f"http://{BOARD}:6006/data/plugin/scalars/scalars?run=.&tag=loss"
        script = f"import urllib.request as u; print(u.urlopen('{url}').read().decode())"
        said = yard.person.run("exec", JOB, BOARD, "--", "python3", "-c", script)
        points: list[list[float]] = json.loads(said.stdout) if said.returncode == 0 else []
        return points

    # The image that is taken where none is said; TensorFlow alone brings no TensorBoard here.
    torch = next(each for each in get_frameworks.FRAMEWORKS if each.name == "torch")
    folder = get_frameworks.folder_of(torch, os.environ)
    yard.images = {"JOBYARD_IMAGES": f"{DEFAULT_IMAGE}={folder}"}
    with yard.engine():
        suspend(yard, True)
        yard.said("wait", JOB, "--timeout", "240s", seconds=270)
        assert (board()["reason"], pods()) == ("Suspended", ["pod/pytorch-curves-worker-0"])
        # Also of a job that has ended.
        suspend(yard, False)
        yard.until("a page", lambda: board().get("ready"))
        points = yard.until("100 points", lambda: len(p := served()) == 100 and p)
        suspend(yard, True)
        yard.until("no pod", lambda: f"pod/{BOARD}" not in pods())
        assert board()["reason"] == "Suspended"
    assert [value for _, _, value in points] == pytest.approx([1 / n for n in range(1, 101)])
