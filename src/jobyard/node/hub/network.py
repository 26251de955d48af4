"""The private network: a bridge in the hub's namespace, a cable to each pod's.

Nothing of it is visible to the machine, and all of it goes away with the last process that is in
it. It decides names and settings of interfaces. Its own address, the gateway, is given to it as
ADDRESS/PREFIX; those of pods come from the order.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import Final

from jobyard.node.hub.netlink import Netlink
from jobyard.node.hub.outside import NO_WAY, chosen
from jobyard.node.isolation import kernel, nftables
from jobyard.node.shared.order import PodOrder
from jobyard.numerals import whole_number

BRIDGE: Final = "jobyard0"
# Locally administered; the rest is ours to choose.
_BRIDGE_HARDWARE: Final = bytes((0x02, 0x4A, 0x59, 0, 0, 1))
_SETTINGS: Final = {
    # An ordinary user's sshd listens on 22.
    "ip_unprivileged_port_start": "0",
    "ping_group_range": "0 0",
}


def settle() -> None:
    """Loopback and what programs expect of a network, in the namespace of this process."""
    link = Netlink()
    link.set_up(socket.if_nametoindex("lo"))
    link.close()
    for name, value in _SETTINGS.items():
        # In some containers /proc/sys is read-only; then low ports need a capability.
        with contextlib.suppress(OSError):
            Path("/proc/sys/net/ipv4", name).write_text(value)


def lay_out(gateway: str, *, is_mapped: bool) -> None:
    """A new namespace for this process, with the bridge in it."""
    kernel.unshare(kernel.CLONE_NEWNET)
    settle()
    link = Netlink()
    link.add_bridge(BRIDGE, _BRIDGE_HARDWARE)
    bridge = socket.if_nametoindex(BRIDGE)
    _add_gateway(link, bridge, gateway)
    link.close()
    if chosen(is_mapped=is_mapped)[0] != NO_WAY:
        # A kernel without it leaves pods without a way, and they still reach one another.
        with contextlib.suppress(OSError):
            _lead_out(bridge)


def _add_gateway(link: Netlink, bridge: int, gateway: str) -> None:
    address, _, prefix_length = gateway.partition("/")
    link.add_address(bridge, address, whole_number(prefix_length) or 0)


def extend(gateway: str) -> None:
    """On a network from before: pods that come may have other addresses than those that are."""
    link = Netlink()
    try:
        _add_gateway(link, socket.if_nametoindex(BRIDGE), gateway)
    except FileExistsError:
        return
    finally:
        link.close()
    # From one to the other by way of the hub.
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _lead_out(bridge: int) -> None:
    """What leaves the bridge gets the hub's address, so that pods reach what the hub reaches."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    rule = nftables.leaves_by_another(bridge) + nftables.masquerade()
    nftables.install(nftables.Chain("out", nftables.POSTROUTING, nftables.SOURCE_PRIORITY, (rule,)))


def join(order: PodOrder) -> None:
    """From the hub's namespace into a new one of the pod, with its address on the bridge."""
    bridge = socket.if_nametoindex(BRIDGE)
    # Made here, it goes on speaking for the hub's namespace after this process has left it.
    hub_link = Netlink()
    kernel.unshare(kernel.CLONE_NEWNET)
    settle()
    if order.address:
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        hub_link.add_pair(f"v{order.uid.replace('-', '')[:13]}", bridge, "eth0", here)
        os.close(here)
        link = Netlink()
        index = socket.if_nametoindex("eth0")
        link.add_address(index, order.address, order.prefix_length)
        link.set_up(index)
        if order.gateway:
            link.add_default_route(index, order.gateway)
        link.close()
    hub_link.close()
