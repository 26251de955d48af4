"""The variables that lead programs to the engine's proxy, where pods have no other way out.

What a container says itself counts for both spellings. What the machine's own environment says
does not: its proxy can't be reached from a sandbox, and the engine uses it in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jobyard.node.network.names import CLUSTER_DOMAIN
from jobyard.node.objects.surroundings import Found

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
# As many names as a variable of bearable length holds; the proxy itself knows all of them.
NAMES_MAX: Final = 1000


def with_way_out(
    base: Mapping[str, str], own: Mapping[str, str], namespace: str, found: Found
) -> dict[str, str]:
    """The machine's variables, with those of the proxy in place of its own ones."""
    if not found.proxy:
        return dict(base)
    names = (*_LOCAL, found.network, "svc", CLUSTER_DOMAIN, namespace, *found.names[:NAMES_MAX])
    told = {
        "http_proxy": found.proxy,
        "https_proxy": found.proxy,
        "no_proxy": ",".join(dict.fromkeys(name for name in names if name)),
    }
    out = {name: value for name, value in base.items() if name.lower() not in told}
    for name, value in told.items():
        if name not in own and name.upper() not in own:
            out |= {name: value, name.upper(): value}
    return out
