"""The image's bill of materials: current, complete, and nothing in it that isn't in the image."""

import json
from pathlib import Path

import make_sbom
import pytest
from locked_install import lock_file
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rig.places import ROOT

BILL = json.loads(make_sbom.TARGET.read_text())
WHERE = make_sbom.surroundings("3.13-slim")


def test_it_is_what_lock_and_dockerfile_say_now() -> None:
    assert make_sbom.TARGET.read_text() == make_sbom.text(), "run `make sbom`"


def test_check_says_whether_it_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["make_sbom.py", "--check"])
    assert make_sbom.main() == 0
    monkeypatch.setattr(make_sbom, "TREE", tmp_path)
    monkeypatch.setattr(make_sbom, "TARGET", tmp_path / "bill.json")
    monkeypatch.setattr(make_sbom, "text", lambda: "{}\n")
    assert make_sbom.main() == 1
    assert "make sbom" in capsys.readouterr().err
    assert not (tmp_path / "bill.json").exists()


def test_everything_that_the_lock_installs_is_in_it_with_its_licence() -> None:
    libraries = {
        (each["name"], each["version"]) for each in BILL["components"] if each["type"] == "library"
    }
    lines = lock_file("package").read_text().splitlines()
    pins = [Requirement(line.rstrip("\\ ")) for line in lines if "==" in line and line[0].isalnum()]
    assert libraries == {
        (canonicalize_name(pin.name), str(pin.specifier).removeprefix("=="))
        for pin in pins
        if pin.marker is None or pin.marker.evaluate(WHERE)
    }
    assert len(libraries) > 10
    for each in BILL["components"]:
        assert each["type"] == "container" or each["licenses"], each["name"]
        assert each["purl"].endswith(each["version"]) or each["type"] == "container"


def test_the_base_is_in_it_by_digest() -> None:
    (base,) = (each for each in BILL["components"] if each["type"] == "container")
    _, _, digest = make_sbom.base_of((ROOT / "Dockerfile").read_text())
    assert base["version"] == digest
    assert digest in base["purl"]


def test_everything_in_it_is_needed_by_something() -> None:
    """All is reached from the image: nothing was locked that nobody asks for."""
    needs = {each["ref"]: each.get("dependsOn", []) for each in BILL["dependencies"]}
    reached, open_ends = set(), [BILL["metadata"]["component"]["bom-ref"]]
    while open_ends:
        ref = open_ends.pop()
        if ref not in reached:
            reached.add(ref)
            open_ends += needs[ref]
    assert reached == {"image", *(each["bom-ref"] for each in BILL["components"])}


def test_what_only_another_python_needs_is_not_in_it() -> None:
    text = (
        "always==1 \\\n    --hash=sha256:0\n"
        "old==2 ; python_full_version < '3.13' \\\n    --hash=sha256:0\n"
        "new==3 ; python_full_version >= '3.13' \\\n    --hash=sha256:0\n"
        "windows==4 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n"
    )
    assert list(make_sbom.locked(text, WHERE)) == [("always", "1"), ("new", "3")]


def test_a_base_without_a_digest_is_refused() -> None:
    with pytest.raises(ValueError, match="NAME:TAG@sha256:DIGEST"):
        make_sbom.base_of("ARG PYTHON_IMAGE=python:3.13-slim\n")
