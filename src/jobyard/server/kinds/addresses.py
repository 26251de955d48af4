"""IP addresses in objects: whether a text is one, and of which family."""

from __future__ import annotations

import ipaddress

from jobyard.server.kinds.faults import Faults

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def family_of(text: str) -> str:
    return "IPv6" if ":" in text else "IPv4"


def address_faults(text: str, faults: Faults, path: str) -> bool:
    """Whether there was none."""
    if parsed_address(text) is not None:
        return True
    faults.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    return False


def endpoint_address_faults(text: str, faults: Faults, path: str) -> None:
    """An address that something else can be reached at."""
    address = parsed_address(text)
    if address is None:
        faults.invalid(path, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        faults.invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        faults.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local and not address.is_multicast:
        faults.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address.is_multicast and (str(address).startswith("224.0.0.") or address.version == 6):
        where = "(224.0.0.0/24, ff02::/10)"
        faults.invalid(path, text, f"may not be in the link-local multicast range {where}")
