"""The start scripts of the launcher kinds, with a real sshd and ssh, under a plain sh.

Each test runs an sshd of its own on a free port of the loopback address, as root and as
a uid that has no name, which is what many images run as.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from jobyard.plan.ssh import KEY_FILES, scripts

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
WRAPPERS = list(Path("/usr/lib").rglob("libnss_wrapper.so*"))
NAMELESS_UID = 54321
PATIENCE_SECONDS = 60
HOSTILE = 'it\'s "quoted" $HOME `id` \\ two\nlines'

pytestmark = pytest.mark.skipif(
    SSHD is None or not shutil.which("ssh-keygen"),
    reason="no sshd here; get it with: apt-get install openssh-server openssh-client",
)


class Site(msgspec.Struct, frozen=True):
    """What a replica finds in its container, in a folder of the test's."""

    folder: Path
    port: int
    uid: int

    def environment(self, name: str, **extra: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/root",
            "JOBYARD_FILES": str(self.folder / "files"),
            "JOBYARD_KEYS": str(self.folder / "keys"),
            "JOBYARD_SSH_DIR": str(self.folder / name),
            "JOBYARD_SSH_PORT": str(self.port),
            "JOBYARD_SSHD": SSHD or "",
            **extra,
        }

    def command(self, *words: str) -> list[str]:
        """The words, run as the site's user."""
        if self.uid == os.getuid():
            return list(words)
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups", *words]

    def script(self, name: str) -> str:
        return str(self.folder / "files" / name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def users() -> list[int]:
    """Us; and, where we may become somebody else, a uid that has no name."""
    return [0, NAMELESS_UID] if os.getuid() == 0 else [os.getuid()]


@pytest.fixture(params=users(), ids=lambda uid: f"uid {uid}")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == NAMELESS_UID and not WRAPPERS:
        pytest.skip("no nss_wrapper here; get it with: apt-get install libnss-wrapper")
    # Not below pytest's own folder, which is closed to other users.
    made = subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True)
    folder = Path(made.stdout.strip())
    for name in ("files", "keys"):
        (folder / name).mkdir()
    for name, text in scripts(with_first=True).items():
        (folder / "files" / name).write_text(text)
    (folder / "files" / "hosts").write_text("127.0.0.1\n")
    for name in ("identity", "host_key"):
        make_key(folder / "keys" / name)
    folder.chmod(0o777)
    yield Site(folder, free_port(), request.param)
    shutil.rmtree(folder)


def make_key(path: Path) -> None:
    path.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(command, check=True, input="y\n", text=True)
    # As a mounted Secret is: readable for all.
    path.chmod(0o444)


@contextmanager
def worker(site: Site, **extra: str) -> Iterator[None]:
    work = site.folder / "work"
    work.mkdir(mode=0o755)
    process = subprocess.Popen(
        site.command("sh", site.script("worker.sh")),
        env=site.environment("worker-ssh", **extra),
        cwd=work,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)


def launch(site: Site, *program: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        site.command("sh", site.script("launcher.sh"), *program),
        env=site.environment("launcher-ssh", **extra),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def over_ssh(site: Site, command: str) -> tuple[str, ...]:
    config = str(site.folder / "launcher-ssh" / "config")
    return ("ssh", "-F", config, "127.0.0.1", command)


def test_the_mounted_names_are_those_that_the_scripts_read() -> None:
    text = "".join(scripts().values())
    assert all(f"$keys/{name}" in text for name in KEY_FILES)


def test_a_process_over_ssh_has_the_containers_environment_and_folder(site: Site) -> None:
    with worker(site, SECRET=HOSTILE):
        done = launch(site, *over_ssh(site, 'pwd; printf %s "$SECRET"; echo; id -u'))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{site.folder / 'work'}\n{HOSTILE}\n{site.uid}\n"


def test_the_launcher_becomes_its_program_and_keeps_its_exit_code(site: Site) -> None:
    with worker(site):
        assert launch(site, "sh", "-c", "exit 42").returncode == 42


def test_copies_of_the_keys_are_for_their_owner_only(site: Site) -> None:
    with worker(site):
        assert launch(site, "true").returncode == 0
        for folder in ("worker-ssh", "launcher-ssh"):
            for name in ("identity", "authorized_keys", "host_key"):
                found = (site.folder / folder / name).stat()
                assert (found.st_mode & 0o777, found.st_uid) == (0o600, site.uid)


def test_a_worker_that_never_answers_is_named(site: Site) -> None:
    done = launch(site, "true", JOBYARD_LOGIN_SECONDS="1")
    assert done.returncode == 1
    assert "jobyard: no login within 1 s on:\n  127.0.0.1: " in done.stderr
    assert "Connection refused" in done.stderr


def test_a_host_with_another_key_is_not_trusted(site: Site) -> None:
    with worker(site):
        assert launch(site, "true").returncode == 0
        make_key(site.folder / "keys" / "host_key")
        done = launch(site, "true", JOBYARD_LOGIN_SECONDS="1")
    assert done.returncode == 1
    assert "Host key verification failed" in done.stderr


def test_an_image_without_sshd_is_told_what_to_do(site: Site) -> None:
    done = subprocess.run(
        site.command("sh", site.script("worker.sh")),
        env=site.environment("worker-ssh", JOBYARD_SSHD="/nowhere/sshd"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no sshd at /nowhere/sshd: install openssh-server" in done.stderr


def test_the_first_worker_runs_sshd_and_beside_it_the_program(site: Site) -> None:
    (site.folder / "files" / "hostfile").write_text("127.0.0.1 slots=2\n")
    hostfile, env_file = site.folder / "t9k" / "hostfile", site.folder / "ds_env"
    config = site.folder / "first-ssh" / "config"
    program = f'ssh -F {config} 127.0.0.1 "echo reached; echo \\$PLAIN"; cat {hostfile}; exit 7'
    environment = site.environment(
        "first-ssh",
        JOBYARD_HOSTFILE=str(hostfile),
        DS_ENV_FILE=str(env_file),
        PLAIN="a = b",
        LINES=HOSTILE,
    )
    # Files and not pipes: sshd holds on to what it has from the script.
    with (site.folder / "out").open("w") as out, (site.folder / "err").open("w") as err:
        command = site.command("sh", site.script("first.sh"), "sh", "-c", program)
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)
        code = process.wait(PATIENCE_SECONDS)
    # In a container sshd would end with the program; here it is ours to end.
    os.kill(int((site.folder / "first-ssh" / "sshd.pid").read_text()), signal.SIGTERM)
    assert (site.folder / "out").read_text() == "reached\na = b\n127.0.0.1 slots=2\n", (
        site.folder / "err"
    ).read_text()
    assert code == 7
    handed_on = env_file.read_text()
    assert "PLAIN=a = b\n" in handed_on
    assert "LINES" not in handed_on
    assert "JOBYARD" not in handed_on
