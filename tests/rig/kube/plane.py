"""The value that describes a running control plane, and its passage through a file.

The keeper writes it once the plane answers; every pytest worker reads it. It says
how to reach the plane and nothing about who runs it, so a cluster that somebody
else brought looks the same.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A Kubernetes API server that answers, and the admin credentials for it."""

    url: str
    # As the server itself reports it, such as `v1.36.4`.
    version: str
    kubeconfig: Path
    ca: Path
    cert: Path
    key: Path
    kubectl: Path
    # Whether a kube-controller-manager runs: garbage collection, service accounts, Jobs.
    has_controllers: bool
    # Where the server notes what service accounts ask for; a cluster brought along has none.
    audit_log: Path | None = None

    @property
    def is_brought(self) -> bool:
        """Whether it is somebody's cluster, where tests have to clean up after themselves."""
        return self.audit_log is None


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only we can read, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open(part, "xb", opener=_open_private) as handle:
        handle.write(content)
    part.replace(path)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def save(plane: ControlPlane, path: Path) -> None:
    """Write `plane` to `path` atomically: a reader finds all of it or no file."""
    write_private(path, json.dumps(asdict(plane), default=str, indent=2).encode())


def load(path: Path) -> ControlPlane:
    """Read what `save` wrote."""
    fields = json.loads(path.read_bytes())
    return ControlPlane(
        url=fields["url"],
        version=fields["version"],
        kubeconfig=Path(fields["kubeconfig"]),
        ca=Path(fields["ca"]),
        cert=Path(fields["cert"]),
        key=Path(fields["key"]),
        kubectl=Path(fields["kubectl"]),
        has_controllers=fields["has_controllers"],
        audit_log=Path(fields["audit_log"]) if fields["audit_log"] else None,
    )
