"""Reads what a pod refers to, when it is needed: config maps, secrets, claims.

Always from the server and never from a cache: a pod that was made right after its config map
must find it. Values of secrets stay in memory no longer than the pass that needs them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from jobyard.client.deep_json import decoded_json
from jobyard.client.request import CONFIG_MAPS, SECRETS, create, get, merge_patch
from jobyard.client.resources import CLAIMS
from jobyard.client.retrying import send_patiently
from jobyard.client.sender import Sender
from jobyard.node.objects.pod_object import PodObject
from jobyard.node.objects.surroundings import ConfigMap
from jobyard.node.ordering.references import CONFIG_MAP, SECRET, Wanted
from jobyard.node.volumes.claims import ClaimFolders
from jobyard.node.volumes.contents import VolumeError

NOT_FOUND: Final = 404
CONFLICT: Final = 409
_CAPACITY: Final = {"storage": "1Gi"}


class LookupFailedError(VolumeError):
    """The server refused to tell; its words are the message."""


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Looked(msgspec.Struct, frozen=True):
    """What was found, by name."""

    config_maps: Mapping[str, ConfigMap] = {}
    secrets: Mapping[str, ConfigMap] = {}


class Lookups:
    """Looks things up for pods, and makes claims for those whom nobody made one for."""

    def __init__(
        self,
        sender: Sender,
        claims: ClaimFolders,
        *,
        is_strict: bool,
        say: Callable[[str], None],
    ) -> None:
        self._sender = sender
        self._claims = claims
        self._is_strict = is_strict
        self._say = say

    async def find(self, namespace: str, wanted: Collection[Wanted]) -> Looked:
        """All that exist of those; the others are left out."""
        ordered = sorted(wanted)
        found = await asyncio.gather(*(self._one(namespace, each) for each in ordered))
        pairs = [
            (each, value) for each, value in zip(ordered, found, strict=True) if value is not None
        ]
        return Looked(
            {each.name: value for each, value in pairs if each.kind == CONFIG_MAP},
            {each.name: value for each, value in pairs if each.kind == SECRET},
        )

    async def _one(self, namespace: str, wanted: Wanted) -> ConfigMap | None:
        if not wanted.name:
            return None
        resource = CONFIG_MAPS if wanted.kind == CONFIG_MAP else SECRETS
        answer = await send_patiently(self._sender, get(resource, namespace, wanted.name))
        if answer.status == NOT_FOUND:
            return None
        if not answer.is_ok:
            raise LookupFailedError("", f"{wanted.name}: {answer.problem}", may_pass=True)
        found = decoded_json(answer.body, type=_Data)
        binary = {key: _decoded(value) for key, value in found.binary_data.items()}
        if wanted.kind == SECRET:
            data = {key: _decoded(value) for key, value in found.data.items()}
        else:
            data = {key: value.encode() for key, value in found.data.items()}
        return ConfigMap(name=wanted.name, data=data, binary=binary)

    async def bind_claims(self, pod: PodObject) -> dict[str, str]:
        """See to it that the pod's claims exist and are bound; VolumeError if they don't.

        Their uids, by volume; of one that is a folder of the user's there may be no claim.
        """
        namespace = pod.metadata.namespace
        uids = {}
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            if source is not None:
                uid = await self._bind(volume.name, namespace, source.claim_name)
                if uid:
                    uids[volume.name] = uid
        return uids

    async def _bind(self, volume: str, namespace: str, name: str) -> str:
        answer = await send_patiently(self._sender, get(CLAIMS, namespace, name))
        if answer.status == NOT_FOUND:
            if self._claims.is_named(namespace, name):
                return ""
            if self._is_strict:
                raise VolumeError(
                    volume, f'persistentvolumeclaim "{name}" not found', may_pass=True
                )
            folder = self._claims.folder(volume, namespace, name)
            answer = await send_patiently(self._sender, create(CLAIMS, namespace, _claim(name)))
            if answer.is_ok:
                self._say(f"claim {namespace}/{name}: its files are in {folder}, and stay there")
            elif answer.status == CONFLICT:
                answer = await send_patiently(self._sender, get(CLAIMS, namespace, name))
        if not answer.is_ok:
            raise LookupFailedError(volume, f"claim {name}: {answer.problem}", may_pass=True)
        claim = decoded_json(answer.body)
        uid = str(claim["metadata"]["uid"])
        if claim.get("status", {}).get("phase") == "Bound":
            return uid
        spec = claim.get("spec", {})
        status = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": spec.get("resources", {}).get("requests") or _CAPACITY,
        }
        same = {"metadata": {"uid": uid}}
        requests = [
            merge_patch(CLAIMS, namespace, name, same | {"status": status}, subresource="status")
        ]
        if not spec.get("volumeName"):
            # By this tables know that it is bound; the volume itself is a folder and no object.
            named = {"spec": {"volumeName": f"pvc-{uid}"}}
            requests.insert(0, merge_patch(CLAIMS, namespace, name, same | named))
        for request in requests:
            answer = await send_patiently(self._sender, request)
            if not answer.is_ok and answer.status not in (NOT_FOUND, CONFLICT):
                raise LookupFailedError(volume, f"claim {name}: {answer.problem}", may_pass=True)
        return uid


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error:
        # The server checks it; should it ever not, the pod's file is what shows it.
        return value.encode()


def _claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "jobyard"}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": _CAPACITY},
            "storageClassName": "",
        },
    }
