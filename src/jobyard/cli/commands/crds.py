"""`jobyard crds`: the CRDs of all kinds, or of some."""

from __future__ import annotations

import click

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS, Kind
from jobyard.cli.arguments.kind_names import kind_or_error
from jobyard.cli.output.printing import print_objects


@click.command("crds")
@click.argument("kinds", nargs=-1, metavar="[KIND]...")
@click.option(
    "-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", help="Output format."
)
def command(kinds: tuple[str, ...], output: str) -> None:
    """Print the CRDs of all kinds, or of those named.

    jobyard crds | kubectl apply -f -
    """
    chosen: tuple[Kind, ...] = tuple(map(kind_or_error, kinds)) or KINDS
    print_objects([crd(kind) for kind in chosen], output)
