"""The cluster that this process runs in, from what Kubernetes puts into every pod.

`locating` asks here. The token is named by its file, since the kubelet renews it there about
every hour; the rest doesn't change while the pod lives and is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from jobyard.client.credentials.cluster import Cluster, Credentials, Trust
from jobyard.client.errors import ClusterError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"


def is_in_pod(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> bool:
    """Whether Kubernetes says so; a pod without a service account token doesn't count."""
    return bool(environ.get(HOST_VARIABLE)) and (folder / "token").is_file()


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Cluster:
    """The API server of the pod's own cluster, as the pod's service account."""
    host = environ[HOST_VARIABLE]
    port = environ.get(PORT_VARIABLE) or "443"
    try:
        authorities = (folder / "ca.crt").read_bytes()
    except OSError as error:
        raise ClusterError(
            f"service account: {folder / 'ca.crt'} can't be read ({error.strerror});"
            " check that the pod mounts its service account"
        ) from error
    return Cluster(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=_namespace(folder),
        trust=Trust(authorities=authorities),
        credentials=Credentials(token_file=folder / "token"),
        source="the pod's service account",
    )


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text().strip() or "default"
    except (OSError, UnicodeDecodeError):
        return "default"
