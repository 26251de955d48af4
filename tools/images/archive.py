"""An image as one file, in the form of `docker save`: containerd, podman and docker all take it.

Not an OCI layout: in this form a short name such as `python:3.11-slim` is enough, and whoever
imports it completes it in the way that a pod's `image` is completed.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from images.layers import NEWEST_SECONDS, LayerFile

# As the makers of images call the machines.
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Config:
    """What a container of the image is started with, unless a pod says otherwise."""

    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    folder: str = ""
    ports: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        every = {
            "Env": [f"{name}={value}" for name, value in self.env.items()],
            "Entrypoint": list(self.entrypoint),
            "Cmd": list(self.command),
            "User": self.user,
            "WorkingDir": self.folder,
            "ExposedPorts": {port: {} for port in self.ports},
            "Labels": dict(self.labels),
        }
        return {name: value for name, value in every.items() if value}


def image_json(config: Config, layers: Sequence[LayerFile]) -> bytes:
    created = datetime.fromtimestamp(NEWEST_SECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    machine = platform.machine()
    facts = {
        "architecture": _MACHINES.get(machine, machine),
        "os": "linux",
        "created": created,
        "config": config.as_json(),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each.sha256}" for each in layers]},
        "history": [{"created": created, "created_by": "tools/get_images.py"} for _ in layers],
    }
    return json.dumps(facts, sort_keys=True).encode()


def write_archive(
    path: Path, names: Sequence[str], config: Config, layers: Sequence[LayerFile]
) -> None:
    """All names mean the same image; the file appears only when it is whole."""
    described = image_json(config, layers)
    config_name = f"{hashlib.sha256(described).hexdigest()}.json"
    manifest = [
        {
            "Config": config_name,
            "RepoTags": list(names),
            "Layers": [f"{layer.sha256}.tar" for layer in layers],
        }
    ]
    unfinished = path.with_name(path.name + ".part")
    with tarfile.open(unfinished, "w") as archive:
        _add(archive, "manifest.json", json.dumps(manifest).encode())
        _add(archive, config_name, described)
        for layer in layers:
            member = _member(f"{layer.sha256}.tar", layer.size)
            with layer.path.open("rb") as file:
                archive.addfile(member, file)
    unfinished.rename(path)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_member(name, len(content)), io.BytesIO(content))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime = size, NEWEST_SECONDS
    return member
