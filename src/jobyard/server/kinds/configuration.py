"""ConfigMaps and Secrets: data by key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import config_key
from jobyard.server.kinds.strategy import KubernetesStrategy, Particulars
from jobyard.server.kinds.types.kubernetes_schemas import CORE
from jobyard.server.resource import Object

DATA_BYTES_MAX = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
# Keys that the well-known types of secrets must have.
_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def configmap_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "ConfigMap",
            kind="ConfigMap",
            check=_configmap_faults,
            check_change=_configmap_change_faults,
        )
    )


def secret_strategy() -> KubernetesStrategy:
    return KubernetesStrategy(
        Particulars(
            definition=CORE + "Secret",
            kind="Secret",
            defaults={CORE + "Secret": _complete_secret},
            check=_secret_faults,
            check_change=_secret_change_faults,
        )
    )


def _complete_secret(secret: dict[str, Any]) -> None:
    plain = secret.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        secret["data"] = secret.get("data", {}) | encoded
    secret.setdefault("type", "Opaque")


def _configmap_faults(obj: Object, faults: Faults) -> None:
    data, binary = obj.get("data", {}), obj.get("binaryData", {})
    for key in data:
        faults.invalid(f"data[{key}]", key, *config_key(key))
        if key in binary:
            faults.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    for key in binary:
        faults.invalid(f"binaryData[{key}]", key, *config_key(key))
    size = sum(len(text.encode()) for text in data.values()) + _decoded_size(binary.values())
    if size > DATA_BYTES_MAX:
        faults.too_long("[]", DATA_BYTES_MAX)


def _configmap_change_faults(obj: Object, old: Object, faults: Faults) -> None:
    _immutability_faults(obj, old, ("data", "binaryData"), faults)


def _secret_faults(obj: Object, faults: Faults) -> None:
    data = obj.get("data", {})
    for key in data:
        faults.invalid(f"data[{key}]", key, *config_key(key))
    if _decoded_size(data.values()) > DATA_BYTES_MAX:
        faults.too_long("data", DATA_BYTES_MAX)
    kind = obj["type"]
    for key in _KEYS.get(kind, ()):
        if key not in data:
            faults.required(f"data[{key}]")
        elif kind.startswith("kubernetes.io/docker"):
            _json_faults(data[key], f"data[{key}]", faults)
    match kind:
        case "kubernetes.io/basic-auth" if not {"username", "password"} & set(data):
            faults.required("data[username]")
            faults.required("data[password]")
        case "kubernetes.io/ssh-auth" if not data.get("ssh-privatekey"):
            faults.required("data[ssh-privatekey]")
        case "kubernetes.io/service-account-token":
            if not obj["metadata"].get("annotations", {}).get(_SERVICE_ACCOUNT):
                faults.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")


def _json_faults(encoded: str, path: str, faults: Faults) -> None:
    text = base64.b64decode(encoded)
    try:
        is_object = isinstance(json.loads(text), dict)
    except ValueError:
        is_object = False
    if not is_object:
        first = text[:1].decode(errors="replace")
        why = f"invalid character '{first}' looking for beginning of value"
        faults.invalid(path, "<secret contents redacted>", why)


def _secret_change_faults(obj: Object, old: Object, faults: Faults) -> None:
    faults.immutable("type", obj["type"], old.get("type"))
    _immutability_faults(obj, old, ("data",), faults)


def _immutability_faults(obj: Object, old: Object, fields: Iterable[str], faults: Faults) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        faults.forbidden("immutable", _IMMUTABLE)
    for field in fields:
        if obj.get(field) != old.get(field):
            faults.forbidden(field, _IMMUTABLE)


def _decoded_size(values: Iterable[str]) -> int:
    return sum(len(base64.b64decode(text)) for text in values)
