"""The kind that a person named on the command line."""

from __future__ import annotations

import click

from jobyard.api.kinds import KINDS, Kind, kind_named
from jobyard.schema.finding import enumerated
from jobyard.schema.wording import suggestion


def kind_or_error(word: str) -> Kind:
    kind = kind_named(word)
    if kind is None:
        names = [kind.name for kind in KINDS]
        raise click.UsageError(
            f"there is no kind {word}{suggestion(word, names)}; the kinds are"
            f" {enumerated(names, 'and')}"
        )
    return kind
