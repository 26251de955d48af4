"""Real frameworks on a machine where root's home is closed, and a stranger has /t9k.

The machine is the test's own (`rig.machine`), so that every file which a job leaves behind shows.
The virtualenvs of the cache are in a home of root's: the machine has them in a place of its own.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import get_frameworks
import pytest
from engine.runs.test_examples_run import End, Promise, name_of, promises
from engine.runs.test_machine_unchanged import CLOSED, ROUNDS
from rig.machine import PYTHON, Machine, resident
from rig.places import ROOT

from frameworks.yard import Yard

PLACE = Path("/opt/jobyard-test-frameworks")
# As many as there are of each, at once.
JOBS = 10
MANY_SECONDS = 1500
# Python finds its own library wherever it is, and a virtualenv is more than its packages.
OPENING = f"""
echo {PYTHON}/lib >/etc/ld.so.conf.d/jobyard-test.conf
ldconfig
opened() {{
    mkdir -p {PLACE}/$2
    cp -a $1/bin {PLACE}/$2/bin
    grep -lIr "^#!$1/" {PLACE}/$2/bin | xargs -r sed -i "1s,$1/,{PLACE}/$2/,"
    ln -sfn {PYTHON}/bin/python3 {PLACE}/$2/bin/python
    ln -sfn python {PLACE}/$2/bin/python3
    sed "s,^home = .*,home = {PYTHON}/bin," $1/pyvenv.cfg >{PLACE}/$2/pyvenv.cfg
    for part in lib share; do
        [ ! -d $1/$part ] || {{ mkdir {PLACE}/$2/$part; mount --bind $1/$part {PLACE}/$2/$part; }}
    done
    ln -s lib {PLACE}/$2/lib64
}}
"""


def frameworks() -> dict[str, Path]:
    """The virtualenvs of the cache, by the names that the machine has for them."""
    return {
        each.name: get_frameworks.folder_of(each, os.environ) for each in get_frameworks.FRAMEWORKS
    }


@contextmanager
def closed(script: str, *, is_ordinary: bool) -> Iterator[tuple[Machine, Yard]]:
    opened = [f"opened {shlex.quote(str(path))} {name}" for name, path in frameworks().items()]
    whole = "\n".join([OPENING, *opened, script])
    with resident(is_ordinary=is_ordinary, script=whole) as (machine, who):
        yard = Yard(who)
        images = yard.images["JOBYARD_IMAGES"]
        for name, path in frameworks().items():
            images = images.replace(f"={path}", f"={PLACE / name}")
        yard.images = {"JOBYARD_IMAGES": images}
        yield machine, yard
        assert who.processes() == {}
        assert machine.changes() == {}


NEEDY = [each for each in promises() if not each.runs_here]


# Both rounds are some seventy jobs of real frameworks; each run has a few of them.
@pytest.mark.sample(24)
@pytest.mark.parametrize("state", ROUNDS)
@pytest.mark.parametrize("example", NEEDY, ids=lambda each: each.file)
def test_an_example_of_a_framework_runs_for_an_ordinary_user(example: Promise, state: str) -> None:
    with closed(ROUNDS[state], is_ordinary=True) as (_, yard):
        if example.end in (End.SUCCEEDED, End.FAILED):
            ran = yard.run(example.file, "--timeout", "500s")
            assert ran.code == (1 if example.end is End.FAILED else 0), ran.text
            return
        with yard.engine():
            yard.apply(example.file)
            name = name_of(example.path)
            if example.end is End.PAUSED:
                yard.said("wait", name, "--for", "paused", seconds=90)
                yard.said("resume", name)
                yard.said("wait", name, "--timeout", "500s", seconds=530)
            else:
                yard.said("wait", name, "--for", "running", seconds=90)
            yard.said("delete", name)


def many(yard: Yard, example: str, name: str) -> list[str]:
    """Copies of an example, each a job of another name."""
    text = (ROOT / "examples" / example).read_text()
    assert name in text
    return [
        str(yard.person.write(f"{name}-{n}.yaml", text.replace(name, f"{name}-{n}")))
        for n in range(JOBS)
    ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_ordinary", [False, True], ids=["root", "an ordinary user"])
@pytest.mark.proves("deepspeed", "DeepSpeedJob", "ten at once, beside ten MPIJobs")
def test_many_jobs_with_their_own_launchers_find_each_their_own_hosts(is_ordinary: bool) -> None:
    with closed(CLOSED, is_ordinary=is_ordinary) as (_, yard):
        first, *others = [
            *many(yard, "deepspeedjob/exec.yaml", "deepspeed-exec"),
            *many(yard, "mpijob/hostname.yaml", "mpi-hostname"),
        ]
        # Three dozen processes that load PyTorch: minutes, and more where others work beside them.
        ran = yard.run(first, *others, "--timeout", f"{MANY_SECONDS}s", seconds=MANY_SECONDS + 60)
        assert ran.code == 0, ran.text
        for n in range(JOBS):
            # pdsh puts the name of the worker before each line, and each knows its peer.
            sums = re.findall(
                rf"deepspeed-exec-{n}-worker-\d: (rank \d of 2: the sum is 3)", ran.out
            )
            assert sorted(sums) == [f"rank {rank} of 2: the sum is 3" for rank in range(2)], (
                ran.text
            )
            hosts = re.findall(rf"\| .*?(mpi-hostname-{n}-worker-\d)$", ran.out, re.MULTILINE)
            assert len(set(hosts)) > 1, ran.text
