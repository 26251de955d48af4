"""`jobyard shell`: a shell in a replica that runs, in the user's terminal."""

from __future__ import annotations

import os
from typing import Final

import click

from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.commands.exec import run_inside
from jobyard.cli.output import terminal
from jobyard.client.websockets import Execution

# The replica's own choice first; an image need not have more than sh.
_SCRIPT: Final = (
    'if [ -x "$SHELL" ]; then exec "$SHELL"; fi;'
    " if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
)


@click.command("shell")
@click.argument("job")
@click.argument("replica")
@click.option("-c", "--container", default="", metavar="NAME", help="In this container.")
@target_options
def command(job: str, replica: str, container: str, target: Target) -> None:
    """Open a shell in a replica of JOB.

    REPLICA is a name such as worker-0, or the name of a pod. The shell is the replica's
    $SHELL, else bash, else sh. The exit code is the shell's.
    """
    wanted = Execution(
        namespace="",
        pod=replica,
        command=(*_terminal_kind(), "sh", "-c", _SCRIPT),
        container=container,
        stdin=True,
        tty=terminal.is_terminal(),
    )
    raise click.exceptions.Exit(run_inside(target, job, wanted))


def _terminal_kind() -> tuple[str, ...]:
    """Programs in the replica should know what the user's terminal understands."""
    kind = os.environ.get("TERM", "")
    return ("env", f"TERM={kind}") if kind and terminal.is_terminal() else ()
