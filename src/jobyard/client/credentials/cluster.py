"""The values that say where an API server is, whom to trust, and who we are.

`kubeconfig` and `in_cluster` make them, `locating` chooses, `login` and `transport` use them.
Nothing here reads files or the environment. What is secret never shows in a repr, because a
repr ends up in logs, tracebacks and test reports.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from jobyard.client.errors import ClusterError


class Certificate(msgspec.Struct, frozen=True):
    """A client certificate with its key, as PEM."""

    cert: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Certificate(…)"


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A command that prints an ExecCredential (client.authentication.k8s.io)."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    wants_cluster: bool = False
    install_hint: str = ""

    def __repr__(self) -> str:
        # Arguments and environment may hold a client secret.
        return f"Plugin({self.command!r}, …)"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Who we are. A token of a file goes before a fixed one, and both before the plugin's."""

    token: str = ""
    token_file: Path | None = None
    certificate: Certificate | None = None
    plugin: Plugin | None = None

    def __repr__(self) -> str:
        parts = [
            "token=…" if self.token else "",
            f"token_file={str(self.token_file)!r}" if self.token_file is not None else "",
            f"certificate={self.certificate!r}" if self.certificate is not None else "",
            f"plugin={self.plugin!r}" if self.plugin is not None else "",
        ]
        return f"Credentials({', '.join(part for part in parts if part)})"


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """How the server proves itself: by these authorities (PEM), else by the system's."""

    authorities: bytes | None = None
    # The name in the certificate where it isn't the host of the URL.
    server_name: str = ""
    is_blind: bool = False

    def __repr__(self) -> str:
        known = "the system's" if self.authorities is None else f"{len(self.authorities)} bytes"
        return f"Trust({known}, server_name={self.server_name!r}, is_blind={self.is_blind})"


class ProxyScheme(StrEnum):
    """What a proxy speaks."""

    HTTP = "http"
    HTTPS = "https"
    SOCKS5 = "socks5"


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """What stands between us and the API server. Its text is its address, without the login."""

    scheme: ProxyScheme
    host: str
    port: int
    # As the proxy takes them, no longer percent-encoded; None: its URL has no login.
    login: tuple[str, str] | None = None
    # For messages: `$HTTPS_PROXY`, or the entry of a kubeconfig.
    source: str = ""
    # The whole URL where it was written in a kubeconfig: login plugins are told that one.
    proxy_url: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({str(self)!r}, source={self.source!r})"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """An API server, and how to speak to it."""

    server: str
    # The namespace meant when nobody names one.
    namespace: str = "default"
    trust: Trust = Trust()
    credentials: Credentials = Credentials()
    proxy: Proxy | None = None
    # For messages: `context dev of ~/.kube/config`.
    source: str = ""

    def __post_init__(self) -> None:
        # urlsplit's own messages quote the URL, and with it a password that is in it.
        try:
            parts = urlsplit(self.server)
            is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
            has_login = parts.username is not None
            _ = parts.port
        except ValueError:
            is_good, has_login = False, False
        where = f"{self.source}: " if self.source else ""
        if has_login:
            raise ClusterError(
                f"{where}the server's URL has a user name in it; put credentials under `users`"
            )
        if not is_good or parts.query or parts.fragment:
            raise ClusterError(
                f"{where}server is not the URL of an API server;"
                " it must look like https://host:6443"
            )
