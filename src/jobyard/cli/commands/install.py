"""`jobyard install`: everything a cluster needs, to pipe into kubectl."""

from __future__ import annotations

from collections.abc import Callable

import click

from jobyard.cli.output.printing import print_objects
from jobyard.install.bundle import bundle
from jobyard.install.settings import (
    DEFAULT_IMAGE,
    DEFAULT_NAMESPACE,
    GangScheduler,
    Settings,
    image_fault,
    namespace_fault,
)


def _checked(
    fault: Callable[[str], str | None],
) -> Callable[[click.Context, click.Parameter, str], str]:
    def check(_context: click.Context, _param: click.Parameter, value: str) -> str:
        found = fault(value)
        if found is not None:
            raise click.BadParameter(f"{value!r} {found}")
        return value

    return check


@click.command("install")
@click.option(
    "-n",
    "--namespace",
    default=DEFAULT_NAMESPACE,
    callback=_checked(namespace_fault),
    help="The controller's own namespace; pods below pod-security 'restricted' are refused there.",
)
@click.option(
    "--image",
    default=DEFAULT_IMAGE,
    callback=_checked(image_fault),
    help="The controller's image, built from the Dockerfile.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many controllers there are; one works, the others stand by.",
)
@click.option(
    "--gang-scheduler",
    type=click.Choice(tuple(map(str, GangScheduler))),
    default=str(GangScheduler.T9K),
    help="Who starts gangs: the T9k Scheduler, or nobody on a cluster without it.",
)
@click.option("--without-crds", is_flag=True, help="Leave out the CRDs.")
@click.option(
    "-o", "--output", type=click.Choice(("yaml", "json")), default="yaml", help="Output format."
)
def command(
    namespace: str, image: str, replicas: int, gang_scheduler: str, without_crds: bool, output: str
) -> None:
    """Print all that a cluster needs to run jobs: CRDs, permissions and the controller.

    jobyard install | kubectl apply -f -

    The same command again, of this version or a later one, upgrades what is there. In another
    namespace than jobyard-system, the names of the ClusterRole and its binding end in
    -NAMESPACE.
    """
    settings = Settings(
        namespace=namespace,
        image=image,
        replicas=replicas,
        gang_scheduler=GangScheduler(gang_scheduler),
        crds=not without_crds,
    )
    print_objects(list(bundle(settings)), output)
