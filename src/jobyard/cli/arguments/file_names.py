"""The names of files on the command line, which a shell can complete."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


class FileName(click.ParamType[str]):
    """A file, a folder, or - ; whether it is there is told when it is read."""

    name = "file"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        # The shell knows the files.
        return [CompletionItem(incomplete, type="file")]
