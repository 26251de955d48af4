"""Kubernetes' own kinds that the server serves, one small module per kind or family."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobyard.server.kinds.surroundings import Surroundings
    from jobyard.server.resource import ServedResource


def builtin_resources(surroundings: Surroundings | None = None) -> tuple[ServedResource, ...]:
    """The whole table. `surroundings` answers what a strategy must ask, see there."""
    # Here and not above: the strategies use one another's modules of this package.
    from jobyard.server.built_in_kinds import rows

    return rows(surroundings)
