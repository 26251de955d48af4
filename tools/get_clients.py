"""Get other people's clients once, for the tests that try them against the embedded engine.

    python tools/get_clients.py define     client-go's clientset for definitions; the command's path
    python tools/get_clients.py fabric8    fabric8's client for Java; the folder of its libraries

Prints one line on standard output: where it is. The programs that use them are ours, in
`tools/kube/define/` and `tools/clients/fabric8/`, where the versions are pinned as well. Standard
library only, because it runs before anything is installed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from cache_folder import cache_root, locked
from get_kube import MODULE_FOLDER as KUBE_FOLDER
from get_kube import UnavailableError, build, pins_of, usable_go

FABRIC8_FOLDER = Path(__file__).resolve().parent / "clients" / "fabric8"
MAVEN_SECONDS = 600


def folder_of(name: str, made_of: Iterable[Path], environment: Mapping[str, str]) -> Path:
    """Where a client is kept, until what goes into it changes."""
    text = b"".join(path.read_bytes() for path in made_of)
    digest = hashlib.sha256(text).hexdigest()[:12]
    return cache_root(environment) / "clients" / f"{name}-{digest}"


def obtain_define(environment: Mapping[str, str]) -> Path:
    """The command, after building it if need be: seconds, where Kubernetes was built before."""
    made_of = (KUBE_FOLDER / "define" / "main.go", KUBE_FOLDER / "go.mod")
    folder = folder_of("define", made_of, environment)
    place = folder / "define"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not os.access(place, os.X_OK):
            go = usable_go(environment, pins_of((KUBE_FOLDER / "go.mod").read_text()))
            command = (go, "build", "-trimpath", "-ldflags", "-s -w")
            build(command, {"define": "./define"}, KUBE_FOLDER, folder, environment)
    return place


def obtain_fabric8(environment: Mapping[str, str]) -> Path:
    """The folder of its libraries, which Maven fetches."""
    folder = folder_of("fabric8", (FABRIC8_FOLDER / "pom.xml",), environment)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            maven = shutil.which("mvn", path=environment.get("PATH"))
            if maven is None:
                raise UnavailableError("there is no mvn; on Debian: apt-get install maven")
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            goal = ("dependency:copy-dependencies", f"-DoutputDirectory={part}")
            done = subprocess.run(
                [maven, "--batch-mode", "--quiet", *goal],
                cwd=FABRIC8_FOLDER,
                env=dict(environment),
                capture_output=True,
                text=True,
                check=False,
                timeout=MAVEN_SECONDS,
            )
            if done.returncode != 0:
                raise UnavailableError(f"mvn ended with {done.returncode}:\n{done.stdout}")
            part.replace(folder)
    return folder


CLIENTS = {"define": obtain_define, "fabric8": obtain_fabric8}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("client", choices=sorted(CLIENTS))
    try:
        place = CLIENTS[parser.parse_args().client](os.environ)
    except UnavailableError as problem:
        print(f"get_clients: {problem}", file=sys.stderr)
        return 1
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
