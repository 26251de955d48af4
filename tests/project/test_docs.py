"""The docs are current, complete and true: made from the code, or compared with it."""

from __future__ import annotations

import os
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import make_docs
import pytest
from api.own_fields import own_fields
from click.testing import CliRunner
from docs_pages import cli_page, run_picture
from docs_pages.outputs import BadMarkError, output, refreshed
from docs_pages.picture import COLUMNS, Span, spans, wrapped
from docs_pages.runs import digest, out_of_date
from docs_pages.tables import requirements
from rig.kube.kubectl import Kubectl
from rig.manifests import ROOT

from jobyard.api.crd import schema_node
from jobyard.api.kinds import KINDS, Kind, kind_of
from jobyard.api.parts.run_mode import Mode
from jobyard.cli.main import COMMANDS, cli
from jobyard.manifest.checking import checked
from jobyard.manifest.reading import read
from jobyard.plan.lowering.table import JOB_KINDS
from project.markdown_files import MARKDOWN, anchors, blocks, broken_links

# Only this test has a cluster, so it is also what writes the blocks that kubectl made.
WRITE_VARIABLE = "JOBYARD_WRITE_DOCS"
WRITES = bool(os.environ.get(WRITE_VARIABLE))
REFERENCE = ROOT / "docs" / "reference"
SAMPLES = ROOT / "docs" / "samples"
SVG = "{http://www.w3.org/2000/svg}"
DOCS = [file for file in MARKDOWN if file.is_relative_to(ROOT / "docs")]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
every_file = pytest.mark.parametrize(
    "file", MARKDOWN, ids=lambda file: file.relative_to(ROOT).as_posix()
)


def page_of(kind: Kind) -> str:
    return (REFERENCE / f"{kind.singular}.md").read_text()


def test_what_is_generated_is_current() -> None:
    wanted = make_docs.wanted()
    stale, extra = make_docs.differences(wanted)
    for name in stale:
        there = (ROOT / name).read_text() if (ROOT / name).exists() else ""
        assert there.splitlines() == wanted[name].splitlines(), f"run: {make_docs.COMMAND}"
    assert not stale, f"run: {make_docs.COMMAND}"
    assert not extra, f"run: {make_docs.COMMAND}"


def test_the_same_comes_out_twice() -> None:
    assert make_docs.wanted() == make_docs.wanted()


def test_check_names_what_is_stale_and_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)
    monkeypatch.setattr(make_docs, "wanted", lambda: {"crds/new.yaml": "wanted\n"})
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "old.yaml").write_text("old\n")
    assert make_docs.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "crds/new.yaml is out of date" in told
    assert "crds/old.yaml is not made any more" in told
    assert "run: python tools/make_docs.py" in told
    assert make_docs.main([]) == 0
    assert [file.name for file in (tmp_path / "crds").iterdir()] == ["new.yaml"]
    assert make_docs.main(["--check"]) == 0


@every_kind
def test_a_page_tells_what_the_table_of_kinds_knows(kind: Kind) -> None:
    page = page_of(kind)
    assert page.startswith(f"# {kind.name}\n\n{kind.summary}\n")
    for fact in (kind.api_version, kind.plural, *kind.short_names, *kind.aliases):
        assert f"`{fact}`" in page
    for column in kind.columns:
        assert f"| {column.name} | `{column.path}` |" in page
    assert ("`kubectl scale" in page) == (kind.scale is not None)
    for mode in Mode:
        assert (f"| {mode} | yes |" in page) == (mode in kind.modes)
    assert f"[{kind.name}]({kind.singular}.md)" in (REFERENCE / "README.md").read_text()


@every_kind
def test_a_page_links_to_an_example(kind: Kind) -> None:
    assert "(../../examples/" in page_of(kind)


@every_kind
def test_a_page_has_exactly_the_fields_of_the_kind(kind: Kind) -> None:
    told = []
    section = ""
    for line in page_of(kind).splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        elif section.startswith(("spec", "status")) and (row := re.match(r"\| `(\S+)` \|", line)):
            told.append(f"{section}.{row[1]}")
    known = [field.path for field in own_fields(kind.type)]
    assert sorted(told) == sorted(path for path in known if "." in path)
    beside = {path for path in known if "." not in path} - {"spec", "status"}
    listed = page_of(kind).partition("\n### Beside spec and status\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\S+)` \|", listed, re.MULTILINE)) == beside


@every_kind
def test_a_page_has_every_rule(kind: Kind) -> None:
    page = page_of(kind)
    for found in requirements(schema_node(kind)):
        assert found.text.replace("|", "\\|") in page
        assert f"| `{found.path}` |" in page or not found.path


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_commands_has_every_option(name: str) -> None:
    page = (REFERENCE / "cli.md").read_text()
    section = page.partition(f"\n## jobyard {name}\n")[2].partition("\n## ")[0]
    (command,) = [c for words, c in cli_page.commands() if words == f"jobyard {name}"]
    for param in command.params:
        for word in param.opts if param.param_type_name == "option" else [param.metavar or ""]:
            assert word in section
    assert "--help" in section
    assert COMMANDS[name][1] in page


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("validate hello.yaml", 0),
        ("validate doubtful.yaml", 0),
        ("validate --strict doubtful.yaml", 1),
        ("validate three-faults.yaml", 1),
        ("render three-faults.yaml", 1),
        ("validate broken.yaml", 2),
        ("validate", 2),
        ("explain nothing", 2),
    ],
)
def test_exit_codes_are_as_told(command: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    assert CliRunner().invoke(cli, command.split()).exit_code == code
    assert f"| `{code}` |" in (REFERENCE / "cli.md").read_text()


@every_file
def test_every_link_leads_somewhere(file: Path) -> None:
    assert not list(broken_links(file))


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One, two\n\n# One two\n\n```\n# not a heading\n```\n")
    assert anchors((tmp_path / "b.md").read_text()) == {"one-two", "one-two-1"}
    page = tmp_path / "a.md"
    page.write_text(
        "[a](b.md#one-two-1) [`b`](b.md) [c](https://x.y/z) `[d](no)`\n[e](c.md) ![f](b.md#three)"
    )
    assert len(list(broken_links(page))) == 2


@every_file
def test_every_manifest_in_a_block_is_valid(file: Path) -> None:
    for block in blocks(file):
        if block.language not in ("yaml", "yml"):
            continue
        for document in read(block.text, file.name):
            value = document.value if isinstance(document.value, dict) else {}
            if kind_of(str(value.get("apiVersion")), str(value.get("kind"))):
                assert checked(document).findings == ()


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_no_block_shows_a_command_that_is_not_there(file: Path) -> None:
    shown = [
        word
        for block in blocks(file)
        for word in re.findall(r"^(?:\$ )?jobyard ([a-z]\S*)", block.text, re.MULTILINE)
    ]
    assert set(shown) <= set(COMMANDS)


@pytest.mark.long
def test_what_kubectl_prints_in_the_docs_is_what_a_real_one_prints(
    kubectl: Kubectl, crds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)

    def printed(arguments: list[str]) -> str:
        done = kubectl(*arguments, check=False)
        lines = (done.stdout + done.stderr).splitlines()
        # The API server lists several faults in any order.
        faults = iter(sorted(line for line in lines if line.startswith("* ")))
        return "".join((next(faults) if line.startswith("* ") else line) + "\n" for line in lines)

    for file in make_docs.markdown_files():
        # A page starts with nothing there.
        kubectl("delete", "gj", "--all")
        text = file.read_text()
        now = refreshed(text, ROOT, printed)
        if WRITES:
            file.write_text(now)
        else:
            assert now == text, f"{file.name}: to write it anew, set {WRITE_VARIABLE}=1"


@pytest.mark.parametrize("file", MARKDOWN, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_what_jobs_print_in_the_docs_came_from_the_files_as_they_are(file: Path) -> None:
    assert out_of_date(file.read_text(), ROOT) == [], "to run them anew: make howto"


def test_the_picture_of_a_run_is_of_the_file_as_it_is() -> None:
    assert run_picture.is_current(ROOT), "to run it anew: make howto"


def test_without_being_asked_to_no_picture_of_a_run_is_drawn_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WRITE_VARIABLE, raising=False)
    job, place = tmp_path / run_picture.COMMAND.split()[-1], tmp_path / run_picture.PLACE
    for file in (job, place):
        file.parent.mkdir(parents=True)
    job.write_text("one")
    drawn = f"<svg>\n</svg>\n<!-- ran: {digest(run_picture.COMMAND, tmp_path)} -->\n"
    place.write_text(drawn)
    assert run_picture.is_current(tmp_path)
    job.write_text("two")
    assert not run_picture.is_current(tmp_path)
    assert run_picture.run_picture(tmp_path) == drawn


def test_a_changed_file_makes_what_it_printed_out_of_date(tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("one")
    now = digest("jobyard run job.yaml", tmp_path)
    page = f"<!-- output of: jobyard run job.yaml of {now} -->\n\n```text\n$ it ran\n```\n"
    assert out_of_date(page, tmp_path) == []
    assert refreshed(page, tmp_path) == page
    job.write_text("two")
    assert out_of_date(page, tmp_path) == ["jobyard run job.yaml"]


@pytest.mark.parametrize("kind", JOB_KINDS, ids=lambda kind: kind.name)
def test_each_kind_has_a_page_that_shows_it_run(kind: Kind) -> None:
    page = (ROOT / "docs" / "howto" / f"{kind.singular}.md").read_text()
    assert f"<!-- output of: jobyard run examples/{kind.singular}/" in page
    assert f"howto/{kind.singular}.md" in (ROOT / "docs" / "README.md").read_text()


def test_a_mark_without_a_block_is_refused() -> None:
    with pytest.raises(BadMarkError):
        refreshed("<!-- output of: jobyard explain -->\n\ntext\n", ROOT)
    with pytest.raises(BadMarkError):
        output("rm nothing", ROOT)


def test_the_picture_shows_what_the_commands_print() -> None:
    tree = ET.parse(ROOT / "docs" / "images" / "validate.svg")
    drawn = "".join("".join(text.itertext()) for text in tree.iter(f"{SVG}text"))
    for command in ("jobyard validate three-faults.yaml", "jobyard explain ptj.spec.elastic"):
        plain = command + output(command, SAMPLES)
        assert re.sub(r"\s", "", plain) in re.sub(r"\s", "", drawn).replace("$jobyard", "jobyard")


FENCED = re.compile(r"(?:^<!-- [^\n]* -->\n+)?^```\w+\n.*?^```$", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r" +# .*$", re.MULTILINE)


def commands_of(page: str) -> list[str]:
    """The blocks of a page as a machine would read them: without remarks."""
    return [REMARK.sub("", block) for block in FENCED.findall((ROOT / page).read_text())]


@pytest.mark.parametrize(
    ("page", "translated"),
    [("README.md", "README.zh-CN.md"), ("docs/tutorial.md", "docs/zh/tutorial.md")],
)
def test_a_translation_shows_the_same_commands(page: str, translated: str) -> None:
    wanted = commands_of(page)
    assert len(wanted) > 5
    assert commands_of(translated) == wanted


PLACES = re.compile(r"`((?:src/jobyard/)?(?:[a-z_]+/)+(?:[a-z_0-9]+\.(?:py|json|sh|toml))?)`")
PAGES_OF_PLACES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/development.md")


def missing_places(text: str) -> list[str]:
    """Modules and folders that a page names and that aren't there."""
    roots = (ROOT, ROOT / "src" / "jobyard")
    return [
        found
        for found in PLACES.findall(text)
        if not any((root / found).exists() for root in roots)
    ]


@pytest.mark.parametrize("page", PAGES_OF_PLACES)
def test_the_map_names_what_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    assert not missing_places(text)
    assert PLACES.search(text)


def test_the_test_of_the_map_can_fail() -> None:
    assert missing_places("look at `plan/nowhere.py` and `tests/`") == ["plan/nowhere.py"]


def test_the_picture_of_the_layers_is_that_of_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    layers = [name.strip() for row in contract for name in row.split("|")]
    tree = ET.parse(ROOT / "docs" / "images" / "layers.svg")
    # In brackets there, grey here: what is still to come.
    drawn = [
        f"(jobyard.{name.text})" if text.get("class") == "coming" else f"jobyard.{name.text}"
        for text in tree.iter(f"{SVG}text")
        for name in text.iter(f"{SVG}tspan")
        if name.get("font-weight")
    ]
    assert drawn == layers


def test_a_coloured_line_is_wrapped_without_losing_its_colours() -> None:
    text = "\x1b[1m\x1b[31merror:\x1b[0m " + "word " * 30
    first, second = wrapped(spans(text))
    assert first[0] == Span("error:", ("b", "r"))
    assert all(sum(len(span.text) for span in line) <= COLUMNS for line in (first, second))
    assert "".join(s.text for s in (*first, *second)).split() == ["error:", *["word"] * 30]
