"""Certificates for tests: an authority, and leaves that it signs, with the names and URIs that a test asks for.

    authority = Authority()
    server = authority.leaf()                                       # localhost, 127.0.0.1, ::1
    host = authority.leaf(uris=["spiffe://taskyard/host/h1"])       # a client, by its URI
    cert, key = server.write(tmp_path, "server")                    # paths; written anew, the files are replaced
    ca = authority.write(tmp_path)

A leaf takes half a millisecond, since all keys are P-256.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY: Final = timedelta(days=1)
USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True)
class Leaf:
    """A certificate and its key, as PEM."""

    cert: bytes
    key: bytes
    """Not encrypted; see `encrypted_key`."""
    serial: int

    def write(self, folder: Path, name: str = "leaf") -> tuple[Path, Path]:
        """Write `NAME.pem` and `NAME.key`, in the place of earlier ones by a rename each; both paths."""
        return replace(folder / f"{name}.pem", self.cert), replace(folder / f"{name}.key", self.key)

    def encrypted_key(self, password: bytes) -> bytes:
        """The same key, encrypted."""
        key = load_pem_private_key(self.key, None)
        assert isinstance(key, EllipticCurvePrivateKey)
        return _pem_of(key, BestAvailableEncryption(password))


class Authority:
    """A certificate authority; `cert` is its own certificate as PEM."""

    def __init__(self, name: str = "Taskyard tests") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = generate_private_key(SECP256R1())
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(self._name, self._name, self._key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - DAY).not_valid_after(now + 365 * DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        self.cert = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)

    def write(self, folder: Path, name: str = "ca") -> Path:
        """Write the certificate as `NAME.pem`; its path."""
        return replace(folder / f"{name}.pem", self.cert)

    def leaf(
        self,
        *,
        uris: Sequence[str] = (),
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1", "::1"),
        common_name: str = "leaf",
        valid_from: timedelta = -DAY,
        valid_until: timedelta = 30 * DAY,
        usages: Sequence[x509.ObjectIdentifier] = USAGES,
    ) -> Leaf:
        """A certificate for servers and clients with these subject alternative names, valid around now.

        `valid_from` and `valid_until` are counted from now: `valid_until=-timedelta(hours=1)` is expired. Without any
        name, address and URI it has no alternative names at all.
        """
        key, now, serial = generate_private_key(SECP256R1()), datetime.now(UTC), x509.random_serial_number()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = x509.CertificateBuilder(self._name, subject, key.public_key(), serial)
        builder = builder.not_valid_before(now + valid_from).not_valid_after(now + valid_until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        alternatives: list[x509.GeneralName] = [
            *map(x509.UniformResourceIdentifier, uris),
            *map(x509.DNSName, names),
            *(x509.IPAddress(ip_address(address)) for address in addresses),
        ]
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        cert = builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM)
        return Leaf(cert, _pem_of(key, NoEncryption()), serial)


def replace(path: Path, content: bytes, mode: int = 0o600) -> Path:
    """Write a file under another name and rename it, so that nobody ever reads half of it; the path."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content)
    new.chmod(mode)
    os.replace(new, path)
    return path


def _pem_of(key: EllipticCurvePrivateKey, encryption: KeySerializationEncryption) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
