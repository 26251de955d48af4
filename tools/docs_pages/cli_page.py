"""`docs/reference/cli.md`, from what click knows of each command."""

from __future__ import annotations

from collections.abc import Iterator

import click

from docs_pages.markdown import code, page, table, text_block
from jobyard.cli.main import COMMANDS, cli

_EXIT_CODES = (
    ("0", "all is right; warnings may have been told"),
    (
        "1",
        "`validate` and `render`: a manifest has errors; `validate --strict`: it has warnings",
    ),
    ("2", "a file can't be read, or the command line is wrong"),
    ("70", "a fault of jobyard itself; `jobyard --debug …` shows where"),
    ("130", "interrupted"),
)


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it, the program itself first."""
    yield "jobyard", cli
    for name in COMMANDS:
        command = cli.get_command(_program(), name)
        assert command is not None
        yield f"jobyard {name}", command
        if isinstance(command, click.Group):
            for word, part in command.commands.items():
                yield f"jobyard {name} {word}", part


def _program() -> click.Context:
    return click.Context(cli, info_name="jobyard", **cli.context_settings)


def cli_page() -> str:
    listed = [
        (f"[{code(words)}](#{words.replace(' ', '-')})", COMMANDS[words.split()[1]][1])
        for words, command in commands()
        if command is not cli and len(words.split()) == 2
    ]
    return page(
        "# The command line",
        "One program, `jobyard`. All its commands but `jobyard controller` work offline: they"
        " need no cluster, and talk to none.",
        table(("command", "what it does"), listed),
        *(part for words, command in commands() for part in _command(words, command)),
        "## Exit codes",
        table(("code", "meaning"), [(code(number), text) for number, text in _EXIT_CODES]),
        "Findings and manifests go to standard output. Summaries, notes and messages about"
        " what went wrong go to standard error.",
        "## Completion",
        "click, which the command line is built with, brings completion for three shells:",
        "```sh\n"
        'eval "$(_JOBYARD_COMPLETE=bash_source jobyard)"    # in ~/.bashrc\n'
        'eval "$(_JOBYARD_COMPLETE=zsh_source jobyard)"     # in ~/.zshrc\n'
        "_JOBYARD_COMPLETE=fish_source jobyard | source     # in config.fish\n"
        "```",
    )


def _command(words: str, command: click.Command) -> Iterator[str]:
    context = _program()
    for word in words.split()[1:]:
        context = click.Context(command, info_name=word, parent=context)
    params = command.get_params(context)
    yield f"## {words}"
    yield text_block(command.get_usage(context).removeprefix("Usage: "))
    yield from _paragraphs(command.help or "")
    arguments = [param for param in params if isinstance(param, click.Argument)]
    if arguments:
        yield table(("argument", "", ""), map(_argument, arguments))
    options = [param for param in params if isinstance(param, click.Option)]
    yield table(("option", "default", "meaning"), [_option(each, context) for each in options])


def _paragraphs(text: str) -> Iterator[str]:
    """The help text; a paragraph that is itself a command is set as one."""
    for paragraph in text.strip().split("\n\n"):
        joined = " ".join(paragraph.split())
        yield f"```sh\n{joined}\n```" if joined.startswith("jobyard ") else joined


def _argument(argument: click.Argument) -> tuple[str, str, str]:
    name = (argument.metavar or argument.name or "").removesuffix("...")
    if name.startswith("["):
        name = name[1:].removesuffix("]")
    return (
        code(name),
        "required" if argument.required else "optional",
        "may be repeated" if argument.nargs == -1 else "",
    )


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    record = option.get_help_record(context)
    assert record is not None, f"{option.name} is hidden"
    names, text = record
    has_default = isinstance(option.default, str)
    return code(names), code(str(option.default)) if has_default else "", text
