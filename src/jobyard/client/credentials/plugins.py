"""Login plugins: commands that print credentials as an ExecCredential.

`login` calls `run_plugin` when it needs credentials and decides when that is. The protocol is
client.authentication.k8s.io, v1 and v1beta1, without a terminal. The plugin's output holds
secrets and is never quoted; of what it says on standard error the end is, because that is
where it tells the user to log in.
"""

from __future__ import annotations

import asyncio
import base64
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from jobyard.client.credentials.cluster import Certificate, Cluster, Plugin
from jobyard.client.errors import CredentialsError

PLUGIN_SECONDS_MAX: Final = 60.0
COMPLAINT_LENGTH_MAX: Final = 300
INFO_VARIABLE: Final = "KUBERNETES_EXEC_INFO"


class Issued(msgspec.Struct, frozen=True):
    """What a plugin gave, and until when it is good (None: until it is refused)."""

    token: str
    certificate: Certificate | None
    expires_at: datetime | None

    def __repr__(self) -> str:
        return f"Issued(…, expires_at={self.expires_at})"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


async def run_plugin(plugin: Plugin, cluster: Cluster) -> Issued:
    """Run the plugin to its end and read what it printed."""
    environment = {
        **os.environ,
        **dict(plugin.environment),
        INFO_VARIABLE: msgspec.json.encode(_info(plugin, cluster)).decode(),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its arguments can't be passed on"
        hint = plugin.install_hint.strip() or "install it or correct the kubeconfig"
        raise CredentialsError(
            f"login plugin {plugin.command} can't be run ({reason}); {hint}"
        ) from None
    try:
        async with asyncio.timeout(PLUGIN_SECONDS_MAX):
            printed, complaint = await process.communicate()
    except TimeoutError:
        raise CredentialsError(
            f"login plugin {plugin.command} hasn't ended after {PLUGIN_SECONDS_MAX:.0f} s;"
            " run it by hand to see what it waits for"
        ) from None
    finally:
        await _end(process)
    if process.returncode != 0:
        said = " ".join(complaint.decode(errors="replace").split())[-COMPLAINT_LENGTH_MAX:]
        raise CredentialsError(
            f"login plugin {plugin.command} ended with {process.returncode}: {said or 'no message'}"
        )
    return _issued(plugin, printed)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave no process behind, also when the caller is cancelled."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        # The pipes are read to their end as well, which is what lets the transport close.
        await process.communicate()


def _info(plugin: Plugin, cluster: Cluster) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.wants_cluster:
        trust = cluster.trust
        about: dict[str, Any] = {"server": cluster.server}
        if trust.authorities is not None:
            about["certificate-authority-data"] = base64.b64encode(trust.authorities).decode()
        if trust.server_name:
            about["tls-server-name"] = trust.server_name
        if trust.is_blind:
            about["insecure-skip-tls-verify"] = True
        # A proxy of the environment it sees by itself.
        if cluster.proxy is not None and cluster.proxy.proxy_url:
            about["proxy-url"] = cluster.proxy.proxy_url
        spec["cluster"] = about
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _issued(plugin: Plugin, printed: bytes) -> Issued:
    who = f"login plugin {plugin.command}"
    try:
        credential = msgspec.json.decode(printed, type=_Credential)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CredentialsError(
            f"{who} printed something else than an ExecCredential; run it by hand to see what"
        ) from None
    if (credential.kind, credential.api_version) != ("ExecCredential", plugin.api_version):
        raise CredentialsError(
            f"{who} printed a {credential.kind or 'value'} of"
            f" {credential.api_version or 'no apiVersion'};"
            f" must be an ExecCredential of {plugin.api_version}, as exec.apiVersion says"
        )
    status = credential.status or _Status()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise CredentialsError(f"{who} gave a certificate without a key or a key without one")
    if not status.token and not status.client_certificate_data:
        raise CredentialsError(f"{who} gave neither a token nor a certificate")
    certificate = (
        Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if status.client_certificate_data
        else None
    )
    expires_at = status.expiration_timestamp
    if expires_at is not None and expires_at.tzinfo is None:
        expires_at = expires_at.replace(tzinfo=UTC)
    return Issued(status.token.strip(), certificate, expires_at)
