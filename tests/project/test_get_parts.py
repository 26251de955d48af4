"""tools/get_parts.py: what runs beside what, what is printed, and how it ends when a part fails."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import get_parts
import pytest
from get_parts import Part
from rig.waiting import until_it_holds

TOOL = Path(get_parts.__file__)


def part(name: str, script: str, *needs: str, is_build: bool = False) -> Part:
    return Part(name, ("sh", "-euc", script), needs, is_build)


def test_every_part_can_begin() -> None:
    for is_root in (True, False):
        parts = get_parts.all_parts(os.environ, is_root)
        names = [each.name for each in parts]
        assert len(names) == len(set(names))
        assert {need for each in parts for need in each.needs} <= set(names)
        for each in parts:
            assert any(Path(word).is_file() for word in each.command), each


def test_only_root_makes_images() -> None:
    def commands(is_root: bool) -> str:
        return " ".join(
            shlex.join(each.command) for each in get_parts.all_parts(os.environ, is_root)
        )

    assert "get_images.py" in commands(True)
    assert "cluster images" in commands(True)
    assert "get_images.py" not in commands(False)
    assert "cluster" not in commands(False)


def test_a_part_begins_when_what_it_needs_is_there(tmp_path: Path) -> None:
    said = shlex.quote(str(tmp_path / "said"))
    parts = [
        part("last", f"echo last >> {said}", "second"),
        part("second", f"echo second >> {said}", "first"),
        part("first", f"echo first >> {said}"),
    ]
    progress = get_parts.get(parts, os.environ)
    assert progress.failed is None
    assert (tmp_path / "said").read_text().split() == ["first", "second", "last"]
    assert set(progress.took) == {"first", "second", "last"}


def test_builds_run_one_after_the_other_and_the_rest_beside_them(tmp_path: Path) -> None:
    # Each build would fail if another was at it; the first ends only when the one beside it runs.
    alone = f"mkdir {tmp_path}/build; {{}}; rmdir {tmp_path}/build"
    os.mkfifo(tmp_path / "met")
    parts = [
        part("one", alone.format(f"echo hello > {tmp_path}/met"), is_build=True),
        part("two", alone.format("true"), is_build=True),
        part("three", alone.format("true"), is_build=True),
        part("beside", f"read line < {tmp_path}/met"),
    ]
    assert get_parts.get(parts, os.environ).failed is None


def test_lines_tell_whose_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    get_parts.get([part("one", "echo out; echo err >&2")], os.environ)
    assert capfd.readouterr().err == "       one | out\n       one | err\n"


def test_one_that_fails_is_named_and_the_others_are_ended(tmp_path: Path) -> None:
    # What one of them started itself is ended as well.
    os.mkfifo(tmp_path / "begun")
    parts = [
        part("endless", f"sleep 1000 & echo $! > {tmp_path}/pid; echo > {tmp_path}/begun; wait"),
        part("bad", f"read line < {tmp_path}/begun; exit 3"),
        part("later", f"touch {tmp_path}/never", "endless"),
    ]
    progress = get_parts.get(parts, os.environ)
    assert progress.failed is parts[1]
    assert [each.name for each in progress.waiting] == ["later"]
    child = int((tmp_path / "pid").read_text())
    until_it_holds(lambda: not is_running(child), "the child has ended")
    assert not (tmp_path / "never").exists()
    told = get_parts.table(parts, progress, 1).splitlines()
    assert told[0].split() == ["endless", "not", "got"]
    assert told[1].split()[-1] == "FAILED"
    assert told[2].split() == ["later", "not", "got"]


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_the_table_tells_times_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3 * 2**20)
    big = Part("big", ("true",), folder=tmp_path)
    progress = get_parts.get([big], os.environ)
    progress.took["big"] = 61.2
    assert get_parts.table([big], progress, 75) == (
        "big               3 MB     61 s\ntogether                   75 s"
    )


def test_parts_that_nothing_gets_are_told() -> None:
    with pytest.raises(ValueError, match="nothing gets lonely"):
        get_parts.get([part("lonely", "true", "nobody")], os.environ)


def test_being_told_to_end_ends_what_runs(tmp_path: Path) -> None:
    """As CI does it, when its time is up."""
    program = (
        "import os, sys, get_parts\n"
        "place = sys.argv.pop()\n"
        "script = f'echo $$ > {place}.part; mv {place}.part {place}; exec sleep 1000'\n"
        "get_parts.all_parts = lambda *_: (get_parts.Part('one', ('sh', '-c', script)),)\n"
        "sys.exit(get_parts.main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "pid")],
        env={**os.environ, "PYTHONPATH": str(TOOL.parent)},
    ) as process:
        until_it_holds((tmp_path / "pid").exists, "the part runs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
    assert not is_running(int((tmp_path / "pid").read_text()))
