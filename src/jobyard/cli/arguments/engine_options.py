"""What `up` and `run` both let one say about the engine that they start."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any, Final, TypeVar

import click

from jobyard.api.parts.quantity import Quantity, QuantityError
from jobyard.node.agent.disk_use import DISK_BYTES_DEFAULT
from jobyard.node.shared.order import LOG_BYTES_DEFAULT
from jobyard.node.shared.private_network import DEFAULT_NETWORK, network_of

__all__ = ["DEFAULT_NETWORK", "DISK_BYTES_DEFAULT", "LOG_BYTES_DEFAULT", "engine_options"]

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_BYTES_MIN: Final = 64 * 1024
_BYTES_MAX: Final = 2**40
_AMOUNT_MAX: Final = 2**60
_RESOURCE: Final = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_WHOLE: Final = ("pods", "nvidia.com/gpu")


def _bytes(text: str) -> int:
    try:
        amount = Quantity.of(text).amount
    except QuantityError as problem:
        raise click.BadParameter(str(problem)) from None
    if not _BYTES_MIN <= amount <= _BYTES_MAX:
        raise click.BadParameter(f"{text}: must be from 64Ki to 1Ti")
    return math.trunc(amount)


def _network(text: str) -> IPv4Network:
    try:
        return network_of(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


def _capacity(text: str) -> dict[str, str]:
    """`cpu=300,memory=1Ti` as amounts by resource."""
    out: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, amount = part.partition("=")
        if not equals or not _RESOURCE.fullmatch(name) or name in out:
            raise click.BadParameter(
                f"{part!r}: must be RESOURCE=AMOUNT, each resource once, such as"
                f" cpu=300,memory=1Ti,nvidia.com/gpu=8"
            )
        try:
            value = Quantity.of(amount).amount
        except QuantityError as problem:
            raise click.BadParameter(f"{name}: {problem}") from None
        if value < 0 or value > _AMOUNT_MAX:
            raise click.BadParameter(f"{name}={amount}: must be from 0 to 1Ei")
        if name in _WHOLE and value != value.to_integral_value():
            raise click.BadParameter(f"{name}={amount}: must be a whole number")
        out[name] = amount
    return out


def engine_options(command: Decorated) -> Decorated:
    """What is said of the engine, as `log_size`, `disk_budget` (bytes), `network`, `capacity`
    (quantities by resource) and `no_preemption`.
    """
    runtime = click.option(
        "--runtime", type=click.Choice(["auto", "sandbox", "host"]), default="auto",
        show_default=True,
        help="How replicas run: in namespaces of their own, or as plain processes.",
    )  # fmt: skip
    size = click.option(
        "--log-size", metavar="SIZE", default=f"{LOG_BYTES_DEFAULT >> 20}Mi", show_default=True,
        callback=lambda _c, _p, value: _bytes(value),
        help="How much of a container's log is kept; the oldest lines are dropped first.",
    )  # fmt: skip
    budget = click.option(
        "--disk-budget", metavar="SIZE", default=f"{DISK_BYTES_DEFAULT >> 30}Gi",
        show_default=True, callback=lambda _c, _p, value: _bytes(value),
        help="How much the logs of finished replicas may take up in all; the oldest go first.",
    )  # fmt: skip
    network = click.option(
        "--network", metavar="CIDR", default=str(DEFAULT_NETWORK), show_default=True,
        callback=lambda _c, _p, value: _network(value),
        help="The private network of sandboxes; outside addresses in it can't be reached.",
    )  # fmt: skip
    capacity = click.option(
        "--capacity", metavar="RESOURCE=AMOUNT,...", default="",
        callback=lambda _c, _p, value: _capacity(value),
        help="The machine's capacity, such as cpu=300,memory=1Ti,nvidia.com/gpu=8; what isn't named"
        " is measured.",
    )  # fmt: skip
    preemption = click.option(
        "--no-preemption", is_flag=True,
        help="Queues of higher priority wait for room instead of taking it from lower ones.",
    )  # fmt: skip
    return runtime(size(budget(network(capacity(preemption(command))))))
