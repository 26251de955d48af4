"""Somebody who runs the examples with real frameworks, and what came of it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import get_frameworks
from rig.person import Person
from rig.places import ROOT
from rig.waiting import look_again

BROKEN = Path(__file__).with_name("broken_jobyard.py")
# What frameworks say of themselves, or not, as timing and processors have it: no replica's words.
_CHATTER = re.compile(
    r"WARNING: All log messages before absl::InitializeLog"
    r"|[IWE]\d{4} \d\d:\d\d:\d+"
    r"|\[[\w.-]+:\d+\] plm:rsh: Warning: setpgid"
)
# What is wrong on purpose shows that the tests can fail: some in each run, of all frameworks.
FAULTS = (3, "what is wrong on purpose is noticed")
# For one job. Virtual machines for CI can be slow; a test that hangs must still end.
DEADLINE_SECONDS = 600
LOOK_SECONDS = 0.5
# Of jobs that end by themselves, unless something is wrong that the test is not about.
BOUNDED = ("--timeout", "400s")


def frameworks_missing() -> list[str]:
    return [
        framework.name
        for framework in get_frameworks.FRAMEWORKS
        if not get_frameworks.is_there(get_frameworks.folder_of(framework, os.environ))
    ]


@dataclass(frozen=True, slots=True)
class Ran:
    """A `jobyard run` that has ended."""

    code: int
    out: str
    errors: str

    @property
    def text(self) -> str:
        """All that it said, for messages."""
        return f"exit {self.code}\n{self.out}\n{self.errors}"

    def lines(self, replica: str = "") -> list[str]:
        """What replicas said: those whose prefix starts with `replica`, without the prefix."""
        return [
            words.strip()
            for line in self.out.splitlines()
            for prefix, bar, words in [line.partition("|")]
            if bar and prefix.strip().startswith(replica) and not _CHATTER.match(words.strip())
        ]


class Yard:
    """A person, with the virtualenvs of the frameworks in place of images."""

    def __init__(self, somebody: Person) -> None:
        self.person = somebody
        self.images = {"JOBYARD_IMAGES": get_frameworks.images_variable(os.environ)}

    def run(
        self,
        example: str,
        *flags: str,
        broken: dict[str, Any] | None = None,
        seconds: float = DEADLINE_SECONDS,
    ) -> Ran:
        """`jobyard run examples/EXAMPLE`, to its end; with an engine that does something wrong
        on purpose if `broken` says what (see broken_jobyard.py)."""
        words = ["run", str(ROOT / "examples" / example), *flags]
        command = (
            self.person.jobyard(*words)
            if broken is None
            else self.person.command(sys.executable, str(BROKEN), json.dumps(broken), *words)
        )
        done = subprocess.run(
            command,
            cwd=self.person.work,
            env=self.person.environment | self.images,
            capture_output=True,
            text=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def proved(self, example: str, *flags: str) -> Ran:
        """A run that must succeed."""
        ran = self.run(example, *flags)
        assert ran.code == 0, ran.text
        return ran

    def said(self, *words: str, code: int = 0, seconds: float = 60) -> str:
        """What `jobyard WORDS` printed that speaks to an engine."""
        done = self.person.ask(*words, seconds=seconds, **self.images)
        assert done.returncode == code, f"jobyard {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def typed(self, *words: str, seconds: float = 60) -> str:
        """The same, as a process of its own."""
        done = self.person.run(*words, seconds=seconds, **self.images)
        assert done.returncode == 0, f"jobyard {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def apply(self, example: str) -> None:
        self.said("apply", "-f", str(ROOT / "examples" / example))

    def tried(self, example: str, program: str) -> str:
        """What came of the commands with that program that an example tells to try."""
        comment = (ROOT / "examples" / example).read_text()
        told = re.findall(r"^#   (jobyard (?:.*\\\n)*.*)$", comment, re.MULTILINE)
        commands = [shlex.split(re.sub(r"\\\n#", "", each)) for each in told]
        chosen = [words[1:] for words in commands if program in " ".join(words)]
        assert chosen, f"{example} tells nothing to try with {program}"
        return "".join(self.typed(*words, seconds=DEADLINE_SECONDS) for words in chosen)

    def job(self, kind_and_name: str) -> dict[str, Any]:
        """A job as the engine has it."""
        answer: dict[str, Any] = json.loads(self.said("get", kind_and_name, "-o", "json"))
        return answer

    @contextmanager
    def engine(self) -> Iterator[None]:
        """An engine that is up meanwhile, for modes that change while a job runs."""
        self.typed("up", "--detach", "--relaxed")
        try:
            yield
        finally:
            self.typed("down")

    def until(self, what: str, holds: Callable[[], Any], seconds: float = 240) -> Any:
        """Asks until it holds, and not too often: a framework that starts needs the machine."""
        deadline = monotonic() + seconds
        while not (answer := holds()):
            assert monotonic() < deadline, f"not in {seconds} s: {what}\n{self.said('get')}"
            look_again(LOOK_SECONDS)
        return answer
