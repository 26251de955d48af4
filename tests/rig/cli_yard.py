"""`jobyard` against the engine of the tests, and the jobs that tests of its commands run."""

from __future__ import annotations

import subprocess

from rig.engine import Room
from rig.preloaded import preloaded

AGAIN = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: again}
spec:
  cleanUpPolicy: None
  replicaSpecs:
  - type: worker
    replicas: 1
    restartPolicy: {policy: OnFailure, limit: 3}
    template:
      spec:
        containers:
        - name: main
          image: x
          command: [sh, -c, "echo attempt $JOBYARD_ATTEMPT; [ $JOBYARD_ATTEMPT = 2 ]"]
"""
STAYS = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: stays}
spec:
  replicaSpecs:
  - type: worker
    replicas: 2
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: main, image: x, command: [sh, -c, "echo up; exec sleep 600"]}]
"""
ELASTIC = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: PyTorchTrainingJob
metadata: {name: stretch}
spec:
  torchrunConfig: {enabled: true}
  elastic: {enabled: true, minReplicas: 1, maxReplicas: 3, expectedReplicas: 1}
  runMode: {debug: {enabled: true}}
  replicaSpecs:
  - type: node
    template:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: pytorch, image: x, command: [python3], args: [train.py]}]
"""


class Yard:
    """`jobyard` with the engine of the tests, in the namespace of one."""

    def __init__(self, room: Room) -> None:
        self._room = room

    @property
    def options(self) -> tuple[str, ...]:
        """Which engine and namespace are meant."""
        return ("-n", self._room.name, "--kubeconfig", str(self._room.engine.kubeconfig))

    def plain(self, *words: str) -> subprocess.CompletedProcess[str]:
        who = self._room.engine.who
        return preloaded().run([*words], who.work, who.environment, seconds=90)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.plain(*words, *self.options)

    def does(self, *words: str) -> str:
        done = self(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Left running, with pipes for what it says."""
        return self._room.engine.who.start(*words, *self.options)

    def write(self, name: str, text: str) -> str:
        return str(self._room.engine.who.write(f"{self._room.name}-{name}.yaml", text))

    def apply(self, name: str, text: str) -> str:
        return self.does("apply", "-f", self.write(name, text))
