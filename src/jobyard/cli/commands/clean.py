"""`jobyard clean`: less of what Jobyard keeps on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from jobyard.cli.arguments.options import data_dir_option, output_option
from jobyard.cli.output.saying import say, say_json
from jobyard.engine.disk.cleaning import Cleaning
from jobyard.engine.disk.keeping import CleaningError, Item, Wanted
from jobyard.engine.homes import DataFolder, HomeError, home_of, standing
from jobyard.node.agent.disk_use import Use

# Whoever removes gigabytes can wait a moment longer for their sizes than `status` lets them.
MEASURE_SECONDS: Final = 5.0


@click.command("clean")
@click.option(
    "--run", "runs", multiple=True, metavar="NAME",
    help="This run, by its name or its job's; one that still runs is stopped.",
)  # fmt: skip
@click.option("--runs", "all_runs", is_flag=True, help="All runs that have ended.")
@click.option(
    "--claim", "claims", multiple=True, metavar="[NAMESPACE/]NAME",
    help="The contents of this claim.",
)  # fmt: skip
@click.option(
    "--claims", "all_claims", is_flag=True,
    help="The contents of all claims that no engine and no run uses any more.",
)  # fmt: skip
@data_dir_option
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask.")
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data_dir: Path | None,
    dry_run: bool,
    yes: bool,
    output: str,
    **asked: Any,
) -> None:
    """Remove what is no longer needed: shows it with its size, and asks first.

    By default: the logs of replicas' earlier attempts, what finished pods have left behind,
    and runs that never had a job. Runs that `jobyard attach` can still show are removed
    with --runs or --run, and what claims hold only with --claim or --claims: checkpoints
    are there. Nothing that runs is touched.
    """
    home = home_of(os.environ)
    engine = DataFolder(data_dir.absolute()) if data_dir else standing(home)
    cleaning = Cleaning(home, engine, MEASURE_SECONDS, is_home=data_dir is None)
    try:
        items = cleaning.items(Wanted(**asked))
        going = [item for item in items if not item.stays]
        refused = [
            f"{item.what} {item.name} can't be removed: {item.stays}"
            for item in items
            if item.stays and item.is_named
        ]
        if output == "text":
            _show(items, going)
        if refused:
            # What was asked for by its name goes, or nothing does.
            raise click.ClickException("\n".join(refused))
        is_removed = bool(going) and not dry_run and _is_wanted(going, yes=yes, output=output)
        problems = {item: cleaning.remove(item) for item in going} if is_removed else {}
    except (CleaningError, HomeError) as problem:
        raise click.ClickException(str(problem)) from problem
    _tell(items, problems, output, is_removed=is_removed)
    ctx.exit(1 if any(problems.values()) else 0)


def _is_wanted(going: Sequence[Item], *, yes: bool, output: str) -> bool:
    if yes:
        return True
    is_somebody_there = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    if output == "json" or not is_somebody_there:
        raise click.ClickException(
            "nothing was removed, since nobody can be asked: --yes removes it, --dry-run only shows"
        )
    say(f"Remove {_sum(going)}? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(items: Sequence[Item], going: Sequence[Item]) -> None:
    if not going:
        say("there is nothing to remove")
    for item in going:
        say("  ".join(_cells(item)))
    for item in (item for item in items if item.stays):
        advice = f" ({item.remedy} removes it)" if item.remedy else ""
        say(f"stays: {'  '.join(_cells(item))}: {item.stays}{advice}", err=True)


def _cells(item: Item) -> list[str]:
    cells = [f"{item.what} {item.name}", str(item.use)]
    return [*cells, item.about] if item.about else cells


def _sum(items: Sequence[Item]) -> Use:
    return sum((item.use for item in items), Use())


def _tell(
    items: Sequence[Item], problems: dict[Item, str], output: str, *, is_removed: bool
) -> None:
    gone = [item for item in items if item in problems and not problems[item]]
    if output == "json":
        say_json(
            {
                "items": [_as_json(item, problems) for item in items],
                "removedBytes": _sum(gone).bytes,
            },
            indent=2,
        )
        return
    for item, problem in problems.items():
        if problem:
            say(f"{item.what} {item.name}: {problem}", err=True)
    if is_removed:
        say(f"removed {_sum(gone)}")
    elif any(not item.stays for item in items):
        say(f"{_sum([item for item in items if not item.stays])} can be removed")


def _as_json(item: Item, problems: dict[Item, str]) -> dict[str, Any]:
    return {
        "kind": str(item.what),
        "name": item.name,
        "folder": str(item.folder),
        "bytes": item.use.bytes,
        "isWhole": item.use.is_whole,
        "about": item.about,
        "stays": problems.get(item) or item.stays,
        "isRemoved": item in problems and not problems[item],
    }
