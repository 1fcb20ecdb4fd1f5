"""A certificate authority of one's own, kept in a folder that only its user can read."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 365
RENEW_DAYS: Final = 30


class Authority:
    """Makes `ca.pem` and `ca.key` in the folder, unless they are there, and signs certificates beside them.

    Raises `ValueError` for files that hold something else, and `OSError`.
    """

    def __init__(self, folder: Path) -> None:
        cert, key = folder / "ca.pem", folder / "ca.key"
        if not (cert.exists() and key.exists()):
            made = ec.generate_private_key(ec.SECP256R1())
            name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Taskyard on {socket.gethostname()}"[:64])])
            builder = _certificate(name, name, made, AUTHORITY_DAYS).add_extension(
                x509.BasicConstraints(ca=True, path_length=0), critical=True
            )
            write(key, _pem(made))
            write(cert, builder.sign(made, SHA256()).public_bytes(Encoding.PEM))
        self._key = _loaded_key(key)
        self._certificate = _loaded_certificate(cert)

    def sign(self, path: Path, names: Sequence[x509.GeneralName], *usages: x509.ObjectIdentifier) -> None:
        """Make a certificate and its key, `PATH.pem` and `PATH.key`.

        One that is good for another month, and for these names at least, stays.
        """
        cert, key = path.with_name(f"{path.name}.pem"), path.with_name(f"{path.name}.key")
        if cert.exists() and key.exists() and self._is_good(cert, key, names):
            return
        made = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.name)])
        builder = (
            _certificate(subject, self._certificate.subject, made, LEAF_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        write(key, _pem(made))
        write(cert, builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))

    def _is_good(self, cert: Path, key: Path, names: Sequence[x509.GeneralName]) -> bool:
        certificate = _loaded_certificate(cert)
        has = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        left = certificate.not_valid_after_utc - datetime.now(UTC)
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (InvalidSignature, ValueError):
            return False
        # A process that died between the two left a new key beside an old certificate.
        fits = certificate.public_key() == _loaded_key(key).public_key()
        return fits and left > timedelta(days=RENEW_DAYS) and set(names) <= set(has)


def write(path: Path, content: bytes) -> None:
    """Put a file that only its owner can read in its place."""
    beside = path.with_name(f".{path.name}.new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    beside.rename(path)


def _loaded_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path} is no certificate in PEM") from None


def _loaded_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        loaded = load_pem_private_key(path.read_bytes(), None)
    except (TypeError, ValueError):
        loaded = None
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path} is no key of an elliptic curve in PEM")
    return loaded


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
