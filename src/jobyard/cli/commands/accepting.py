"""What `run` and `apply` take from a user's files, told as `validate` tells it.

Faults end the command before anything is sent. Warnings go to standard error: a field that
nobody knows is left out, and whoever wrote it has to hear of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from jobyard.api.kinds import kind_of
from jobyard.cli.arguments.sources import expect_names
from jobyard.cli.output.left_out import skipped
from jobyard.cli.output.saying import say
from jobyard.manifest.checking import Checked, checked
from jobyard.manifest.reading import Document
from jobyard.plan.lowering.table import JOB_KINDS, described
from jobyard.plan.reporting.advice import advice
from jobyard.schema.finding import dotted, enumerated
from jobyard.schema.wording import suggestion

BAD_INPUT: Final = 2
# Of kinds that aren't ours so many are named.
_NAMED_MAX: Final = 5


def accepted(
    documents: Iterable[Document], *, takes_all: bool = False, remedy: str = ""
) -> list[Checked]:
    """The documents with what is known of them; ends the command if one has faults.

    What only the platform has is left out with a note, which names the `remedy`.
    """
    found = [checked(document) for document in documents]
    left_out = [] if takes_all else [each for each in found if each.is_platforms]
    results = [each for each in found if takes_all or not each.is_platforms]
    for note in skipped(left_out, remedy):
        say(note, err=True)
    # Of kinds that aren't ours nothing else is known here.
    expect_names(result.document for result in results if result.kind is None)
    if any(result.findings for result in results):
        # Imported here: a file that nothing can be said against needs none of it.
        from jobyard.cli.commands.validate import by_line, finding_line

        for result in results:
            for finding in by_line(result):
                say(finding_line(result, finding), err=True)
    if any(result.has_errors for result in results):
        raise click.exceptions.Exit(BAD_INPUT)
    return results


def no_job(results: Sequence[Checked]) -> str:
    """That there is nothing to run, and what there is instead."""
    if not results:
        return (
            "there is no job of Jobyard in these files; `jobyard explain` lists the kinds it runs"
        )
    found = list(
        dict.fromkeys(
            f"{each.value.get('kind')} ({each.value.get('apiVersion')})" for each in results
        )
    )
    named = enumerated(found[:_NAMED_MAX], "and") + (" …" if len(found) > _NAMED_MAX else "")
    kinds = [kind.name for kind in JOB_KINDS]
    close = next(filter(None, (suggestion(str(r.value.get("kind")), kinds) for r in results)), "")
    return (
        f"there is no job of Jobyard in these files, but {named}{close};"
        " `jobyard explain` lists the kinds it runs, and `jobyard apply` takes others"
    )


def told_by_controllers(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Events in which a controller says once more what has been said of the files."""
    for obj in objects:
        kind = kind_of(str(obj.get("apiVersion")), str(obj.get("kind")))
        description = described(kind, obj) if kind is not None else None
        for finding in advice(description) if description is not None else ():
            yield f"{dotted(finding.path)}: {finding.text}"


def as_written(result: Checked) -> dict[str, Any]:
    """What the file says, without what a server doesn't know, and in its spelling.

    Defaults stay out: whoever applies a field owns it, and nobody wrote these.
    """
    written: dict[str, Any] = result.document.value
    return _known(written, result.value) if result.kind is not None else written


def _known(written: Any, stored: Any) -> Any:
    if isinstance(written, dict) and isinstance(stored, dict):
        return {key: _known(written[key], stored[key]) for key in written if key in stored}
    if isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        return [_known(*pair) for pair in zip(written, stored, strict=True)]
    return stored
