"""One control plane for all workers of a pytest run.

The first worker that takes the lock in the run's folder finds the commands and starts
the keeper (or adopts the cluster that the user names); the others find its outcome
there, good or bad. An outcome is final: a plane that failed to start, or died, is not
tried again, so that a broken machine gives one clear error and not fifty slow ones.
"""

import fcntl
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rig.kube import kubeconfig, plane
from rig.kube.binaries import BinariesError, find_binaries
from rig.kube.plane import ControlPlane
from rig.places import TESTS

KUBECONFIG_VARIABLE = "JOBYARD_TEST_KUBECONFIG"
# More than the keeper's own deadlines together, so that it is the one to say what is wrong.
KEEPER_READY_SECONDS = 240


class NoKubernetesError(Exception):
    """There is no control plane to test against; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The run's plane, and its keeper if this process is the one that started it."""

    plane: ControlPlane
    keeper: subprocess.Popen[bytes] | None = None


def shared_plane(folder: Path, main_pid: int, show: Callable[[str], None]) -> Shared:
    """The plane of the run whose main pytest is `main_pid`, started if nobody has yet."""
    folder.mkdir(mode=0o700, exist_ok=True)
    described, failure, log = (folder / n for n in ("plane.json", "failure.txt", "keeper.log"))
    with _locked(folder / "lock"):
        if failure.exists():
            raise NoKubernetesError(failure.read_text())
        if described.exists():
            return Shared(plane.load(described))
        if log.exists():
            raise NoKubernetesError(f"the control plane died during the run: {log.read_text()}")
        try:
            if brought := os.environ.get(KUBECONFIG_VARIABLE):
                adopted = _adopt(Path(brought), folder, show)
                plane.save(adopted, described)
                return Shared(adopted)
            return _launch(folder, main_pid, find_binaries(show))
        except (BinariesError, NoKubernetesError, kubeconfig.KubeconfigError) as problem:
            failure.write_text(str(problem))
            raise NoKubernetesError(str(problem)) from None


def _adopt(brought: Path, folder: Path, show: Callable[[str], None]) -> ControlPlane:
    """The cluster of JOBYARD_TEST_KUBECONFIG, with the user's own kubectl if there is one."""
    own = shutil.which("kubectl")
    kubectl = Path(own) if own is not None else find_binaries(show) / "kubectl"
    return kubeconfig.adopt(brought, kubectl, folder)


def _launch(folder: Path, main_pid: int, binaries: Path) -> Shared:
    """Start a keeper and wait until it closes its output: it is ready then, or dead."""
    has_controllers = (binaries / "kube-controller-manager").exists()
    log = folder / "keeper.log"
    with log.open("wb") as errors:
        keeper = subprocess.Popen(
            [
                *(sys.executable, "-m", "rig.kube.keeper"),
                *(f"--folder={folder}", f"--binaries={binaries}", f"--watch={main_pid}"),
                "--controllers" if has_controllers else "--no-controllers",
            ],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            # Ctrl-C is for pytest; the keeper follows when pytest has ended.
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout as output:
        poller = select.poll()
        poller.register(output, select.POLLIN)
        said = poller.poll(KEEPER_READY_SECONDS * 1000)
    described = folder / "plane.json"
    if said and described.exists():
        return Shared(plane.load(described), keeper)
    if not said:
        keeper.terminate()
    keeper.wait()
    raise NoKubernetesError(f"the control plane didn't start: {log.read_text()}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
