"""Kubeconfig files: writing ours, and reading one that somebody else brought."""

import base64
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rig.kube.plane import ControlPlane, write_private

READ_SECONDS = 30


class KubeconfigError(Exception):
    """The brought kubeconfig can't serve the tests; the message says why."""


def write(path: Path, url: str, ca: Path, cert: Path, key: Path) -> None:
    """Write a kubeconfig with the credentials inside, readable by its owner only."""

    def embedded(source: Path) -> str:
        return base64.b64encode(source.read_bytes()).decode()

    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rig",
                "cluster": {"server": url, "certificate-authority-data": embedded(ca)},
            }
        ],
        "users": [
            {
                "name": "admin",
                "user": {
                    "client-certificate-data": embedded(cert),
                    "client-key-data": embedded(key),
                },
            }
        ],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "admin"}}],
        "current-context": "rig",
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())


def adopt(kubeconfig: Path, kubectl: Path, folder: Path) -> ControlPlane:
    """Describe the cluster that `kubeconfig` points to, as if it were ours.

    Its credentials are unpacked into `folder`. Only client certificates are taken
    (kind, k3d, minikube and kubeadm make those): tokens and login plugins would need
    a second way of calling in everything that calls.
    """
    if not kubeconfig.is_file():
        raise KubeconfigError(f"kubeconfig {kubeconfig}: there is no such file")
    command = [str(kubectl), f"--kubeconfig={kubeconfig}"]
    view = _json(*command, "config", "view", "--raw", "--minify", "--flatten", "--output=json")
    cluster = _only(view, "clusters")["cluster"]
    user = _only(view, "users")["user"]
    wanted = {
        "ca.crt": (cluster, "certificate-authority-data"),
        "admin.crt": (user, "client-certificate-data"),
        "admin.key": (user, "client-key-data"),
    }
    for name, (section, field) in wanted.items():
        if field not in section:
            raise KubeconfigError(
                f"kubeconfig {kubeconfig}: the current context has no {field};"
                " tests need a cluster with a CA and a user with a client certificate"
            )
        write_private(folder / name, base64.b64decode(section[field]))
    return ControlPlane(
        url=cluster["server"],
        version=_json(*command, "get", "--raw", "/version")["gitVersion"],
        kubeconfig=kubeconfig.resolve(),
        ca=folder / "ca.crt",
        cert=folder / "admin.crt",
        key=folder / "admin.key",
        kubectl=kubectl,
        has_controllers=True,
    )


def _only(view: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    entries = view.get(section) or []
    if len(entries) != 1:
        raise KubeconfigError(
            f"the current context leads to {len(entries)} {section}; must be exactly 1"
        )
    entry: Mapping[str, Any] = entries[0]
    return entry


def _json(*command: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=READ_SECONDS
        )
    except subprocess.SubprocessError as problem:
        detail = getattr(problem, "stderr", None) or ""
        raise KubeconfigError(f"{problem}\n{detail}".rstrip()) from problem
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
