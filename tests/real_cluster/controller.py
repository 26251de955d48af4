"""Jobyard's controller in the cluster, the way a user puts it there."""

import subprocess
import sys

from real_cluster.cluster import Cluster, await_rollout

NAMESPACE = "jobyard-system"
LEASE = "jobyard-controller"
READY_SECONDS = 300


def install(cluster: Cluster, image: str) -> None:
    """`jobyard install | kubectl apply -f -`, and wait until it is rolled out."""
    # There is no T9k Scheduler here that gangs could be left to.
    command = [sys.executable, "-m", "jobyard", "install", "--gang-scheduler=none"]
    manifest = subprocess.run(
        [*command, f"--image={image}"], capture_output=True, text=True, check=True
    ).stdout
    kubectl = cluster.kubectl(NAMESPACE)
    # The server takes its time for the schemas of so many CRDs.
    kubectl("apply", "-f", "-", stdin=manifest, timeout_seconds=READY_SECONDS)
    await_rollout(kubectl, READY_SECONDS)
