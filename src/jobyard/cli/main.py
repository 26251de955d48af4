"""`jobyard`: the table of commands.

Starting must stay fast, so a command's module, and all it needs, is imported only when
that command is called or asks for its help.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from jobyard import __version__

# Command, the module that holds it, and its line in `jobyard --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "validate": (
        "jobyard.cli.validate",
        "Check manifests without a cluster: all errors at once, with lines.",
    ),
    "render": ("jobyard.cli.render", "Show the objects a manifest's jobs are made of."),
    "explain": ("jobyard.cli.explain", "Describe a kind, or a field of it."),
    "crds": ("jobyard.cli.crds", "Print the CRDs, to pipe into kubectl apply."),
    "controller": ("jobyard.cli.controller", "Run jobs on a cluster: the controller."),
    "install": (
        "jobyard.cli.install",
        "Print all that a cluster needs, to pipe into kubectl apply.",
    ),
}


class LazyCommands(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        command: click.Command = import_module(module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            # Imported here: only a mistake needs it.
            from jobyard.schema.wording import suggestion

            raise click.UsageError(
                problem.message + suggestion(args[0], COMMANDS), problem.ctx
            ) from None


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="jobyard %(version)s")
@click.option("--debug", is_flag=True, help="Show a traceback when something goes wrong.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Distributed training and batch jobs from one YAML file, on one machine or on Kubernetes."""
    ctx.obj = {"debug": debug}


def main(args: list[str] | None = None) -> None:
    """Runs the command line; what goes wrong is told in a line or two, not as a traceback."""
    try:
        code: Any = cli.main(args=args, prog_name="jobyard", standalone_mode=False)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = 130
    except click.ClickException as problem:
        problem.show()
        code = 2
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        code = 0
    except Exception as problem:
        if "--debug" in (args if args is not None else sys.argv):
            raise
        click.echo(f"jobyard: {type(problem).__name__}: {problem}", err=True)
        click.echo("This is a fault of jobyard; --debug shows where.", err=True)
        code = 70
    sys.exit(code)
