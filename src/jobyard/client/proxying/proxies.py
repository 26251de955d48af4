"""Which proxy leads to an API server: what a kubeconfig says, or else the environment.

`kubeconfig` reads a `proxy-url` here, and `locating` asks for the environment's where a file names
none. The rules are those of kubectl, whose source they follow: net/http and
golang.org/x/net/http/httpproxy for the variables, clientcmd for `proxy-url`. In one point we
differ: a value that can't be a proxy is an error here, where Go might go without one. Opens no
connection (`dialing` does), and no message holds a login.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from jobyard.client.credentials.cluster import Proxy, ProxyScheme
from jobyard.client.errors import ClusterError

NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_VARIABLES: Final = {
    "https": ("HTTPS_PROXY", "https_proxy"),
    "http": ("HTTP_PROXY", "http_proxy"),
}
_SERVER_PORTS: Final = {"https": "443", "http": "80"}
_PORTS: Final = {ProxyScheme.HTTP: 80, ProxyScheme.HTTPS: 443, ProxyScheme.SOCKS5: 1080}
# To Go it is another word for socks5: in both the proxy looks names up.
_SOCKS5H: Final = "socks5h"
# Set in a CGI program, where a header `Proxy:` of a stranger's request becomes HTTP_PROXY.
_CGI: Final = "REQUEST_METHOD"
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORM: Final = "it must look like http://host:3128"


class ProxyError(Exception):
    """A text can't be used as a proxy's URL; the message says why and doesn't quote it."""


def proxy_at(url: str, source: str, *, is_whole: bool) -> Proxy:
    """The proxy that a URL names; unless it has to be whole, `host:port` will do."""
    text = url if is_whole or "://" in url else f"{ProxyScheme.HTTP}://{url}"
    if _UNPRINTABLE.search(text):
        raise ProxyError(f"has spaces or control characters in it; {_FORM}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ProxyError(f"is not the URL of a proxy; {_FORM}") from None
    scheme = _scheme(parts.scheme, is_whole=is_whole)
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # What seems to be the host is then a part of the password.
        raise ProxyError(
            "has an @ behind its host; in a user name or password, write / ? # and @ as %2F %3F"
            " %23 and %40"
        )
    if not host or port == 0:
        raise ProxyError(f"is not the URL of a proxy; {_FORM}")
    return Proxy(
        scheme=scheme,
        host=host,
        port=port or _PORTS[scheme],
        login=_login(parts),
        source=source,
        proxy_url=url if is_whole else "",
    )


def proxy_of_environment(environ: Mapping[str, str], server: str) -> Proxy | None:
    """The proxy that the environment names for this server, unless it is exempt."""
    parts = urlsplit(server)
    name = next((each for each in _VARIABLES[parts.scheme] if environ.get(each)), None)
    if name is None:
        return None
    # Imported where it is of use: most have no proxy.
    from jobyard.client.proxying.no_proxy import is_exempt

    listed = next((environ[each] for each in NO_PROXY if environ.get(each)), "")
    host, port = _place(parts)
    if is_exempt(listed, host, port):
        return None
    if parts.scheme == "http" and environ.get(_CGI):
        raise ClusterError(
            f"${name} is not trusted, since ${_CGI} says that this is a CGI program;"
            " use proxy-url in a kubeconfig"
        )
    try:
        return proxy_at(environ[name], f"${name}", is_whole=False)
    except ProxyError as problem:
        raise ClusterError(
            f"API server {server}: ${name} {problem};"
            f" if the server needs no proxy, name it in ${NO_PROXY[0]}"
        ) from None


def _scheme(said: str, *, is_whole: bool) -> ProxyScheme:
    scheme = said.lower()
    if scheme == _SOCKS5H and not is_whole:
        return ProxyScheme.SOCKS5
    if scheme not in ProxyScheme.__members__.values():
        known = ", ".join(ProxyScheme)
        # Not quoted: of a text without "//" it may be the user name.
        raise ProxyError(f"has a scheme that is not supported; it must be one of {known}")
    return ProxyScheme(scheme)


def _login(parts: SplitResult) -> tuple[str, str] | None:
    said, at, _ = parts.netloc.rpartition("@")
    if not at:
        return None
    if _BAD_ESCAPE.search(said):
        raise ProxyError("has a % in its user name or password; it must be written as %25")
    name, _, password = said.partition(":")
    try:
        return unquote_to_bytes(name).decode(), unquote_to_bytes(password).decode()
    except UnicodeDecodeError:
        raise ProxyError("has a user name or password that is not UTF-8") from None


def _place(parts: SplitResult) -> tuple[str, str]:
    """Host and port as they are written: to Go, `LOCALHOST` is not `localhost`."""
    written = parts.netloc.rpartition("@")[2]
    if written.startswith("["):
        host, _, rest = written[1:].partition("]")
        # Only the zone of a link-local address may have escapes.
        host = unquote_to_bytes(host).decode(errors="replace")
        return host, rest.removeprefix(":") or _SERVER_PORTS[parts.scheme]
    host, _, port = written.partition(":")
    return host, port or _SERVER_PORTS[parts.scheme]
