"""Install what a lock of `tools/locks/` lists, and nothing else, with uv.

    python tools/locked_install.py package build     into the virtualenv of this Python

Decides how uv is told what pip is told on this machine: who has set up a mirror, a proxy or
certificates has set them up for pip, and uv reads none of that. `tools/make_venv.sh`,
`get_frameworks.py`, `get_go.py` and `make_locks.py` call it. It refuses whatever has no hash. Which
versions there are is for `make_locks.py` to know. Standard library only, because it runs before
anything is installed.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LOCKS = Path(__file__).resolve().parent / "locks"
# pip counts these sections of its files, each before the one that follows.
_SECTIONS = (":env:", "install", "global")


class InstallError(Exception):
    """Something can't be installed; the message says what was tried and what was said."""


def lock_file(name: str) -> Path:
    return LOCKS / f"{name}.txt"


def pip_settings(said: str) -> dict[str, str]:
    """What counts for `pip install`, out of what `pip config list` prints."""
    found: dict[str, str] = {}
    for line in said.splitlines():
        told = re.fullmatch(r"(?P<section>[^.=]+)\.(?P<name>[^=]+)=(?P<value>['\"].*)", line)
        if told is not None and told["section"] in _SECTIONS:
            found[f"{told['section']}.{told['name']}"] = str(ast.literal_eval(told["value"]))
    names = {key.partition(".")[2] for key in found}
    return {
        name: next(found[key] for each in _SECTIONS if (key := f"{each}.{name}") in found)
        for name in names
    }


def uv_variables(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that tell uv the same; none that the environment has for uv already."""
    told: dict[str, str] = {}
    bundles = (environment.get(name) for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"))
    if certificates := settings.get("cert") or next(filter(None, bundles), None):
        told["SSL_CERT_FILE"] = certificates
    else:
        # As pip does, and unlike uv, which has a list of its own.
        told["UV_SYSTEM_CERTS"] = "1"
    if index := settings.get("index-url"):
        told["UV_DEFAULT_INDEX"] = index
    if more := settings.get("extra-index-url"):
        told["UV_INDEX"] = " ".join(more.split())
        # pip looks everywhere; so may we, since a hash says which file is the right one.
        told["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    # pip passes over folders that aren't there, uv doesn't.
    places = [each for each in settings.get("find-links", "").split() if _is_there(each)]
    if places:
        told["UV_FIND_LINKS"] = ",".join(places)
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        told["UV_NO_INDEX"] = "1"
    if hosts := settings.get("trusted-host"):
        told["UV_INSECURE_HOST"] = " ".join(hosts.split())
    if seconds := settings.get("timeout") or settings.get("default-timeout"):
        told["UV_HTTP_TIMEOUT"] = str(max(1, int(float(seconds))))
    if identity := settings.get("client-cert"):
        told["SSL_CLIENT_CERT"] = identity
    if proxy := settings.get("proxy"):
        told |= {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy}
    # What pip is told by name comes first for it, so also here; else the environment's word holds.
    ours = ("SSL_CERT_FILE",) if settings.get("cert") else ()
    return {name: v for name, v in told.items() if name in ours or not environment.get(name)}


def _is_there(place: str) -> bool:
    return "://" in place or Path(place).expanduser().is_dir()


def uv_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment to run uv in, for the Python that runs this."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    # A Python without pip has no settings for it.
    settings = pip_settings(asked.stdout) if asked.returncode == 0 else {}
    return {**environment, **uv_variables(settings, environment)}


def find_uv(environment: Mapping[str, str]) -> str:
    """The locked one of this virtualenv, else any."""
    own = Path(sys.executable).parent / "uv"
    found = str(own) if os.access(own, os.X_OK) else shutil.which("uv", environment.get("PATH"))
    if found is None:
        raise InstallError(f"there is no uv beside {sys.executable}; `make setup` brings it")
    return found


def install(
    locks: Sequence[str],
    environment: Mapping[str, str],
    where: Sequence[str] = (),
    options: Sequence[str] = ("--only-binary=:all:",),
) -> None:
    """Install the locks, all of them at once; `where` is uv's word for the place."""
    files = [word for name in locks for word in ("--requirements", str(lock_file(name)))]
    place = where or ("--python", sys.executable)
    _uv("pip", "install", "--require-hashes", *files, *options, *place, environment=environment)


def install_tree(tree: Path, environment: Mapping[str, str]) -> None:
    """Install the package of `tree` as it stands there; all that it needs is there already."""
    alone = ("--no-deps", "--no-build-isolation")
    place = ("--python", sys.executable)
    _uv("pip", "install", *alone, "--editable", str(tree), *place, environment=environment)


def _uv(*words: str, environment: Mapping[str, str]) -> None:
    command = [find_uv(environment), *words, "--quiet", "--compile-bytecode"]
    done = subprocess.run(
        command,
        env=uv_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}")


def main() -> int:
    try:
        install(sys.argv[1:], os.environ)
        install_tree(LOCKS.parents[1], os.environ)
    except InstallError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
