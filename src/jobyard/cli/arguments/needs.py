"""What each kind needs of a machine beyond Jobyard, whether it is there, and the command to get it.

Frameworks are looked for where replicas would find them: in Jobyard's own environment and in the
virtualenvs that $JOBYARD_IMAGES names. Nothing is imported: what is on the disk decides.
"""

from __future__ import annotations

import importlib.metadata
import os
import pwd
import shutil
import site
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is there or not."""

    group: str
    name: str
    is_there: bool
    # A version, or why it is missing.
    detail: str = ""
    needed_for: str = ""
    remedy: str = ""


class Program(msgspec.Struct, frozen=True):
    """A command of the system, and the package that has it on Debian and its kin."""

    name: str
    package: str


class Library(Program, frozen=True):
    """The same for a library, by how its file's name begins."""


class Module(msgspec.Struct, frozen=True):
    """A Python package, the distribution it comes in, and the command that brings it."""

    name: str
    distributions: tuple[str, ...]
    command: str


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """A kind, or one way to use it."""

    what: str
    programs: tuple[Program, ...] = ()
    modules: tuple[Module, ...] = ()
    # Replicas log in to one another, each with an address of its own.
    logs_in: bool = False


_SSH: Final = (Program("sshd", "openssh-server"), Program("ssh", "openssh-client"))
_NSS_WRAPPER: Final = Library("libnss_wrapper.so", "libnss-wrapper")
_MPIRUN: Final = Program("mpirun", "openmpi-bin")
_PDSH: Final = Program("pdsh", "pdsh")
_JAVA: Final = Program("java", "default-jre-headless")
_TORCH: Final = Module("torch", ("torch",), "pip install torch numpy")
_TENSORFLOW: Final = Module(
    "tensorflow", ("tensorflow", "tensorflow-cpu"), "pip install tensorflow-cpu"
)
_XGBOOST: Final = Module("xgboost", ("xgboost", "xgboost-cpu"), "pip install xgboost-cpu")
_DEEPSPEED: Final = Module(
    "deepspeed",
    ("deepspeed",),
    "pip install 'setuptools<81' wheel ninja"
    " && DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed",
)
_COLOSSALAI: Final = Module(
    "colossalai",
    ("colossalai",),
    "pip install psutil rich click fabric contexttimer tqdm packaging einops safetensors"
    " transformers==4.51.3 peft==0.13.2 galore-torch bitsandbytes"
    " && BUILD_EXT=0 pip install --no-deps --no-build-isolation colossalai",
)
_MPI4PY: Final = Module("mpi4py", ("mpi4py",), "pip install mpi4py")
_NUMPY: Final = Module("numpy", ("numpy",), "pip install numpy")
_BEAM: Final = Module("apache_beam", ("apache-beam",), "pip install apache-beam")
_FLINK: Final = Module(
    "pyflink",
    ("apache-flink", "apache-flink-libraries"),
    "pip install --no-deps apache-flink==1.19.3 apache-flink-libraries==1.19.3",
)
# Beam's job server is a driver of exactly this version.
_SPARK: Final = Module("pyspark", ("pyspark",), "pip install pyspark==3.5.0")
_TENSORBOARD: Final = Module("tensorboard", ("tensorboard",), "pip install tensorboard")

# They are often not on an ordinary user's path.
PLACES_OF_SERVERS: Final = "/usr/sbin:/sbin"
# Where the scripts that log in look for theirs (plan/lowering/ssh/prepare.sh).
PLACES_OF_LIBRARIES: Final = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
NEEDS: Final = (
    Need(what="GenericJob"),
    Need(what="TaskSet"),
    Need(what="PyTorchTrainingJob", modules=(_TORCH,)),
    Need(what="TensorFlowTrainingJob", modules=(_TENSORFLOW,)),
    Need(what="XGBoostTrainingJob", modules=(_XGBOOST,)),
    Need(what="MPIJob", programs=(*_SSH, _MPIRUN), logs_in=True),
    Need(
        what="DeepSpeedJob",
        programs=(*_SSH, _PDSH),
        modules=(_TORCH, _DEEPSPEED),
        logs_in=True,
    ),
    Need(what="ColossalAIJob", programs=_SSH, modules=(_TORCH, _COLOSSALAI), logs_in=True),
    Need(what="BeamJob on Flink", programs=(_JAVA,), modules=(_BEAM, _FLINK)),
    Need(what="BeamJob on Spark", programs=(_JAVA,), modules=(_BEAM, _SPARK)),
    Need(what="TensorBoard beside a job", modules=(_TENSORBOARD,)),
    Need(what="MPI from Python", programs=(_MPIRUN,), modules=(_MPI4PY, _NUMPY)),
    Need(
        what="MPI programs in C",
        programs=(_MPIRUN, Program("mpicc", "libopenmpi-dev"), Program("gcc", "gcc")),
    ),
)


def kind_checks(
    environments: Iterable[Path], *, is_root: bool, sandboxes_lack: str
) -> Iterator[Check]:
    """For each kind whether it can run here, with what, or the one command that is missing."""
    places = [*map(_site_packages, environments)]
    for need in NEEDS:
        if need.logs_in and sandboxes_lack:
            yield Check(
                group="Kinds",
                name=need.what,
                is_there=False,
                detail=f"needs sandboxes, and this machine has no {sandboxes_lack}",
            )
            continue
        remedy = _remedy(need, places, is_root=is_root)
        yield Check(
            group="Kinds",
            name=need.what,
            is_there=not remedy,
            detail="" if remedy else _told(need, places),
            remedy=remedy,
        )


def own_environment() -> Path:
    """Where replicas look when no image stands for another one."""
    return Path(sys.prefix)


def _site_packages(environment: Path) -> list[str]:
    found = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    if environment == own_environment():
        # Also what this interpreter has beyond its virtualenv, such as Debian's packages.
        found += [path for path in site.getsitepackages() if path not in found]
    return found


def _remedy(need: Need, places: list[list[str]], *, is_root: bool) -> str:
    packages = [each.package for each in need.programs if _path_of(each) is None]
    if need.logs_in and not _has_name() and not _is_installed(_NSS_WRAPPER):
        packages.append(_NSS_WRAPPER.package)
    commands = [each.command for each in need.modules if not _version(each, places)]
    if packages:
        commands.insert(0, f"{'' if is_root else 'sudo '}apt install {' '.join(packages)}")
    return " && ".join(commands)


def _told(need: Need, places: list[list[str]]) -> str:
    modules = [f"{each.distributions[0]} {_version(each, places)}" for each in need.modules]
    programs = [str(_path_of(each)) for each in need.programs]
    return ", ".join([*modules, *programs]) or "nothing more needed"


def _path_of(program: Program) -> str | None:
    return shutil.which(program.name) or shutil.which(program.name, path=PLACES_OF_SERVERS)


def _has_name() -> bool:
    """Whether the machine knows who we are; if not, ssh needs a wrapper to let us in."""
    try:
        return bool(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return False


def _is_installed(library: Library) -> bool:
    return any(
        next(Path(folder).glob(f"{pattern}{library.name}*"), None) is not None
        for folder in PLACES_OF_LIBRARIES
        for pattern in ("", "*/")
    )


def _version(module: Module, places: list[list[str]]) -> str:
    """Empty where it is in none of the places."""
    for place in places:
        if any((Path(folder) / module.name).is_dir() for folder in place):
            for found in importlib.metadata.distributions(path=place):
                if found.name.lower().replace("_", "-") in module.distributions:
                    return found.version
            return "(of an unknown version)"
    return ""
