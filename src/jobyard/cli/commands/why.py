"""`jobyard why`: why a job isn't running, or isn't finished, and what would help."""

from __future__ import annotations

import shlex
import time

import click
import msgspec

from jobyard.cli.arguments.job_names import complete_jobs
from jobyard.cli.arguments.options import output_option
from jobyard.cli.arguments.target import Target, target_options
from jobyard.cli.asking import ask, found
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette
from jobyard.cli.output.terminal_size import columns_of_output
from jobyard.cli.output.why_page import why_page
from jobyard.client.sender import Sender
from jobyard.jobs.explaining.answer import Answer
from jobyard.jobs.explaining.looking import look
from jobyard.jobs.explaining.why import why


@click.command("why")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_jobs)
@output_option("json: the answer as an object, a list of them for several jobs.")
@target_options
def command(jobs: tuple[str, ...], output: str, target: Target) -> None:
    """Say why JOB isn't running, or isn't finished, and what would help.

    First the cause, with numbers; then what would help; then the replicas, like ones
    grouped, and what happened last. A JOB is NAME, or KIND/NAME where several kinds have
    the name. For example:

    jobyard why train

    Exit code 0: there is an answer, whatever it is; 2: there is no such job, or no answer.
    """

    async def talk(sender: Sender, namespace: str) -> list[Answer]:
        answers = []
        for name in jobs:
            job = await found(sender, namespace, name)
            seen = await look(
                sender,
                job.kind,
                job.value,
                time.time(),
                options=_options(target),
                is_embedded=not target.names_cluster,
            )
            answers.append(why(seen))
        return answers

    answers = ask(target, talk)
    if output == "json":
        values = [msgspec.to_builtins(answer) for answer in answers]
        say_json(values[0] if len(values) == 1 else values, indent=2)
        return
    palette, columns = Palette(), columns_of_output()
    for n, answer in enumerate(answers):
        for line in (*([""] if n else ()), *why_page(answer, palette, columns, time.time())):
            say(line)


def _options(target: Target) -> str:
    """What another command needs to mean the same place; JOBYARD_CONTEXT stays as it is."""
    pairs = (
        ("-n", target.namespace),
        ("--kubeconfig", str(target.kubeconfig or "")),
        ("--context", target.context or ""),
    )
    return " ".join(f"{option} {shlex.quote(value)}" for option, value in pairs if value)
