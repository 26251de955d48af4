"""What a command finds when it is called, and didn't choose: its streams, its folder, its home."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from rig.person import Person, person
from rig.script_job import script_job

BAD_INPUT = 2
# A name as many had it before UTF-8.
ODD = os.fsdecode(b"caf\xe9")


@pytest.fixture(scope="module")
def somebody() -> Iterator[Person]:
    with person(is_ordinary=False) as who:
        yield who


def called(who: Person, script: str, *words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """`jobyard` with these words, as a shell calls it: `"$@"` in the script."""
    return subprocess.run(
        ["sh", "-c", script, "sh", *who.jobyard(*words)],
        cwd=who.work,
        env=who.environment | env,
        capture_output=True,
        timeout=90,
    )


def job(who: Person) -> str:
    return str(who.write("job.yaml", script_job("job", ["sh", "-c", "echo ran; echo over >&2"])))


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(somebody: Person, closed: str) -> None:
    done = called(somebody, f'exec "$@" {closed}', "run", job(somebody))
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert (b"worker-0 | ran" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))
    assert somebody.processes() == {}
    assert not list((somebody.home / "jobyard" / "runs").iterdir())


@pytest.mark.parametrize(
    ("words", "env"),
    [
        pytest.param(("run", "{job}", "--pvc", f"a={ODD}"), {}, id="a claim's folder"),
        pytest.param(("run", "{job}"), {"JOBYARD_HOME": ODD}, id="the home"),
        pytest.param(("status",), {"JOBYARD_HOME": ODD}, id="the home, looked at"),
        pytest.param(("up", "-d", "--data-dir", ODD), {}, id="a data folder"),
    ],
)
def test_a_folder_whose_name_is_no_text_is_told(
    somebody: Person, words: tuple[str, ...], env: dict[str, str]
) -> None:
    (somebody.work / ODD).mkdir(exist_ok=True)
    path = job(somebody)
    done = called(somebody, 'exec "$@"', *(word.format(job=path) for word in words), **env)
    assert done.returncode == BAD_INPUT, done.stderr
    assert b"/caf\\xe9" in done.stderr
    assert b"UTF-8" in done.stderr
    assert b"fault of jobyard" not in done.stderr
    assert somebody.processes() == {}


@pytest.mark.parametrize("words", [("run", "{job}"), ("up", "-d")], ids=["run", "up"])
@pytest.mark.parametrize(
    ("script", "says"),
    [
        pytest.param(f'mkdir -p "{ODD}"; cd "{ODD}"', b"caf\\xe9: is not UTF-8", id="no text"),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone",
            b"the current folder has been removed",
            id="has been removed",
        ),
    ],
)
def test_a_current_folder_in_which_nothing_can_run_is_told(
    somebody: Person, words: tuple[str, ...], script: str, says: bytes
) -> None:
    path = job(somebody)
    done = called(somebody, f'{script}; exec "$@"', *(word.format(job=path) for word in words))
    assert done.returncode == BAD_INPUT, done.stderr
    assert says in done.stderr
    assert b"fault of jobyard" not in done.stderr
    assert somebody.processes() == {}
