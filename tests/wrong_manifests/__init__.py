"""Wrong manifests of every kind, one fault each, and what has to be said about it."""

from wrong_manifests import (
    genericjob,
)
from wrong_manifests.wrong import Table

TABLES: tuple[Table, ...] = (
    *genericjob.TABLES,
)
