"""`jobyard`: the table of commands.

Starting must stay fast, so a command's module, and all it needs, is imported only when
that command is called or asks for its help.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import Any, Final

import click

from jobyard import __version__
from jobyard.cli.surroundings import open_streams, wrong_with

# Python looks for cycles of garbage after every 700 new objects, which takes a tenth of a start.
# There are next to no such cycles here.
GARBAGE_THRESHOLDS: Final = (50_000, 20, 20)

# Command, the module of `cli/commands` that holds it, and its line in `jobyard --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "run": (
        "run",
        "Run the jobs in files, show their logs, wait for their end.",
    ),
    "attach": (
        "attach",
        "Show a detached run, or any job, until it ends.",
    ),
    "up": (
        "up",
        "Start the engine on this machine, for kubectl and jobyard alike.",
    ),
    "down": ("down", "Stop the engine and everything it runs."),
    "status": ("status", "Show which engines are running."),
    "clean": (
        "clean",
        "Remove what is no longer needed, and claims on request.",
    ),
    "logs": ("logs", "Show the logs of all replicas of a job, merged."),
    "exec": ("exec", "Run a command in a replica."),
    "shell": ("shell", "Open a shell in a replica."),
    "get": ("get", "Show jobs, or the objects they are made of."),
    "describe": (
        "describe",
        "Show the state of a job: conditions, replicas, events.",
    ),
    "why": ("why", "Say why a job isn't running, or isn't finished."),
    "queues": ("queues", "Show queues: quota, use, and who waits."),
    "queue": ("queue", "Open or close a queue."),
    "events": ("events", "Show what happened to a job and its pods."),
    "apply": ("apply", "Create or change the objects in files."),
    "delete": ("delete", "Delete jobs or other objects."),
    "wait": ("wait", "Wait until a job has ended, or is in a phase."),
    "pause": (
        "modes:pause",
        "Remove the replicas of a job until it is resumed.",
    ),
    "resume": ("modes:resume", "Start the replicas of a paused job again."),
    "scale": ("modes:scale", "Change how many replicas an elastic job has."),
    "debug": ("modes:debug", "Deploy a job without starting its program."),
    "validate": (
        "validate",
        "Check manifests without a cluster: all errors at once, with lines.",
    ),
    "render": ("render", "Show the objects a manifest's jobs are made of."),
    "explain": ("explain", "Describe a kind, or a field of it."),
    "crds": ("crds", "Print the CRDs, to pipe into kubectl apply."),
    "controller": ("controller", "Run jobs on a cluster: the controller."),
    "doctor": (
        "doctor",
        "Show what this machine can do, and how to get the rest.",
    ),
    "completion": (
        "completion",
        "Print a completion script for bash, zsh or fish.",
    ),
    "install": (
        "install",
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
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(
            import_module(f"jobyard.cli.commands.{module}"), attribute or "command"
        )
        if "logging" in sys.modules:
            # Imported here: it is slow to import, and what needs it has done so by now.
            from jobyard.cli.output.log_words import guard_log

            guard_log()
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
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    open_streams()
    try:
        code: Any = cli.main(args=args, prog_name="jobyard", standalone_mode=False)
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.Abort:
        # Imported here, as all that a command without mistakes doesn't need.
        from jobyard.cli.output.saying import say

        say("interrupted", err=True)
        code = 130
    except click.ClickException as problem:
        from jobyard.cli.output.saying import say_problem

        say_problem(problem)
        code = 2
    except Exception as problem:
        from jobyard.cli.output.lost_output import LOST, is_lost_output
        from jobyard.cli.output.saying import say, say_traceback
        from jobyard.engine.homes import HomeError
        from jobyard.engine.problem import EngineError

        if is_lost_output(problem):
            sys.exit(LOST)
        told = wrong_with(problem)
        if told or isinstance(problem, EngineError | HomeError):
            say(f"Error: {told or problem}", err=True)
            sys.exit(2)
        if "--debug" in (args if args is not None else sys.argv):
            say_traceback(problem)
            sys.exit(1)
        say(f"jobyard: {type(problem).__name__}: {problem}", err=True)
        say("This is a fault of jobyard; --debug shows where.", err=True)
        code = 70
    sys.exit(code)
