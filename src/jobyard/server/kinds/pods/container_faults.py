"""What is wrong with the containers of a pod."""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.names import (
    config_key,
    dns_label,
    dns_subdomain,
    env_name,
    port_name,
    port_number,
    user_id,
)
from jobyard.server.kinds.pods.field_references import env_field_faults, resource_faults
from jobyard.server.kinds.pods.probe_faults import handler_faults, probe_faults
from jobyard.server.kinds.pods.resource_faults import requirements_faults
from jobyard.server.kinds.pods.volume_faults import descending_path_faults

_ONLY_SIDECARS = "may not be set for init containers without restartPolicy=Always"
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_VALUE_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def containers_faults(
    spec: dict[str, Any], volumes: frozenset[str], faults: Faults, path: str
) -> None:
    containers = spec.get("containers") or []
    if not containers:
        faults.required(path)
    names: set[str] = set()
    for n, container in enumerate(containers):
        where = f"{path}[{n}]"
        _container_faults(container, volumes, faults, where)
        if container["name"] in names:
            faults.duplicate(f"{where}.name", container["name"])
        names.add(container["name"])
        _running_faults(container, faults, where)
        _restart_faults(container, faults, where)
    _host_port_faults(containers, faults, path)


def init_containers_faults(
    spec: dict[str, Any], volumes: frozenset[str], faults: Faults, path: str
) -> None:
    names = {container["name"] for container in spec.get("containers") or ()}
    for n, container in enumerate(spec.get("initContainers", ())):
        where = f"{path}[{n}]"
        _container_faults(container, volumes, faults, where)
        _restart_faults(container, faults, where)
        if container["name"] in names:
            faults.duplicate(f"{where}.name", container["name"])
        elif container["name"]:
            names.add(container["name"])
        if container.get("restartPolicy") == "Always":
            _running_faults(container, faults, where)
        else:
            for field in ("lifecycle", *_PROBES):
                if field in container:
                    faults.forbidden(f"{where}.{field}", _ONLY_SIDECARS)


def _container_faults(
    container: dict[str, Any], volumes: frozenset[str], faults: Faults, path: str
) -> None:
    faults.named(f"{path}.name", container["name"], dns_label(container["name"]))
    if not container.get("image"):
        faults.required(f"{path}.image")
    _ports_faults(container.get("ports", []), faults, f"{path}.ports")
    for n, variable in enumerate(container.get("env", ())):
        _variable_faults(variable, faults, f"{path}.env[{n}]")
    for source in container.get("envFrom", ()):
        _env_from_faults(source, container["envFrom"], faults, f"{path}.envFrom")
    _mount_faults(container, volumes, faults, path)
    requirements_faults(container["resources"], faults, f"{path}.resources")
    context = container.get("securityContext", {})
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None:
            where = f"{path}.securityContext.{field}"
            faults.invalid(where, context[field], *user_id(context[field]))
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        faults.invalid(f"{path}.securityContext", context, text)


def _running_faults(container: dict[str, Any], faults: Faults, path: str) -> None:
    for hook in ("postStart", "preStop"):
        if hook in container.get("lifecycle", {}):
            handler_faults(container["lifecycle"][hook], faults, f"{path}.lifecycle.{hook}")
    for field in _PROBES:
        if field in container:
            probe_faults(container[field], field, faults, f"{path}.{field}")


def _restart_faults(container: dict[str, Any], faults: Faults, path: str) -> None:
    policy = container.get("restartPolicy")
    if policy is None:
        if container.get("restartPolicyRules"):
            text = "must specify restartPolicy when restart rules are used"
            faults.required(f"{path}.restartPolicy", text)
    else:
        faults.one_of(f"{path}.restartPolicy", policy, _RESTART_POLICIES)


def _ports_faults(ports: list[dict[str, Any]], faults: Faults, path: str) -> None:
    names: set[str] = set()
    for n, port in enumerate(ports):
        where, name = f"{path}[{n}]", port.get("name", "")
        if name:
            wrong = port_name(name)
            faults.invalid(f"{where}.name", name, *wrong)
            if not wrong and name in names:
                faults.duplicate(f"{where}.name", name)
            names.add(name)
        if not port["containerPort"]:
            faults.required(f"{where}.containerPort")
        else:
            number = port["containerPort"]
            faults.invalid(f"{where}.containerPort", number, *port_number(number))
        if port.get("hostPort"):
            faults.invalid(f"{where}.hostPort", port["hostPort"], *port_number(port["hostPort"]))


def _host_port_faults(containers: list[dict[str, Any]], faults: Faults, path: str) -> None:
    seen: set[str] = set()
    for n, container in enumerate(containers):
        for index, port in enumerate(container.get("ports", ())):
            if not port.get("hostPort"):
                continue
            shown = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if shown in seen:
                faults.duplicate(f"{path}[{n}].ports[{index}].hostPort", shown)
            seen.add(shown)


def _variable_faults(variable: dict[str, Any], faults: Faults, path: str) -> None:
    faults.named(f"{path}.name", variable["name"], env_name(variable["name"]))
    source = variable.get("valueFrom")
    if source is None:
        return
    where = f"{path}.valueFrom"
    if "fieldRef" in source:
        env_field_faults(source["fieldRef"], faults, f"{where}.fieldRef")
    if "resourceFieldRef" in source:
        resource_faults(source["resourceFieldRef"], faults, f"{where}.resourceFieldRef")
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            _key_faults(source[kind], faults, f"{where}.{kind}")
    if not source:
        listed = ", ".join(f"`{name}`" for name in _VALUE_SOURCES[:-1])
        faults.invalid(where, "", f"must specify one of: {listed} or `{_VALUE_SOURCES[-1]}`")
    elif variable.get("value"):
        faults.invalid(where, "", "may not be specified when `value` is not empty")
    elif len(source) > 1:
        faults.invalid(where, "", "may not have more than one field specified at a time")


def _key_faults(selector: dict[str, Any], faults: Faults, path: str) -> None:
    name = selector.get("name", "")
    faults.invalid(f"{path}.name", name, *dns_subdomain(name))
    faults.named(f"{path}.key", selector["key"], config_key(selector["key"]))


def _env_from_faults(
    source: dict[str, Any], sources: list[dict[str, Any]], faults: Faults, path: str
) -> None:
    where = f"{path}[{sources.index(source)}]"
    prefix = source.get("prefix", "")
    if prefix:
        faults.invalid(f"{where}.prefix", prefix, *env_name(prefix))
    kinds = [kind for kind in ("configMapRef", "secretRef") if kind in source]
    for kind in kinds:
        name = source[kind].get("name", "")
        faults.named(f"{where}.{kind}.name", name, dns_subdomain(name))
    if not kinds:
        faults.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(kinds) > 1:
        faults.invalid(path, "", "may not have more than one field specified at a time")


def _mount_faults(
    container: dict[str, Any], volumes: frozenset[str], faults: Faults, path: str
) -> None:
    points: set[str] = set()
    for n, mount in enumerate(container.get("volumeMounts", ())):
        where = f"{path}.volumeMounts[{n}]"
        if not mount["name"]:
            faults.required(f"{where}.name")
        if mount["name"] not in volumes:
            faults.not_found(f"{where}.name", mount["name"])
        if not mount["mountPath"]:
            faults.required(f"{where}.mountPath")
        if mount["mountPath"] in points:
            faults.invalid(f"{where}.mountPath", mount["mountPath"], "must be unique")
        points.add(mount["mountPath"])
        # The server leaves the index out of these two.
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                descending_path_faults(mount[field], faults, f"{path}.volumeMounts.{field}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            text = "subPathExpr and subPath are mutually exclusive"
            faults.invalid(f"{where}.subPathExpr", mount["subPathExpr"], text)
