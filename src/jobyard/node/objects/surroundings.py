"""What an order depends on besides the pod: the engine's own side, and what was looked up.

Values only. The agent fills them in; tests write them down.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from jobyard.node.shared.order import LOG_BYTES_DEFAULT

ObjectKey = tuple[str, str]


class ImageTarget(StrEnum):
    """What an image is taken to be on this machine."""

    VIRTUALENV = "virtualenv"
    ROOT = "root"


class ImageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the image that a root folder was made from says beside its files."""

    env: Mapping[str, str] = {}
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_folder: str = ""
    # As an image has it: USER[:GROUP], names or numbers; empty for root.
    user: str = ""
    # The same as numbers, and its home, by the image's own files.
    uid: int = 0
    gid: int = 0
    home: str = "/root"


class ImageRule(msgspec.Struct, frozen=True):
    """Images whose name fits the pattern (`*` and `?` as in a shell) run with this folder."""

    pattern: str
    folder: str
    type: ImageTarget = ImageTarget.VIRTUALENV
    # Of a root folder.
    config: ImageConfig = ImageConfig()


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's side: the same for all pods."""

    node_name: str
    # As pods see it: their gateway, or the machine's own address.
    host_address: str = "127.0.0.1"
    # What containers inherit, already cut down to what may be passed on; with PATH.
    environment: Mapping[str, str] = {}
    # Where commands start that name no working folder.
    start_folder: str = "/"
    # Folders of the machine that a sandbox shows as they are, beside the one above; of those in
    # the second no container sees anything.
    kept_folders: tuple[str, ...] = ()
    hidden_folders: tuple[str, ...] = ()
    # The environment the engine was started from; its commands come first.
    virtualenv: str = ""
    image_rules: tuple[ImageRule, ...] = ()
    # Whether commands get the uid that the pod names: strict, and the engine is root.
    has_real_uids: bool = False
    # What a container without limits has, for the downward API: cpu, memory …
    allocatable: Mapping[str, str] = {}
    has_gpus: bool = False
    prefix_length: int = 16
    gateway: str = ""
    resolver_file: str = ""
    restart_delay_seconds: float = 10
    # How much of the log of each run of a container is kept.
    log_bytes: int = LOG_BYTES_DEFAULT


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True):
    """A config map or secret that was found; values are decoded."""

    name: str
    data: Mapping[str, bytes] = {}
    # `binaryData` of a config map: files of volumes, but never variables.
    binary: Mapping[str, bytes] = {}


class ServiceLink(msgspec.Struct, frozen=True, kw_only=True):
    """A service as the variables of older programs tell of it."""

    name: str
    address: str
    # Name (may be empty), port, protocol.
    ports: tuple[tuple[str, int, str], ...] = ()


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that is on disk, ready to be mounted."""

    source: str = ""
    read_only: bool = False
    # A tmpfs of this container instead of `source`; 0 is the kernel's default size.
    is_memory: bool = False
    size_bytes: int = 0
    # A path of the machine: links in it may lead anywhere.
    is_of_host: bool = False
    # Of such a one: it wasn't there, and this is a folder of the pod's own in its place.
    stands_in: bool = False


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked up for one pod. What isn't in it doesn't exist."""

    config_maps: Mapping[str, ConfigMap] = {}
    secrets: Mapping[str, ConfigMap] = {}
    services: tuple[ServiceLink, ...] = ()
    volumes: Mapping[str, Placed] = {}
    # Of the pod; empty where pods share the machine's network.
    address: str = ""
    hosts_file: str = ""
    # The engine's proxy, where it is the only way out; and what needs none: the private
    # network, and names of pods and services.
    proxy: str = ""
    network: str = ""
    names: tuple[str, ...] = ()
