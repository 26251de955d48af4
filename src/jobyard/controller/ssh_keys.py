"""Fresh keys for a job whose replicas log in to one another."""

from __future__ import annotations

from collections.abc import Mapping

from jobyard.plan.lowering.ssh import KEY_FILES


def fresh_keys() -> Mapping[str, str]:
    """A pair to log in with and a pair for the hosts, as files by name."""
    identity, identity_pub, host, host_pub = KEY_FILES
    login, server = _pair(), _pair()
    return {identity: login[0], identity_pub: login[1], host: server[0], host_pub: server[1]}


def _pair() -> tuple[str, str]:
    # Imported here: it is slow to import, and few jobs need keys.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} jobyard\n"
