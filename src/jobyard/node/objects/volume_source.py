"""The volumes of a pod as the agent reads them.

Sources that no machine without a cluster can serve are all in `Volume.others`: `placing` names
them when it refuses them. Decides nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

# The API server takes numbers where it means quantities.
Amount = str | int | float


class _Camel(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Kubernetes spells its fields in camelCase."""


class Item(_Camel, frozen=True):
    """One key of a config map or secret, and the file it becomes."""

    key: str
    path: str
    mode: int | None = None


class EmptyDir(_Camel, frozen=True):
    """An empty folder that lives as long as the pod."""

    medium: str = ""
    size_limit: Amount = 0


class HostPath(_Camel, frozen=True):
    """A path of the machine."""

    path: str
    type: str = ""


class ConfigMapSource(_Camel, frozen=True):
    """The keys of a config map as files; also a part of a projected volume."""

    name: str = ""
    items: tuple[Item, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretSource(_Camel, frozen=True):
    """The keys of a secret as files."""

    secret_name: str = ""
    items: tuple[Item, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class FieldRef(_Camel, frozen=True):
    """A field of the pod itself."""

    field_path: str


class ResourceRef(_Camel, frozen=True):
    """A limit or request of a container of the pod."""

    resource: str
    container_name: str = ""
    divisor: Amount = "1"


class DownwardItem(_Camel, frozen=True):
    """One file with something about the pod."""

    path: str
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceRef | None = None
    mode: int | None = None


class DownwardSource(_Camel, frozen=True):
    """Files with facts about the pod."""

    items: tuple[DownwardItem, ...] = ()
    default_mode: int = 0o644


class ProjectedSecret(_Camel, frozen=True):
    """A secret inside a projected volume; the field has another name there."""

    name: str = ""
    items: tuple[Item, ...] = ()
    optional: bool = False


class TokenSource(_Camel, frozen=True):
    """A token of the pod's service account."""

    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class Projection(_Camel, frozen=True):
    """One part of a projected volume; one of them is set."""

    config_map: ConfigMapSource | None = None
    secret: ProjectedSecret | None = None
    # Its acronym is written in capitals, unlike in any other field.
    downward_api: DownwardSource | None = msgspec.field(name="downwardAPI", default=None)
    # Those that speak for somebody, whom only a cluster knows.
    service_account_token: TokenSource | None = None
    cluster_trust_bundle: dict[str, Any] | None = None
    pod_certificate: dict[str, Any] | None = None

    @property
    def others(self) -> str:
        """The name of a source that can't be served here; empty if there is none."""
        if self.cluster_trust_bundle is not None and self.cluster_trust_bundle.get("optional"):
            return ""
        others = (self.service_account_token, self.cluster_trust_bundle, self.pod_certificate)
        words = ("serviceAccountToken", "clusterTrustBundle", "podCertificate")
        return next(
            (word for word, each in zip(words, others, strict=True) if each is not None), ""
        )


class Projected(_Camel, frozen=True):
    """Several sources in one folder."""

    sources: tuple[Projection, ...] = ()
    default_mode: int = 0o644


class ClaimSource(_Camel, frozen=True):
    """A claim by name."""

    claim_name: str
    read_only: bool = False


class Volume(_Camel, frozen=True):
    """One volume; one source is set, or none of those that can be served."""

    name: str
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    downward_api: DownwardSource | None = msgspec.field(name="downwardAPI", default=None)
    projected: Projected | None = None
    persistent_volume_claim: ClaimSource | None = None
    # Those that need a network file system, a cloud or a driver.
    nfs: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    csi: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    glusterfs: dict[str, Any] | None = None
    flex_volume: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None
    image: dict[str, Any] | None = None
    git_repo: dict[str, Any] | None = None

    @property
    def others(self) -> str:
        """The name of a source that can't be served here, in Kubernetes' spelling."""
        for field in msgspec.structs.fields(self):
            if field.name in _SERVED or getattr(self, field.name) is None:
                continue
            return field.encode_name
        return "of an unknown source"


_SERVED = frozenset(
    {
        "name",
        "empty_dir",
        "host_path",
        "config_map",
        "secret",
        "downward_api",
        "projected",
        "persistent_volume_claim",
    }
)
