"""What `up` and `run` both let one say about the engine that they start."""

from __future__ import annotations

import math
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


def engine_options(command: Decorated) -> Decorated:
    """--log-size, --disk-budget and --network, as `log_size`, `disk_budget` (bytes), `network`."""
    size = click.option(
        "--log-size", metavar="SIZE", default=f"{LOG_BYTES_DEFAULT >> 20}Mi", show_default=True,
        callback=lambda _c, _p, value: _bytes(value),
        help="How much of a container's log is kept; of a longer one the beginning goes.",
    )  # fmt: skip
    budget = click.option(
        "--disk-budget", metavar="SIZE", default=f"{DISK_BYTES_DEFAULT >> 30}Gi",
        show_default=True, callback=lambda _c, _p, value: _bytes(value),
        help="How much the logs of replicas that are over may be together; the oldest go first.",
    )  # fmt: skip
    network = click.option(
        "--network", metavar="CIDR", default=str(DEFAULT_NETWORK), show_default=True,
        callback=lambda _c, _p, value: _network(value),
        help="The private network of sandboxes; what has such an address outside is out of reach.",
    )  # fmt: skip
    return size(budget(network(command)))
