"""Write what the docs and CRD files take from the code, or check that it is current.

    python tools/make_docs.py            write what has changed
    python tools/make_docs.py --check    exit 1 and name what is out of date

Made here: `docs/reference/`, `crds/`, `src/jobyard/engine/crds.json`,
the pictures of terminals in `docs/images/`, and in all other
Markdown files the blocks below comments like `output of: jobyard explain`. The texts around
them are written by people. `tests/project/test_docs.py` runs the check.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from docs_pages import run_picture
from docs_pages.cli_page import cli_page
from docs_pages.kind_pages import crd_file, examples_by_kind, index_page, kind_page
from docs_pages.outputs import BadMarkError, output, refreshed
from docs_pages.picture import picture
from docs_pages.runs import BadRunError

from jobyard.api.crd import crd
from jobyard.api.kinds import KINDS
from jobyard.cli.output.printing import as_yaml
from jobyard.engine.kube_batch import POD_GROUP_CRD
from jobyard.engine.own_crds import packed
from jobyard.server.crds.definitions import crd_strategy

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python tools/make_docs.py"
# Folders that hold nothing but what is made here.
OWN_FOLDERS = ("docs/reference", "crds")

_PICTURED = ("jobyard validate three-faults.yaml", "jobyard explain ptj.spec.elastic")


def wanted() -> dict[str, str]:
    """Every generated file, as a path below the root, with the text it should have."""
    return {
        **dict(reference_files()),
        **crd_files(),
        **packed_crds(),
        "docs/images/validate.svg": _picture(),
        run_picture.PLACE: run_picture.run_picture(ROOT),
        **dict(_refreshed_files()),
    }


def reference_files() -> Iterator[tuple[str, str]]:
    examples = examples_by_kind(ROOT / "examples")
    yield "docs/reference/README.md", index_page()
    yield "docs/reference/cli.md", cli_page()
    for kind in KINDS:
        yield f"docs/reference/{kind.singular}.md", kind_page(kind, examples[kind.name])


def crd_files() -> dict[str, str]:
    first_line = f"# Generated from the types in src/jobyard/api by: {COMMAND}\n"
    return {f"crds/{crd_file(kind)}": first_line + as_yaml(crd(kind)) for kind in KINDS}


def packed_crds() -> dict[str, str]:
    """What the embedded engine starts with: the CRDs as they are after admission."""
    strategy = crd_strategy()
    crds = [*(crd(kind) for kind in KINDS), POD_GROUP_CRD]
    admitted = [strategy.created(each).value for each in crds]
    return {"src/jobyard/engine/crds.json": packed(admitted).decode() + "\n"}


def markdown_files() -> list[Path]:
    """The Markdown files of the project that people write."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    own = [ROOT / folder for folder in OWN_FOLDERS]
    return sorted(file for file in found if file.parent not in own)


def _refreshed_files() -> Iterator[tuple[str, str]]:
    for file in markdown_files():
        name = file.relative_to(ROOT).as_posix()
        try:
            yield name, refreshed(file.read_text(), ROOT)
        except (BadMarkError, BadRunError, OSError) as problem:
            raise BadMarkError(f"{name}: {problem}") from None


def _picture() -> str:
    samples = ROOT / "docs" / "samples"
    runs = [(command, output(command, samples, color=True)) for command in _PICTURED]
    return picture("jobyard validate and jobyard explain in a terminal", runs)


def differences(files: dict[str, str]) -> tuple[list[str], list[str]]:
    """The files that are missing or other than wanted, and those nobody makes any more."""
    stale = [
        name
        for name, text in files.items()
        if not (ROOT / name).is_file() or (ROOT / name).read_text() != text
    ]
    there = [
        file.relative_to(ROOT).as_posix()
        for folder in OWN_FOLDERS
        for file in sorted((ROOT / folder).glob("*"))
    ]
    return stale, [name for name in there if name not in files]


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, tell what would be")
    arguments = parser.parse_args(words)
    try:
        files = wanted()
    except BadMarkError as problem:
        print(problem, file=sys.stderr)
        return 2
    stale, extra = differences(files)
    if arguments.check:
        for name in stale:
            print(f"{name} is out of date", file=sys.stderr)
        for name in extra:
            print(f"{name} is not made any more", file=sys.stderr)
        if stale or extra:
            print(f"run: {COMMAND}", file=sys.stderr)
        return 1 if stale or extra else 0
    for name in stale:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(files[name])
        print(f"wrote {name}")
    for name in extra:
        (ROOT / name).unlink()
        print(f"removed {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
