"""Probes and hooks with their ports resolved."""

from __future__ import annotations

from collections.abc import Mapping

from jobyard.node.objects.pod_object import Action, Container, ProbeSpec
from jobyard.node.ordering.expansion import Room, expanded
from jobyard.node.ordering.problems import NeverError
from jobyard.node.shared.order import Check, HttpGet, Probe, Probes
from jobyard.numerals import port_number


def probes_of(container: Container, values: Mapping[str, str]) -> Probes:
    """Those the container has; commands are expanded, unlike those of hooks, as in Kubernetes."""
    return Probes(
        startup=_probe(container, container.startup_probe, values),
        liveness=_probe(container, container.liveness_probe, values),
        readiness=_probe(container, container.readiness_probe, values),
    )


def hook_of(container: Container, action: Action | None) -> Check | None:
    """What postStart or preStop does."""
    if action is None:
        return None
    if action.sleep is not None:
        return Check(argv=("sleep", str(action.sleep.seconds)))
    return _check(container, action)


def _probe(container: Container, spec: ProbeSpec | None, values: Mapping[str, str]) -> Probe | None:
    if spec is None:
        return None
    if spec.grpc is not None:
        # Without a gRPC client of our own: that something listens has to do.
        check: Check | None = Check(tcp_port=spec.grpc.port)
    else:
        check = _check(container, spec)
    if check is None:
        return None
    if check.argv:
        room, what = Room("the command of a probe"), "a word of a probe's command"
        words = (room.take(expanded(word, values, what), what) for word in check.argv)
        check = Check(argv=tuple(words))
    return Probe(
        check=check,
        initial_delay_seconds=spec.initial_delay_seconds,
        period_seconds=max(1, spec.period_seconds),
        timeout_seconds=max(1, spec.timeout_seconds),
        success_threshold=max(1, spec.success_threshold),
        failure_threshold=max(1, spec.failure_threshold),
        grace_seconds=spec.termination_grace_period_seconds,
    )


def _check(container: Container, action: Action) -> Check | None:
    if action.exec is not None and action.exec.command:
        return Check(argv=action.exec.command)
    if action.http_get is not None:
        get = action.http_get
        path = get.path if get.path.startswith("/") else f"/{get.path}"
        return Check(
            http=HttpGet(
                port=_port(container, get.port),
                path=path,
                host=get.host,
                scheme=get.scheme.upper(),
                headers=tuple((header.name, header.value) for header in get.http_headers),
            )
        )
    if action.tcp_socket is not None:
        return Check(tcp_port=_port(container, action.tcp_socket.port))
    return None


def _port(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    number = port_number(port)
    if number is not None:
        return number
    for known in container.ports:
        if known.name == port:
            return known.container_port
    names = ", ".join(sorted(known.name for known in container.ports if known.name)) or "none"
    raise NeverError(
        f"port {port!r} of a probe or hook: the container has no port of this name"
        f" (it has {names})",
        container=container.name,
    )
