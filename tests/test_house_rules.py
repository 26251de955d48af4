"""The house rules as tests: style, types, layers, and tidiness."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
EVERY_PYTHON_FILE = sorted(
    path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")
)

MODULE_LINES_MAX = 350
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 7
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}


def output_of(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check"), id="style"),
        pytest.param(("ruff", "format", "--check"), id="format"),
        pytest.param(("mypy",), id="strict types"),
        pytest.param(("lint-imports", "--no-cache"), id="layers"),
    ],
)
def test_the_tool_is_content_with(command: tuple[str, ...]) -> None:
    code, output = output_of(str(BIN / command[0]), *command[1:])
    assert code == 0, output


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def untidy(path: Path) -> Iterator[str]:
    """What a reader of a module would stumble over."""
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.count("\n")
    if lines > MODULE_LINES_MAX:
        yield f"{lines} lines; more than one idea? (at most {MODULE_LINES_MAX})"
    if path.stem in VAGUE_NAMES:
        yield f"the name {path.stem} says nothing about what is in it"
    if not ast.get_docstring(tree):
        yield "no docstring that says what it decides and who calls it"
    for function in functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield f"{function.name} has {length} lines (at most {FUNCTION_LINES_MAX})"
        count = len(function.args.args) + len(function.args.kwonlyargs)
        if count > PARAMETERS_MAX:
            yield f"{function.name} has {count} parameters (at most {PARAMETERS_MAX})"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_is_tidy(path: Path) -> None:
    assert not list(untidy(path))


def test_the_tidy_test_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "utils.py"
    body = "    x = 1\n" * (FUNCTION_LINES_MAX + 1)
    bad.write_text(f"def long(a, b, c, d, e, f, g, h):\n{body}" + "\n" * MODULE_LINES_MAX)
    assert len(list(untidy(bad))) == 5


def test_nothing_waits_by_sleeping() -> None:
    sleeping = re.compile(r"\b(time|asyncio)\.sleep\(")
    found = [
        f"{path.relative_to(ROOT)}:{n}"
        for path in EVERY_PYTHON_FILE
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if sleeping.search(line) and path != Path(__file__)
    ]
    assert not found, "await a condition with a deadline instead"
