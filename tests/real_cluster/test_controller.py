"""The controller as a pod, with what `jobyard install` prints: its image, its permissions."""

import json

import pytest
from rig.waiting import until_it_holds

from real_cluster.cluster import Cluster
from real_cluster.controller import LEASE, NAMESPACE


@pytest.mark.shows("Deployment", "two controllers, one leads")
def test_two_controllers_are_ready_and_one_leads(cluster: Cluster, controller: None) -> None:
    kubectl = cluster.kubectl(NAMESPACE)
    deployment = json.loads(kubectl("get", "deployment", "--output=json").stdout)["items"][0]
    assert deployment["status"]["readyReplicas"] == 2
    pods = json.loads(kubectl("get", "pods", "--output=json").stdout)["items"]
    assert len(pods) == 2
    assert all(
        status["restartCount"] == 0 for pod in pods for status in pod["status"]["containerStatuses"]
    )
    names = [pod["metadata"]["name"] for pod in pods]
    # Who stands by is ready too, so neither may lead yet.
    asked = ("get", "lease", LEASE, "--output=jsonpath={.spec.holderIdentity}")
    holder = until_it_holds(lambda: kubectl(*asked, check=False).stdout, "one of them leads")
    assert [name for name in names if name in holder]
