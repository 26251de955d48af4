"""A machine of its own for tests of the way out: a network namespace with a server in it.

Run as a program: `outside_stage.py MODE FOLDER`. It enters a new network namespace with the
address 192.0.2.7, serves HTTP there and on its loopback, and then plays one scene in which a
sandboxed pod looks for both. What is said on standard output is the test's to judge.
"""

from __future__ import annotations

import asyncio
import http.server
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from node.isolation_stage import Yard, opened, shell

from jobyard.engine.outside.gateway import Outside
from jobyard.node.hub.netlink import Netlink
from jobyard.node.isolation import kernel
from jobyard.node.isolation.users import RealUser, enter_new_user_namespace
from jobyard.node.runtime.sandbox_runtime import SandboxRuntime
from jobyard.node.shared.private_network import DEFAULT_NETWORK as NETWORK

ADDRESS = "192.0.2.7"
PORT = 8080
# Asks for each address in turn, as any program that heeds the usual variables.
ASK = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        print(url, urllib.request.urlopen(url, timeout=60).read().decode())
    except urllib.error.HTTPError as error:
        print(url, error.code)
    except OSError as error:
        print(url, "unreachable")
"""


class _Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = f"served on {self.server.server_address[0]}".encode()  # type: ignore[str-bytes-safe]
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


def enter() -> None:
    """A machine with no way to any other."""
    if os.geteuid() != 0:
        real = RealUser(uid=os.getuid(), gid=os.getgid())
        enter_new_user_namespace(inner=RealUser(uid=0, gid=0), outer=real)
    kernel.unshare(kernel.CLONE_NEWNET | kernel.CLONE_NEWNS)
    kernel.mount("", "/", "", kernel.MS_REC | kernel.MS_SLAVE)
    if os.path.isdir("/dev/net"):
        # Without this device no program can be the way out.
        kernel.mount("tmpfs", "/dev/net", "tmpfs")
    link = Netlink()
    index = socket.if_nametoindex("lo")
    link.set_up(index)
    link.add_address(index, ADDRESS, 24)
    link.close()


def serve(address: str) -> None:
    server = http.server.ThreadingHTTPServer((address, PORT), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def whole_command(folder: Path) -> None:
    """`jobyard run`, with a job whose pod asks."""
    urls = [f"http://{ADDRESS}:{PORT}/", f"http://127.0.0.1:{PORT}/", f"http://localhost:{PORT}/"]
    urls += [f"http://{name}:{PORT}/" for name in ("[::ffff:127.0.0.1]", "0.0.0.0", "192.0.2.8")]
    # Even when nothing is exempt: loopback of the pod itself must not be taken for the host's.
    ask = ASK.replace("import sys", "import os, sys", 1) + 'print(os.environ["NO_PROXY"])\n'
    words = "\n".join(f"                - {url}" for url in urls)
    code = "\n".join(f"                  {line}" for line in ask.strip().splitlines())
    job = folder / "job.yaml"
    job.write_text(
        f"""
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {{name: ask}}
spec:
  replicaSpecs:
    - type: worker
      replicas: 1
      template:
        spec:
          containers:
            - name: ask
              image: any
              env: [{{name: no_proxy, value: nothing.example}}, {{name: NO_PROXY, value: ""}}]
              command: [{sys.executable}, -c]
              args:
                - |
{code}
{words}
"""
    )
    environment = {**os.environ, "JOBYARD_HOME": str(folder / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "jobyard", "run", "--runtime", "sandbox", str(job)],
        env=environment,
        check=False,
        timeout=110,
    )
    sys.exit(done.returncode)


def restarted(folder: Path) -> None:
    """A pod that outlives its engine finds the next one's proxy where it was told."""
    asyncio.run(_restarted(folder))


async def _restarted(folder: Path) -> None:
    url = f"http://{ADDRESS}:{PORT}/"
    script = f"""
import os, urllib.request
while not os.path.exists({str(folder / "again")!r}):
    pass
print(urllib.request.urlopen({url!r}, timeout=60).read().decode())
"""
    # Of the engine's folder itself pods see nothing.
    data = folder / "data"
    data.mkdir()
    first = SandboxRuntime(data)
    outside = Outside(first.hub, NETWORK, data)
    first.hub.when_ready = outside.listen
    env = {"PATH": os.environ["PATH"], "http_proxy": f"http://{NETWORK[1]}:3128"}
    command = (sys.executable, "-c", script)
    async with opened(first, data) as yard:
        order = await yard.running(shell("", argv=command, env=env), address="100.96.9.9")
    await first.close(stop_everything=False)
    await outside.close()

    second = SandboxRuntime(data)
    outside = Outside(second.hub, NETWORK, data)
    second.hub.when_ready = outside.listen
    try:
        async with opened(second, data) as yard:
            print("told", outside.url())
            (folder / "again").touch()
            await yard.ended(order)
            print(yard.log(order))
            await _names(yard, folder)
    finally:
        await second.close(stop_everything=True)
        await outside.close()


async def _names(yard: Yard, folder: Path) -> None:
    """Pods are found through the proxy too, by address and by name."""
    (folder / "kind").write_text("a pod")
    serving = f"exec {sys.executable} -m http.server 80 --directory {folder}"
    server = await yard.running(shell(serving))
    env = {"PATH": os.environ["PATH"], "http_proxy": f"http://{NETWORK[1]}:3128"}
    ask = f"""
import urllib.request
for host in ({server.address!r}, {server.host_name!r}):
    while True:
        try:
            print(urllib.request.urlopen("http://" + host + "/kind", timeout=9).read().decode())
            break
        except OSError:
            pass  # the server is still starting
"""
    client = yard.order(shell("", argv=(sys.executable, "-c", ask), env=env), hosts_file="")
    # The agent has one file for each namespace.
    (yard.data / "hosts").rename(yard.data / "default")
    (yard.data / "hosts").mkdir()
    (yard.data / "default").rename(yard.data / "hosts" / "default")
    await yard.runtime.start(client)
    await yard.ended(client)
    print("pods:", yard.log(client).splitlines())


if __name__ == "__main__":
    enter()
    for one in (ADDRESS, "127.0.0.1"):
        serve(one)
    {"command": whole_command, "restart": restarted}[sys.argv[1]](Path(sys.argv[2]))
