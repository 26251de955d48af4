"""Opens the connections of a transport, through the cluster's proxy where it has one.

`transport` and `websockets` make their sessions with a `Connector` and send with `way_of`. An HTTP
proxy is asked with CONNECT, by aiohttp; a SOCKS5 proxy by `socks`. A proxy that speaks TLS is
trusted as the API server is, by the same authorities, as with kubectl. Decides how long a proxy may
take, and what is said when it fails: always which proxy, and who named it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.tracing import Trace
from yarl import URL

from jobyard.client.credentials.cluster import Cluster, Proxy, ProxyScheme
from jobyard.client.proxying.socks import SocksError, ask
from jobyard.client.sockets import Sockets

# To find it, to have it connect, and for TLS behind it.
PROXY_SECONDS: Final = 30.0
CONNECTIONS_MAX: Final = 100
# How often a connection is begun that the server cuts before it is one.
CUT_MAX: Final = 5
_SERVER_FAULTS: Final = 500


class ProxyFailedError(aiohttp.ClientConnectionError):
    """No connection, and the proxy is why; `may_pass` is false when trying again can't help."""

    def __init__(self, proxy: Proxy, what: str, *, may_pass: bool = True) -> None:
        super().__init__(f"the proxy {proxy} of {proxy.source}: {what}")
        self.may_pass = may_pass


def base_of(cluster: Cluster) -> str:
    """The server's URL as it goes over the wire: a name beyond ASCII is encoded."""
    return str(URL(cluster.server)).rstrip("/")


def way_of(cluster: Cluster) -> dict[str, Any]:
    """What aiohttp is told about the proxy, with each request."""
    proxy = cluster.proxy
    if proxy is None or proxy.scheme is ProxyScheme.SOCKS5:
        return {}
    # The login is no part of the URL, which aiohttp's own messages quote.
    return {"proxy": URL(str(proxy)), "proxy_headers": _login(proxy)}


def own_headers(cluster: Cluster) -> dict[str, str]:
    """What a request itself says to the proxy; with TLS it doesn't see the request."""
    proxy = cluster.proxy
    if proxy is None or proxy.scheme is ProxyScheme.SOCKS5 or cluster.server.startswith("https:"):
        return {}
    return _login(proxy)


def _login(proxy: Proxy) -> dict[str, str]:
    if proxy.login is None:
        return {}
    pair = ":".join(proxy.login).encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


class Connector(aiohttp.TCPConnector):
    """Connections to one cluster, all by the same way."""

    def __init__(
        self, cluster: Cluster, sockets: Sockets, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        super().__init__(limit=connections_max, socket_factory=sockets.make)
        self._proxy = cluster.proxy
        self._sockets = sockets

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        proxy = self._proxy
        if proxy is None:
            return await self._directly(req, traces, timeout)
        with _faults_named(proxy):
            # aiohttp itself would wait for the proxy's answer for ever.
            async with asyncio.timeout(PROXY_SECONDS):
                if proxy.scheme is ProxyScheme.SOCKS5:
                    return await self._through_socks(proxy, req)
                return await super()._create_connection(req, traces, timeout)

    async def _directly(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        """A server at whose door many stand sends away who was slow to say who they are.

        Nothing was sent by then, so anything may be tried again, and who comes again stands among
        the last: at once.
        """
        for _ in range(CUT_MAX - 1):
            try:
                return await super()._create_connection(req, traces, timeout)
            except aiohttp.ClientConnectorError as error:
                if not isinstance(error.os_error, ConnectionResetError):
                    raise
        return await super()._create_connection(req, traces, timeout)

    async def _through_socks(self, proxy: Proxy, req: aiohttp.ClientRequest) -> ResponseHandler:
        host, port = req.url.raw_host, req.url.port
        assert host is not None
        assert port is not None
        tls = req.ssl if req.is_ssl() and isinstance(req.ssl, ssl.SSLContext) else None
        made = await self._connected(proxy)
        try:
            await ask(made, host, port, proxy.login)
            _, protocol = await self._loop.create_connection(
                self._factory,
                sock=made,
                ssl=tls,
                server_hostname=(req.server_hostname or host) if tls is not None else None,
            )
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(req.connection_key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(req.connection_key, error) from error
        except BaseException:
            made.close()
            raise
        return protocol

    async def _connected(self, proxy: Proxy) -> socket.socket:
        problem = OSError()
        for found in await self._loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM):
            made = self._sockets.make(found)
            try:
                made.setblocking(False)
                await self._loop.sock_connect(made, found[4])
            except OSError as error:
                made.close()
                problem = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise problem


@contextmanager
def _faults_named(proxy: Proxy) -> Iterator[None]:
    try:
        yield
    except aiohttp.ClientHttpProxyError as error:
        # From None: the error of aiohttp holds the headers that were sent, and so the login.
        raise _refusal(proxy, error.status) from None
    except (aiohttp.ClientConnectorDNSError, socket.gaierror) as error:
        # The server's name is looked up by the proxy.
        raise ProxyFailedError(proxy, "its name can't be resolved") from error
    except aiohttp.ClientConnectorCertificateError as error:
        if not _is_about(error, proxy):
            raise
        why = getattr(error.certificate_error, "verify_message", "") or "not trusted"
        what = f"its certificate is refused: {why}"
        raise ProxyFailedError(proxy, what, may_pass=False) from error
    except aiohttp.ClientConnectorSSLError as error:
        if not _is_about(error, proxy):
            raise
        raise ProxyFailedError(proxy, "the TLS handshake with it failed") from error
    except SocksError as error:
        raise ProxyFailedError(proxy, str(error), may_pass=error.may_pass) from error
    except TimeoutError as error:
        raise ProxyFailedError(proxy, "no connection through it in time") from error
    except OSError as error:
        raise ProxyFailedError(proxy, _reason(error)) from error
    except aiohttp.ClientError as error:
        # It closed the connection, or speaks something else than HTTP.
        raise ProxyFailedError(proxy, "it gave no answer that a proxy would give") from error


def _refusal(proxy: Proxy, status: int) -> ProxyFailedError:
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        what = "it refuses the user name and password of its URL"
        if proxy.login is None:
            what = "it wants a user name and a password in its URL"
        return ProxyFailedError(proxy, f"{what} (407)", may_pass=False)
    known = status in HTTPStatus.__members__.values()
    phrase = f" {HTTPStatus(status).phrase}" if known else ""
    is_busy = status >= _SERVER_FAULTS or status == HTTPStatus.TOO_MANY_REQUESTS
    return ProxyFailedError(proxy, f"it answered {status}{phrase}", may_pass=is_busy)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else "no connection"


def _is_about(
    error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError, proxy: Proxy
) -> bool:
    return (error.host, error.port) == (proxy.host, proxy.port)
