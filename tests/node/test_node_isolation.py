"""Pods in cages: real namespaces, real processes, as root and as an ordinary user.

Run as root, the last test runs this whole file again as a user without rights.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rig.needs import lacks, missing
from rig.users import free_uid

from jobyard.node.hub.outside import chosen
from jobyard.node.hub.starting import SANDBOX, supervisor_of
from jobyard.node.isolation.cgroups import own_folders
from jobyard.node.isolation.rootfs.mount_points import MadeFolders, wants_mirror
from jobyard.node.runtime.abilities import What, look, missing_for_sandbox
from jobyard.node.shared.order import Mount, MountType, Redirect, RestartPolicy
from jobyard.node.shared.runtime import RuntimeFailedError
from node.isolation_stage import (
    MARK,
    Yard,
    bind,
    eventually,
    file_as,
    marked_processes,
    namespaces,
    play,
    shell,
)

IS_ROOT = os.geteuid() == 0
# In the name of all that pods have at a path of the machine, and no other run of the tests has.
OWN = f"jy-{uuid.uuid4().hex[:8]}"
# A folder that no machine has.
NEW = f"/{OWN}"
# Those of the first and of the last stream; and whether it is the one that Ctrl-C comes from.
TELL_TERMINAL = """
import os
names = os.ttyname(0), os.ttyname(2)
device = os.stat(names[0]).st_rdev
minor, major = os.minor(device), os.major(device)
number = (minor & 0xff) | (major << 8) | (minor >> 8 << 20)
print(*names, int(open("/proc/self/stat").read().rpartition(")")[2].split()[4]) == number)
"""
PLACES = ("/", "/usr", "/usr/local", "/etc", "/dev/shm", "/root")

lacking = missing_for_sandbox(look()) if sys.platform == "linux" else None
needs_sandbox = pytest.mark.skipif(
    sys.platform != "linux" or lacking is not None,
    reason=f"{lacking.reason} ({lacking.remedy})" if lacking else "not Linux",
)


@pytest.fixture(autouse=True)
def mark(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    value = f"{uuid.uuid4()}-{request.node.name}"
    monkeypatch.setenv(MARK, value)
    return value


@pytest.fixture
def data(tmp_path: Path) -> Path:
    # Longer than the address of a Unix socket may be.
    path = tmp_path / ("d" * 110)
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def nothing_new_on_the_machine() -> Iterator[None]:
    yield
    found = [one for place in PLACES for one in Path(place).glob(f"*{OWN}*")]
    assert not found


@needs_sandbox
def test_pods_share_a_port_and_reach_one_another_by_address_and_by_name(data: Path) -> None:
    serve = (
        "import socket,os; s=socket.create_server(('0.0.0.0', 22));"
        "print('up', flush=True)\n"
        "while True: c,_=s.accept(); c.sendall(socket.gethostname().encode()); c.close()"
    )
    ask = (
        "import socket,sys\n"
        "for host in sys.argv[1:]: print(socket.create_connection((host, 22)).recv(99).decode())"
    )

    async def scene(yard: Yard) -> None:
        server = shell(f"exec {shlex.quote(sys.executable)} -c {shlex.quote(serve)}")
        first, second = await yard.running(server), await yard.running(server)
        for order in (first, second):
            await yard.logged(order, "up")
        hosts = f"{first.address} {second.address} pod-1 pod-2 pod-3"
        # A port of its own, on its own name.
        own = f"{shlex.quote(sys.executable)} -c {shlex.quote(serve)} & "
        wait = "until grep -q :0016 /proc/net/tcp; do sleep 0.02; done; "
        client = f"{shlex.quote(sys.executable)} -c {shlex.quote(ask)} {hosts}"
        said = await yard.said(shell(own + wait + client))
        # Its own server may say that it is up only after others have found it.
        answers = [word for word in said.split() if word != "up"]
        assert answers == ["pod-1", "pod-2", "pod-1", "pod-2", "pod-3"]

    play(data, scene)


@needs_sandbox
def test_a_port_of_a_service_arrives_where_the_pod_listens(data: Path) -> None:
    # On its own address, as many programs do: not on the loopback one.
    serve = (
        "import socket; own=socket.gethostbyname(socket.gethostname())\n"
        "s=socket.create_server((own, 8080)); print('up', flush=True)\n"
        "while True: c,_=s.accept(); c.sendall(b'here'); c.close()"
    )
    ask = (
        "import socket,sys\n"
        "host, *ports = sys.argv[1:]\n"
        "for port in map(int, ports):\n"
        "    try: print(socket.create_connection((host, port), 30).recv(9).decode())\n"
        "    except ConnectionRefusedError: print('refused')"
    )

    async def scene(yard: Yard) -> None:
        python = f"{shlex.quote(sys.executable)} -c"
        server = await yard.running(shell(f"exec {python} {shlex.quote(serve)}"))
        await yard.logged(server, "up")
        client = f"{python} {shlex.quote(ask)}"

        async def answers(*ports: int) -> list[str]:
            wanted = " ".join(map(str, ports))
            return (await yard.said(shell(f"{client} {server.address} {wanted}"))).split()

        assert await answers(80, 8080) == ["refused", "here"]
        for port in (80, 81):
            redirect = Redirect(protocol="TCP", port=port, target=8080)
            assert await yard.runtime.forward(server.uid, (redirect,))
        # What was so before is so no longer.
        assert await answers(80, 81, 8080) == ["refused", "here", "here"]
        # From the pod itself; and what it calls elsewhere is left alone.
        for host, answer in ((server.address, "here"), ("100.96.0.1", "refused")):
            asked = await yard.ask(server, "/bin/sh", "-c", f"{client} {host} 81")
            assert asked == (0, f"{answer}\n")
        many = tuple(Redirect(protocol="TCP", port=n, target=8080) for n in range(100, 500))
        assert await yard.runtime.forward(server.uid, many)
        assert await answers(81, 100, 499) == ["refused", "here", "here"]
        assert await yard.runtime.forward(server.uid, ())
        assert await answers(81, 8080) == ["refused", "here"]
        assert not await yard.runtime.forward("nobody", ())

    play(data, scene)


@needs_sandbox
def test_a_command_finds_itself_alone_in_its_own_surroundings(data: Path) -> None:
    script = "id -u; hostname; ls /proc | grep -c '^[0-9]'; ls /sys/class/net; umask; env; pwd"

    async def scene(yard: Yard) -> None:
        env = {"A": "b c", "PATH": os.environ["PATH"]}
        lines = (await yard.said(shell(script, env=env, working_folder="/tmp"))).splitlines()
        assert lines[:2] == [str(os.getuid()), "pod-1"]
        # Number 1, the shell, ls, and grep if it was quicker.
        assert lines[2] in ("3", "4")
        assert lines[3:5] == ["eth0", "lo"]
        assert lines[5] == "0022"
        # PWD is the shell's own.
        assert {line.split("=")[0] for line in lines[6:-1]} == {"A", "PATH", "PWD"}
        assert "A=b c" in lines
        assert lines[-1] == "/tmp"

    play(data, scene)


@needs_sandbox
def test_a_command_inherits_no_signals_and_no_files(data: Path) -> None:
    look_at = "import os; print(sorted(os.listdir('/dev/fd')))"

    async def scene(yard: Yard) -> None:
        # Python itself ignores two signals; grep doesn't.
        said = await yard.said(shell("", argv=("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status")))
        # Of the two that the C library keeps to itself nobody can say anything.
        masks = [int(line.split()[1], 16) & ~(0b11 << 31) for line in said.splitlines()]
        assert masks == [0, 0]
        said = await yard.said(shell("", argv=(sys.executable, "-c", look_at)))
        # The last one is the listing's own.
        assert said.splitlines()[-1] == "['0', '1', '2', '3']"

    play(data, scene)


@needs_sandbox
@pytest.mark.parametrize(
    ("script", "code", "number"),
    [("exit 0", 0, 0), ("exit 3", 3, 0), ("kill -TERM $$", 143, 0), ("kill -9 $$", 137, 0)],
)
def test_the_exit_code_is_the_commands(data: Path, script: str, code: int, number: int) -> None:
    async def scene(yard: Yard) -> None:
        end = await yard.run(shell(script))
        assert end.exit_code == code
        assert end.reason == ("Completed" if code == 0 else "Error")

    play(data, scene)


@needs_sandbox
def test_what_cant_be_started_is_told_in_kubernetes_words(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no program")
    cases = {
        ("nosuch",): 'exec: "nosuch": executable file not found in $PATH',
        ("/no/such",): 'exec: "/no/such": stat /no/such: no such file or directory',
        (str(tmp_path / "file"),): f'exec: "{tmp_path}/file": permission denied',
        ("/tmp",): 'exec: "/tmp": is a directory',
    }

    async def scene(yard: Yard) -> None:
        for argv, text in cases.items():
            end = await yard.run(shell("", argv=argv))
            assert (end.exit_code, end.reason) == (128, "StartError")
            assert end.message == f"unable to start container process: {text}"
        end = await yard.run(shell("true", working_folder=str(tmp_path / "file")))
        assert (end.exit_code, end.reason) == (128, "StartError")
        assert "not a directory" in end.message
        end = await yard.run(shell("true", mounts=(bind(tmp_path / "gone", "/tmp/x"),)))
        assert (end.exit_code, end.reason) == (128, "StartError")
        assert f'error mounting "{tmp_path}/gone" to "/tmp/x"' in end.message

    play(data, scene)


@needs_sandbox
def test_missing_mount_points_and_folders_exist_inside_only(data: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mounts = (
        bind(volume, f"{NEW}/mnt"),
        bind(volume, f"/usr/local/{OWN}/deep"),
        bind(volume, f"{NEW}/mnt/below"),
    )

    async def scene(yard: Yard) -> None:
        script = (
            f"touch {NEW}/mnt/a /usr/local/{OWN}/deep/b; ls /usr/local/bin >/dev/null && pwd;"
            "ls /usr/bin/env /etc/passwd; [ -c /dev/null ] && echo dev"
        )
        order = shell(script, mounts=mounts, working_folder=f"{NEW}/work/here")
        said = await yard.said(order)
        assert said.splitlines() == [f"{NEW}/work/here", "/etc/passwd", "/usr/bin/env", "dev"]
        assert {path.name for path in volume.iterdir()} == {"a", "b", "below"}

    play(data, scene)


@needs_sandbox
def test_below_the_users_own_folders_files_land_on_the_disk(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    volume = tmp_path / "volume"
    for path in (work, volume):
        path.mkdir()
    monkeypatch.chdir(work)
    mounts = (bind(volume, work / "some" / "deep" / "place"),)

    async def scene(yard: Yard) -> None:
        forever = shell("touch some/deep/place/in-volume; echo ok; exec sleep 1000", mounts=mounts)
        first = await yard.running(forever)
        await yard.logged(first, "ok")
        # The end of one pod must not take the folder away from another.
        await yard.said(shell("touch result", mounts=mounts))
        assert (work / "some" / "deep" / "place").is_dir()
        code, said = await yard.ask(first, "ls", "some/deep/place")
        assert (code, said) == (0, "in-volume\n")
        # A supervisor that is killed can't tidy up; the next one does.
        os.kill(supervisor_of(data / "pods" / first.uid), signal.SIGKILL)
        assert (await yard.ended(first)).reason == "ContainerStatusUnknown"
        await yard.said(shell("true"))
        await eventually(lambda: not (work / "some").exists(), "the folders are gone")

    play(data, scene)
    assert [path.name for path in work.iterdir()] == ["result"]
    assert [path.name for path in volume.iterdir()] == ["in-volume"]


@needs_sandbox
def test_read_only_means_all_of_it(data: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "file").write_text("old")
    mounts = (
        bind(volume, f"{NEW}/ro", read_only=True),
        bind(volume, f"{NEW}/rw"),
        bind(volume / "file", f"/etc/{OWN}", read_only=True),
    )
    script = f"""
        for one in {NEW}/ro/new {NEW}/ro/file /etc/{OWN}; do
            (echo x > $one) 2>/dev/null && echo wrote $one
        done
        cat /etc/{OWN}; echo; echo x > {NEW}/rw/new && ls {NEW}/ro"""

    async def scene(yard: Yard) -> None:
        assert (await yard.said(shell(script, mounts=mounts))).split() == ["old", "file", "new"]

    play(data, scene)


@needs_sandbox
def test_a_sub_path_cant_leave_its_volume(data: Path, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "inner").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (volume / "out").symlink_to("../secret")
    (volume / "absolute").symlink_to(tmp_path / "secret")
    (volume / "fine").symlink_to("inner")

    async def scene(yard: Yard) -> None:
        for name in ("out", "absolute", "../secret"):
            mount = bind(volume / name, f"{NEW}/x", within=str(volume))
            end = await yard.run(shell(f"ls {NEW}/x", mounts=(mount,)))
            assert (end.exit_code, end.reason) == (128, "CreateContainerConfigError"), name
            assert "leads out of" in end.message
        mount = bind(volume / "fine", f"{NEW}/x", within=str(volume))
        await yard.said(shell(f"touch {NEW}/x/here", mounts=(mount,)))
        assert (volume / "inner" / "here").exists()

    play(data, scene)


@needs_sandbox
def test_memory_volumes_have_their_size(data: Path) -> None:
    mounts = (Mount(target="/dev/shm", type=MountType.TMPFS, size_bytes=1 << 20),)
    script = (
        "head -c 900000 /dev/zero > /dev/shm/a && echo fits; head -c 900000 /dev/zero > /dev/shm/b"
    )

    async def scene(yard: Yard) -> None:
        order = await yard.start(shell(script, mounts=mounts))
        assert (await yard.ended(order)).exit_code == 1
        assert "fits" in yard.log(order)
        assert "No space left on device" in yard.log(order)
        # Its own even when nobody asked for one, and gone afterwards.
        await yard.said(shell(f"echo x > /dev/shm/{OWN}"))
        assert not Path(f"/dev/shm/{OWN}").exists()

    play(data, scene)


@needs_sandbox
@pytest.mark.parametrize("is_shared", [False, True], ids=["command", "child of the command"])
def test_too_much_memory_ends_the_container(data: Path, is_shared: bool) -> None:
    hog = f"{shlex.quote(sys.executable)} -c 'x = bytearray(300 << 20); import time; input()'"
    # Version 1 of control groups leaves the shell a moment after the kernel's kill, but no more.
    script = f"{hog}; sleep 1000; echo went on" if is_shared else f"exec {hog}"

    async def scene(yard: Yard) -> None:
        container = shell(script, memory_limit_bytes=64 << 20, stdin=True)
        order = await yard.start(container)
        end = await yard.ended(order)
        assert (end.exit_code, end.reason) == (137, "OOMKilled")
        assert "went on" not in yard.log(order)
        # One that stays below is let be.
        assert (await yard.run(shell("exit 7", memory_limit_bytes=64 << 20))).exit_code == 7

    play(data, scene)


@needs_sandbox
def test_zombies_are_reaped_and_orphans_end_with_the_command(data: Path, mark: str) -> None:
    script = f"""
        export {MARK}={mark}
        (true & exec true)
        setsid sleep 1000 &
        (setsid sh -c 'trap "" TERM HUP; sleep 1000' &)
        for i in 1 2 3 4 5; do (true &); done
        while grep -q 'State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.02; done
        echo done"""

    async def scene(yard: Yard) -> None:
        assert (await yard.said(shell(script))).strip() == "done"
        assert not [line for line in marked_processes(mark) if "sleep" in line]

    play(data, scene)


@needs_sandbox
def test_a_command_is_asked_to_end_before_it_is_made_to(data: Path) -> None:
    async def scene(yard: Yard) -> None:
        polite = shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done")
        order = await yard.running(polite)
        await yard.logged(order, "up")
        await yard.runtime.stop(order.uid, 30)
        assert (await yard.ended(order)).exit_code == 5
        assert "bye" in yard.log(order)
        rude = await yard.running(shell("trap '' TERM; echo up; while :; do sleep 0.05; done"))
        await yard.logged(rude, "up")
        await yard.runtime.stop(rude.uid, 0)
        assert (await yard.ended(rude)).exit_code == 137

    play(data, scene)


@needs_sandbox
def test_processes_inside_see_what_the_container_sees(data: Path, tmp_path: Path) -> None:
    async def scene(yard: Yard) -> None:
        mounts = (bind(tmp_path, f"{NEW}/mnt"),)
        order = await yard.running(
            shell(
                "",
                # Without a shell, which would be seen in its place for a moment.
                argv=("sleep", "1000"),
                mounts=mounts,
                working_folder=f"{NEW}/mnt",
                memory_limit_bytes=1 << 30,
            )
        )
        code, said = await yard.ask(
            order,
            *("sh", "-c"),
            f"id -u; hostname; pwd; ls -d {NEW}/mnt; tty; cat /proc/2/comm; exit 9",
        )
        assert code == 9
        wanted = [str(os.getuid()), "pod-1", f"{NEW}/mnt", f"{NEW}/mnt", "not a tty", "sleep"]
        assert said.splitlines() == wanted
        code, said = await yard.ask(order, sys.executable, "-c", TELL_TERMINAL, tty=True)
        assert code == 0, said
        assert re.fullmatch(r"(/dev/pts/\d+) \1 True", said.strip())
        with pytest.raises(RuntimeFailedError, match='exec: "nosuch": executable file not found'):
            await yard.ask(order, "nosuch")
        code, said = await yard.ask(order, "sh", "-c", "kill -KILL $$")
        assert code == 137

    play(data, scene)


@needs_sandbox
def test_a_port_on_a_pods_loopback_can_be_reached(data: Path) -> None:
    serve = (
        "import socket; s=socket.create_server(('127.0.0.1', 80)); print('up', flush=True);"
        "c,_=s.accept(); c.sendall(b'hello'); c.close()"
    )

    async def scene(yard: Yard) -> None:
        command = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(serve)}"
        order = await yard.running(shell(command))
        await yard.logged(order, "up")
        reader, writer = await yard.runtime.connect(order.uid, 80)
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()

    play(data, scene)


@needs_sandbox
def test_the_engine_listens_on_the_private_network_and_the_machine_is_out_of_reach(
    data: Path,
) -> None:
    async def scene(yard: Yard) -> None:
        with await yard.runtime.hub.listen("100.96.0.1", 3128) as listener:
            ask = "import socket; socket.create_connection(('100.96.0.1', 3128), 10)"
            await yard.said(shell(f"exec {shlex.quote(sys.executable)} -c {shlex.quote(ask)}"))
            connection, (address, _) = listener.accept()
            connection.close()
            assert address == "100.96.1.1"

    play(data, scene)


@needs_sandbox
@pytest.mark.skipif(
    chosen(is_mapped=not IS_ROOT)[0] != "slirp4netns",
    reason=missing("slirp4netns")
    if lacks("slirp4netns")
    else "another program than slirp4netns, or none, is the way out here",
)
def test_pods_reach_the_machines_network_but_not_its_loopback(data: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing; it only asks which address the machine would use.
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    ask = """
import socket, sys
for host in sys.argv[2:]:
    try:
        socket.create_connection((host, int(sys.argv[1])), 5)
        print("reached")
    except OSError:
        print("refused")"""

    async def scene(yard: Yard) -> None:
        status, _ = await yard.runtime.hub.ask(do="status")
        assert status["outside"] == "slirp4netns"
        with socket.create_server(("0.0.0.0", 0)) as server:
            port = str(server.getsockname()[1])
            argv = (sys.executable, "-c", ask, port, address, "10.0.2.2", "127.0.0.1")
            said = await yard.said(shell("", argv=argv))
            assert said.split() == ["reached", "refused", "refused"]

    play(data, scene)


@needs_sandbox
def test_the_hub_ends_when_its_folder_is_gone(data: Path, mark: str) -> None:
    async def scene(yard: Yard) -> None:
        (data / "hub.sock").rename(data / "gone")
        await eventually(lambda: not marked_processes(mark), "the hub is gone")

    play(data, scene)


@needs_sandbox
def test_another_root_folder_keeps_what_is_written_to_itself(data: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "hosts").touch()
    (root / "usr").mkdir()
    (root / "release").write_text("another")
    for name in ("bin", "lib", "lib64", "sbin"):
        if Path("/", name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    mounts = (bind("/usr", "/usr", read_only=True), bind(tmp_path, f"{NEW}/mnt"))
    if not Path("/bin").is_symlink():
        mounts += tuple(bind(f"/{name}", f"/{name}") for name in ("bin", "lib", "lib64"))
    before = sorted(str(path) for path in root.rglob("*"))

    async def scene(yard: Yard) -> None:
        # Of the machine it has only what is mounted: not the folder that this test is in.
        elsewhere = shlex.quote(str(tmp_path))
        script = f"cat /release; echo; ls -d {elsewhere} 2>/dev/null; grep -c pod-1 /etc/hosts; "
        script += (
            f"echo new > /new; cat /new; [ -e {NEW}/mnt/root ] && echo mounted; pwd;"
            " ls /proc/1/comm"
        )
        order = shell(script, mounts=mounts, root_folder=str(root), working_folder="/srv/x")
        said = await yard.said(order)
        assert said.split() == ["another", "1", "new", "mounted", "/srv/x", "/proc/1/comm"]

    play(data, scene)
    assert sorted(str(path) for path in root.rglob("*")) == before


@needs_sandbox
def test_containers_of_a_pod_run_again_with_everything_in_place(data: Path, tmp_path: Path) -> None:
    mounts = (bind(tmp_path, f"{NEW}/mnt"),)
    script = f"[ -e {NEW}/mnt/again ] && exit 0; touch {NEW}/mnt/again; exit 1"

    async def scene(yard: Yard) -> None:
        order = await yard.start(
            shell(script, mounts=mounts, memory_limit_bytes=1 << 30),
            restart_policy=RestartPolicy.ON_FAILURE,
            restart_delay_seconds=0.01,
        )
        assert (await yard.ended(order)).exit_code == 0
        assert yard.state(order).run == 1

    play(data, scene)


@needs_sandbox
def test_pods_outlive_the_engine_and_are_found_again(data: Path) -> None:
    found: list[str] = []

    async def begin(yard: Yard) -> None:
        order = await yard.running(shell("echo up; read line; exit 6", stdin=True))
        found.append(order.uid)

    async def go_on(yard: Yard) -> None:
        order = yard.order(shell("must not run"), uid=found[0])
        await yard.runtime.start(order)
        state = await yard.until(order.uid, lambda state: True)
        assert not state.is_over
        stdin = await yard.runtime.attach(order.uid, "main")
        os.write(stdin, b"line\n")
        os.close(stdin)
        assert (await yard.ended(order)).exit_code == 6
        # Not twice, even though it is over.
        await yard.runtime.start(order)
        assert (await yard.ended(order)).exit_code == 6
        await yard.runtime.forget(order.uid)
        assert not (data / "pods" / order.uid).exists()

    play(data, begin, stop=False)
    play(data, go_on)


@needs_sandbox
def test_the_hub_survives_who_started_it(data: Path, mark: str) -> None:
    script = (
        "import asyncio, sys, os, signal; from pathlib import Path;"
        "from jobyard.node.hub.client import HubClient;"
        "asyncio.run(HubClient('sandbox', Path(sys.argv[1])).ensure());"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(data)], timeout=60)
    assert done.returncode == -signal.SIGKILL

    def hubs() -> list[str]:
        return [line for line in marked_processes(mark) if "-m jobyard.node.hub" in line]

    assert len(hubs()) == 1

    async def scene(yard: Yard) -> None:
        assert len(hubs()) == 1
        assert (await yard.said(shell("echo fine"))).strip() == "fine"

    play(data, scene)


@needs_sandbox
def test_a_hub_that_died_is_replaced_on_the_same_network(data: Path) -> None:
    serve = (
        "import socket; s=socket.create_server(('0.0.0.0', 80)); print('up', flush=True)\n"
        "while True: c,_=s.accept(); c.sendall(b'hello'); c.close()"
    )
    ask = "import socket; print(socket.create_connection(('pod-1', 80)).recv(99).decode())"

    async def scene(yard: Yard) -> None:
        command = f"exec {shlex.quote(sys.executable)} -c "
        first = await yard.running(shell(command + shlex.quote(serve)))
        await yard.logged(first, "up")
        status, _ = await yard.runtime.hub.ask(do="status")
        os.kill(status["pid"], signal.SIGKILL)
        assert (await yard.said(shell(command + shlex.quote(ask)))).strip() == "hello"
        again, _ = await yard.runtime.hub.ask(do="status")
        assert again["pid"] != status["pid"]

    play(data, scene)


@needs_sandbox
def test_nothing_is_left_after_everything_was_stopped(data: Path, mark: str) -> None:
    during: set[str] = set()
    held: list[int] = []
    own = {os.readlink(path) for path in Path("/proc/self/ns").iterdir()}
    interfaces = set(os.listdir("/sys/class/net"))

    async def scene(yard: Yard) -> None:
        for _ in range(2):
            await yard.running(
                shell(
                    "trap '' TERM; (setsid sleep 1000 &) ; sleep 1000",
                    memory_limit_bytes=1 << 30,
                    cpu_limit_millis=1500,
                )
            )
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={mark}".encode() in (path / "environ").read_bytes():
                    during.update(os.readlink(one) for one in (path / "ns").iterdir())
                    # Held open, so that no other namespace gets the same number meanwhile.
                    held.extend(os.open(one, os.O_RDONLY) for one in (path / "ns").iterdir())
            except OSError:
                continue
        assert len([one for one in during - own if one.startswith("net:")]) == 3
        # One that is killed can't tidy up after itself.
        os.kill(supervisor_of(next((data / "pods").iterdir())), signal.SIGKILL)

    play(data, scene)
    left = (during - own) & namespaces()
    for descriptor in held:
        os.close(descriptor)
    assert not left
    assert marked_processes(mark) == []
    assert str(data) not in Path("/proc/self/mountinfo").read_text()
    assert "jobyard0" not in set(os.listdir("/sys/class/net")) - interfaces
    uids = [path.name for path in (data / "pods").iterdir()]
    groups = subprocess.run(
        ["find", "/sys/fs/cgroup", "-maxdepth", "6", "-name", "jobyard-*"],
        capture_output=True,
        text=True,
    ).stdout
    assert not [uid for uid in uids if uid in groups]
    assert not (data / "hub.sock").exists()


@needs_sandbox
def test_a_real_uid_is_taken_on(data: Path) -> None:
    with free_uid() as uid, free_uid() as gid:

        async def scene(yard: Yard) -> None:
            order = shell("id -u; id -g; id -G", uid=uid, gid=gid, working_folder="/")
            assert (await yard.said(order)).split() == [str(uid), str(gid), str(gid)]

        play(data, scene)


def test_the_host_runtime_runs_plain_processes_and_gathers_orphans(data: Path, mark: str) -> None:
    async def scene(yard: Yard) -> None:
        script = f"export {MARK}={mark}; (setsid sleep 1000 &); (sleep 1000 &) ; id -u; exit 4"
        order = await yard.start(shell(script))
        assert (await yard.ended(order)).exit_code == 4
        assert yard.log(order).strip() == str(os.getuid())
        assert not [line for line in marked_processes(mark) if "sleep" in line]
        rude = await yard.running(shell("trap '' TERM; (setsid sleep 1000 &); echo up; sleep 1000"))
        await yard.logged(rude, "up")
        code, said = await yard.ask(rude, "sh", "-c", "tty; exit 3", tty=True)
        assert code == 3
        assert said.startswith("/dev/pts/")
        await yard.runtime.stop(rude.uid, 0)
        assert (await yard.ended(rude)).exit_code == 137
        end = await yard.run(shell("nosuch", argv=("nosuch",)))
        assert (end.exit_code, end.reason) == (128, "StartError")
        end = await yard.run(shell("true", working_folder="/no/such"))
        assert 'chdir to cwd ("/no/such") failed: no such file or directory' in end.message

    play(data, scene, host=True)


def test_the_host_runtime_names_the_one_that_can_mount(data: Path, tmp_path: Path) -> None:
    async def scene(yard: Yard) -> None:
        end = await yard.run(shell("true", mounts=(bind(tmp_path, f"{NEW}/mnt"),)))
        assert (end.exit_code, end.reason) == (128, "CreateContainerConfigError")
        assert f"can't provide a volume at {NEW}/mnt; the sandbox runtime does" in end.message
        # A volume that is where it should be anyway needs no mount.
        assert (await yard.run(shell("exit 2", mounts=(bind(tmp_path, tmp_path),)))).exit_code == 2

    play(data, scene, host=True)


def test_the_host_runtime_watches_memory(data: Path) -> None:
    async def scene(yard: Yard) -> None:
        hog = f"exec {shlex.quote(sys.executable)} -c 'x = bytearray(300 << 20); input()'"
        end = await yard.run(shell(hog, memory_limit_bytes=64 << 20, stdin=True))
        assert (end.exit_code, end.reason) == (137, "OOMKilled")

    play(data, scene, host=True)


@pytest.mark.parametrize(
    ("parent", "wanted"),
    [
        ("/", True),
        ("/usr/local", True),
        ("/etc", True),
        ("/home", True),
        ("/home/me", False),
        ("/home/me/project/data", False),
        ("/opt/project/sub", False),
        ("/opt/other", True),
        ("/data", False),
        ("/mnt/disk", False),
        ("/root", True),
    ],
)
def test_where_a_mount_point_is_better_not_made_on_the_disk(parent: str, wanted: bool) -> None:
    assert wants_mirror(parent, ("/home/me", "/opt/project")) == wanted


def test_roots_home_is_a_workplace_for_whom_it_is_home() -> None:
    assert not wants_mirror("/root", ("/root", "/opt/project"))


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[list[MadeFolders]]:
    """The lists of three engines with a data folder each, that use the same places."""
    lists = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        lists.append(MadeFolders(tmp_path / name))
    yield lists
    for each in lists:
        each.close()


@pytest.mark.parametrize("is_folder", [True, False], ids=["a folder", "a file"])
def test_of_several_engines_the_last_one_removes_what_was_made(
    engines: list[MadeFolders], tmp_path: Path, is_folder: bool
) -> None:
    first, second, third = engines
    path = tmp_path / "home" / "deep" / "place"
    held = [each.claim(str(path), is_folder=is_folder) for each in engines]
    # Who made it is the first to go.
    os.close(held[0])
    assert not first.clear()
    os.close(held[2])
    assert not third.clear()
    assert path.exists()
    os.close(held[1])
    assert second.clear()
    assert not (tmp_path / "home").exists()
    assert first.clear()


def test_no_engine_removes_what_was_there_or_what_has_come_to_hold_something(
    engines: list[MadeFolders], tmp_path: Path
) -> None:
    first, second, _ = engines
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    for path in (old, new):
        for each in (first, second):
            os.close(each.claim(str(path), is_folder=True))
    (new / "result").touch()
    assert first.clear()
    assert second.clear()
    assert old.is_dir()
    assert (new / "result").exists()


def test_engines_that_claim_and_clear_at_once_leave_nothing_and_lose_nothing(
    engines: list[MadeFolders], tmp_path: Path
) -> None:
    path = tmp_path / "home" / "place"

    def use_and_clear(made: MadeFolders) -> None:
        for _ in range(500):
            held = made.claim(str(path), is_folder=True)
            assert path.is_dir(), "what is claimed stays"
            os.close(held)
            made.clear()

    with ThreadPoolExecutor(len(engines)) as pool:
        for done in [pool.submit(use_and_clear, each) for each in engines]:
            done.result(timeout=60)
    for each in engines:
        each.clear()
    assert not (tmp_path / "home").exists()


def test_a_place_that_cant_be_made_is_told(engines: list[MadeFolders], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "at" / "all")
    with pytest.raises(FileNotFoundError, match="link/place"):
        engines[0].claim(str(tmp_path / "link" / "place"), is_folder=True)


def test_own_control_groups_are_found_in_both_versions() -> None:
    hybrid = (
        "1 0 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "2 0 0:2 /pod /sys/fs/cgroup/cpu rw,x shared:3 - cgroup cgroup rw,cpu,cpuacct\n"
        "3 0 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "4 0 0:4 / / rw - ext4 /dev/vda rw\n"
    )
    memberships = "3:memory:/a/b\n2:cpu,cpuacct:/pod/c\n0::/user.slice\n"
    assert own_folders(hybrid, memberships) == {
        "memory": Path("/sys/fs/cgroup/memory/a/b"),
        "cpu": Path("/sys/fs/cgroup/cpu/c"),
        "cpuacct": Path("/sys/fs/cgroup/cpu/c"),
        "": Path("/sys/fs/cgroup/unified/user.slice"),
    }


def test_every_ability_has_a_reason_and_what_is_missing_a_remedy() -> None:
    abilities = look()
    assert [ability.what for ability in abilities] == list(What)
    assert all(ability.reason for ability in abilities)
    assert all(ability.is_there or ability.remedy for ability in abilities)
    assert SANDBOX


@pytest.mark.long
@needs_sandbox
def test_all_of_this_works_for_an_ordinary_user() -> None:
    # Not below pytest's own folder, which is for root only.
    with free_uid() as uid, tempfile.TemporaryDirectory() as name:
        os.chown(name, uid, uid)
        done = file_as(Path(__file__), uid, Path(name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
