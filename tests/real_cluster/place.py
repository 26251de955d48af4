"""A namespace of the cluster in which a test applies examples, as a user would with kubectl."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import yaml
from rig.kube.kubectl import Kubectl
from rig.waiting import look_again

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# For whatever a test waits for. A machine can be slow; a test that hangs must still end.
DEADLINE_SECONDS = 300
LOOK_SECONDS = 0.3
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Place:
    """Jobs are named as for kubectl: `genericjob/generic-allreduce`."""

    kubectl: Kubectl

    def apply(self, example: str) -> str:
        """`kubectl apply -f examples/EXAMPLE`, the file as it is; the name of its job."""
        path = EXAMPLES / example
        self.kubectl("apply", "-f", str(path))
        return _job_of(path.read_text())

    def job(self, name: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.kubectl("get", name, "--output=json").stdout)
        return answer

    def phase(self, name: str) -> str:
        return str(self.job(name).get("status", {}).get("phase"))

    def becomes(self, name: str, phase: str) -> dict[str, Any]:
        """The job once it is in this phase; ending in another one is an error at once."""

        def seen() -> dict[str, Any] | None:
            found = self.job(name)
            now = found.get("status", {}).get("phase")
            assert now == phase or now not in ENDED, self.about(name)
            return found if now == phase else None

        found: dict[str, Any] = self.until(f"{name} is {phase}", seen, name)
        return found

    def until(self, what: str, holds: Callable[[], Any], name: str) -> Any:
        """Asks until it holds, and not too often: what is waited for needs the machine."""
        deadline = monotonic() + DEADLINE_SECONDS
        while not (answer := holds()):
            assert monotonic() < deadline, (
                f"not in {DEADLINE_SECONDS} s: {what}\n{self.about(name)}"
            )
            look_again(LOOK_SECONDS)
        return answer

    def set_paused(self, name: str, paused: bool) -> None:
        patch = {"spec": {"runMode": {"pause": {"enabled": paused}}}}
        self.kubectl("patch", name, "--type=merge", f"--patch={json.dumps(patch)}")

    def pods(self, name: str) -> list[str]:
        kind, _, job = name.partition("/")
        listed = self.kubectl("get", "pods", f"--selector={kind}={job}", "--output=name").stdout
        return sorted(line.removeprefix("pod/") for line in listed.splitlines())

    def logs(self, pod: str) -> list[str]:
        """The lines that a pod has printed up to now; none while it has not started."""
        said = self.kubectl("logs", pod, "--all-containers", check=False)
        return said.stdout.splitlines() if said.returncode == 0 else []

    def all_logs(self, name: str) -> list[str]:
        return sorted(line for pod in self.pods(name) for line in self.logs(pod))

    def about(self, name: str) -> str:
        """What a person would look at, for messages."""
        parts = [
            self.kubectl("get", name, "--output=yaml", check=False).stdout,
            self.kubectl("get", "pods", "--output=wide", check=False).stdout,
            self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).stdout,
            *(f"{pod}: " + "\n".join(self.logs(pod)) for pod in self.pods(name)),
        ]
        return "\n".join(parts)


def _job_of(text: str) -> str:
    objects = [found for found in yaml.safe_load_all(text) if found]
    (job,) = (found for found in objects if found["apiVersion"].startswith("batch.tensorstack"))
    return f"{job['kind'].lower()}/{job['metadata']['name']}"
