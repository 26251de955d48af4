"""Get the frameworks that jobs are named after, each into a virtualenv of a cache, once.

    python tools/get_frameworks.py                 all of them, and the system's packages
    python tools/get_frameworks.py torch xgboost   these alone
    python tools/get_frameworks.py --images        those that are there, as $JOBYARD_IMAGES wants it

What is wanted in a virtualenv is written in `tools/frameworks/`, and every file of it locked in
`tools/locks/`; when that changes, it is made anew. Versions, sizes and times are printed at the
end. Standard library only, because it runs before anything is installed.
"""

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from cache_folder import cache_root, is_unused, locked
from locked_install import InstallError, install, lock_file

LISTS = Path(__file__).resolve().parent / "frameworks"
# How long a virtualenv is kept that this checkout has no use for.
UNUSED_DAYS = 7
PACKAGES_SCRIPT = LISTS.parent / "system_packages.sh"


# Wheels alone: nothing of others runs here before it is installed.
_WHEELS = ("--only-binary=:all:",)
# What has no wheel is built with what the virtualenv has, so that this is locked too. A wheel that
# was built before may have met another torch: none is kept.
_BUILT = ("--no-deps", "--no-build-isolation", "--no-cache")


@dataclass(frozen=True, slots=True)
class Step:
    """One installation: a lock, and what else it needs to work."""

    lock: str
    options: tuple[str, ...] = _WHEELS
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Framework:
    """A virtualenv of the cache."""

    name: str
    kinds: str
    steps: tuple[Step, ...]
    # The distributions whose versions are told.
    tells: tuple[str, ...]
    # The images of the examples that it stands for, as `jobyard run --image` takes them.
    images: tuple[str, ...] = ()
    # Python that the finished virtualenv runs once, to fetch what no package index has.
    fetches: str = ""

    @property
    def digest(self) -> str:
        """Changes with anything that decides what the virtualenv holds."""
        texts = [lock_file(step.lock).read_text() for step in self.steps]
        made_of = [sys.version.split()[0], repr(self.steps), self._script, *texts]
        return hashlib.sha256("\0".join(made_of).encode()).hexdigest()[:12]

    @property
    def _script(self) -> str:
        return (LISTS / self.fetches).read_text() if self.fetches else ""


# No operators but the one that every job on a CPU uses.
_TORCH_BUILD = (
    *(("DS_BUILD_OPS", "0"), ("DS_BUILD_SHM_COMM", "1"), ("DS_ACCELERATOR", "cpu")),
    ("BUILD_EXT", "0"),
)
FRAMEWORKS = (
    Framework("mpi", "MPIJob", (Step("mpi"),), ("mpi4py",), ("*mpi*",)),
    Framework(
        "xgboost",
        "XGBoostTrainingJob",
        (Step("xgboost"),),
        ("xgboost-cpu",),
        ("*xgboost*",),
    ),
    Framework(
        "torch",
        "PyTorchTrainingJob, DeepSpeedJob, ColossalAIJob",
        (Step("torch"), Step("torch-built", _BUILT, _TORCH_BUILD)),
        ("torch", "tensorboard", "deepspeed", "colossalai"),
        ("*torch*", "*deepspeed*", "*colossal*", "*tensorboard*"),
    ),
    Framework(
        "tensorflow",
        "TensorFlowTrainingJob",
        (Step("tensorflow"),),
        ("tensorflow-cpu",),
        ("tensorflow/*",),
    ),
    Framework(
        "beam",
        "BeamJob",
        (Step("beam"),),
        ("apache-beam",),
        ("*beam*",),
        fetches="beam_job_servers.py",
    ),
    Framework(
        "flink",
        "BeamJob on Flink",
        (Step("flink"), Step("flink-built", _BUILT)),
        ("apache-flink",),
        ("*flink*",),
    ),
    Framework(
        "spark",
        "BeamJob on Spark",
        (Step("spark"), Step("spark-built", _BUILT)),
        ("pyspark",),
        ("*spark*",),
    ),
)


def say(text: str) -> None:
    print(f"frameworks: {text}", file=sys.stderr, flush=True)


def folder_of(framework: Framework, environment: Mapping[str, str]) -> Path:
    return cache_root(environment) / "frameworks" / f"{framework.name}-{framework.digest}"


def is_there(folder: Path) -> bool:
    return (folder / ".ready").is_file()


def obtain(framework: Framework, environment: Mapping[str, str]) -> float:
    """Makes the virtualenv unless it is there; the seconds that took."""
    folder = folder_of(framework, environment)
    with locked(folder.parent / f"{framework.name}.lock"):
        if is_there(folder):
            (folder / ".ready").touch()
            return 0.0
        _drop_others(folder, framework.name)
        say(f"making {framework.name} for {framework.kinds}")
        began = monotonic()
        # One that was left half made has no .ready and is made from the start.
        venv.create(folder, clear=True)
        python = str(folder / "bin" / "python")
        # What is built calls programs of the virtualenv by name.
        searched = f"{folder / 'bin'}:{environment.get('PATH', os.defpath)}"
        for step in framework.steps:
            told = {**environment, **dict(step.variables), "PATH": searched}
            install([step.lock], told, ("--python", python), step.options)
        if framework.fetches:
            _run([python, str(LISTS / framework.fetches)], environment)
        (folder / ".ready").touch()
        return monotonic() - began


def _drop_others(folder: Path, name: str) -> None:
    for old in folder.parent.glob(f"{name}-????????????"):
        if old != folder and is_unused(old / ".ready", UNUSED_DAYS):
            say(f"removing {old.name}, which its list has outgrown")
            shutil.rmtree(old, ignore_errors=True)


def _run(words: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        words,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(words)}\nended with {done.returncode}:\n{done.stdout}")


def versions(framework: Framework, folder: Path) -> dict[str, str]:
    """Of the distributions it tells, as the virtualenv itself sees them."""
    asked = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    answer = subprocess.run(
        [str(folder / "bin" / "python"), "-c", asked, *framework.tells],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(framework.tells, answer.stdout.split(), strict=True))


def megabytes(folder: Path) -> float:
    paths = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in paths) / 2**20


def images_variable(
    environment: Mapping[str, str], chosen: Iterable[Framework] = FRAMEWORKS
) -> str:
    """What $JOBYARD_IMAGES is to be, so that the examples' images are the virtualenvs here."""
    return shlex.join(
        f"{pattern}={folder}"
        for framework in chosen
        if is_there(folder := folder_of(framework, environment))
        for pattern in framework.images
    )


def report(framework: Framework, folder: Path, seconds: float) -> str:
    told = ", ".join(f"{name} {version}" for name, version in versions(framework, folder).items())
    took = f"{seconds:6.0f} s" if seconds else "  cached"
    return f"{framework.name:<11} {megabytes(folder):7.0f} MB {took}  {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [framework.name for framework in FRAMEWORKS]
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME")
    parser.add_argument(
        "--images", action="store_true", help="get nothing; print what JOBYARD_IMAGES is to be"
    )
    options = parser.parse_args()
    chosen = [each for each in FRAMEWORKS if not options.names or each.name in options.names]
    if options.images:
        print(images_variable(os.environ, chosen))
        return 0
    if not options.names:
        needed = subprocess.run(["sh", str(PACKAGES_SCRIPT), "frameworks"], check=False)
        if needed.returncode != 0:
            return 1
    lines = []
    for framework in chosen:
        try:
            seconds = obtain(framework, os.environ)
        except InstallError as error:
            say(f"{framework.name}: {error}")
            return 1
        lines.append(report(framework, folder_of(framework, os.environ), seconds))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
