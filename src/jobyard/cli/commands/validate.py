"""`jobyard validate`: everything that is wrong with manifests, without a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from jobyard.cli.arguments.file_names import FileName
from jobyard.cli.arguments.sources import read_sources, read_what_can_be
from jobyard.cli.output.left_out import skipped
from jobyard.cli.output.saying import say, say_json
from jobyard.cli.output.style import Palette
from jobyard.manifest.checking import Checked, checked
from jobyard.manifest.reading import Document
from jobyard.schema.finding import Finding, Severity, dotted, is_error
from jobyard.terminal.sequences import in_a_row

_PALETTE = Palette()
_QUOTED = re.compile(r'write ("[^"\']*")$')


@click.command("validate")
@click.argument("files", nargs=-1, required=True, type=FileName(), metavar="FILE...")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--update-of",
    type=FileName(),
    metavar="FILE",
    help="Check as an update of the objects in this file, which may have a status.",
)
@click.option(
    "-o", "--output", type=click.Choice(("text", "json")), default="text", help="Output format."
)
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], strict: bool, update_of: str | None, output: str
) -> None:
    """Check manifests without a cluster.

    Prints every error at once as `file:line: path: what is wrong; what would be right`.
    The verdict is the one the API server would give. FILE may be a folder, or - for
    standard input.

    Exit code 0: no errors, 1: there are errors, 2: a file can't be read.
    """
    documents, unreadable = read_what_can_be(files)
    before = {_key(document): document.value for document in _old(update_of)}
    results = [checked(document, before.get(_key(document))) for document in documents]
    if output == "json":
        say_json([_as_json(result) for result in results], indent=2)
    else:
        for line in (finding_line(result, f) for result in results for f in by_line(result)):
            say(line)
    told = [*unreadable, *_unmatched(results, before)]
    if output == "text" and results:
        told += _summary(results, strict=strict)
    for line in told:
        say(line, err=True)
    failing = any(result.has_errors or (strict and result.findings) for result in results)
    ctx.exit(2 if unreadable else 1 if failing else 0)


def _old(source: str | None) -> list[Document]:
    return read_sources((source,)) if source is not None else []


def _key(document: Document) -> tuple[str, ...]:
    """What tells one object of a file from the others."""
    value = document.value if isinstance(document.value, dict) else {}
    metadata = value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    fields = (value.get("apiVersion"), value.get("kind"))
    return tuple(map(str, (*fields, named.get("namespace") or "default", named.get("name", ""))))


def _unmatched(results: list[Checked], before: Mapping[tuple[str, ...], object]) -> list[str]:
    """A note for each object that --update-of has nothing to compare with."""
    if not before:
        return []
    return [
        f"{result.document.source}: {result.title}: not in the file of --update-of, checked as new"
        for result in results
        if result.kind and _key(result.document) not in before
    ]


def by_line(result: Checked) -> list[Finding]:
    return sorted(result.findings, key=lambda f: result.document.line_of(f.path))


def finding_line(result: Checked, finding: Finding) -> str:
    """`file:line: path: text`; a warning says that it is one.

    What was set on the command line stands in no line: `--set: path: text`.
    """
    document = result.document
    is_assigned = document.is_assigned(finding.path)
    line = document.line_of(finding.path)
    where = _PALETTE.bold("--set:" if is_assigned else f"{document.source}:{line}:")
    path = dotted(finding.path) if finding.path else result.title or "document"
    if is_error(finding):
        quoted = _QUOTED.search(finding.text) if is_assigned else None
        # A shell takes the quotes for its own.
        hint = f", as in --set '{dotted(finding.path)}={quoted[1]}'" if quoted else ""
        return in_a_row(f"{where} {_PALETTE.fault(f'{path}:')} {finding.text}{hint}")
    return in_a_row(f"{where} {_PALETTE.warning('warning:')} {path}: {finding.text}")


def _summary(results: list[Checked], *, strict: bool) -> list[str]:
    ours = [result for result in results if result.kind is not None or result.findings]
    others = [result for result in results if result not in ours]
    errors = sum(1 for r in ours for f in r.findings if is_error(f))
    warnings = sum(1 for r in ours for f in r.findings if f.severity is Severity.WARNING)
    lines = skipped(others)
    if not ours:
        return [*lines, "nothing to check"]
    told = [_count(len(ours), "object")]
    told += [_count(errors, "error")] if errors else []
    told += [_count(warnings, "warning")] if warnings else []
    told += ["which --strict takes for errors"] if warnings and strict else []
    fails = errors or (strict and warnings)
    mark = _PALETTE.failure("✗") if fails else _PALETTE.success("✓")
    return [*lines, f"{mark} {', '.join(told)}" + ("" if errors or warnings else ", all valid")]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _as_json(result: Checked) -> dict[str, object]:
    return {
        "file": result.document.source,
        "document": result.document.index,
        "kind": result.kind.name if result.kind else None,
        "object": result.title,
        "findings": [
            {
                "severity": str(finding.severity),
                "line": result.document.line_of(finding.path),
                "path": dotted(finding.path) if finding.path else "",
                "text": finding.text,
            }
            for finding in by_line(result)
        ],
    }
