"""What is wrong with a pod's spec; containers and volumes have modules of their own."""

from __future__ import annotations

from typing import Any

from jobyard.server.kinds.addresses import address_faults
from jobyard.server.kinds.faults import Faults
from jobyard.server.kinds.metadata import labels_faults
from jobyard.server.kinds.names import (
    ID_MAX,
    dns_label,
    dns_subdomain,
    label_key,
    user_id,
    within,
)
from jobyard.server.kinds.pods.container_faults import containers_faults, init_containers_faults
from jobyard.server.kinds.pods.volume_faults import volumes_faults
from jobyard.server.kinds.selectors import (
    label_selector_faults,
    node_selector_term_faults,
    toleration_faults,
)
from jobyard.server.resource import Object

_NAMESERVERS_MAX, _SEARCHES_MAX, _SEARCH_CHARACTERS_MAX = 3, 32, 2048


def pod_faults(pod: Object, faults: Faults) -> None:
    spec = pod["spec"]
    volumes = volumes_faults(spec.get("volumes", []), faults, "spec.volumes")
    containers_faults(spec, volumes, faults, "spec.containers")
    init_containers_faults(spec, volumes, faults, "spec.initContainers")
    if spec.get("hostNetwork"):
        _host_port_faults(spec, faults)
    labels_faults(spec.get("nodeSelector", {}), faults, "spec.nodeSelector")
    _security_faults(spec, faults)
    _affinity_faults(spec.get("affinity", {}), faults)
    _dns_faults(spec, faults)
    for n, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate["conditionType"]
        faults.invalid(f"spec.readinessGates[{n}].conditionType", kind, *label_key(kind))
    _gate_faults(spec.get("schedulingGates", []), faults)
    _spread_faults(spec.get("topologySpreadConstraints", []), faults)
    _name_faults(spec, faults)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        faults.invalid("spec.activeDeadlineSeconds", deadline, *within(deadline, 1, ID_MAX))
    for n, toleration in enumerate(spec.get("tolerations", ())):
        toleration_faults(toleration, faults, f"spec.tolerations[{n}]")
    for n, alias in enumerate(spec.get("hostAliases", ())):
        path = f"spec.hostAliases[{n}]"
        address_faults(alias["ip"], faults, f"{path}.ip")
        for index, name in enumerate(alias.get("hostnames", ())):
            faults.invalid(f"{path}.hostnames[{index}]", name, *dns_subdomain(name))
    for field in ("containers", "initContainers"):
        for n, container in enumerate(spec.get(field) or ()):
            image = container.get("image", "")
            if image != image.strip():
                text = "must not have leading or trailing whitespace"
                faults.invalid(f"spec.{field}[{n}].image", image, text)


def _name_faults(spec: dict[str, Any], faults: Faults) -> None:
    for field, rule in (
        ("serviceAccountName", dns_subdomain),
        ("nodeName", dns_subdomain),
        ("hostname", dns_label),
        ("subdomain", dns_label),
        ("priorityClassName", dns_subdomain),
    ):
        value = spec.get(field)
        if value:
            faults.invalid(f"spec.{field}", value, *rule(value))
    runtime = spec.get("runtimeClassName")
    if runtime is not None:
        faults.invalid("spec.runtimeClassName", runtime, *dns_subdomain(runtime))


def _host_port_faults(spec: dict[str, Any], faults: Faults) -> None:
    for n, container in enumerate(spec.get("containers") or ()):
        for index, port in enumerate(container.get("ports", ())):
            if port.get("hostPort", 0) != port["containerPort"]:
                path = f"spec.containers[{n}].ports[{index}].hostPort"
                text = "must match `containerPort` when `hostNetwork` is true"
                faults.invalid(path, port.get("hostPort", 0), text)


def _security_faults(spec: dict[str, Any], faults: Faults) -> None:
    context, path = spec.get("securityContext", {}), "spec.securityContext"
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(field)
        if value is not None:
            faults.invalid(f"{path}.{field}", value, *user_id(value))
    for n, group in enumerate(context.get("supplementalGroups", ())):
        faults.invalid(f"{path}.supplementalGroups[{n}]", group, *user_id(group))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        faults.invalid(f"{path}.shareProcessNamespace", True, text)


def _affinity_faults(affinity: dict[str, Any], faults: Faults) -> None:
    node, path = affinity.get("nodeAffinity", {}), "spec.affinity.nodeAffinity"
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        terms = required.get("nodeSelectorTerms") or []
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not terms:
            faults.required(where, "must have at least one node selector term")
        for n, term in enumerate(terms):
            node_selector_term_faults(term, faults, f"{where}[{n}]")
    for n, term in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution", ())):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{n}]"
        _weight_faults(term, faults, where)
        node_selector_term_faults(term.get("preference", {}), faults, f"{where}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        _pod_affinity_faults(affinity.get(kind, {}), faults, f"spec.affinity.{kind}")


def _weight_faults(term: dict[str, Any], faults: Faults, path: str) -> None:
    if not 1 <= term["weight"] <= 100:
        faults.invalid(f"{path}.weight", term["weight"], "must be in the range 1-100")


def _pod_affinity_faults(affinity: dict[str, Any], faults: Faults, path: str) -> None:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    for n, term in enumerate(required):
        where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution[{n}]"
        _pod_affinity_term_faults(term, faults, where)
    for n, weighted in enumerate(preferred):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{n}]"
        _weight_faults(weighted, faults, where)
        _pod_affinity_term_faults(weighted["podAffinityTerm"], faults, f"{where}.podAffinityTerm")


def _pod_affinity_term_faults(term: dict[str, Any], faults: Faults, path: str) -> None:
    for field in ("labelSelector", "namespaceSelector"):
        if field in term:
            label_selector_faults(term[field], faults, f"{path}.{field}")
    for name in term.get("namespaces", ()):
        faults.invalid(f"{path}.namespace", name, *dns_label(name))
    if not term["topologyKey"]:
        faults.required(f"{path}.topologyKey", "can not be empty")
    faults.invalid(f"{path}.topologyKey", term["topologyKey"], *label_key(term["topologyKey"]))


def _dns_faults(spec: dict[str, Any], faults: Faults) -> None:
    config, path = spec.get("dnsConfig"), "spec.dnsConfig"
    if spec["dnsPolicy"] == "None":
        if config is None:
            faults.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            faults.required(f"{path}.nameservers", text)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers", []), config.get("searches", [])
    if len(servers) > _NAMESERVERS_MAX:
        text = f"must not have more than {_NAMESERVERS_MAX} nameservers"
        faults.invalid(f"{path}.nameservers", servers, text)
    for n, server in enumerate(servers):
        address_faults(server, faults, f"{path}.nameservers[{n}]")
    if len(searches) > _SEARCHES_MAX:
        text = f"must not have more than {_SEARCHES_MAX} search paths"
        faults.invalid(f"{path}.searches", searches, text)
    if len(" ".join(searches)) > _SEARCH_CHARACTERS_MAX:
        text = (
            f"must not have more than {_SEARCH_CHARACTERS_MAX} characters (including spaces) in"
            " the search list"
        )
        faults.invalid(f"{path}.searches", searches, text)
    for n, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            faults.required(f"{path}.options[{n}]", "must not be empty")


def _gate_faults(gates: list[dict[str, Any]], faults: Faults) -> None:
    seen: set[str] = set()
    for n, gate in enumerate(gates):
        path = f"spec.schedulingGates[{n}]"
        faults.invalid(path, gate["name"], *label_key(gate["name"]))
        if gate["name"] in seen:
            faults.duplicate(path, gate["name"])
        seen.add(gate["name"])


def _spread_faults(constraints: list[dict[str, Any]], faults: Faults) -> None:
    for n, constraint in enumerate(constraints):
        path = f"spec.topologySpreadConstraints[{n}]"
        if constraint["maxSkew"] <= 0:
            faults.invalid(f"{path}.maxSkew", constraint["maxSkew"], "must be greater than zero")
        if not constraint["topologyKey"]:
            faults.required(f"{path}.topologyKey", "can not be empty")
        if not constraint["whenUnsatisfiable"]:
            faults.not_supported(
                f"{path}.whenUnsatisfiable", "", ("DoNotSchedule", "ScheduleAnyway")
            )
        if "labelSelector" in constraint:
            label_selector_faults(constraint["labelSelector"], faults, f"{path}.labelSelector")
