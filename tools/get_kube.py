"""Find, or build once, the Kubernetes commands that the tests run against.

Prints one line on standard output: the folder that holds them. Everything for the
reader's eyes goes to standard error, so `KUBE=$(python tools/get_kube.py)` works.
The order is: the folder in `KUBEBUILDER_ASSETS` (the envtest convention), our cache,
`setup-envtest` if it is installed, and at last a build from the Go modules pinned in
`tools/kube/`, which is also the one place that says which version we test against.
With `--node` it prints the folder that has kubelet and kube-proxy instead: only the tests
with real pods need those, so nobody else waits for their build. `--all` gets both at once.

It refuses to download executables of Kubernetes itself, and to know how they are run:
that is `tests/rig/`. Standard library only, because it runs before anything is
installed.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cache_folder import cache_root, locked
from get_go import NoGoError, find_go, needed_version

MODULE_FOLDER = Path(__file__).resolve().parent / "kube"

# In the order of building: what most tests need comes first.
PACKAGES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
# What a machine needs to be a node; built only when asked for.
NODE_PACKAGES: Mapping[str, str] = {
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
}
# What envtest's archives hold; the other two are ours to add.
ENVTEST_COMMANDS = ("etcd", "kube-apiserver", "kubectl")

SETUP_ENVTEST_SECONDS = 300


class UnavailableError(Exception):
    """A way to the commands is barred; the message says by what."""


@dataclass(frozen=True, slots=True)
class Pins:
    """What tools/kube/go.mod asks for."""

    kubernetes: str
    go: tuple[int, ...]

    @property
    def minor(self) -> str:
        """The minor release, `1.36` of `v1.36.4`."""
        return ".".join(self.kubernetes.removeprefix("v").split(".")[:2])


def say(text: str) -> None:
    print(f"get_kube: {text}", file=sys.stderr, flush=True)


def pins_of(go_mod: str) -> Pins:
    """Read the versions out of go.mod, so that they are written down only once."""
    kubernetes = re.search(r"^\s*k8s\.io/kubernetes (v[\d.]+)$", go_mod, re.MULTILINE)
    assert kubernetes is not None, "go.mod must require k8s.io/kubernetes"
    return Pins(kubernetes=kubernetes[1], go=needed_version(go_mod))


def missing_in(folder: Path, commands: Iterable[str] = PACKAGES) -> tuple[str, ...]:
    """The commands that `folder` lacks, in our order."""
    return tuple(name for name in commands if not os.access(folder / name, os.X_OK))


def ways_out(pins: Pins) -> str:
    """What a reader without the commands can do about it."""
    go = ".".join(map(str, pins.go[:2]))
    return (
        "Tests need a real Kubernetes. Ways to get it:\n"
        "  - let this run reach a Python package index and a proxy of Go modules, and it is"
        " built once\n"
        f"  - install Go {go} or newer (https://go.dev/dl), if it is Go that can't be had there\n"
        f"  - set KUBEBUILDER_ASSETS to a folder with {', '.join(ENVTEST_COMMANDS)}"
        f" of Kubernetes {pins.minor}\n"
        "  - install setup-envtest (sigs.k8s.io/controller-runtime/tools/setup-envtest)"
        " on the PATH"
    )


def obtain(environment: Mapping[str, str], pins: Pins, beside: Iterable[str] = ()) -> Path:
    """The folder that holds the commands, after whatever it takes to fill it.

    Where they have to be built, those of `beside` are built with them, which is quicker.
    """
    root = cache_root(environment) / "kube"
    cache = root / pins.kubernetes
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        folder = Path(assets).expanduser().resolve()
        if lacking := missing_in(folder, ENVTEST_COMMANDS):
            raise UnavailableError(
                f"KUBEBUILDER_ASSETS is {folder}, which has no {', '.join(lacking)};"
                " point it at a folder that has, or unset it"
            )
        return completed(folder, cache, pins, environment)
    if not missing_in(cache):
        return cache
    if (fetched := ask_setup_envtest(environment, pins)) is not None:
        return completed(fetched, cache, pins, environment)
    fill(cache, (*PACKAGES, *beside), pins, environment)
    return cache


def obtain_node(environment: Mapping[str, str], pins: Pins) -> Path:
    """The folder that holds the node's commands; envtest has none, so they are always built."""
    cache = cache_root(environment) / "kube" / pins.kubernetes
    fill(cache, tuple(NODE_PACKAGES), pins, environment)
    return cache


def completed(folder: Path, cache: Path, pins: Pins, environment: Mapping[str, str]) -> Path:
    """A folder with `folder`'s commands and the cache's for those it lacks.

    envtest leaves out kube-controller-manager and kube-scheduler. Without Go they
    stay missing: most tests do without, so that is said, not fatal.
    """
    lacking = missing_in(folder)
    if not lacking:
        return folder
    try:
        fill(cache, lacking, pins, environment)
    except UnavailableError as problem:
        say(f"{folder} has no {', '.join(lacking)}, and building failed: {problem}")
        return folder
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    joined = cache.with_name(f"{cache.name}-with-{key}")
    with locked(joined.with_name(f"{joined.name}.lock")):
        joined.mkdir(exist_ok=True)
        for name in PACKAGES:
            link(joined / name, (cache if name in lacking else folder) / name)
    return joined


def link(place: Path, target: Path) -> None:
    """Point `place` at `target`, never leaving a moment without it."""
    fresh = place.with_name(f"{place.name}.part")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def ask_setup_envtest(environment: Mapping[str, str], pins: Pins) -> Path | None:
    """envtest's folder, fetched by its own tool, or None where that is no help."""
    tool = shutil.which("setup-envtest", path=environment.get("PATH"))
    if tool is None:
        return None
    say(f"asking setup-envtest for Kubernetes {pins.minor}")
    try:
        done = subprocess.run(
            [tool, "use", f"{pins.minor}.x", "-p", "path"],
            env=dict(environment),
            capture_output=True,
            text=True,
            check=True,
            timeout=SETUP_ENVTEST_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as problem:
        detail = (getattr(problem, "stderr", None) or "").strip()
        say(f"setup-envtest didn't help: {problem} {detail}".rstrip())
        return None
    folder = Path(done.stdout.strip())
    if lacking := missing_in(folder, ENVTEST_COMMANDS):
        say(f"setup-envtest named {folder}, which has no {', '.join(lacking)}")
        return None
    return folder


def fill(
    cache: Path, commands: tuple[str, ...], pins: Pins, environment: Mapping[str, str]
) -> None:
    """Build those of `commands` that the cache lacks; two runs never build at once."""
    if not missing_in(cache, commands):
        return
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache.with_name(f"{cache.name}.lock")):
        # Whoever held the lock before may have built them for us.
        lacking = missing_in(cache, commands)
        if not lacking:
            return
        go = usable_go(environment, pins)
        say(
            f"building {', '.join(lacking)} {pins.kubernetes} into {cache};"
            " from nothing it takes about 10 minutes on two cores, once"
        )
        packages = {**PACKAGES, **NODE_PACKAGES}
        command = (go, "build", "-trimpath", "-ldflags", linker_flags(pins))
        wanted = {name: packages[name] for name in lacking}
        build(command, wanted, MODULE_FOLDER, cache, environment)


def usable_go(environment: Mapping[str, str], pins: Pins) -> str:
    try:
        return find_go(environment, pins.go)
    except NoGoError as problem:
        raise UnavailableError(str(problem)) from None


def linker_flags(pins: Pins) -> str:
    """Stamp the version in: without it the server says v0.0.0 and clients misbehave."""
    major, minor = pins.minor.split(".")
    server, client = "k8s.io/component-base/version", "k8s.io/client-go/pkg/version"
    stamps = [
        *(f"-X {package}.gitVersion={pins.kubernetes}" for package in (server, client)),
        *(f"-X {package}.gitMajor={major}" for package in (server, client)),
        *(f"-X {package}.gitMinor={minor}" for package in (server, client)),
        f"-X {server}.gitTreeState=archive",
    ]
    return " ".join(["-s", "-w", *stamps])


def built_name(package: str) -> str:
    """What go calls the command of a package: the last word of its path that isn't a version."""
    words = package.split("/")
    return words[-2] if re.fullmatch(r"v\d+", words[-1]) else words[-1]


def build(
    command: tuple[str, ...],
    packages: Mapping[str, str],
    module: Path,
    folder: Path,
    environment: Mapping[str, str],
) -> None:
    """Build all `packages` in one go, so that one is linked while others are compiled.

    They are built beside their place and moved in, so that half a file is never found.
    """
    part = folder / "building.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    done = subprocess.run(
        [*command, "-o", f"{part}/", *packages.values()],
        cwd=module,
        env={**environment, "CGO_ENABLED": "0", "GOWORK": "off"},
        # Hundreds of lines about downloads, which matter only when it fails.
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        for name, package in packages.items():
            (part / built_name(package)).replace(folder / name)
    shutil.rmtree(part)
    if done.returncode != 0:
        raise UnavailableError(
            f"go build of {', '.join(packages)} ended with {done.returncode}:\n"
            f"{done.stdout.strip()}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Print the folder that holds the Kubernetes commands, building them if need be."
    )
    parser.add_argument(
        "--node", action="store_true", help="the folder with kubelet and kube-proxy instead"
    )
    parser.add_argument("--all", action="store_true", help="get kubelet and kube-proxy as well")
    asked = parser.parse_args()
    pins = pins_of((MODULE_FOLDER / "go.mod").read_text())
    try:
        if asked.node:
            folder = obtain_node(os.environ, pins)
        else:
            folder = obtain(os.environ, pins, NODE_PACKAGES if asked.all else ())
        if asked.all:
            obtain_node(os.environ, pins)
    except UnavailableError as problem:
        say(f"{problem}\n{ways_out(pins)}")
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
