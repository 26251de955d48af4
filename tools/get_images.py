"""Make the images that examples and tests name, out of Debian's packages and this tree.

    python tools/get_images.py                          all of them
    python tools/get_images.py jobyard python:3.11-slim  these alone, by word or by name

Prints `NAME TARFILE` for each name; `ctr -n k8s.io images import TARFILE` takes the file, and so
do podman and docker. What is made is kept in a cache until what goes in has changed. Needs root,
apt and the network for what is made anew; no registry of images and no docker. Progress, sizes
and times go to standard error. Standard library only, and pip for Jobyard's own image.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic

from cache_folder import cache_root, is_unused, locked
from images import trees
from images.archive import Config, write_archive
from images.dockerfile import config_of
from images.layers import LayerFile, recall, remember, write_layer
from images.trees import ImageError, run
from locked_install import lock_file

TREE = Path(__file__).resolve().parents[1]
PARTS = TREE / "tools" / "images"
# Changes with what the modules of `images` do, so that nothing made before is used again.
MAKING = "1"
# How long something is kept that this checkout has no use for: Jobyard's own image is another one
# after each change in src/.
UNUSED_DAYS = 1

DEBIAN_PACKAGES = ("python3",)
DEBIAN_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
}
PYTHON_NAME = "python:3.11-slim"
# What the wheel is made of; the Dockerfile copies the same.
JOBYARD_PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")
# What the Dockerfile installs before it, and what it builds it with. The bill of materials stays
# out: it tells of the Dockerfile's base, and these images have another.
DEPENDENCIES, BUILDING = lock_file("package"), lock_file("build")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a layer is made."""

    below: tuple[Path, ...]
    # Not there yet; what the layer adds is in it at the end.
    tree: Path
    # An empty folder for what the script in the tree needs from outside.
    given: Path


@dataclass(frozen=True, slots=True)
class Layer:
    """Files on top of those of another layer."""

    name: str
    below: "Layer | None"
    make: Callable[[Site], None]
    # Texts and files that decide what is in it.
    made_of: tuple[str | Path, ...]
    # Run in the finished tree; a layer that fails is not kept.
    check: str = ""
    # Whether others stand on it, which then need its tree.
    is_shared: bool = False

    @property
    def digest(self) -> str:
        below = self.below.digest if self.below else trees.codename()
        return digest_of(MAKING, below, self.name, *self.made_of)

    @property
    def stack(self) -> "tuple[Layer, ...]":
        return (*(self.below.stack if self.below else ()), self)


@dataclass(frozen=True, slots=True)
class Image:
    """Layers, the names that the examples have for it, and how its containers start."""

    word: str
    names: tuple[str, ...]
    layer: Layer
    config: Config

    @property
    def digest(self) -> str:
        return digest_of(self.layer.digest, *self.names, repr(self.config))


def digest_of(*parts: str | Path) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            found.update(b"text\0" + part.encode() + b"\0")
            continue
        for path in [part] if part.is_file() else sorted(part.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                inner = hashlib.sha256(path.read_bytes()).digest()
                found.update(str(path.relative_to(part)).encode() + b"\0" + inner)
    return found.hexdigest()[:12]


def say(text: str) -> None:
    print(f"images: {text}", file=sys.stderr, flush=True)


# What is in the layers.


def make_pause(site: Site) -> None:
    site.tree.mkdir()
    source = str(PARTS / "pause.c")
    run(["gcc", "-static", "-Os", "-s", "-Wall", "-Werror", "-o", str(site.tree / "pause"), source])


def make_debian(site: Site) -> None:
    trees.make_debian(site.tree, DEBIAN_PACKAGES)


def by_script(script: str) -> Callable[[Site], None]:
    def make(site: Site) -> None:
        trees.change(site.below, site.tree, PARTS / script, site.given)

    return make


def make_dependencies(site: Site) -> None:
    bring_pip(site.given)
    # The image has a Python of its own, perhaps not of the version that runs this.
    version = (site.below[-1] / "usr/bin/python3").readlink().name.removeprefix("python")
    wanted = ("--only-binary=:all:", "--python-version", version, "--require-hashes")
    shutil.copy(DEPENDENCIES, site.given / "package.txt")
    where = ("--dest", str(site.given / "wheels"))
    pip("download", *wanted, *where, "--requirement", str(site.given / "package.txt"))
    trees.change(site.below, site.tree, PARTS / "jobyard_dependencies_make.sh", site.given)


def sources_digest(folder: Path) -> str:
    return digest_of(*(folder / part for part in JOBYARD_PARTS))


def by_wheel(sources: str) -> Callable[[Site], None]:
    """Of the tree whose digest that is; it may have changed when the layer's turn comes."""

    def make(site: Site) -> None:
        source = site.given / "source"
        source.mkdir()
        no_caches = shutil.ignore_patterns("__pycache__")
        for part in JOBYARD_PARTS:
            if (TREE / part).is_dir():
                shutil.copytree(TREE / part, source / part, ignore=no_caches)
            else:
                shutil.copy(TREE / part, source / part)
        if sources_digest(source) != sources:
            raise ImageError("the sources changed after this had begun; run it again")
        bring_pip(site.given)
        # What builds it is that of the virtualenv, which is locked too.
        alone = ("--no-deps", "--no-build-isolation")
        pip("wheel", *alone, "--wheel-dir", str(site.given / "wheels"), str(source))
        trees.change(site.below, site.tree, PARTS / "jobyard_make.sh", site.given)

    return make


def bring_pip(given: Path) -> None:
    """The pip of this Python, alone: with what is installed beside it, pip would count that too."""
    found = importlib.util.find_spec("pip")
    if found is None or not found.submodule_search_locations:
        raise ImageError(f"{sys.executable} has no pip; run this with the Python of a virtualenv")
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(found.submodule_search_locations[0], given / "pip/pip", ignore=no_caches)


def pip(*words: str) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    run([sys.executable, "-m", "pip", words[0], *quiet, *words[1:]])


# Which images there are.


def names_in_examples(kind: str, wanted: str) -> tuple[str, ...]:
    """The images that the examples of a kind name, so that they never differ from ours."""
    texts = [path.read_text() for path in sorted((TREE / "examples" / kind).glob("*.yaml"))]
    found = re.findall(r"^[\s-]*image:\s*[\"']?([^\s\"'#]+)", "\n".join(texts), re.MULTILINE)
    return tuple(sorted({name for name in found if re.search(wanted, name)}))


def jobyard_name() -> str:
    text = (TREE / "src/jobyard/__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None, "the package says its version"
    # A tag can't have the + that a version may have.
    return f"jobyard:{found[1].replace('+', '-')}"


def scripted(name: str, below: Layer) -> Layer:
    make, check = f"{name}_make.sh", f"{name}_check.sh"
    return Layer(name, below, by_script(make), (PARTS / make, PARTS / check), check)


def all_images() -> tuple[Image, ...]:
    pause = Layer("pause", None, make_pause, (PARTS / "pause.c",))
    python_parts = (*DEBIAN_PACKAGES, PARTS / "python_check.sh")
    python = Layer("python", None, make_debian, python_parts, "python_check.sh", is_shared=True)
    dependencies_script = "jobyard_dependencies_make.sh"
    needed = Layer(
        "jobyard-dependencies",
        python,
        make_dependencies,
        (PARTS / dependencies_script, DEPENDENCIES),
        is_shared=True,
    )
    sources = sources_digest(TREE)
    jobyard = scripted("jobyard", needed)
    jobyard = replace(
        jobyard, make=by_wheel(sources), made_of=(*jobyard.made_of, BUILDING, sources)
    )
    plain = Config(env=DEBIAN_ENV, command=("python3",))
    openmpi_names = ("jobyard/openmpi:4.1", *names_in_examples("mpijob", "mpi"))
    pytorch_names = names_in_examples("pytorchtrainingjob", "^pytorch/")
    dockerfile = config_of((TREE / "Dockerfile").read_text(), DEBIAN_ENV)
    return (
        Image("pause", ("jobyard/pause:1",), pause, Config(entrypoint=("/pause",), user="65535")),
        Image("python", (PYTHON_NAME,), python, plain),
        Image("jobyard", (jobyard_name(),), jobyard, dockerfile),
        Image("openmpi", tuple(dict.fromkeys(openmpi_names)), scripted("openmpi", python), plain),
        Image("pytorch", pytorch_names, scripted("pytorch", python), plain),
    )


# Making them, once.


def obtain(image: Image, cache: Path) -> Path:
    """The archive of the image, made unless it is there."""
    path = cache / f"{image.word}-{image.digest}.tar"
    with locked(cache / f"{image.word}.lock"):
        if path.is_file():
            path.touch()
        else:
            began = monotonic()
            layers = [obtain_layer(layer, cache / "layers") for layer in image.layer.stack]
            write_archive(path, image.names, image.config, layers)
            _drop_others(path)
            say(f"{image.word}: {megabytes(path)} MB in {monotonic() - began:.0f} s")
    return path


def obtain_layer(layer: Layer, cache: Path) -> LayerFile:
    folder = cache / f"{layer.name}-{layer.digest}"
    ready = folder / "layer.json"
    with locked(cache / f"{layer.name}.lock"):
        if (there := recall(ready)) is not None:
            ready.touch()
            return there
        # One that was left half made is made from the start.
        shutil.rmtree(folder, ignore_errors=True)
        _drop_others(folder)
        folder.mkdir(parents=True)
        began = monotonic()
        say(f"making the layer {layer.name}")
        below = tuple(cache / f"{each.name}-{each.digest}" / "tree" for each in layer.stack[:-1])
        tree = folder / "tree"
        with tempfile.TemporaryDirectory() as scratch:
            given = Path(scratch) / "given"
            given.mkdir()
            layer.make(Site(below, tree, given))
            if layer.check:
                trees.check((*below, tree), PARTS / layer.check, given)
        made = write_layer(tree, folder / "layer.tar")
        if not layer.is_shared:
            shutil.rmtree(tree)
        remember(made, ready)
        say(f"the layer {layer.name}: {megabytes(made.path)} MB in {monotonic() - began:.0f} s")
        return made


def _drop_others(path: Path) -> None:
    word = path.name.rpartition("-")[0]
    for old in path.parent.glob(f"{word}-????????????{path.suffix}"):
        marker = old / "layer.json" if old.is_dir() else old
        if old != path and is_unused(marker, UNUSED_DAYS):
            say(f"removing {old.name}, which is of before")
            shutil.rmtree(old) if old.is_dir() else old.unlink()


def megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 2**20:.1f}"


def choose(asked: Sequence[str], images: Sequence[Image]) -> list[tuple[Image, tuple[str, ...]]]:
    """The images that are asked for, each with the names to tell; all of them for nothing."""
    if not asked:
        return [(image, image.names) for image in images]
    known = {name for image in images for name in (image.word, *image.names)}
    if unknown := [name for name in asked if name not in known]:
        raise ImageError(f"no image {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = []
    for image in images:
        if image.word in asked:
            chosen.append((image, image.names))
        elif names := tuple(name for name in image.names if name in asked):
            chosen.append((image, names))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of an image, or its word")
    asked = parser.parse_args().names
    cache = cache_root(os.environ) / "images"
    try:
        chosen = choose(asked, all_images())
        if os.getuid() != 0:
            raise ImageError("trees with owners and mounts need root")
        subprocess.run(["sh", str(PARTS.parent / "system_packages.sh"), "images"], check=True)
        for image, names in chosen:
            path = obtain(image, cache)
            for name in names:
                print(name, path, flush=True)
    except (ImageError, ValueError, subprocess.CalledProcessError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
