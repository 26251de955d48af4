"""Write the bill of materials of Jobyard's image: what is in it, in which version and licence.

    python tools/make_sbom.py            writes tools/images/jobyard.cdx.json
    python tools/make_sbom.py --check    only says whether it is current

The Dockerfile puts the file into the image, and says which base the image stands on; the lock of
the package says what is installed on it. Licences and who needs whom are what the distributions say
themselves, as they are installed here. CycloneDX' own library writes the format. What the base is
made of is its maker's to tell: it is one entry, by digest. `make sbom` calls it; nothing in it
depends on the time or the machine.
"""

import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from locked_install import lock_file
from packageurl import PackageURL
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).resolve().parents[1]
TARGET = TREE / "tools" / "images" / "jobyard.cdx.json"


def base_of(dockerfile: str) -> tuple[str, str, str]:
    """Name, tag and digest of the image that ours stands on."""
    found = re.search(
        r"^ARG PYTHON_IMAGE=([\w/.-]+):([\w.-]+)@(sha256:[0-9a-f]{64})$", dockerfile, re.MULTILINE
    )
    if found is None:
        raise ValueError("the Dockerfile must name its base as NAME:TAG@sha256:DIGEST")
    return found[1], found[2], found[3]


def surroundings(tag: str) -> dict[str, str]:
    """What markers are judged by: the Python of the base, on Linux."""
    version = re.match(r"\d+\.\d+", tag)
    if version is None:
        raise ValueError(f"the tag {tag} of the base must begin with a version of Python")
    told = {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "python_version": version[0],
        "python_full_version": f"{version[0]}.0",
        "extra": "",
    }
    return {name: str(value) for name, value in default_environment().items()} | told


def applies(requirement: Requirement, where: Mapping[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(dict(where))


def locked(text: str, where: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name and version of all that the lock installs there."""
    for line in re.findall(r"^[\w.-]+==[^\\\n]+", text, re.MULTILINE):
        wanted = Requirement(line.strip())
        if applies(wanted, where):
            (version,) = (each.version for each in wanted.specifier)
            yield canonicalize_name(wanted.name), version


def jobyard_version() -> str:
    text = (TREE / "src/jobyard/__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert found is not None, "the package says its version"
    return found[1]


def described(name: str, version: str) -> Component:
    """A distribution of Python, with the licence that it has by its own words."""
    about = importlib.metadata.metadata(name)
    if name != "jobyard" and about["Version"] != version:
        raise ValueError(f"{name} {about['Version']} is installed, not {version}: make setup")
    said = about.get("License-Expression") or _from_classifiers(about.get_all("Classifier") or [])
    said = said or (about.get("License") or "").partition("\n")[0]
    return Component(
        type=ComponentType.APPLICATION if name == "jobyard" else ComponentType.LIBRARY,
        bom_ref=f"{name}=={version}",
        name=name,
        version=version,
        purl=PackageURL("pypi", name=name, version=version),
        licenses=[LicenseFactory().make_from_string(said)] if said else [],
    )


def _from_classifiers(classifiers: list[str]) -> str:
    found = [
        each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: OSI")
    ]
    return found[0] if len(found) == 1 else ""


def needs_of(name: str, where: Mapping[str, str]) -> set[str]:
    """The distributions that one asks for there."""
    asked = map(Requirement, importlib.metadata.requires(name) or [])
    return {canonicalize_name(each.name) for each in asked if applies(each, where)}


def text() -> str:
    """The whole file."""
    base_name, tag, digest = base_of((TREE / "Dockerfile").read_text())
    where = surroundings(tag)
    versions = dict(locked(lock_file("package").read_text(), where))
    versions["jobyard"] = jobyard_version()
    image = Component(
        type=ComponentType.CONTAINER,
        bom_ref="image",
        name="jobyard",
        version=versions["jobyard"],
    )
    base = Component(
        type=ComponentType.CONTAINER,
        bom_ref="base",
        name=base_name,
        version=digest,
        purl=PackageURL("docker", name=base_name, version=digest, qualifiers={"tag": tag}),
    )
    parts = {name: described(name, version) for name, version in versions.items()}
    bom = Bom(components=[base, *parts.values()])
    bom.metadata.component = image
    bom.register_dependency(image, [base, parts["jobyard"]])
    for name, part in parts.items():
        wanted = needs_of(name, where)
        bom.register_dependency(part, [parts[each] for each in sorted(wanted & set(parts))])
    # Of the content, so that the same image has the same number.
    facts = " ".join([digest, *(f"{name}=={each}" for name, each in sorted(versions.items()))])
    bom.serial_number = uuid5(NAMESPACE_URL, facts)
    value = json.loads(JsonV1Dot6(bom).output_as_string())
    del value["metadata"]["timestamp"]
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def main() -> int:
    made = text()
    if sys.argv[1:] == ["--check"]:
        is_current = TARGET.is_file() and TARGET.read_text() == made
        if not is_current:
            print(f"{TARGET.relative_to(TREE)} is not current; run `make sbom`", file=sys.stderr)
        return 0 if is_current else 1
    TARGET.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
