#!/usr/bin/env python
"""Makes what a yard with TLS, roles and an audit log needs, in one folder: `tools/secure_yard.py FOLDER`.

`make up-secure` runs it, and then `taskyard up --config FOLDER/taskyard.json`. What is there already stays, but
certificates are made anew within a month of their end. Only the user who runs it can read the folder.

    ca.pem                     the authority: give it to clients
    server.pem, server.key     for localhost, in the names of this machine
    operator.pem, operator.key a client certificate with the role operator, for the gateway
    admin.token                a token with the role admin
    taskyard.json              the settings; edit them as you like
"""

import json
import os
import secrets
import socket
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
LEAF_DAYS: Final = 365
RENEW_DAYS: Final = 30
OPERATOR: Final = "spiffe://taskyard/operators/local"


def main() -> None:
    """Make what is missing in the folder that the argument names."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority = Authority(folder)
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in sorted({"localhost", socket.gethostname()})]
    names += [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")]
    authority.sign(folder / "server", names, ExtendedKeyUsageOID.SERVER_AUTH)
    authority.sign(folder / "operator", [x509.UniformResourceIdentifier(OPERATOR)], ExtendedKeyUsageOID.CLIENT_AUTH)
    if not (folder / "admin.token").exists():
        write(folder / "admin.token", f"{secrets.token_urlsafe(32)}\n".encode())
    if not (folder / "taskyard.json").exists():
        write(folder / "taskyard.json", json.dumps(settings(folder), indent=2).encode() + b"\n")


def settings(folder: Path) -> dict[str, object]:
    """The settings of a yard that keeps all it has in this folder."""
    pair = {"cert": str(folder / "server.pem"), "key": str(folder / "server.key")}
    return {
        "store": {"url": f"sqlite:///{folder}/yard.db"},
        "auth": {
            "required": True,
            "certificates": [{"uri": OPERATOR, "grants": [{"role": "operator"}]}],
        },
        "tls": pair,
        "gatewayTls": {**pair, "clientCa": str(folder / "ca.pem")},
        "audit": {"file": str(folder / "audit.log")},
    }


class Authority:
    """A certificate authority of one's own, kept in a folder."""

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


if __name__ == "__main__":
    main()
