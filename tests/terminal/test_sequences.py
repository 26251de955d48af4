"""What is left of texts that would act on a terminal: the words and, in logs, the colours."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from cli.hostile_sequences import BYTES, SEQUENCES, TEXT, strays
from hypothesis import given
from hypothesis import strategies as st
from rig.places import ROOT

from jobyard.cli.output.printing import as_yaml
from jobyard.cli.output.saying import as_json
from jobyard.cli.output.style import Palette, table
from jobyard.manifest.reading import read
from jobyard.terminal.sequences import finished, harmless, in_a_row, marked
from jobyard.terminal.widths import one_line, printable, width_of

TITLE = SEQUENCES["title, never ended"]
UNENDED = (TITLE, SEQUENCES["a colour without an end"])
PIECES = st.lists(
    st.sampled_from([*SEQUENCES.values(), *"\x1b[]P\\;2Jm0\x9b\x9c\x07\x18\x00 \né中\ufdd0\ufdd1"])
).map("".join)


def test_the_corpus_is_large_and_each_is_noticed_by_the_reader() -> None:
    assert len(SEQUENCES) >= 40
    silent = [name for name, text in SEQUENCES.items() if not strays(text.encode())]
    assert silent == []


@pytest.mark.parametrize("text", SEQUENCES.values(), ids=SEQUENCES)
def test_nothing_acts_and_the_words_stay(text: str) -> None:
    whole = f"before {text} after"
    for shown in (
        harmless(whole),
        finished(whole, is_coloured=True),
        in_a_row(whole),
        one_line(whole),
        finished(printable(whole.encode()), is_coloured=True),
    ):
        assert not strays(shown.replace("\ufdd0", "").replace("\ufdd1", "").encode()), repr(shown)
        # A line that is written over shows what comes last.
        assert shown.startswith("before" if "\r" not in text else ("before", "bad"))
    # A terminal takes what comes behind for a part of the sequence; so does it here.
    assert harmless(whole).endswith("fter" if text in UNENDED else " after") or text == TITLE


@pytest.mark.parametrize("text", BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_text_are_marked(text: bytes) -> None:
    shown = printable(b"before " + text + b" after")
    assert "\ufffd" in shown
    assert not strays(shown.encode())


@given(PIECES | st.text())
def test_whatever_is_put_together_nothing_acts(text: str) -> None:
    shown = finished(text, is_coloured=True)
    assert not strays(shown.encode())
    assert "\x1b" not in finished(text, is_coloured=False)
    for line in text.encode(errors="replace").split(b"\n"):
        assert not strays(finished(printable(line), is_coloured=True).encode())


@given(PIECES, PIECES)
def test_two_pieces_make_no_more_than_each(first: str, second: str) -> None:
    """What is held back of one line can't be completed by the next, nor by our own words."""
    palette = Palette()
    shown = finished(
        f"{palette.bold(harmless(first))}|{palette.faint(harmless(second))}", is_coloured=True
    )
    assert not strays(shown.encode())
    assert shown.startswith("\x1b[1m")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("a\x1b[2Jb", "ab", id="a sequence goes whole"),
        pytest.param("a\x1b[\x002Jb", "ab", id="a control character doesn't end it"),
        pytest.param("a\x1b[3\x182Jb", "a2Jb", id="CAN does"),
        pytest.param("a\x1b[3\x1b[2Jb", "ab", id="ESC begins another"),
        pytest.param("a\x1b]0;title\x07b", "ab", id="BEL ends a title"),
        pytest.param("a\x1b]0;title\x1b\\b", "ab", id="ST ends a title"),
        pytest.param("a\x1b]0;title\nb", "a\nb", id="the end of a line ends it too"),
        pytest.param("a\x1b(0b", "ab", id="a character set"),
        pytest.param("a\x9b2Jb", "ab", id="eight bits"),
        pytest.param("a\x1b[31mb\x1b[m", "ab", id="colours of objects go"),
        pytest.param("a\tb\nc", "a\tb\nc", id="tabs and lines stay"),
        pytest.param("日本 مرحبا é 🚀", "日本 مرحبا é 🚀", id="any script"),
        pytest.param("a\udc9bb", "a\ufffdb", id="bytes in disguise"),
    ],
)
def test_what_is_left_of_a_text(text: str, left: str) -> None:
    assert harmless(text) == left


@pytest.mark.parametrize(
    ("raw", "numbers"),
    [
        (b"\x1b[31m", "31"),
        (b"\x1b[1;38;5;208;4m", "1;38;5;208;4"),
        (b"\x1b[38;2;1;2;3m", "38;2;1;2;3"),
        (b"\x1b[48:2::1:2:3m", "48:2::1:2:3"),
        (b"\x1b[4:3m", "4:3"),
        (b"\x1b[3\x001m", "31"),
        ("\x9b1m".encode(), "1"),
        (b"\x1b[;1m", ";1"),
    ],
)
def test_colours_of_a_program_stay_as_marks(raw: bytes, numbers: str) -> None:
    assert printable(raw + b"x") == f"{marked(numbers)}x{marked('0')}"


@pytest.mark.parametrize("numbers", ["8", "1;8", "999", "38;5", ">4;2", "?1", "1 ", "0" * 9 + "8"])
def test_what_looks_like_a_colour_and_is_none_goes(numbers: str) -> None:
    assert printable(f"\x1b[{numbers}mx".encode()) == "x"


def test_a_hostile_cell_leaves_the_columns_where_they_are() -> None:
    lines = table(["NAME", "MESSAGE", "AGE"], [["a", TEXT, "1s"], ["b", "x\ny\tz", "2s"]])
    assert len(lines) == 3
    assert width_of(lines[1]) == width_of(lines[0]) - len("AGE") + len("1s")
    assert "x y z" in lines[2]


def test_objects_for_programs_are_as_they_were() -> None:
    """Nothing is taken out of JSON and YAML: what would act stands there by its number."""
    value = {"text": TEXT, TEXT[:100]: ["\x7f", "\x9b", "\u202e", "line\nline\x85\u2028"]}
    for text in (as_json(value), as_json(value, is_ascii=False), as_yaml(value)):
        assert not strays(text.encode())
        assert finished(text, is_coloured=True) == text
    assert json.loads(as_json(value, is_ascii=False)) == value
    (document,) = read(as_yaml(value), "printed")
    assert document.value == value


# The ways out of the command line.

CLI = ROOT / "src" / "jobyard" / "cli"
# Where streams are touched, and why that is no way round `say`.
WRITERS = {
    "output/saying.py": "the way out itself",
    "output/screen.py": "the live table, whose lines go through the same function",
    "output/terminal_size.py": "asks how wide it is",
    "output/terminal.py": "what exec and shell carry",
    "output/lost_output.py": "closes a stream that nobody reads",
    "surroundings.py": "opens the streams that a caller has closed",
    "commands/logs.py": "gives the stream to a Screen",
    "commands/run.py": "gives the stream to a Screen",
    "commands/exec.py": "writes to a process, what somebody types",
    "commands/clean.py": "reads the answer to its question",
    "arguments/sources.py": "reads standard input; and hands a message to what says it",
}
CLICKS = {"echo", "secho", "style", "prompt", "confirm", "pause", "echo_via_pager", "progressbar"}


def other_ways(text: str) -> Iterator[int]:
    """The lines where something is written without `say`."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr" | "stdin"):
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="click"), attr=name) if name in CLICKS:
                yield node.lineno
            case ast.Attribute(attr="write" | "writelines"):
                yield node.lineno
            case ast.Name(id="print"):
                yield node.lineno
            case ast.ImportFrom(module="click" | "sys", names=names) if any(
                each.name in CLICKS | {"stdout", "stderr"} for each in names
            ):
                yield node.lineno


def test_whatever_a_command_says_goes_one_way() -> None:
    found = [
        f"{name}:{line}"
        for path in sorted(CLI.rglob("*.py"))
        if (name := str(path.relative_to(CLI))) not in WRITERS
        for line in other_ways(path.read_text())
    ]
    assert not found, "write it with `say` of cli/output/saying.py"
    for name in WRITERS:
        assert list(other_ways((CLI / name).read_text())), f"{name} needs no exception any more"


def test_the_two_that_hand_a_stream_on_write_nothing_to_it() -> None:
    for name in ("commands/logs.py", "commands/run.py"):
        text = (CLI / name).read_text()
        assert "click.echo" not in text
        assert ".write(" not in text


@pytest.mark.parametrize(
    "text",
    [
        "click.echo(x)",
        "click.secho(x)",
        "click.style(x)",
        "print(x)",
        "sys.stdout.write(x)",
        "sys.stderr.buffer.write(x)",
        "os.write(1, x)",
        "stream.write(x)",
        "from click import echo",
        "say = click.echo",
    ],
)
def test_the_test_of_one_way_can_fail(text: str) -> None:
    assert list(other_ways(text))


def test_what_is_logged_without_being_asked_acts_no_more_than_the_rest() -> None:
    program = (
        "import logging, sys\n"
        "from jobyard.cli.main import cli\n"
        "cli.get_command(None, 'get')\n"
        "log = logging.getLogger('x')\n"
        "try: raise ValueError(sys.argv[1])\n"
        "except ValueError: log.warning('%s', sys.argv[1], exc_info=True)\n"
        "from jobyard.controller.operations.logs import LogFormat, configure\n"
        "configure(LogFormat.TEXT)\n"
        "try: raise ValueError(sys.argv[1])\n"
        "except ValueError: log.warning('%s', sys.argv[1], exc_info=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, TEXT.replace("\x00", "")], capture_output=True
    )
    assert done.stderr.count(b"before") > 4 * len(SEQUENCES) // 2, done.stderr
    assert strays(done.stderr) == []
