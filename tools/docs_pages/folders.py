"""The folders of a package as a tree, each with the first line of what it says of itself.

For ARCHITECTURE.md: a folder that moves, comes or changes its purpose changes the page.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def folder_tree(package: Path) -> str:
    """One line a folder, indented by depth: its name, how many modules it holds, what it is."""
    rows = [*_rows(package, 0)]
    width = max(len(name) for name, _, _ in rows)
    return "".join(f"{name:<{width}} {count:>3}  {line}\n" for name, count, line in rows)


def _rows(folder: Path, depth: int) -> Iterator[tuple[str, int, str]]:
    modules = [file for file in folder.glob("*.py") if not file.name.startswith("__")]
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    yield "  " * depth + folder.name + "/", len(modules), said.split("\n")[0]
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").is_file():
            yield from _rows(inner, depth + 1)
