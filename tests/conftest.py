"""Fixtures for all tests. Those around a real Kubernetes live in `rig`."""

import compileall
import fcntl
import json
import os
import random
import signal
import sys
from pathlib import Path

import hypothesis
import hypothesis.core
import pytest
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.waiting import until_it_holds

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS, Kind

pytest_plugins = ["rig.plugin", "rig.engine", "rig.selection", "simulation.plugin"]


SEED_VARIABLE = "JOBYARD_SEED"
APPLIED = "applied"

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("jobyard", deadline=None)
hypothesis.settings.load_profile("jobyard")


def pytest_configure() -> None:
    """One seed for all random tests of a run; xdist's workers inherit it."""
    os.environ.setdefault(SEED_VARIABLE, str(random.SystemRandom().randrange(1, 2**31)))
    # What its own option --hypothesis-seed sets: its examples follow from the same seed.
    hypothesis.core.global_force_seed = int(os.environ[SEED_VARIABLE])
    _compile_once()
    # Started in the background, it is ignored, also by all that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _compile_once() -> None:
    """Hundreds of tests start `jobyard`, some as a user who can't write bytecode here."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Nor are the tests themselves compiled anew by every worker of every run.
    sys.dont_write_bytecode = False
    if "PYTEST_XDIST_WORKER" not in os.environ:
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.line(f"random tests: {SEED_VARIABLE}={os.environ[SEED_VARIABLE]}")


@pytest.fixture(scope="session")
def crds(control_plane: ControlPlane, run_folder: Path) -> None:
    """Jobyard's CRDs, applied with a plain `kubectl apply` and ready for use."""
    kubectl = Kubectl(control_plane, "default", run_folder / "kubectl-cache")
    # One worker at a time, and the first does it for all.
    with (run_folder / "crds.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if lock.read() == APPLIED:
            return
        manifests = {"apiVersion": "v1", "kind": "List", "items": [crd(kind) for kind in KINDS]}
        kubectl("apply", "-f", "-", stdin=json.dumps(manifests))
        names = [f"crd/{kind.plural}.{kind.group}" for kind in KINDS]
        kubectl("wait", "--for=condition=Established", *names, "--timeout=60s")
        # That is said before the server has opened the store of each kind.
        served = ",".join(f"{kind.plural}.{kind.group}" for kind in KINDS)
        until_it_holds(
            lambda: kubectl("get", served, check=False).returncode == 0, "our kinds are served"
        )
        # And who checks owners learns of new kinds later still.
        owned = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*map(_owned, KINDS)]})
        tried = ("create", "--dry-run=server", "-f", "-")
        until_it_holds(
            lambda: kubectl(*tried, stdin=owned, check=False).returncode == 0,
            "our kinds are known as owners",
        )
        lock.write(APPLIED)


def _owned(kind: Kind) -> dict[str, object]:
    owner = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": "owner",
        "uid": "none",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": f"of-{kind.singular}", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
