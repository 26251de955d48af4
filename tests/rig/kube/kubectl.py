"""The real kubectl, pointed at the rig's control plane and one namespace."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rig.kube.plane import ControlPlane

TIMEOUT_SECONDS = 60
# It ends before it has filled the memory: a third of what a command takes is Go's collector.
NO_COLLECTING = {"GOGC": "off", "GOMEMLIMIT": "1GiB"}


class KubectlError(AssertionError):
    """kubectl ended with an error that the test didn't expect; shows what it said."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Callable: `kubectl("get", "pods")`. Flags in the call win over the ones set here."""

    plane: ControlPlane
    namespace: str
    # kubectl caches discovery per host and port, and our ports get used again.
    cache: Path

    def __call__(
        self,
        *arguments: str,
        stdin: str | None = None,
        check: bool = True,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end; with `check`, an exit code but 0 fails the test."""
        done = subprocess.run(
            [
                str(self.plane.kubectl),
                f"--kubeconfig={self.plane.kubeconfig}",
                f"--namespace={self.namespace}",
                f"--cache-dir={self.cache}",
                *arguments,
            ],
            # The preferences of whoever runs the tests must not change them.
            env={**os.environ, **NO_COLLECTING, "KUBECTL_KUBERC": "false"},
            # Without this, kubectl would read the terminal or xdist's own pipe.
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
        if check and done.returncode != 0:
            raise KubectlError(
                f"kubectl {' '.join(arguments)} ended with {done.returncode}:\n"
                f"{done.stdout}{done.stderr}"
            )
        return done
