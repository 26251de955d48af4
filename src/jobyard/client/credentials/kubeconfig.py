"""Kubeconfig files: one or several merged, a context chosen, its cluster and user read.

`locating` calls `cluster_from`. Follows the rules of kubectl: the first file that says
something wins, and relative paths start at the file they stand in. What Jobyard can't do
(impersonation, auth-provider, passwords) is refused by name, since leaving it out
silently would act as somebody else. Messages never quote what a file holds.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from jobyard.client.credentials.cluster import (
    Certificate,
    Cluster,
    Credentials,
    Plugin,
    Proxy,
    Trust,
)
from jobyard.client.errors import KubeconfigError
from jobyard.client.proxying.proxies import ProxyError, proxy_at

PLUGIN_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
# libyaml's where there is one: a kubeconfig with many clusters is long.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _ClusterPart(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    api_version: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _UserPart(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    exec: _Exec | None = None
    auth_provider: Any = None
    username: str = ""
    password: str = ""
    impersonated: str = msgspec.field(name="as", default="")
    impersonated_uid: str = msgspec.field(name="as-uid", default="")
    impersonated_groups: tuple[str, ...] | None = msgspec.field(name="as-groups", default=None)
    impersonated_extra: Any = msgspec.field(name="as-user-extra", default=None)

    def refused(self) -> Iterator[tuple[str, str]]:
        """What of it Jobyard can't do, and what to use instead."""
        if self.auth_provider:
            yield "auth-provider", "use a plugin under `exec`"
        if self.username or self.password:
            yield "username and password", "use a token, a client certificate or a plugin"
        if any((self.impersonated, self.impersonated_uid, self.impersonated_groups)):
            yield "as (impersonation)", "use a user that may do it itself"
        elif self.impersonated_extra:
            yield "as-user-extra (impersonation)", "use a user that may do it itself"


class _ContextPart(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _ClusterPart | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _UserPart | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _ContextPart | None = None


class _Config(msgspec.Struct, frozen=True):
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None
    current_context: str | None = msgspec.field(name="current-context", default=None)


class _File(msgspec.Struct, frozen=True):
    path: Path
    config: _Config


class _Place(msgspec.Struct, frozen=True):
    """An entry of a file, for messages and relative paths."""

    path: Path
    name: str

    def __str__(self) -> str:
        return f"kubeconfig {self.path}: {self.name}"

    def file(self, name: str) -> Path:
        return Path(os.path.abspath(self.path.parent / Path(name).expanduser()))

    def content(self, field: str, data: str, name: str) -> bytes | None:
        """What `<field>-data` holds, or the file that `<field>` names; data wins."""
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise KubeconfigError(
                    f"{self}: {field}-data is not base64; copy it again from its source"
                ) from None
        if not name:
            return None
        path = self.file(name)
        try:
            return path.read_bytes()
        except OSError as error:
            raise KubeconfigError(
                f"{self}: {field} {path} can't be read ({error.strerror})"
            ) from error


def cluster_from(paths: Sequence[Path], context: str | None = None) -> Cluster:
    """The cluster and user of `context`, else of the current one, from merged files."""
    files = tuple(_File(path, _read(path)) for path in paths)
    where = " and ".join(str(path) for path in paths)
    wanted = context or next(
        (file.config.current_context for file in files if file.config.current_context), None
    )
    contexts = [(file, entry) for file in files for entry in file.config.contexts or ()]
    names = tuple(dict.fromkeys(entry.name for _, entry in contexts))
    if wanted is None:
        raise KubeconfigError(
            f"kubeconfig {where}: current-context is not set; name a context"
            f" ({_listed(names)}) or run `kubectl config use-context`"
        )
    part = next((entry.context for _, entry in contexts if entry.name == wanted), None)
    if part is None:
        raise KubeconfigError(
            f"kubeconfig {where}: there is no context {wanted!r}; there is {_listed(names)}"
        )
    clusters = {
        entry.name: (_Place(file.path, f"cluster {entry.name!r}"), entry.cluster or _ClusterPart())
        for file in reversed(files)
        for entry in reversed(file.config.clusters or ())
    }
    users = {
        entry.name: (_Place(file.path, f"user {entry.name!r}"), entry.user or _UserPart())
        for file in reversed(files)
        for entry in reversed(file.config.users or ())
    }
    at = f"kubeconfig {where}: context {wanted!r}"
    place, cluster = _named(clusters, part.cluster, f"{at}: cluster")
    if not cluster.server:
        raise KubeconfigError(f"{place}: server is missing; it must look like https://host:6443")
    return Cluster(
        server=cluster.server,
        namespace=part.namespace or "default",
        trust=_trust(place, cluster),
        credentials=_credentials(*_named(users, part.user, f"{at}: user"))
        if part.user
        else Credentials(),
        proxy=_proxy(place, cluster.proxy_url) if cluster.proxy_url else None,
        source=f"context {wanted!r} of {where}",
    )


def _read(path: Path) -> _Config:
    try:
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 (a safe loader)
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path} can't be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 1})"
        # Neither libyaml's words nor the error itself, which quote the line: it may be a token.
        raise KubeconfigError(f"kubeconfig {path} is not valid YAML{line}") from None
    try:
        return msgspec.convert(document or {}, _Config)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"kubeconfig {path}: {error}") from None


Part = TypeVar("Part")


def _named(parts: dict[str, tuple[_Place, Part]], name: str, what: str) -> tuple[_Place, Part]:
    if name not in parts:
        raise KubeconfigError(f"{what} {name!r} is not in the file; there is {_listed(parts)}")
    return parts[name]


def _listed(names: Sequence[str] | dict[str, Any]) -> str:
    return ", ".join(names) or "none"


def _trust(place: _Place, cluster: _ClusterPart) -> Trust:
    authorities = place.content(
        "certificate-authority", cluster.certificate_authority_data, cluster.certificate_authority
    )
    if cluster.insecure_skip_tls_verify and authorities is not None:
        raise KubeconfigError(
            f"{place}: insecure-skip-tls-verify and a certificate-authority exclude each other;"
            " remove one of them"
        )
    return Trust(
        authorities=authorities,
        server_name=cluster.tls_server_name,
        is_blind=cluster.insecure_skip_tls_verify,
    )


def _proxy(place: _Place, url: str) -> Proxy:
    try:
        return proxy_at(url, f"proxy-url of {place.name} in {place.path}", is_whole=True)
    except ProxyError as problem:
        raise KubeconfigError(f"{place}: proxy-url {problem}") from None


def _credentials(place: _Place, user: _UserPart) -> Credentials:
    for what, instead in user.refused():
        raise KubeconfigError(f"{place}: {what} is not supported; {instead}")
    cert = place.content(
        "client-certificate", user.client_certificate_data, user.client_certificate
    )
    key = place.content("client-key", user.client_key_data, user.client_key)
    if (cert is None) != (key is None):
        there, missing = ("client-key", "client-certificate")[:: 1 if cert is None else -1]
        raise KubeconfigError(f"{place}: there is a {there} without a {missing}; set both")
    return Credentials(
        token=user.token,
        token_file=place.file(user.token_file) if user.token_file else None,
        certificate=Certificate(cert, key) if cert is not None and key is not None else None,
        plugin=None if user.exec is None else _plugin(place, user.exec),
    )


def _plugin(place: _Place, part: _Exec) -> Plugin:
    if not part.command:
        raise KubeconfigError(f"{place}: exec has no command; name the login plugin to run")
    if part.api_version not in PLUGIN_VERSIONS:
        raise KubeconfigError(
            f"{place}: exec.apiVersion is {part.api_version!r};"
            f" must be one of {', '.join(PLUGIN_VERSIONS)}"
        )
    if part.interactive_mode == "Always":
        raise KubeconfigError(
            f"{place}: exec.interactiveMode is Always, and Jobyard has no terminal for the plugin;"
            " log in with kubectl first, or use a plugin that asks nothing"
        )
    # As in a shell: a word is looked up in PATH, a path starts at the file.
    is_path = os.sep in part.command
    return Plugin(
        api_version=part.api_version,
        command=str(place.file(part.command)) if is_path else part.command,
        arguments=part.args or (),
        environment=tuple((variable.name, variable.value) for variable in part.env or ()),
        wants_cluster=part.provide_cluster_info,
        install_hint=part.install_hint,
    )
