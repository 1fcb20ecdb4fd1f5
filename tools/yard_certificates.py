"""An authority and certificates for trying a yard. They are made once, and anew within a month of their end."""

import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
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
    """A certificate authority of one's own, kept in a folder as `NAME.pem` and `NAME.key`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        cert, key = folder / f"{name}.pem", folder / f"{name}.key"
        if not (cert.exists() and key.exists()):
            made = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name(
                [x509.NameAttribute(NameOID.COMMON_NAME, f"Taskyard {name} on {socket.gethostname()}"[:64])]
            )
            builder = _certificate(subject, subject, made, AUTHORITY_DAYS).add_extension(
                x509.BasicConstraints(ca=True, path_length=0), critical=True
            )
            write(key, _pem(made))
            write(cert, builder.sign(made, SHA256()).public_bytes(Encoding.PEM))
        loaded = load_pem_private_key(key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key = loaded
        self._name = x509.load_pem_x509_certificate(cert.read_bytes()).subject

    def sign(self, path: Path, names: list[x509.GeneralName], *usages: x509.ObjectIdentifier) -> None:
        """Make a certificate and its key, `PATH.pem` and `PATH.key`, unless there is one that is good for a while."""
        cert, key = path.with_name(f"{path.name}.pem"), path.with_name(f"{path.name}.key")
        if cert.exists() and key.exists():
            left = x509.load_pem_x509_certificate(cert.read_bytes()).not_valid_after_utc - datetime.now(UTC)
            if left > timedelta(days=RENEW_DAYS):
                return
        made = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.name)])
        builder = (
            _certificate(subject, self._name, made, LEAF_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        write(key, _pem(made))
        write(cert, builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))


def private(folder: Path) -> Path:
    """The folder, which only its owner can enter; it is made if it is missing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write(path: Path, content: bytes) -> None:
    """Put a file that only its owner can read in its place."""
    beside = path.with_name(f".{path.name}.new")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    beside.rename(path)


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
