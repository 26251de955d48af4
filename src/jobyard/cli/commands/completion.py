"""`jobyard completion`: a script that lets a shell complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from jobyard.cli.output.saying import say

_WHERE = {
    "bash": 'eval "$(jobyard completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(jobyard completion zsh)"   # in ~/.zshrc',
    "fish": "jobyard completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(
    "completion",
    epilog="To have it in every shell:  " + ";  ".join(_WHERE.values()),
)
@click.argument("shell", type=click.Choice(list(_WHERE)))
def command(shell: str) -> None:
    """Print the completion script of SHELL."""
    # Imported here: `main` imports this module when the command is called.
    from jobyard.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, f"click knows {shell}"
    say(found(cli, {}, "jobyard", "_JOBYARD_COMPLETE").source())
