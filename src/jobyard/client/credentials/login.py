"""Credentials as they are right now: tokens read again, plugins called again, TLS set up.

`transport` asks for a ticket before each request and says when one was refused. Decides how
long a ticket is good: a token file is read at most once a minute (the kubelet renews it long
before it ends), a plugin is called when what it gave has expired or was refused. However many
requests wait, one of them fetches.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from jobyard.client.credentials.cluster import Certificate, Cluster
from jobyard.client.credentials.plugins import Issued, run_plugin
from jobyard.client.errors import ClusterError, CredentialsError

TOKEN_FILE_SECONDS: Final = 60.0
# A server that refuses every token must not make us start a process per request.
REFUSAL_PAUSE_SECONDS: Final = 10.0


class Ticket(msgspec.Struct, frozen=True, eq=False):
    """What a request shows: a bearer token, or nothing, over this TLS (None: plain HTTP)."""

    token: str
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:
        return "Ticket(…)"


class Login:
    """The credentials of one cluster over time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ticket: Ticket | None = None
        self._issued: Issued | None = None
        self._tls: tuple[Certificate | None, ssl.SSLContext | None] | None = None
        self._file_read_at = 0.0
        self._refused_at: float | None = None
        self._lock = asyncio.Lock()

    async def ticket(self) -> Ticket:
        """A ticket that is good as far as we know."""
        if self._ticket is not None and not self._is_stale():
            return self._ticket
        async with self._lock:
            if self._ticket is None or self._is_stale():
                self._ticket = await self._fetch()
            return self._ticket

    def refuse(self, ticket: Ticket) -> bool:
        """The server said 401 to `ticket`; whether the next one may be another."""
        if ticket is not self._ticket:
            # Others were refused too, and the new one is here already.
            return True
        credentials = self._cluster.credentials
        if credentials.plugin is None and credentials.token_file is None:
            return False
        now = time.monotonic()
        if self._refused_at is not None and now - self._refused_at < REFUSAL_PAUSE_SECONDS:
            return False
        self._refused_at = now
        self._ticket, self._issued = None, None
        return True

    def _is_stale(self) -> bool:
        if self._issued is not None and self._issued.expires_at is not None:
            return datetime.now(UTC) >= self._issued.expires_at
        if self._cluster.credentials.token_file is not None:
            return time.monotonic() - self._file_read_at >= TOKEN_FILE_SECONDS
        return False

    async def _fetch(self) -> Ticket:
        credentials = self._cluster.credentials
        if credentials.token_file is not None:
            token = self._token_of_file(credentials.token_file)
            return Ticket(token, self._context(credentials.certificate))
        if credentials.plugin is None or credentials.token:
            token = _checked(credentials.token, "the token of the kubeconfig")
            return Ticket(token, self._context(credentials.certificate))
        self._issued = await run_plugin(credentials.plugin, self._cluster)
        token = _checked(self._issued.token, f"login plugin {credentials.plugin.command}: token")
        return Ticket(token, self._context(self._issued.certificate or credentials.certificate))

    def _token_of_file(self, path: Path) -> str:
        known = self._ticket.token if self._ticket is not None else self._cluster.credentials.token
        try:
            text = path.read_bytes().decode("ascii", errors="replace").strip()
        except OSError as error:
            # While a file is being swapped it may be gone; the token we have is still good.
            if not known:
                raise CredentialsError(
                    f"token file {path} can't be read ({error.strerror});"
                    f" check what {self._cluster.source or 'the cluster'} mounts there"
                ) from error
            text = known
        if not text and not known:
            raise CredentialsError(f"token file {path} is empty; it must hold a bearer token")
        self._file_read_at = time.monotonic()
        return _checked(text or known, f"token file {path}: its content")

    def _context(self, certificate: Certificate | None) -> ssl.SSLContext | None:
        # Kept as long as the certificate is: connections are pooled by context.
        if self._tls is None or self._tls[0] != certificate:
            is_plain = self._cluster.server.startswith("http://")
            self._tls = (
                certificate,
                None if is_plain else tls_context(self._cluster, certificate),
            )
        return self._tls[1]


def _checked(token: str, what: str) -> str:
    """A token goes into a header, whose errors would quote it."""
    if not token.isascii() or any(character <= " " or character == "\x7f" for character in token):
        raise CredentialsError(f"{what} can't be a bearer token: it has spaces or other characters")
    return token


def tls_context(cluster: Cluster, certificate: Certificate | None) -> ssl.SSLContext:
    """TLS that trusts whom the cluster says and shows `certificate`."""
    trust, source = cluster.trust, cluster.source or cluster.server
    try:
        context = ssl.create_default_context(
            cadata=None if trust.authorities is None else trust.authorities.decode("ascii")
        )
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise ClusterError(
            f"{source}: certificate-authority holds no usable certificate; it must be PEM"
        ) from None
    # The default of Python 3.13 refuses authorities without some extensions, which many
    # clusters have; kubectl takes them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if trust.is_blind:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _show(context, certificate, source)
    return context


def _show(context: ssl.SSLContext, certificate: Certificate, source: str) -> None:
    # The ssl module reads certificates from files only; the folder is ours alone (0700).
    with tempfile.TemporaryDirectory(prefix="jobyard-") as folder:
        pem = Path(folder) / "client.pem"
        pem.touch(mode=0o600)
        pem.write_bytes(certificate.cert + b"\n" + certificate.key)
        try:
            # A password, so that an encrypted key fails and doesn't ask at the terminal.
            context.load_cert_chain(pem, password="")
        except (ssl.SSLError, ValueError):
            raise ClusterError(
                f"{source}: the client certificate and its key can't be used; both must be PEM,"
                " belong together, and the key must not be encrypted"
            ) from None
