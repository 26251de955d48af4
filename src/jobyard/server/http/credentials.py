"""Who may talk to the server: its certificate, the token, and the kubeconfig that has both.

Made once for a data folder and used again while they are good. The key that signed the server's
certificate is never written: nobody can sign another one. Files are the owner's alone, and whole
or not there at all.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import re
import secrets
import ssl
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_BEFORE: Final = datetime.timedelta(hours=1)
VALID_AFTER: Final = datetime.timedelta(days=825)
# New ones are made when the old ones would not last this long.
VALID_LEFT: Final = datetime.timedelta(days=30)
TOKEN_BYTES: Final = 32
TOKEN_LENGTH_MIN: Final = 32
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{{TOKEN_LENGTH_MIN},}}")
PRIVATE_MODE: Final = 0o600
_NAMES: Final = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_ADDRESSES: Final = ("127.0.0.1", "::1")


class CredentialsError(Exception):
    """A file of them can't be used; the message says which, and what to do."""


class Credentials(msgspec.Struct, frozen=True):
    """Where the files are; the token itself is not shown by accident."""

    ca: Path
    certificate: Path
    key: Path
    token_file: Path

    @property
    def token(self) -> str:
        """Only what can't be guessed lets anybody in."""
        try:
            text = self.token_file.read_bytes().strip(b"\r\n").decode("ascii")
        except UnicodeDecodeError:
            text = ""
        if _TOKEN.fullmatch(text) is None:
            raise CredentialsError(
                f"{self.token_file} has no token: at least {TOKEN_LENGTH_MIN} letters, digits,"
                " dashes or underscores; remove the file, and a new one is made"
            )
        return text

    def tls(self) -> ssl.SSLContext:
        """What the server needs to listen."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (ssl.SSLError, ValueError) as problem:
            raise CredentialsError(
                f"{self.key} and {self.certificate} can't be used ({problem});"
                " remove both, and new ones are made"
            ) from problem
        return context


def credentials(folder: Path, now: datetime.datetime) -> Credentials:
    """Those of a data folder; made if there are none, or none that last."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = Credentials(
        folder / "ca.crt", folder / "server.crt", folder / "server.key", folder / "token"
    )
    if not _lasts(found, now):
        _make(found, now)
    return found


def _lasts(found: Credentials, now: datetime.datetime) -> bool:
    files = (found.ca, found.certificate, found.key, found.token_file)
    if not all(file.is_file() for file in files):
        return False
    try:
        made = [
            x509.load_pem_x509_certificate(f.read_bytes()) for f in (found.certificate, found.ca)
        ]
    except ValueError:
        return False
    # Made by a clock that was ahead, they would be good only later.
    return all(
        each.not_valid_before_utc <= now and each.not_valid_after_utc > now + VALID_LEFT
        for each in made
    )


def _make(made: Credentials, now: datetime.datetime) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("jobyard")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in _NAMES]
    names += [x509.IPAddress(ipaddress.ip_address(text)) for text in _ADDRESSES]
    certificate = (
        _builder(_name("jobyard-server"), issuer, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    # Old ones that a kill leaves beside a new key would fit nothing.
    made.certificate.unlink(missing_ok=True)
    write_private(made.key, pem)
    write_private(made.ca, authority.public_bytes(Encoding.PEM))
    write_private(made.token_file, secrets.token_urlsafe(TOKEN_BYTES).encode())
    # The last one: without it all are made again.
    write_private(made.certificate, certificate.public_bytes(Encoding.PEM))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_BEFORE)
        .not_valid_after(now + VALID_AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def write_kubeconfig(path: Path, url: str, made: Credentials, namespace: str = "default") -> None:
    """A kubeconfig with everything in it, for kubectl and for our own client."""
    authority = base64.b64encode(made.ca.read_bytes()).decode()
    name = "jobyard"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": name, "user": {"token": made.token}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
        "current-context": name,
        "preferences": {},
    }
    # JSON is YAML, and needs no care with quotes.
    write_private(path, msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
