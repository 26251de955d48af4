"""What is wrong with the volumes of a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobyard.server.kinds.claims import claim_spec_faults
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import dns_label
from jobyard.server.kinds.pods.field_references import file_reference_faults
from jobyard.server.kinds.types.quantities import amount_of

_MODE_MAX = 0o777
_MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
_TOKEN_SECONDS_MIN, _TOKEN_SECONDS_MAX = 600, 2**32

Source = Mapping[str, Any]


def volumes_faults(volumes: list[dict[str, Any]], faults: Faults, path: str) -> frozenset[str]:
    """The names of those without fault: mounts of the others are told as not found too."""
    sound: set[str] = set()
    for n, volume in enumerate(volumes):
        where, before = f"{path}[{n}]", len(faults)
        _source_faults(volume, faults, where)
        name = volume["name"]
        faults.named(f"{where}.name", name, dns_label(name))
        if name in sound:
            faults.duplicate(f"{where}.name", name)
        if len(faults) == before:
            sound.add(name)
    return frozenset(sound)


def _source_faults(volume: Source, faults: Faults, path: str) -> None:
    # In the order in which the server looks for them: the first one found counts.
    kinds = sorted((kind for kind in volume if kind != "name"), key=_order)
    for kind in kinds[1:]:
        faults.forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
    if kinds and kinds[0] in _CHECKS:
        _CHECKS[kinds[0]](volume[kinds[0]], faults, f"{path}.{kinds[0]}")


def _empty_dir(source: Source, faults: Faults, path: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and amount_of(limit) < 0:
        faults.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Source, faults: Faults, path: str) -> None:
    if not source["path"]:
        faults.required(f"{path}.path")
        return
    _backstep_faults(source["path"], faults, f"{path}.path")


def _claim(source: Source, faults: Faults, path: str) -> None:
    if not source["claimName"]:
        faults.required(f"{path}.claimName")


def _config_map(source: Source, faults: Faults, path: str) -> None:
    if not source.get("name"):
        faults.required(f"{path}.name")
    _mode_faults(source, "defaultMode", faults, path)
    _items_faults(source, faults, path)


def _secret(source: Source, faults: Faults, path: str) -> None:
    if not source.get("secretName"):
        faults.required(f"{path}.secretName")
    _mode_faults(source, "defaultMode", faults, path)
    _items_faults(source, faults, path)


def _downward(source: Source, faults: Faults, path: str) -> None:
    _mode_faults(source, "defaultMode", faults, path)
    for file in source.get("items", ()):
        _file_faults(file, faults, path)


def _projected(source: Source, faults: Faults, path: str) -> None:
    _mode_faults(source, "defaultMode", faults, path)
    paths: set[str] = set()
    for n, projection in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{n}]"
        for kind in ("secret", "configMap"):
            inner = projection.get(kind)
            if inner is not None:
                if not inner.get("name"):
                    faults.required(f"{where}.{kind}.name")
                _items_faults(inner, faults, f"{where}.{kind}")
                _unique_paths(inner.get("items", ()), inner.get("name", ""), paths, faults, path)
        for file in projection.get("downwardAPI", {}).get("items", ()):
            _file_faults(file, faults, f"{where}.downwardAPI")
            _unique_paths((file,), file["path"], paths, faults, path)
        if "serviceAccountToken" in projection:
            _token_faults(projection["serviceAccountToken"], faults, where, path)
        if len(projection) > 1:
            text = "may not specify more than 1 volume type per source"
            faults.forbidden(where, text)


def _token_faults(token: Source, faults: Faults, where: str, path: str) -> None:
    seconds, field = token["expirationSeconds"], f"{where}.serviceAccountToken.expirationSeconds"
    if seconds < _TOKEN_SECONDS_MIN:
        faults.invalid(field, seconds, "may not specify a duration less than 10 minutes")
    if seconds > _TOKEN_SECONDS_MAX:
        faults.invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")
    if not token["path"]:
        faults.required(f"{path}.path")
    else:
        local_path_faults(token["path"], faults, f"{path}.path")


def _ephemeral(source: Source, faults: Faults, path: str) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        faults.required(f"{path}.volumeClaimTemplate")
    else:
        claim_spec_faults(template["spec"], faults, f"{path}.volumeClaimTemplate.spec")


_CHECKS: Mapping[str, Callable[[Source, Faults, str], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "ephemeral": _ephemeral,
}


def _order(kind: str) -> int:
    known = list(_CHECKS)
    return known.index(kind) if kind in known else len(known)


def _items_faults(source: Source, faults: Faults, path: str) -> None:
    for n, item in enumerate(source.get("items", ())):
        where = f"{path}.items[{n}]"
        for field in ("key", "path"):
            if not item[field]:
                faults.required(f"{where}.{field}")
        local_path_faults(item["path"], faults, f"{where}.path")
        _mode_faults(item, "mode", faults, where)


def _file_faults(file: Source, faults: Faults, path: str) -> None:
    if not file["path"]:
        faults.required(f"{path}.path")
    local_path_faults(file["path"], faults, f"{path}.path")
    file_reference_faults(file, faults, path)
    _mode_faults(file, "mode", faults, path)


def _unique_paths(items: Any, shown: str, paths: set[str], faults: Faults, path: str) -> None:
    for item in items:
        if item["path"] and item["path"] in paths:
            faults.invalid(path, shown, "conflicting duplicate paths")
        paths.add(item["path"])


def _mode_faults(source: Source, field: str, faults: Faults, path: str) -> None:
    mode = source.get(field)
    if mode is not None and not 0 <= mode <= _MODE_MAX:
        faults.invalid(f"{path}.{field}", mode, _MODE_TEXT)


def descending_path_faults(value: str, faults: Faults, path: str) -> None:
    if value.startswith("/"):
        faults.invalid(path, value, "must be a relative path")
    _backstep_faults(value, faults, path)


def local_path_faults(value: str, faults: Faults, path: str) -> None:
    descending_path_faults(value, faults, path)
    if value.startswith("..") and not value.startswith("../"):
        faults.invalid(path, value, "must not start with '..'")


def _backstep_faults(value: str, faults: Faults, path: str) -> None:
    if ".." in value.split("/"):
        faults.invalid(path, value, "must not contain '..'")
