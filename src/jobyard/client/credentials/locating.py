"""Which cluster is meant: an explicit file, $KUBECONFIG, the pod's own, ~/.kube/config.

The commands and the controller call `cluster_of`. Decides only the order; what a file says
is the business of `kubeconfig` and `in_cluster`, and where none names a proxy, `proxies` asks the
environment. Differs from kubectl in one point: inside a pod the pod's own cluster goes before a
file in the home folder, which images may carry along.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from jobyard.client.credentials.cluster import Cluster
from jobyard.client.credentials.in_cluster import (
    HOST_VARIABLE,
    SERVICE_ACCOUNT,
    in_cluster,
    is_in_pod,
)
from jobyard.client.credentials.kubeconfig import cluster_from
from jobyard.client.errors import NoClusterError
from jobyard.client.proxying.proxies import proxy_of_environment

KUBECONFIG_VARIABLE: Final = "KUBECONFIG"


def cluster_of(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Cluster:
    """The cluster that is meant; NoClusterError says what was looked for."""
    found = _described(kubeconfig, context, service_account)
    if found.proxy is not None:
        return found
    return msgspec.structs.replace(found, proxy=proxy_of_environment(os.environ, found.server))


def _described(kubeconfig: Path | None, context: str | None, service_account: Path) -> Cluster:
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise NoClusterError(f"kubeconfig {kubeconfig}: there is no such file")
        return cluster_from((kubeconfig,), context)
    listed = os.environ.get(KUBECONFIG_VARIABLE, "")
    if listed:
        paths = tuple(Path(part) for part in listed.split(os.pathsep) if part)
        found = tuple(path for path in paths if path.is_file())
        if not found:
            raise NoClusterError(
                f"${KUBECONFIG_VARIABLE} is {listed}, and there is no such file;"
                " set it to a kubeconfig or unset it"
            )
        return cluster_from(found, context)
    # A context is a thing of kubeconfig files: who names one doesn't mean the pod's cluster.
    if context is None and is_in_pod(os.environ, service_account):
        return in_cluster(os.environ, service_account)
    home = Path(os.path.expanduser("~")) / ".kube" / "config"
    if home.is_file():
        return cluster_from((home,), context)
    raise NoClusterError(
        f"no cluster: no kubeconfig was named, ${KUBECONFIG_VARIABLE} is not set,"
        f" this is not a pod with a service account (${HOST_VARIABLE} and"
        f" {service_account / 'token'}), and there is no {home};"
        f" name a file with --kubeconfig or set ${KUBECONFIG_VARIABLE}"
    )
