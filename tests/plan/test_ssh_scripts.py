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
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from rig.needs import lacks, missing
from rig.users import free_uid, has_name
from rig.waiting import until_it_holds

from jobyard.plan.lowering.ssh import KEY_FILES, scripts

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
WRAPPERS = list(Path("/usr/lib").rglob("libnss_wrapper.so*"))
TRUE = shutil.which("true") or ""
PATIENCE_SECONDS = 60
HOSTILE = 'it\'s "quoted" $HOME `id` \\ two\nlines'

pytestmark = pytest.mark.skipif(
    SSHD is None or lacks("ssh"),
    reason=missing("sshd", "openssh-server openssh-client"),
)


class Site(msgspec.Struct, frozen=True):
    """What a replica finds in its container, in a folder of the test's."""

    folder: Path
    port: int
    uid: int
    # Stands in the place of /etc/passwd for the site's commands, and for nobody else.
    passwd: Path | None = None

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
        user = [f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"]
        return [*self._apart(), "setpriv", *user, *words]

    def _apart(self) -> list[str]:
        if self.passwd is None:
            return []
        cover = f"mount --bind '{self.passwd}' /etc/passwd"
        return ["unshare", "--mount", "sh", "-c", f'{cover} && exec "$@"', "sh"]

    def script(self, name: str) -> str:
        return str(self.folder / "files" / name)


@contextmanager
def own_port() -> Iterator[int]:
    """A port that nobody else is given for as long as this holds it, at any address: sshd has all.

    sshd may listen there all the same: it sets SO_REUSEADDR too, and this socket doesn't listen.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("", 0))
        port: int = held.getsockname()[1]
        yield port


# Who has a name goes through fewer lines: one script in three; the other has every one of them.
US = pytest.param("us", marks=pytest.mark.sample(3, "ssh as us"))


@pytest.fixture(params=[US, "a uid without a name"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == "us":
        if not has_name(os.getuid()) and not WRAPPERS:
            pytest.skip(missing("nss_wrapper", "libnss-wrapper"))
        yield from laid_out(os.getuid())
        return
    with free_uid() as uid:
        if not WRAPPERS:
            pytest.skip(missing("nss_wrapper", "libnss-wrapper"))
        yield from laid_out(uid)


def laid_out(uid: int) -> Iterator[Site]:
    # Not below pytest's own folder, which is closed to other users.
    made = subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True)
    folder = Path(made.stdout.strip())
    for name in ("files", "keys"):
        (folder / name).mkdir()
    for name, text in scripts(with_first=True).items():
        (folder / "files" / name).write_text(text)
    (folder / "files" / "hostfile").write_text("127.0.0.1 slots=2\n")
    for name in ("identity", "host_key"):
        make_key(folder / "keys" / name)
    folder.chmod(0o777)
    with own_port() as port:
        yield Site(folder, port, uid)
    shutil.rmtree(folder)


@pytest.fixture
def nameless() -> Iterator[Site]:
    """A uid without a name, with an /etc/passwd that a test may do with as it likes."""
    with free_uid() as uid:
        if subprocess.run(["unshare", "--mount", "true"]).returncode != 0:
            pytest.skip("no mount namespaces here, to cover /etc/passwd for one user alone")
        for site in laid_out(uid):
            passwd = site.folder / "passwd"
            passwd.write_bytes(Path("/etc/passwd").read_bytes())
            passwd.chmod(0o644)
            yield msgspec.structs.replace(site, passwd=passwd)


def make_key(path: Path) -> None:
    # Not with ssh-keygen, which refuses to work for a user without a name.
    key = Ed25519PrivateKey.generate()
    path.unlink(missing_ok=True)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    path.with_name(f"{path.name}.pub").write_bytes(public + b"\n")
    # As a mounted Secret is: readable for all.
    path.chmod(0o444)


@contextmanager
def worker(site: Site, *words: str, **extra: str) -> Iterator[None]:
    work = site.folder / "work"
    work.mkdir(mode=0o755)
    process = subprocess.Popen(
        site.command("sh", site.script("worker.sh"), *words),
        env=site.environment("worker-ssh", **extra),
        cwd=work,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield
    finally:
        process.terminate()
        _, told = process.communicate(timeout=PATIENCE_SECONDS)
        # Shown if the test failed: who waits for a worker can't say why it isn't there.
        print(told)


def launch(site: Site, *program: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        site.command("sh", site.script("launcher.sh"), *program),
        env=site.environment("launcher-ssh", **extra),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def first(site: Site, *program: str, **extra: str) -> tuple[int, str]:
    """The exit code and the output of the first worker's program."""
    # Files and not pipes: sshd holds on to what it has from the script.
    with (site.folder / "out").open("w") as out, (site.folder / "err").open("w") as err:
        process = subprocess.Popen(
            site.command("sh", site.script("first.sh"), *program),
            env=site.environment("first-ssh", **extra),
            stdout=out,
            stderr=err,
        )
        code = process.wait(PATIENCE_SECONDS)
    # In a container sshd would end with the program; here it is ours to end.
    told = site.folder / "first-ssh" / "sshd.pid"
    os.kill(int(told.read_text()), signal.SIGTERM)
    # It takes its file away as it ends, and who removes the folder would meet it there.
    until_it_holds(lambda: not told.exists(), "sshd has ended")
    assert (site.folder / "err").read_text() == ""
    return code, (site.folder / "out").read_text()


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


def test_no_bashrc_is_read_in_a_login(site: Site) -> None:
    """bash reads it in logins over ssh, but only if nobody has told it a level."""
    with worker(site):
        done = launch(site, *over_ssh(site, 'echo "$SHLVL"'))
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


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


def test_what_a_launcher_waits_for_is_told_before_its_time_is_up(site: Site) -> None:
    process = subprocess.Popen(
        site.command("sh", site.script("launcher.sh"), "true"),
        env=site.environment("launcher-ssh", JOBYARD_LOGIN_SECONDS="300"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    told = process.stderr.readline()
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert told.startswith("jobyard: still no login on 127.0.0.1: ssh: connect to host 127.0.0.1")
    assert "Connection refused" in told


@pytest.mark.parametrize(("password", "want"), [("!locked", "yes"), ("*", "no"), ("", "no")])
def test_a_locked_account_is_let_in_by_pam(site: Site, password: str, want: str) -> None:
    name = subprocess.run(["id", "-un", str(site.uid)], capture_output=True, text=True).stdout
    shadow = site.folder / "shadow"
    shadow.write_text(f"daemon:!:1::::::\n{name.strip()}:{password}:1::::::\n")
    environment = site.environment("worker-ssh", JOBYARD_SHADOW=str(shadow), JOBYARD_SSHD=TRUE)
    command = site.command("sh", site.script("worker.sh"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config = (site.folder / "worker-ssh" / "sshd_config").read_text()
    assert f"\nUsePAM {want if name else 'no'}\n" in config


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


def test_an_sshd_that_a_command_names_and_that_isnt_there_is_the_jobs_own(site: Site) -> None:
    with worker(site, "/nowhere/sshd", "-o", "LogLevel=QUIET"):
        assert launch(site, "true").returncode == 0


def test_another_port_comes_beside_the_jobs_own(site: Site) -> None:
    with (
        own_port() as other,
        worker(site, SSHD or "", "-p", str(site.port), "-p", str(other)),
    ):
        assert launch(site, "true").returncode == 0
        config = str(site.folder / "launcher-ssh" / "config")
        done = launch(site, "ssh", "-F", config, "-p", str(other), "127.0.0.1", "echo there")
        assert done.stdout == "there\n", done.stderr


def test_a_machine_without_that_sshd_has_it_elsewhere(site: Site) -> None:
    with worker(site, JOBYARD_SSHD="/nowhere/sshd", JOBYARD_WITHOUT_IMAGE="1"):
        assert launch(site, "true").returncode == 0


PLACED = {"JOBYARD_PLACED_BY": "spec.mpiHome"}
MPIRUN = ("/nowhere/bin/sh", "--prefix", "/nowhere", "-c", 'echo "$0"')


@pytest.mark.parametrize(
    ("program", "extra", "want"),
    [
        (MPIRUN, PLACED, "sh: not found: spec.mpiHome says /nowhere, and the image has /"),
        (
            ("/nowhere/bin/no-such", *MPIRUN[1:]),
            PLACED,
            "no-such: not found: spec.mpiHome says /nowhere, and the image has none on PATH",
        ),
        (
            ("/nowhere/bin/no-such", *MPIRUN[1:]),
            {**PLACED, "JOBYARD_WITHOUT_IMAGE": "1"},
            "and no no-such on PATH: spec.mpiHome says /nowhere",
        ),
        (("no-such",), {}, "jobyard: exec: no-such: not found: install it"),
    ],
)
def test_a_program_that_isnt_there_is_told_before_anybody_waits(
    site: Site, program: tuple[str, ...], extra: dict[str, str], want: str
) -> None:
    done = launch(site, *program, **extra)
    assert done.returncode == 127
    assert want in done.stderr
    assert "still no login" not in done.stderr


def test_on_a_machine_the_program_is_taken_from_path(site: Site) -> None:
    with worker(site):
        done = launch(site, *MPIRUN, **PLACED, JOBYARD_WITHOUT_IMAGE="1")
    assert (done.returncode, done.stdout) == (0, "sh\n"), done.stderr
    told = "jobyard: spec.mpiHome says /nowhere, and this machine has no /nowhere/bin/sh: running /"
    assert told in done.stderr


def without_wrapper(site: Site) -> str:
    """A PATH on which nothing finds nss_wrapper, wherever it may be on this machine."""
    folder = site.folder / "bin"
    folder.mkdir(mode=0o755)
    (folder / "find").write_text("#!/bin/sh\nexit 0\n")
    (folder / "find").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_a_uid_without_a_name_gets_one_where_the_image_lets_it(nameless: Site) -> None:
    assert nameless.passwd is not None
    before = nameless.passwd.read_text()
    # Each container has a file of its own, open to all as in images made to run as any user.
    launcher = msgspec.structs.replace(nameless, passwd=nameless.folder / "launcher-passwd")
    assert launcher.passwd is not None
    launcher.passwd.write_text(before)
    for passwd in (nameless.passwd, launcher.passwd):
        passwd.chmod(0o666)
    path = without_wrapper(nameless)
    with worker(nameless, PATH=path, SECRET=HOSTILE):
        words = 'printf "%s %s\\n" "$(id -u)" "$(id -un)"; printf %s "$SECRET"'
        done = launch(launcher, *over_ssh(launcher, words), PATH=path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{nameless.uid} jobyard\n{HOSTILE}"
        # A name is given once, however often something starts.
        assert launch(launcher, "true", PATH=path).returncode == 0
    for passwd, home in ((nameless.passwd, "worker-ssh"), (launcher.passwd, "launcher-ssh")):
        added = passwd.read_text().removeprefix(before)
        folder = nameless.folder / home
        assert added == f"jobyard:x:{nameless.uid}:{nameless.uid}::{folder}:/bin/sh\n"
    assert "jobyard:x:" not in Path("/etc/passwd").read_text(), "the machine's own is as it was"


@pytest.mark.parametrize("script", ["worker.sh", "launcher.sh", "first.sh"])
def test_a_uid_that_nothing_gives_a_name_is_told_what_would(nameless: Site, script: str) -> None:
    done = subprocess.run(
        nameless.command("sh", nameless.script(script), "true"),
        env=nameless.environment("ssh", PATH=without_wrapper(nameless)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"jobyard: uid {nameless.uid} has no name in /etc/passwd, and ssh needs one: put it into"
        " /etc/passwd of the image, make that file writable, install libnss-wrapper,"
        " or run as another user\n"
    )
    # Nothing of the keys was left lying about.
    assert not (nameless.folder / "ssh" / "identity").exists()


def test_a_user_without_a_login_shell_is_told_what_it_lacks(nameless: Site) -> None:
    assert nameless.passwd is not None
    with nameless.passwd.open("a") as passwd:
        passwd.write(f"daemonic:x:{nameless.uid}:{nameless.uid}::/:/usr/sbin/nologin\n")
    done = subprocess.run(
        nameless.command("sh", nameless.script("worker.sh")),
        env=nameless.environment("ssh", PATH=without_wrapper(nameless)),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("jobyard: user daemonic has no login shell, and ssh needs one:")


def test_the_first_worker_runs_sshd_and_beside_it_the_program(site: Site) -> None:
    env_file = site.folder / "ds_env"
    # A plain ssh, without our configuration, as DeepSpeed calls it.
    program = 'ssh 127.0.0.1 "echo reached; echo \\$PLAIN"; exit 7'
    environment = {
        "DS_ENV_FILE": str(env_file),
        "JOBYARD_HANDED_ON": "PLAIN EMPTY LINES JSON PERCENT",
        "PLAIN": "a/b=c:1",
        "EMPTY": "",
        "LINES": HOSTILE,
        "JSON": '{"a": 1}',
        "PERCENT": "%h",
        "SECRET": "not to be told",
    }
    code, told = first(site, "sh", "-c", program, **environment)
    assert (code, told) == (7, "reached\na/b=c:1\n")
    # What could not be written so that every shell on the way leaves it alone is not.
    assert env_file.read_text() == "PLAIN=a/b=c:1\nEMPTY=\n"


def test_a_launcher_that_tells_its_environment_is_started_without_secrets(site: Site) -> None:
    extra = {"OPEN": "a = b", "SECRET": HOSTILE, "KUBERNETES_PORT": "tcp://10.0.0.1:443"}
    with worker(site):
        done = launch(site, "env", JOBYARD_KEPT="OPEN", **extra)
        assert done.returncode == 0, done.stderr
        kept = dict(line.split("=", 1) for line in done.stdout.splitlines())
        # It reads ssh's configuration in its home, and no home of a user is the folder here.
        home = str(site.folder / "launcher-ssh" / "home")
        assert kept.pop("HOME") == home
        assert Path(home, ".ssh", "config").resolve() == site.folder / "launcher-ssh" / "config"
        assert kept.pop("OPEN") == "a = b"
        assert kept.keys() <= {
            "PATH",
            "LD_PRELOAD",
            "NSS_WRAPPER_PASSWD",
            "NSS_WRAPPER_GROUP",
            "PWD",
        }
        assert "SECRET" in launch(site, "env", **extra).stdout


@pytest.mark.parametrize("knows", [True, False])
def test_elastic_options_are_only_for_a_deepspeed_that_knows_them(site: Site, knows: bool) -> None:
    """A script in place of DeepSpeed's launcher: there are releases with them and without."""
    before = "--hostfile /t9k/hostfile --master_addr h"
    options = "--elastic_training --min_elastic_nodes 1 --max_elastic_nodes 3"
    after = "--no_local_rank train.py --elastic_training"
    deepspeed = site.folder / "deepspeed"
    shown = options if knows else "none of them"
    deepspeed.write_text(f'#!/bin/sh\n[ "$1" = --help ] && exec echo "{shown}"\necho "$@"\n')
    deepspeed.chmod(0o755)
    told = first(site, str(deepspeed), *f"{before} {options} {after}".split())
    want = f"{before} {options} {after}\n" if knows else f"{before} {after}\n"
    assert told == (0, want)
