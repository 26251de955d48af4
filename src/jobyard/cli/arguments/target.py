"""Which API server a command speaks to.

The embedded engine, unless a cluster is named on the command line or by JOBYARD_CONTEXT: a
KUBECONFIG that happens to be exported never sends a job to somebody's cluster by surprise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from jobyard.cli.output.left_runs import tell_of_left_runs
from jobyard.client.credentials.cluster import Cluster
from jobyard.client.credentials.kubeconfig import cluster_from
from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import ClientError
from jobyard.engine.homes import alive, home_of

CONTEXT_VARIABLE: Final = "JOBYARD_CONTEXT"
DEFAULT_NAMESPACE: Final = "default"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
F = TypeVar("F", bound=Callable[..., Any])


class NoEngineError(click.ClickException):
    """Nothing to speak to."""

    def __init__(self) -> None:
        super().__init__(
            "no engine is running: start one with `jobyard up`, run a job with `jobyard run FILE`,"
            " or name a cluster with --context or --kubeconfig"
        )


class Target(msgspec.Struct, frozen=True):
    """What was said about where; `namespace` is empty where nothing was said."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str = ""

    @property
    def names_cluster(self) -> bool:
        return self.kubeconfig is not None or self.context is not None

    def cluster(self) -> Cluster:
        """The cluster that was named, or the embedded engine that is running."""
        try:
            if self.names_cluster:
                return cluster_of(self.kubeconfig, self.context)
            tell_of_left_runs()
            folder = alive(home_of(os.environ))
            if folder is None:
                raise NoEngineError
            return cluster_from((folder.kubeconfig,), None)
        except ClientError as problem:
            raise click.ClickException(str(problem)) from problem

    def namespace_of(self, cluster: Cluster) -> str:
        return self.namespace or cluster.namespace or DEFAULT_NAMESPACE


def target_options(command: F) -> F:
    """The options that say where, as one argument `target`."""

    @wraps(command)
    def wrapped(
        *args: Any, kubeconfig: Path | None, context: str | None, namespace: str, **given: Any
    ) -> Any:
        named = context or os.environ.get(CONTEXT_VARIABLE) or None
        return command(*args, target=Target(kubeconfig, named, namespace), **given)

    chosen: Any = click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        callback=_checked_namespace,
        help="The namespace; absent: default.",
    )(wrapped)
    chosen = click.option(
        "--context",
        metavar="NAME",
        help=f"A cluster, by its context in the kubeconfig; also ${CONTEXT_VARIABLE}.",
    )(chosen)
    result: F = click.option(
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A cluster, by its kubeconfig; absent: the embedded engine.",
    )(chosen)
    return result


def _checked_namespace(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if name and not _NAMESPACE.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} can't be a namespace: lower-case letters, digits and - are allowed,"
            " at most 63 of them"
        )
    return name
