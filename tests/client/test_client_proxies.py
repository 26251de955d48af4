"""The way to an API server through a proxy, with kubectl as the judge of which way is taken."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cli.test_cli_exec import job_stage
from rig.kube.certificates import make_credentials
from rig.kube.kubectl import Kubectl
from rig.kube.plane import ControlPlane
from rig.proxy import Asked, RecordingProxy, recording_proxy
from rig.waiting import run
from server.streaming_stage import streaming_stage

from jobyard.client.credentials.cluster import Cluster, Proxy, ProxyScheme
from jobyard.client.credentials.locating import cluster_of
from jobyard.client.errors import ClientError, ClusterError, ConnectionFailedError, RefusedError
from jobyard.client.proxying import dialing
from jobyard.client.proxying.no_proxy import is_exempt
from jobyard.client.request import CONFIG_MAPS, create, listing, watching
from jobyard.client.transport import Transport
from jobyard.client.websockets import Execution, remote_process

JOBYARD = str(Path(sys.executable).parent / "jobyard")
PASSWORD = "s3cret:that@nobody/may?see"
LOGIN = f"me:{PASSWORD}"
QUOTED = "me:s3cret%3Athat%40nobody%2Fmay%3Fsee"
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY")
# To Go it is no loopback address, and to Linux it is this machine.
NOT_LOOPBACK = "0.0.0.0"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What whoever runs the tests has set is none of ours."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def address_of(plane: ControlPlane) -> tuple[str, int]:
    parts = urlsplit(plane.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def kubeconfig(plane: ControlPlane, path: Path, server: str, **fields: str) -> Path:
    """The plane's, but its server is called so; the certificate keeps its name."""
    document = yaml.safe_load(plane.kubeconfig.read_text())
    entry = document["clusters"][0]["cluster"]
    entry |= {"server": server, "tls-server-name": "localhost"}
    entry |= {name.replace("_", "-"): value for name, value in fields.items()}
    path.write_text(yaml.safe_dump(document))
    return path


def via(plane: ControlPlane, folder: Path, proxy_url: str, server: str = "") -> Cluster:
    return cluster_of(
        kubeconfig(plane, folder / "config", server or plane.url, proxy_url=proxy_url)
    )


def failure(where: Cluster) -> ConnectionFailedError:
    async def work() -> ConnectionFailedError:
        async with Transport(where) as transport:
            with pytest.raises(ConnectionFailedError) as caught:
                await transport.send(listing(CONFIG_MAPS))
        return caught.value

    return run(work())


def all_said(error: BaseException | None) -> str:
    """The error as a log would have it, with those that led to it."""
    said = ""
    while error is not None:
        said += f"{error} {error!r} "
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[RecordingProxy]:
    """A proxy that leads to the control plane whatever it is asked for."""
    with recording_proxy(address_of(control_plane)) as made:
        yield made


# proxy-url


def test_lists_watches_and_writes_go_through_the_proxy(
    control_plane: ControlPlane, namespace: str, proxy: RecordingProxy, tmp_path: Path
) -> None:
    where = via(control_plane, tmp_path, proxy.url)

    async def work() -> None:
        async with Transport(where) as transport:
            answer = await transport.send(listing(CONFIG_MAPS, namespace))
            version = json.loads(answer.body)["metadata"]["resourceVersion"]
            request = watching(CONFIG_MAPS, namespace, resource_version=version, timeout_seconds=30)
            async with aclosing(transport.lines(request)) as lines:
                made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen"}}
                seen = asyncio.ensure_future(anext(lines))
                assert (await transport.send(create(CONFIG_MAPS, namespace, made))).is_ok
                assert json.loads(await seen)["object"]["metadata"]["name"] == "seen"
            for _ in range(5):
                assert (await transport.send(listing(CONFIG_MAPS, namespace))).is_ok

    run(work())
    host, port = address_of(control_plane)
    assert set(proxy.asked) == {Asked("CONNECT", f"{host}:{port}")}
    # One that is free again is used again, and a watch has one of its own.
    assert len(proxy.asked) == 2


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
@pytest.mark.parametrize("login", ["", LOGIN], ids=["open", "with a login"])
def test_every_kind_of_proxy_with_and_without_a_login(
    control_plane: ControlPlane, kubectl: Kubectl, tmp_path: Path, scheme: str, login: str
) -> None:
    own = make_credentials(tmp_path / "proxy")
    tls = None
    if scheme == "https":
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(own.server_cert, own.server_key)
    with recording_proxy(address_of(control_plane), login=login, tls=tls) as made:
        there = f"{scheme}://{f'{QUOTED}@' if login else ''}127.0.0.1:{made.port}"
        server = "https://api.cluster.example:6443"
        # A proxy is trusted as the server is, and has a name of its own: none is given here.
        both = control_plane.ca.read_bytes() + own.ca.read_bytes()
        path = kubeconfig(
            control_plane,
            tmp_path / "config",
            server,
            proxy_url=there,
            certificate_authority_data=base64.b64encode(both).decode(),
        )

        async def work() -> int:
            async with Transport(cluster_of(path)) as transport:
                return (await transport.send(listing(CONFIG_MAPS, kubectl.namespace))).status

        assert run(work()) == 200
        method = "SOCKS5" if scheme == "socks5" else "CONNECT"
        wanted = [Asked(method, "api.cluster.example:6443", login)]
        assert made.taken() == wanted
        done = kubectl("get", "cm", f"--kubeconfig={path}", check=False)
        assert done.returncode == 0, done.stderr
        assert {*made.taken()} == {*wanted}


def test_the_proxy_of_the_file_wins_over_the_environment(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    proxy: RecordingProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")
    where = via(control_plane, tmp_path, proxy.url)
    assert str(where.proxy) == proxy.url

    async def work() -> int:
        async with Transport(where) as transport:
            return (await transport.send(listing(CONFIG_MAPS, kubectl.namespace))).status

    assert run(work()) == 200
    assert proxy.taken()
    kubectl("get", "cm", f"--kubeconfig={tmp_path / 'config'}")
    assert proxy.taken()


def test_a_plain_server_is_asked_by_its_whole_address(tmp_path: Path) -> None:
    """As Go does it: only what is inside of TLS needs a tunnel."""

    async def work() -> tuple[int, list[Asked]]:
        from aiohttp import web

        async def answer(request: web.Request) -> web.Response:
            assert "Proxy-Authorization" in request.headers
            return web.json_response({"kind": "List"})

        app = web.Application()
        app.router.add_get("/{any:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = ("127.0.0.1", int(runner.addresses[0][1]))
        try:
            with recording_proxy(address, login=LOGIN) as made:
                plain = Cluster(
                    server="http://plain.example:8080",
                    proxy=Proxy(
                        scheme=ProxyScheme.HTTP,
                        host="127.0.0.1",
                        port=made.port,
                        login=("me", PASSWORD),
                    ),
                )
                async with Transport(plain) as transport:
                    status = (await transport.send(listing(CONFIG_MAPS))).status
                return status, made.taken()
        finally:
            await runner.cleanup()

    status, asked = run(work())
    assert status == 200
    assert asked == [Asked("GET", "http://plain.example:8080/api/v1/configmaps", LOGIN)]


def test_processes_and_logs_go_through_the_proxy(tmp_path: Path) -> None:
    with job_stage(tmp_path) as stage, recording_proxy() as made:
        config = json.loads(stage.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["proxy-url"] = made.url
        stage.kubeconfig.write_text(json.dumps(config))
        stage.kubelet.log_pieces = [b"one\n", b"two\n"]

        def called(*words: str) -> subprocess.CompletedProcess[str]:
            command = (JOBYARD, words[0], "--kubeconfig", str(stage.kubeconfig), *words[1:])
            return subprocess.run(command, input="", capture_output=True, text=True, timeout=60)

        done = called("exec", "train", "worker-0", "--", "sh", "-c", "echo inside; exit 3")
        assert (done.stdout, done.returncode) == ("inside\n", 3), done.stderr
        seen = made.taken()
        # One to find the replica, one for the process.
        assert [each.target for each in seen] == [urlsplit(stage.url).netloc] * 2
        stage.kubelet.log_goes_on = True
        command = (JOBYARD, "logs", "--kubeconfig", str(stage.kubeconfig), "-f", "train")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
            assert following.stdout is not None
            try:
                assert "one" in following.stdout.readline()
                assert {each.target for each in made.taken()} == {urlsplit(stage.url).netloc}
            finally:
                following.terminate()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_what_the_server_says_to_an_upgrade_is_told_through_the_proxy(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    proxy: RecordingProxy,
    tmp_path: Path,
    scheme: str,
) -> None:
    where = via(control_plane, tmp_path, f"{scheme}://127.0.0.1:{proxy.port}")
    what = Execution(namespace=kubectl.namespace, pod="absent", command=("true",))

    async def work() -> None:
        async with remote_process(where, what):
            pass

    with pytest.raises(RefusedError, match='pods "absent" not found'):
        run(work())
    assert len(proxy.taken()) == 1


def test_a_login_plugin_is_told_the_proxy_of_the_file(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    proxy: RecordingProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = kubectl("create", "token", "default").stdout.strip()
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    plugin = tmp_path / "login"
    plugin.write_text(
        "#!/bin/sh\n"
        f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/told\n'
        f'printf "%s" "$HTTPS_PROXY" > {tmp_path}/inherited\n'
        f"echo '{json.dumps(credential)}'\n"
    )
    plugin.chmod(0o755)
    monkeypatch.setenv("HTTPS_PROXY", "http://elsewhere:1")
    there = f"http://{QUOTED}@127.0.0.1:{proxy.port}"
    path = kubeconfig(control_plane, tmp_path / "config", control_plane.url, proxy_url=there)
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        }
    }
    path.write_text(yaml.safe_dump(document))

    def told() -> Any:
        return json.loads((tmp_path / "told").read_text())["spec"]["cluster"]["proxy-url"]

    async def work() -> int:
        async with Transport(cluster_of(path)) as transport:
            return (await transport.send(listing(CONFIG_MAPS, kubectl.namespace))).status

    assert run(work()) == 403, "the token is good, its account may not list"
    assert told() == there
    assert (tmp_path / "inherited").read_text() == "http://elsewhere:1"
    assert proxy.taken() == [Asked("CONNECT", urlsplit(control_plane.url).netloc, LOGIN)]
    (tmp_path / "told").unlink()
    kubectl("get", "cm", f"--kubeconfig={path}", check=False)
    assert told() == there


# What can go wrong


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("proxy:3128", "has a scheme that is not supported; it must be one of http, https, socks5"),
        ("socks4://proxy:1080", "has a scheme that is not supported"),
        ("socks5h://proxy:1080", "has a scheme that is not supported"),
        ("http://", "is not the URL of a proxy; it must look like http://host:3128"),
        ("http://:3128", "is not the URL of a proxy"),
        ("http://proxy:port", "is not the URL of a proxy"),
        ("http://proxy:70000", "is not the URL of a proxy"),
        ("http://proxy:0", "is not the URL of a proxy"),
        ("http://[::1:3128", "is not the URL of a proxy"),
        ("http://pro xy:3128", "has spaces or control characters in it"),
        ("http://proxy:3128\n", "has spaces or control characters in it"),
        (f"http://me:{PASSWORD}@proxy", "has an @ behind its host; in a user name or password"),
        ("http://me:12/s3cret@proxy", "has an @ behind its host"),
        ("http://s3cret:1#2@proxy", "has an @ behind its host"),
        ("http://me:s3cret%zz@proxy", "has a % in its user name or password"),
        ("http://me:s3cret%ff@proxy", "has a user name or password that is not UTF-8"),
        (f"me:{PASSWORD}@proxy", "has a scheme that is not supported"),
    ],
)
def test_a_proxy_url_that_cannot_be_used_says_why(
    control_plane: ControlPlane, tmp_path: Path, url: str, said: str
) -> None:
    with pytest.raises(ClusterError) as caught:
        via(control_plane, tmp_path, url)
    assert f"{tmp_path}/config: cluster 'rig': proxy-url {said}" in str(caught.value)
    assert "s3cret" not in all_said(caught.value)


def test_a_proxy_that_is_not_there_is_named(control_plane: ControlPlane, tmp_path: Path) -> None:
    error = failure(via(control_plane, tmp_path, f"http://{QUOTED}@127.0.0.1:1"))
    assert str(error) == (
        f"API server {control_plane.url}: the proxy http://127.0.0.1:1 of proxy-url of cluster"
        f" 'rig' in {tmp_path}/config: connection refused;"
        " check that it runs and that its URL is right"
    )
    assert error.may_pass
    error = failure(via(control_plane, tmp_path, f"socks5://{QUOTED}@127.0.0.1:1"))
    assert "the proxy socks5://127.0.0.1:1 of proxy-url" in str(error)
    assert "connection refused" in str(error)
    assert "s3cret" not in all_said(error)
    for scheme in ("http", "socks5"):
        error = failure(via(control_plane, tmp_path, f"{scheme}://{QUOTED}@proxy.invalid:1"))
        assert "its name can't be resolved" in str(error)


@pytest.mark.parametrize(
    ("scheme", "answers", "said", "may_pass"),
    [
        ("http", 403, "it answered 403 Forbidden;", False),
        ("http", 502, "it answered 502 Bad Gateway;", True),
        ("http", 299, "it answered 299;", False),
        ("socks5", 2, "it doesn't connect us: connection not allowed by ruleset;", False),
        ("socks5", 4, "it doesn't connect us: host unreachable;", True),
        ("socks5", 77, "it doesn't connect us: reply 77;", True),
    ],
)
def test_a_proxy_that_refuses_is_quoted(
    control_plane: ControlPlane,
    tmp_path: Path,
    scheme: str,
    answers: int,
    said: str,
    may_pass: bool,
) -> None:
    with recording_proxy(answers=answers) as made:
        url = f"{scheme}://{QUOTED}@127.0.0.1:{made.port}"
        error = failure(via(control_plane, tmp_path, url))
    assert f"the proxy {scheme}://127.0.0.1:{made.port} of proxy-url" in str(error)
    assert said in str(error)
    assert error.may_pass is may_pass
    assert "s3cret" not in all_said(error)
    assert base64.b64encode(LOGIN.encode()).decode() not in all_said(error)


@pytest.mark.parametrize(
    ("scheme", "login", "said"),
    [
        ("http", "", "it wants a user name and a password in its URL (407)"),
        ("http", "me:other@", "it refuses the user name and password of its URL (407)"),
        ("socks5", "", "it wants a user name and a password"),
        ("socks5", "me:other@", "it refuses the user name and password of its URL"),
        ("socks5", f"me:{'x' * 256}@", "user name and password may have 255 bytes each"),
    ],
)
def test_a_proxy_that_wants_another_login_says_so(
    control_plane: ControlPlane, tmp_path: Path, scheme: str, login: str, said: str
) -> None:
    with recording_proxy(login=LOGIN) as made:
        error = failure(via(control_plane, tmp_path, f"{scheme}://{login}127.0.0.1:{made.port}"))
    assert said in str(error)
    assert not error.may_pass
    assert "other" not in all_said(error)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_silent_proxy_is_given_up(
    control_plane: ControlPlane, tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "PROXY_SECONDS", 0.3)
    with recording_proxy(answers=0) as made:
        url = f"{scheme}://127.0.0.1:{made.port}"
        error = failure(via(control_plane, tmp_path, url))
        assert made.asked
    assert f"the proxy {url} of proxy-url" in str(error)
    assert "no connection through it in time" in str(error)


@pytest.mark.parametrize("scheme", ["http", "https", "socks5"])
def test_something_else_than_a_proxy_is_said_to_be_none(
    control_plane: ControlPlane, tmp_path: Path, scheme: str
) -> None:
    """An SSH server, a database: they say something of their own, or hang up."""

    async def work() -> ConnectionFailedError:
        async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with (
            server,
            Transport(via(control_plane, tmp_path, f"{scheme}://127.0.0.1:{port}")) as transport,
        ):
            with pytest.raises(ConnectionFailedError) as caught:
                await transport.send(listing(CONFIG_MAPS))
        return caught.value

    error = run(work())
    assert f"the proxy {scheme}://127.0.0.1:" in str(error)


def test_a_certificate_behind_a_proxy_is_still_checked(
    control_plane: ControlPlane, proxy: RecordingProxy, tmp_path: Path
) -> None:
    for scheme in ("http", "socks5"):
        url = f"{scheme}://127.0.0.1:{proxy.port}"
        path = kubeconfig(
            control_plane,
            tmp_path / "config",
            control_plane.url,
            proxy_url=url,
            tls_server_name="other.example",
        )
        error = failure(cluster_of(path))
        assert "its certificate is refused: Hostname mismatch" in str(error)
        assert f"(through the proxy {url} of proxy-url of cluster 'rig' in {path})" in str(error)
        assert not error.may_pass


def test_a_proxy_with_a_certificate_that_is_not_trusted_is_refused(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    own = make_credentials(tmp_path / "proxy")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.server_cert, own.server_key)
    with recording_proxy(address_of(control_plane), tls=tls) as made:
        error = failure(via(control_plane, tmp_path, made.url))
        assert not made.asked
    assert f"the proxy {made.url} of proxy-url" in str(error)
    assert "its certificate is refused" in str(error)
    assert not error.may_pass


def test_no_login_of_a_proxy_is_shown(tmp_path: Path, control_plane: ControlPlane) -> None:
    where = via(control_plane, tmp_path, f"http://{QUOTED}@proxy:3128/")
    assert where.proxy is not None
    assert where.proxy.login == ("me", PASSWORD)
    assert "s3cret" not in f"{where!r} {where} {where.proxy!r} {where.proxy}"


# The environment, with kubectl as the judge


def ways(
    kubectl: Kubectl,
    proxy: RecordingProxy,
    path: Path,
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[bool, bool]:
    """Whether kubectl and we ask the proxy for a connection; without one both may well fail."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    proxy.taken()
    command = [str(kubectl.plane.kubectl), f"--kubeconfig={path}", "get", "--raw=/version"]
    subprocess.run(
        [*command, "--request-timeout=10s"],
        env={**os.environ, "KUBECTL_KUBERC": "false"},
        capture_output=True,
        timeout=60,
    )
    theirs = proxy.taken()

    async def work() -> None:
        try:
            where = cluster_of(path)
            async with Transport(where) as transport:
                await transport.send(listing(CONFIG_MAPS))
        except ClientError:
            pass

    run(work())
    ours = proxy.taken()
    if ours and theirs:
        # yarl has no capitals in the names of hosts.
        assert ours[0].target == theirs[0].target.lower()
    return bool(theirs), bool(ours)


IP = f"https://{NOT_LOOPBACK}:{{port}}"
NAME = "https://api.cluster.example:{port}"


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("server", "no_proxy", "is_proxied"),
    [
        pytest.param(IP, "", True, id="nothing is exempt"),
        pytest.param(IP, "*", False, id="everything is"),
        pytest.param(IP, "foo.example, * ,bar", False, id="everything, among others"),
        pytest.param(IP, "*.*", True, id="a star is no pattern"),
        pytest.param(IP, "0.0.0.0", False, id="the address"),
        pytest.param(IP, " 0.0.0.0 ", False, id="the address in spaces"),
        pytest.param(IP, "0.0.0.1", True, id="another address"),
        pytest.param(IP, "0.0.0.0:{port}", False, id="the address with its port"),
        pytest.param(IP, "0.0.0.0:1", True, id="the address with another port"),
        pytest.param(IP, "0.0.0.0:", False, id="the address with no port after all"),
        pytest.param(IP, "0.0.0.0/8", False, id="a network"),
        pytest.param(IP, "10.0.0.0/8,0.0.0.0/32", False, id="two networks"),
        pytest.param(IP, "0.1.2.3/8", False, id="a network by any of its addresses"),
        pytest.param(IP, "1.0.0.0/8", True, id="another network"),
        pytest.param(IP, "0.0.0.0/33", True, id="no network"),
        pytest.param(IP, "0.0.0.0/", True, id="a network without a size"),
        pytest.param(IP, "0.0.0.0/08", False, id="a size with a zero before it"),
        pytest.param(IP, "00.0.0.0/8", False, id="leading zeros in a network"),
        pytest.param(IP, " 00.0.0.0/8", True, id="leading zeros in a network after a space"),
        pytest.param(IP, "00.0.0.0", True, id="leading zeros in an address"),
        pytest.param(IP, "0.0.0.0/8:{port}", True, id="a network has no port"),
        pytest.param(IP, "::ffff:0.0.0.0", False, id="the address in IPv6"),
        pytest.param(IP, "::ffff:0.0.0.0/104", False, id="the network in IPv6"),
        pytest.param(IP, "::/0", True, id="all of IPv6"),
        pytest.param(IP, ".0.0", True, id="an address has no domain"),
        pytest.param(IP, "0.0", True, id="part of an address"),
        pytest.param(IP, "0.0.0.0 10.0.0.1", True, id="spaces don't divide"),
        pytest.param(IP, "0.0.0.0;10.0.0.1", True, id="semicolons neither"),
        pytest.param(NAME, "api.cluster.example", False, id="the name"),
        pytest.param(NAME, "API.Cluster.EXAMPLE", False, id="the name in capitals"),
        pytest.param(NAME, "api.cluster.example.", True, id="the name with a dot after it"),
        pytest.param(NAME, ".api.cluster.example", True, id="only what is below the name"),
        pytest.param(NAME, "cluster.example", False, id="its domain"),
        pytest.param(NAME, ".cluster.example", False, id="its domain with a dot before"),
        pytest.param(NAME, "*.cluster.example", False, id="its domain with a star before"),
        pytest.param(NAME, "*cluster.example", True, id="a star without a dot"),
        pytest.param(NAME, "example", False, id="the whole of its tree"),
        pytest.param(NAME, "ster.example", True, id="the end of a label"),
        pytest.param(NAME, "other.example", True, id="another name"),
        pytest.param(NAME, "api", True, id="its first label"),
        pytest.param(NAME, "cluster.example:{port}", False, id="its domain with its port"),
        pytest.param(NAME, "cluster.example:443", True, id="its domain with another port"),
        pytest.param(NAME, "cluster.example:https", True, id="a port by name"),
        pytest.param(NAME, "https://api.cluster.example", True, id="a URL"),
        pytest.param(NAME, ":{port}", True, id="a port alone"),
        pytest.param(NAME, ",,", True, id="commas"),
        pytest.param(NAME, "0.0.0.0/0", True, id="all addresses, but it is a name"),
        pytest.param("https://API.cluster.example:{port}", "api.cluster.example", False, id="loud"),
        pytest.param("https://api.cluster.example.:{port}", "example", True, id="whole, with dot"),
        pytest.param("https://[::]:{port}", "", True, id="an IPv6 address"),
        pytest.param("https://[::]:{port}", "::", False, id="it is exempt"),
        pytest.param("https://[::]:{port}", "[::]", True, id="in brackets it is a name"),
        pytest.param("https://[::]:{port}", "[::]:{port}", False, id="with its port"),
        pytest.param("https://[::]:{port}", "[::]:1", True, id="with another port"),
        pytest.param("https://[::]:{port}", "::/64", False, id="with its network"),
        pytest.param("https://127.0.0.1:{port}", "", False, id="loopback"),
        pytest.param("https://127.1.2.3:{port}", "", False, id="loopback too"),
        pytest.param("https://[::1]:{port}", "", False, id="loopback in IPv6"),
        pytest.param("https://[::ffff:127.0.0.1]:{port}", "", False, id="loopback in both"),
        pytest.param("https://localhost:{port}", "", False, id="localhost"),
        pytest.param("https://LOCALHOST:{port}", "", True, id="to Go that is another name"),
        pytest.param("https://a.localhost:{port}", "", True, id="below localhost"),
        pytest.param("https://bücher.example:{port}", "", True, id="a name beyond ASCII"),
        pytest.param("https://bücher.example:{port}", "BÜCHER.example", False, id="exempt"),
        pytest.param("https://a.bücher.example:{port}", ".bücher.example", False, id="below it"),
        pytest.param(
            "https://a.xn--bcher-kva.example:{port}", "bücher.example", False, id="encoded"
        ),
    ],
)
def test_the_same_servers_are_exempt_as_with_kubectl(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    proxy: RecordingProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
    no_proxy: str,
    is_proxied: bool,
) -> None:
    _, port = address_of(control_plane)
    path = kubeconfig(control_plane, tmp_path / "config", server.format(port=port))
    environment = {"HTTPS_PROXY": proxy.url, "NO_PROXY": no_proxy.format(port=port)}
    both = ways(kubectl, proxy, path, environment, monkeypatch)
    assert both == (is_proxied, is_proxied), "kubectl, we"


@pytest.mark.parametrize(
    ("environment", "is_proxied"),
    [
        pytest.param({"HTTPS_PROXY": "http://{at}"}, True, id="capitals"),
        pytest.param({"https_proxy": "http://{at}"}, True, id="small letters"),
        pytest.param({"HTTPS_PROXY": "{at}"}, True, id="without a scheme"),
        pytest.param({"HTTPS_PROXY": "me:pw@{at}"}, True, id="a login without a scheme"),
        pytest.param({"HTTPS_PROXY": "HTTP://{at}/path?query"}, True, id="with a path"),
        pytest.param({"HTTPS_PROXY": "socks5://{at}"}, True, id="socks5"),
        pytest.param({"HTTPS_PROXY": "socks5h://{at}"}, True, id="socks5h"),
        pytest.param({"HTTPS_PROXY": "", "https_proxy": "http://{at}"}, True, id="empty is none"),
        pytest.param(
            {"HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://{at}"},
            False,
            id="capitals first",
        ),
        pytest.param({"HTTP_PROXY": "http://{at}"}, False, id="of the other scheme"),
        pytest.param({"ALL_PROXY": "http://{at}"}, False, id="Go has no such variable"),
        pytest.param(
            {"https_proxy": "http://{at}", "no_proxy": "0.0.0.0"}, False, id="no_proxy in small"
        ),
        pytest.param(
            {"https_proxy": "http://{at}", "NO_PROXY": "x", "no_proxy": "*"},
            True,
            id="NO_PROXY in capitals first",
        ),
        pytest.param(
            {"HTTPS_PROXY": "http://{at}", "REQUEST_METHOD": "GET"}, True, id="CGI over TLS"
        ),
    ],
)
def test_the_same_variables_count_as_with_kubectl(
    control_plane: ControlPlane,
    kubectl: Kubectl,
    proxy: RecordingProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    is_proxied: bool,
) -> None:
    _, port = address_of(control_plane)
    path = kubeconfig(control_plane, tmp_path / "config", f"https://{NOT_LOOPBACK}:{port}")
    at = proxy.url.partition("//")[2]
    said = {name: value.format(at=at) for name, value in environment.items()}
    both = ways(kubectl, proxy, path, said, monkeypatch)
    assert both == (is_proxied, is_proxied), "kubectl, we"


def test_a_variable_that_names_no_proxy_is_an_error_that_says_which(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(control_plane, tmp_path / "config", "https://api.cluster.example")
    monkeypatch.setenv("https_proxy", f"http://me:{PASSWORD}@proxy")
    with pytest.raises(ClusterError) as caught:
        cluster_of(path)
    assert str(caught.value) == (
        "API server https://api.cluster.example: $https_proxy has an @ behind its host;"
        " in a user name or password, write / ? # and @ as %2F %3F %23 and %40;"
        " if the server needs no proxy, name it in $NO_PROXY"
    )
    assert "s3cret" not in all_said(caught.value)
    # Whoever is exempt never hears of it.
    monkeypatch.setenv("NO_PROXY", "example")
    assert cluster_of(path).proxy is None


def test_a_proxy_of_the_environment_is_named_by_its_variable(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(control_plane, tmp_path / "config", "https://api.cluster.example")
    monkeypatch.setenv("https_proxy", f"{QUOTED}@127.0.0.1:1")
    error = failure(cluster_of(path))
    assert str(error) == (
        "API server https://api.cluster.example: the proxy http://127.0.0.1:1 of $https_proxy:"
        " connection refused;"
        " check that variable, or name the server in $NO_PROXY if it needs no proxy"
    )


def test_a_stranger_cannot_name_the_proxy_of_a_cgi_program(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(control_plane, tmp_path / "config", "http://api.cluster.example")
    monkeypatch.setenv("HTTP_PROXY", "http://stranger:3128")
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    with pytest.raises(ClusterError, match=r"^\$HTTP_PROXY is not trusted"):
        cluster_of(path)


def test_a_pod_asks_the_environment_too(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(control_plane.ca.read_bytes())
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert str(cluster_of(service_account=tmp_path).proxy) == "http://proxy:3128"
    monkeypatch.setenv("NO_PROXY", "10.96.0.0/12")
    assert cluster_of(service_account=tmp_path).proxy is None


def test_the_embedded_engine_is_never_behind_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with streaming_stage(tmp_path) as stage, recording_proxy() as made:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, made.url)
        where = cluster_of(stage.kubeconfig)
        assert where.proxy is None

        async def work() -> int:
            async with Transport(where) as transport:
                return (await transport.send(listing(CONFIG_MAPS))).status

        assert run(work()) == 200
        assert not made.asked


@pytest.mark.parametrize(
    "no_proxy",
    ["," * 100_000, "a" * 200_000, "[" * 50_000 + ":" * 50_000, "1." * 50_000, "/" * 9999],
)
def test_any_list_is_read_in_time(no_proxy: str) -> None:
    assert not is_exempt(no_proxy, "api.cluster.example", "443")
    assert not is_exempt(no_proxy, "10.0.0.1", "443")
