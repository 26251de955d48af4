"""The house rules as tests: style, types, layers, and tidiness."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig.manifests import EXAMPLES, documents
from rig.places import ROOT, TESTS

from jobyard.plan.lowering.table import JOB_KINDS
from project.sleeping import sleeps

BIN = Path(sys.executable).parent
MODULES = sorted((ROOT / "src").rglob("*.py"))
EVERY_PYTHON_FILE = sorted(
    path for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")
)

MODULE_LINES_MAX = 350
FUNCTION_LINES_MAX = 60
PARAMETERS_MAX = 7
# Where a list is what one looks for: one module a command.
FOLDER_MODULES_MAX = {"commands": 40, "conformance": 24}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "handler"}


def output_of(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
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


def test_programs_in_examples_are_held_to_the_same_style(tmp_path: Path) -> None:
    """They are read more often than any other; types and docstrings are left out to be short."""
    programs = 0
    for example in EXAMPLES:
        for document in documents(example):
            value = document.value
            if not isinstance(value, dict) or value.get("kind") != "ConfigMap":
                continue
            for name, text in value["data"].items():
                if name.endswith(".py"):
                    place = tmp_path / example.parent.name / example.stem / name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(text)
                    programs += 1
    assert programs > 30
    config = ("--config", str(ROOT / "pyproject.toml"))
    rules = ("--select", "E,F,W,I,UP,C4,SIM,RET")
    ruff = str(BIN / "ruff")
    for command in (("check", *rules, *config), ("format", "--check", *config)):
        code, output = output_of(ruff, *command, str(tmp_path))
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


def crowded(package: Path) -> Iterator[str]:
    """Folders in which nobody finds anything: too many modules side by side."""
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        count = sum(not path.name.startswith("__") for path in folder.glob("*.py"))
        if count > FOLDER_MODULES_MAX.get(folder.name, 22):
            yield f"{folder.relative_to(package)} has {count} modules: which belong together?"


@pytest.mark.parametrize("package", [ROOT / "src" / "jobyard", TESTS], ids=["src", "tests"])
def test_no_folder_is_crowded(package: Path) -> None:
    assert not list(crowded(package))


# What has no counterpart in `src`: what tests use, and what they try as a whole.
OF_TESTS_ALONE = {
    "conformance",
    "frameworks",
    "project",
    "real_cluster",
    "rig",
    "simulation",
    "their_files",
}


def astray(tests: Path, package: Path) -> Iterator[str]:
    """Tests that nobody finds by what they test."""
    for path in sorted(tests.glob("test_*.py")):
        yield f"{path.name} isn't in the folder of what it tests"
    for folder in sorted({path.parent for path in tests.glob("*/test_*.py")}):
        if folder.name not in OF_TESTS_ALONE and not (package / folder.name).is_dir():
            yield f"{folder.name}/ is no folder of {package.name}"


def test_tests_are_where_what_they_test_is() -> None:
    assert not list(astray(TESTS, ROOT / "src" / "jobyard"))


def test_the_test_of_tests_that_are_astray_can_fail(tmp_path: Path) -> None:
    for name in ("test_here.py", "plan/test_plan.py", "nowhere/test_nothing.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert len(list(astray(tmp_path, ROOT / "src" / "jobyard"))) == 2


def test_the_test_of_crowded_folders_can_fail(tmp_path: Path) -> None:
    for n in range(23):
        (tmp_path / f"module_{n}.py").write_text("")
    assert len(list(crowded(tmp_path))) == 1


def test_the_tidy_test_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "utils.py"
    body = "    x = 1\n" * (FUNCTION_LINES_MAX + 1)
    bad.write_text(f"def long(a, b, c, d, e, f, g, h):\n{body}" + "\n" * MODULE_LINES_MAX)
    assert len(list(untidy(bad))) == 5


# The tables that have a row for each kind, or for those that differ.
TABLES_OF_KINDS = {
    "api/kinds.py",
    "cli/arguments/needs.py",
    "plan/lowering/table.py",
    "plan/table.py",
}
# Whatever has one of these words in its path is a kind's own, or a family's.
KIND_PLACES = ("api", "plan.lowering.kinds")
FAMILIES = ("jobyard.plan.taskset", "jobyard.plan.lowering.beam")
OWN_WORDS = ("taskset", "beam", "flink", "spark", "ssh")
# Where a kind is named beside them, and why; whoever needs it no more has to go from here.
NAMED_KINDS = {
    "node/ordering/plain_network.py": "replicas of a TaskSet have names that only its spec tells",
    "plan/lowering/variables.py": "the variables are GenericJob's alone",
    "plan/lowering/names.py": "Octopus' own label is called as its kind",
}


def named_kinds(path: str, text: str) -> Iterator[str]:
    """Kinds by name where all kinds should be alike: as a text, or as an import of their types."""
    words = {kind.name for kind in JOB_KINDS}
    words |= {word for kind in JOB_KINDS for word in (kind.singular, kind.plural)}
    modules = {f"jobyard.{place}.{word.lower()}" for word in words for place in KIND_PLACES}
    modules |= {"jobyard.api.parts.taskset_status", "jobyard.plan.reporting.beam_status"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and node.value in words:
            yield f"{path}:{node.lineno}: {node.value!r}"
        elif isinstance(node, ast.ImportFrom) and is_of_kind(str(node.module), modules):
            yield f"{path}:{node.lineno}: imports {node.module}"


def is_of_kind(module: str, modules: set[str]) -> bool:
    return module in modules or module.startswith(
        ("jobyard.plan.taskset", "jobyard.plan.lowering.beam")
    )


def core_modules() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        name = path.relative_to(ROOT / "src" / "jobyard").as_posix()
        is_own = any(word in name for word in OWN_WORDS)
        is_own = is_own or any(kind.singular in name for kind in JOB_KINDS)
        if name not in TABLES_OF_KINDS and not is_own:
            yield name, path.read_text()


def test_no_kind_is_named_outside_of_its_own_files_and_the_tables() -> None:
    found = [
        each
        for name, text in core_modules()
        if name not in NAMED_KINDS
        for each in named_kinds(name, text)
    ]
    assert not found, "let a row of a table, or the description, say what differs"


def test_kinds_are_named_where_that_is_excused() -> None:
    texts = dict(core_modules())
    assert not [name for name in NAMED_KINDS if not list(named_kinds(name, texts[name]))]


@pytest.mark.parametrize(
    "text",
    [
        'if kind == "TaskSet":\n    pass',
        'SERVING = ("MPIJob",)',
        "from jobyard.api.beamjob import BeamPhase",
        "from jobyard.plan.taskset.decide import decide_taskset",
    ],
)
def test_the_test_of_named_kinds_can_fail(text: str) -> None:
    assert list(named_kinds("core.py", text))


def unsearchable_reasons(text: str) -> Iterator[int]:
    """Lines with an event whose reason is a text: one that is searched for has a name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            reasons = [*node.args[:1], *(w.value for w in node.keywords if w.arg == "reason")]
            is_event = node.func.id == "Event"
            if is_event and any(isinstance(each, ast.Constant) for each in reasons):
                yield node.lineno


def test_reasons_of_events_can_be_searched_for() -> None:
    assert not [f"{p}:{n}" for p in MODULES for n in unsearchable_reasons(p.read_text())]


def test_the_test_of_reasons_can_fail() -> None:
    assert list(unsearchable_reasons('Event("Started", "The job has started.")')) == [1]


# Where looking again is a thing of its own, with a name.
WAITING_PLACES = {
    "src/jobyard/client/backoff.py",
    "src/jobyard/node/shared/polling.py",
    "tests/rig/waiting.py",
}


def test_nothing_waits_by_sleeping() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in EVERY_PYTHON_FILE
        if str(path.relative_to(ROOT)) not in WAITING_PLACES
        for line in sleeps(path.read_text())
    ]
    assert not found, "await a condition with a deadline instead"


def test_no_shell_of_ours_keeps_a_core_busy() -> None:
    spinning = re.compile(r"\bdo\s+(:|true)\s*;?\s*done\b")
    assert not [path for path in MODULES if spinning.search(path.read_text())]


@pytest.mark.parametrize(
    "text",
    [
        "time.sleep(1)",
        "await asyncio.sleep(0.1)",
        "from time import sleep",
        "select.select([], [], [], 0.1)",
        "threading.Event().wait(0.1)",
        "await asyncio.wait_for(asyncio.Event().wait(), 1)",
        "await asyncio.wait({asyncio.ensure_future(asyncio.Event().wait())}, timeout=1)",
        "async with asyncio.timeout(1):\n        await asyncio.Event().wait()",
        "full, pause = 0, threading.Event()\n    pause.wait(0.1)",
        "pause = asyncio.Event()\n    await asyncio.wait_for(pause.wait(), 0.1)",
        "pause = asyncio.Event()\n    loop.call_later(0.1, pause.set)\n    await pause.wait()",
    ],
)
def test_the_sleep_test_can_fail(text: str) -> None:
    assert sleeps(f"async def work():\n    {text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "await asyncio.sleep(0)",
        "await asyncio.Event().wait()",
        "select.select([ready], [], [], 3)",
        "gone = asyncio.Event()\n    watch(gone.set)\n    await asyncio.wait_for(gone.wait(), 1)",
        "process.wait(10)",
        "loop.call_later(1, self.expire, name)",
        "loop.call_later(1, self.changed.set)",
        "moment = asyncio.Event()\n    await asyncio.wait_for(moment.wait(), dice.random())",
    ],
)
def test_waiting_for_something_is_no_sleep(text: str) -> None:
    assert not sleeps(f"async def work():\n    {text}\n")
