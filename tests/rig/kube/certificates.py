"""The keys and certificates of one throw-away control plane.

Made anew for each plane and kept in its folder, so nothing is worth stealing and
nothing expires in a repository. Elliptic curve keys, because making an RSA key can
take as long as starting etcd. Strict enough for Python 3.13, whose default TLS
checks want key identifiers and key usages.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rig.kube.plane import write_private

# Longer than any test run, with an hour before for clocks that disagree.
VALID_BEFORE = datetime.timedelta(hours=1)
VALID_AFTER = datetime.timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where each file is."""

    ca: Path
    server_cert: Path
    server_key: Path
    admin_cert: Path
    admin_key: Path
    # Signs service account tokens, and verifies them.
    service_account_key: Path
    service_account_public: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that can sign."""

    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_credentials(folder: Path, addresses: Sequence[str] = ()) -> Credentials:
    """Make all that a control plane on the loopback address needs, into `folder`.

    `addresses` are further ones that pods and nodes reach the server at.
    """
    folder.mkdir(mode=0o700)
    authority = _make_authority()
    server_key, admin_key, account_key = (_make_key() for _ in range(3))
    server = _sign(
        authority,
        server_key,
        [x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")],
        ExtendedKeyUsageOID.SERVER_AUTH,
        [
            x509.DNSName("localhost"),
            *(x509.IPAddress(ipaddress.ip_address(ip)) for ip in ("127.0.0.1", *addresses)),
        ],
    )
    admin = _sign(
        authority,
        admin_key,
        [
            # The group that RBAC lets do everything, before any role exists.
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "jobyard-tests"),
        ],
        ExtendedKeyUsageOID.CLIENT_AUTH,
        [],
    )
    files = {
        "ca.crt": authority.cert.public_bytes(Encoding.PEM),
        "server.crt": server.public_bytes(Encoding.PEM),
        "server.key": _pem(server_key),
        "admin.crt": admin.public_bytes(Encoding.PEM),
        "admin.key": _pem(admin_key),
        "service-account.key": _pem(account_key),
        "service-account.pub": account_key.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        ),
    }
    for name, content in files.items():
        write_private(folder / name, content)
    return Credentials(*(folder / name for name in files))


def _make_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _make_authority() -> Authority:
    key = _make_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jobyard-test-ca")])
    cert = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(cert, key)


def _sign(
    authority: Authority,
    key: ec.EllipticCurvePrivateKey,
    subject: Sequence[x509.NameAttribute[str]],
    purpose: x509.ObjectIdentifier,
    addresses: Sequence[x509.GeneralName],
) -> x509.Certificate:
    issuer_key = authority.key.public_key()
    builder = (
        _builder(x509.Name(subject), authority.cert.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
        )
    )
    if addresses:
        builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID_BEFORE)
        .not_valid_after(now + VALID_AFTER)
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
