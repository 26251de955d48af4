"""tools/get_images.py: what the archives hold, which images there are, and what is made again.

The trees here are a few files. That the real ones do what they are for is checked where they are
made (tools/images/*_check.sh), since that takes minutes and root.
"""

import hashlib
import json
import os
import re
import signal
import stat
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import get_images
import pytest
from get_images import Image, Layer, Site
from images import trees
from images.archive import Config, write_archive
from images.dockerfile import config_of
from images.layers import NEWEST_SECONDS, LayerFile, recall, remember, write_layer
from images.trees import ImageError
from rig.needs import AS_ROOT, lacks, missing
from rig.places import ROOT
from rig.waiting import until_it_holds

from jobyard.install.settings import DEFAULT_IMAGE
from jobyard.install.workload import PORT, USER

IS_ROOT = os.geteuid() == 0


def tree_with(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}\n")
    return folder


def members(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(path) as archive:
        return {member.name: member for member in archive}


def content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


# Layers


def test_the_same_files_are_the_same_layer(tmp_path: Path) -> None:
    first = tree_with(tmp_path / "first", "b/two", "b/one", "a", "c/d/e")
    second = tree_with(tmp_path / "second", "a", "c/d/e", "b/one", "b/two")
    os.utime(second / "b" / "one", (NEWEST_SECONDS + 500, NEWEST_SECONDS + 500))
    made = [write_layer(tree, tmp_path / f"{tree.name}.tar") for tree in (first, second)]
    assert made[0].sha256 == made[1].sha256
    in_order = ["a", "b", "b/one", "b/two", "c", "c/d", "c/d/e"]
    assert list(members(made[0].path)) == in_order
    (second / "a").write_text("else\n")
    assert write_layer(second, tmp_path / "third.tar").sha256 != made[0].sha256


def test_digest_and_size_are_those_of_the_file(tmp_path: Path) -> None:
    layer = write_layer(tree_with(tmp_path / "tree", "a", "b"), tmp_path / "layer.tar")
    assert layer.sha256 == hashlib.sha256(layer.path.read_bytes()).hexdigest()
    assert layer.size == layer.path.stat().st_size


def test_a_layer_keeps_modes_links_and_owners_as_numbers(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "tree", "bin/program")
    (tree / "bin/program").chmod(0o4755)
    (tree / "bin/same").hardlink_to(tree / "bin/program")
    (tree / "lib").symlink_to("usr/lib")
    (tree / "folder").symlink_to("bin")
    found = members(write_layer(tree, tmp_path / "layer.tar").path)
    assert set(found) == {"bin", "bin/program", "bin/same", "lib", "folder"}
    assert found["bin/program"].mode == 0o4755
    assert found["bin/program"].size > 0
    assert (found["bin/same"].islnk(), found["bin/same"].linkname) == (True, "bin/program")
    assert (found["lib"].issym(), found["lib"].linkname) == (True, "usr/lib")
    assert (found["folder"].issym(), found["folder"].linkname) == (True, "bin")
    assert {member.uname for member in found.values()} == {""}
    assert {member.uid for member in found.values()} == {os.geteuid()}


def test_times_are_kept_up_to_the_newest(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "tree", "old", "new")
    os.utime(tree / "old", (1000, 1000))
    found = members(write_layer(tree, tmp_path / "layer.tar").path)
    assert found["old"].mtime == 1000
    assert found["new"].mtime == NEWEST_SECONDS


def test_what_overlayfs_marks_as_gone_is_gone_in_the_image(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "tree", "etc/kept")
    os.mknod(tree / "etc/removed", stat.S_IFCHR, 0)
    found = members(write_layer(tree, tmp_path / "layer.tar").path)
    assert set(found) == {"etc", "etc/kept", "etc/.wh.removed"}
    assert found["etc/.wh.removed"].isreg()


@pytest.mark.skipif(not IS_ROOT, reason=f"only root sets the attributes of overlayfs{AS_ROOT}")
def test_a_folder_that_overlayfs_replaced_hides_what_is_below(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "tree", "etc/mine", "var/mine")
    os.setxattr(tree / "etc", "trusted.overlay.opaque", b"y")
    found = members(write_layer(tree, tmp_path / "layer.tar").path)
    assert set(found) == {"etc", "etc/.wh..wh..opq", "etc/mine", "var", "var/mine"}


@pytest.mark.skipif(not IS_ROOT, reason=f"only root gives a file capabilities{AS_ROOT}")
def test_file_capabilities_are_refused_and_not_lost(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "tree", "ping")
    # Version 2, permitted and effective: CAP_NET_RAW.
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    os.setxattr(tree / "ping", "security.capability", capability)
    with pytest.raises(ValueError, match=r"ping has file capabilities"):
        write_layer(tree, tmp_path / "layer.tar")


def test_a_layer_is_remembered_beside_its_file(tmp_path: Path) -> None:
    assert recall(tmp_path / "layer.json") is None
    layer = write_layer(tree_with(tmp_path / "tree", "a"), tmp_path / "layer.tar")
    remember(layer, tmp_path / "layer.json")
    assert recall(tmp_path / "layer.json") == layer


# Archives


def archive_of(tmp_path: Path, config: Config, *names: str) -> tuple[Path, list[LayerFile]]:
    layers = [
        write_layer(tree_with(tmp_path / name, name), tmp_path / f"{name}.layer")
        for name in ("lower", "upper")
    ]
    path = tmp_path / "image.tar"
    write_archive(path, names, config, layers)
    return path, layers


def test_an_archive_is_what_docker_save_writes(tmp_path: Path) -> None:
    path, layers = archive_of(tmp_path, Config(command=("sh",)), "one:1", "two/three:4")
    with tarfile.open(path) as archive:
        (image,) = json.loads(content(archive, "manifest.json"))
        assert image["RepoTags"] == ["one:1", "two/three:4"]
        described = content(archive, image["Config"])
        assert image["Config"] == hashlib.sha256(described).hexdigest() + ".json"
        facts = json.loads(described)
        stored = [content(archive, name) for name in image["Layers"]]
    assert set(members(path)) == {"manifest.json", image["Config"], *image["Layers"]}
    # The lowest first, in both lists, each by its own digest.
    digests = ["sha256:" + hashlib.sha256(each).hexdigest() for each in stored]
    assert facts["rootfs"] == {"type": "layers", "diff_ids": digests}
    assert digests == [f"sha256:{layer.sha256}" for layer in layers]
    assert (facts["os"], len(facts["history"])) == ("linux", 2)
    assert facts["architecture"] != "x86_64"
    assert facts["config"] == {"Cmd": ["sh"]}


def test_an_archive_appears_when_it_is_whole(tmp_path: Path) -> None:
    gone = LayerFile(tmp_path / "gone.tar", "0" * 64, 10)
    with pytest.raises(FileNotFoundError):
        write_archive(tmp_path / "image.tar", ["one:1"], Config(), [gone])
    assert not (tmp_path / "image.tar").exists()


def test_a_config_says_only_what_is_set() -> None:
    config = Config(
        env={"A": "1", "B": "x=y"},
        entrypoint=("run",),
        user="1:2",
        folder="/work",
        ports=("80/tcp",),
        labels={"who": "us"},
    )
    assert config.as_json() == {
        "Env": ["A=1", "B=x=y"],
        "Entrypoint": ["run"],
        "User": "1:2",
        "WorkingDir": "/work",
        "ExposedPorts": {"80/tcp": {}},
        "Labels": {"who": "us"},
    }
    assert Config().as_json() == {}


# The Dockerfile


def test_our_image_starts_as_the_dockerfile_says() -> None:
    config = config_of((ROOT / "Dockerfile").read_text(), {"PATH": "/bin", "LANG": "C.UTF-8"})
    assert config.user == f"{USER}:{USER}"
    assert (config.entrypoint, config.command) == (("jobyard",), ("--help",))
    assert config.ports == (f"{PORT}/tcp",)
    assert dict(config.env) == {
        "PATH": "/opt/jobyard/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    assert config.labels["org.opencontainers.image.title"] == "jobyard"
    assert len(config.labels) == 3


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("FROM a", Config(), id="nothing is said"),
        pytest.param(
            "FROM a\nUSER 1\nFROM b\nUSER 2", Config(user="2"), id="the last stage counts"
        ),
        pytest.param("FROM a\nUSER 1\nFROM b", Config(), id="and only that"),
        pytest.param(
            'FROM a\nENV A=1 \\\n# why\n  B="two words"\nENV C=${A}$A',
            Config(env={"A": "1", "B": "two words", "C": "11"}),
            id="continued lines, comments, variables",
        ),
        pytest.param(
            "FROM a\nEXPOSE 80 53/udp\nWORKDIR /w",
            Config(ports=("80/tcp", "53/udp"), folder="/w"),
            id="ports are TCP's unless told",
        ),
    ],
)
def test_a_dockerfile_is_read_as(text: str, want: Config) -> None:
    assert config_of(text, {}) == want


def test_a_command_that_a_shell_would_run_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        config_of("FROM a\nENTRYPOINT jobyard --help", {})
    with pytest.raises(ValueError, match="not a list of words"):
        config_of('FROM a\nCMD "jobyard"', {})


def copied_in(dockerfile: str) -> list[str]:
    """What each COPY takes out of the tree."""
    found = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
    return [name for names in found for name in names if not names[0].startswith("--from")]


def test_our_image_is_made_of_what_the_dockerfile_copies() -> None:
    locks = [str(path.relative_to(ROOT)) for path in (get_images.BUILDING, get_images.DEPENDENCIES)]
    assert copied_in((ROOT / "Dockerfile").read_text()) == [
        *locks,
        *get_images.JOBYARD_PARTS,
        "tools/images/jobyard.cdx.json",
    ]


def test_the_dockerfile_takes_nothing_without_a_hash() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert re.search(r"^ARG PYTHON_IMAGE=\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    installs = re.findall(r"^RUN (.*pip\b.* (?:install|wheel) .*)$", text, re.MULTILINE)
    assert len(installs) == 4
    for line in installs:
        by_hash = "--require-hashes" in line and "--only-binary=:all:" in line
        assert by_hash or "--no-deps" in line, line
        assert by_hash or "--no-index" in line or "--no-build-isolation" in line, line


def test_a_changed_lock_makes_another_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest() -> str:
        return next(each.digest for each in get_images.all_images() if each.word == "jobyard")

    before = digest()
    for name in ("DEPENDENCIES", "BUILDING"):
        lock = tmp_path / name
        lock.write_text(getattr(get_images, name).read_text() + "another==1\n")
        with monkeypatch.context() as patch:
            patch.setattr(get_images, name, lock)
            assert digest() != before
    assert digest() == before


# Which images there are


def test_the_names_are_those_of_the_examples() -> None:
    images = {image.word: image for image in get_images.all_images()}
    assert list(images) == ["pause", "python", "jobyard", "openmpi", "pytorch"]
    assert images["jobyard"].names == (DEFAULT_IMAGE,)
    files = [
        *(ROOT / "examples" / "mpijob").glob("*.yaml"),
        *(
            ROOT / "examples" / "pytorchtrainingjob" / name
            for name in ("ddp.yaml", "torchrun.yaml")
        ),
    ]
    asked = {
        line.split()[-1]
        for path in files
        for line in path.read_text().splitlines()
        if line.strip().removeprefix("- ").startswith("image: ")
    }
    made = [name for image in images.values() for name in image.names]
    assert asked - set(made) == set()
    assert len(made) == len(set(made))
    assert "mpioperator/mpi-pi:openmpi" in images["openmpi"].names


def test_every_script_of_a_layer_is_there() -> None:
    for image in get_images.all_images():
        for layer in image.layer.stack:
            for part in layer.made_of:
                assert isinstance(part, str) or part.exists()
            if layer.check:
                assert get_images.PARTS / layer.check in layer.made_of


def test_what_stands_on_a_layer_finds_its_tree() -> None:
    for image in get_images.all_images():
        for layer in image.layer.stack[:-1]:
            assert layer.is_shared, layer.name


def test_images_are_chosen_by_word_or_by_name() -> None:
    images = get_images.all_images()
    openmpi = next(image for image in images if image.word == "openmpi")
    assert get_images.choose([], images) == [(image, image.names) for image in images]
    assert get_images.choose(["openmpi"], images) == [(openmpi, openmpi.names)]
    one = "jobyard/openmpi:4.1"
    assert get_images.choose([one], images) == [(openmpi, (one,))]
    with pytest.raises(ImageError, match=r"no image nope; there are .*python:3\.11-slim"):
        get_images.choose(["nope", one], images)


def test_an_unknown_name_is_told_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["get_images.py", "nope"])
    assert get_images.main() == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("images: no image nope; there are ")


def test_the_sources_of_apt_are_those_of_the_machine(tmp_path: Path) -> None:
    names = ("sources.list", "sources.list.d/b.sources", "sources.list.d/a.list")
    tree_with(tmp_path, *names, "sources.list.d/old.list.disabled")
    (tmp_path / "sources.list").write_text("\n")
    found = trees.apt_sources(tmp_path)
    assert [path.name for path in found] == ["a.list", "b.sources"]


# What is made, and what is made again


class Makers:
    """Layers of one file, and a count of how often each was made."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def writing(self, text: str) -> Callable[[Site], None]:
        def make(site: Site) -> None:
            self.made.append(text)
            assert all(path.is_dir() for path in site.below)
            tree_with(site.tree, text)

        return make

    def image(self, top: str = "top", **changed: Any) -> Image:
        below = Layer("below", None, self.writing("below"), ("below",), is_shared=True)
        layer = Layer("above", below, self.writing(top), (top,))
        return replace(Image("sample", ("sample:1",), layer, Config()), **changed)


def test_an_image_is_made_once(tmp_path: Path) -> None:
    makers = Makers()
    first = get_images.obtain(makers.image(), tmp_path)
    assert get_images.obtain(makers.image(), tmp_path) == first
    assert makers.made == ["below", "top"]
    assert len(members(first)) == 4


def test_only_what_changed_is_made_again(tmp_path: Path) -> None:
    makers = Makers()
    first = get_images.obtain(makers.image(), tmp_path)
    for marker in (first, *tmp_path.glob("layers/above-*/layer.json")):
        os.utime(marker, (0, 0))
    second = get_images.obtain(makers.image("another"), tmp_path)
    assert makers.made == ["below", "top", "another"]
    assert not first.exists(), "nobody has used it for long"
    kept = [path.name.rpartition("-")[0] for path in tmp_path.glob("layers/*-*")]
    assert sorted(kept) == ["above", "below"]
    renamed = get_images.obtain(makers.image("another", names=("sample:2",)), tmp_path)
    assert renamed != second
    assert makers.made == ["below", "top", "another"]


def test_what_another_checkout_may_use_stays(tmp_path: Path) -> None:
    makers = Makers()
    first = get_images.obtain(makers.image(), tmp_path)
    get_images.obtain(makers.image("another"), tmp_path)
    assert get_images.obtain(makers.image(), tmp_path) == first
    assert makers.made == ["below", "top", "another"]


def test_what_was_left_half_made_is_made_from_the_start(tmp_path: Path) -> None:
    makers = Makers()
    image = makers.image()
    tree_with(tmp_path / f"layers/above-{image.layer.digest}", "tree/rest", "layer.tar")
    with tarfile.open(get_images.obtain(image, tmp_path)) as archive:
        (manifest,) = json.loads(content(archive, "manifest.json"))
        inner = archive.extractfile(manifest["Layers"][-1])
        with tarfile.open(fileobj=inner) as layer:
            assert layer.getnames() == ["top"]


def test_a_maker_that_fails_leaves_no_image(tmp_path: Path) -> None:
    def fail(site: Site) -> None:
        raise ImageError("no network")

    image = Makers().image()
    broken = replace(image, layer=replace(image.layer, make=fail))
    for _ in range(2):
        with pytest.raises(ImageError, match="no network"):
            get_images.obtain(broken, tmp_path)
    assert not list(tmp_path.glob("*.tar"))


def test_a_digest_follows_names_and_contents_but_no_caches(tmp_path: Path) -> None:
    tree = tree_with(tmp_path / "src", "a.py", "b/c.py")
    before = get_images.digest_of(tree)
    tree_with(tree, "b/__pycache__/c.pyc")
    assert get_images.digest_of(tree) == before
    (tree / "a.py").rename(tree / "d.py")
    assert get_images.digest_of(tree) != before
    assert get_images.digest_of("a", "bc") != get_images.digest_of("ab", "c")


def test_sources_that_changed_meanwhile_are_not_passed_off(tmp_path: Path) -> None:
    make = get_images.by_wheel(get_images.sources_digest(tree_with(tmp_path / "tree", "src/a.py")))
    (tmp_path / "given").mkdir()
    with pytest.raises(ImageError, match="the sources changed"):
        make(Site((), tmp_path / "layer", tmp_path / "given"))
    copied = get_images.sources_digest(tmp_path / "given" / "source")
    assert copied == get_images.sources_digest(ROOT)


def test_a_command_that_fails_is_told_with_what_it_printed() -> None:
    with pytest.raises(ImageError, match=r"ended with 3:\nno such luck"):
        trees.run(["sh", "-c", "echo no such luck >&2; exit 3"])


@pytest.mark.skipif(lacks("gcc"), reason=missing("gcc"))
def test_the_pause_program_waits_and_ends_when_told(tmp_path: Path) -> None:
    site = Site((), tmp_path / "tree", tmp_path)
    get_images.make_pause(site)
    with subprocess.Popen([site.tree / "pause"]) as process:
        until_it_holds(lambda: has_handler(process.pid, signal.SIGTERM), "it waits for its end")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def has_handler(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)
