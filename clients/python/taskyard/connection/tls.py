"""The files of an encrypted connection: who may sign the server's certificate, and the caller's own certificate."""

from __future__ import annotations

import logging
import os
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .profiles import warn_if_shared

if TYPE_CHECKING:
    import grpc

log = logging.getLogger("taskyard")

SYSTEM_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the authorities that they trust, if OpenSSL names no file."""


class TlsFiles:
    """The files of an encrypted connection. Each new connection reads them anew.

    Attributes:
        ca: The path of the certificates that may sign the server's, empty for those that this system trusts.
        cert: The path of the client certificate, empty for none.
        key: The path of its key.

    Args:
        ca: The path of the certificates that may sign the server's. Default those that this system trusts.
        cert: The path of the client certificate. Default none.
        key: The path of its key. Default none.

    Raises:
        ValueError: There is a certificate without a key, or a key without a certificate.
    """

    def __init__(self, ca: str = "", cert: str = "", key: str = "") -> None:
        self.ca = ca
        self.cert = cert
        self.key = key
        if bool(cert) != bool(key):
            missing, other = ("key", "cert") if cert else ("cert", "key")
            raise ValueError(f"{missing}: is missing beside {other}")
        self._last: grpc.ChannelCredentials | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """Build the credentials of a connection that is opened now.

        Returns:
            The credentials: the last ones if the files are not in order now, but were before.

        Raises:
            ValueError: A file cannot be read, or does not hold what it should.
        """
        import grpc

        try:
            self._last = grpc.ssl_channel_credentials(*self.check())
        except ValueError as error:
            # Files are not renewed in one step.
            if self._last is None:
                raise
            log.warning("the certificates stay as they were: %s", error)
        return self._last

    def check(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Read the files, without gRPC, so that a process may be forked afterwards.

        Returns:
            The certificates of authorities, the key and the certificate.

        Raises:
            ValueError: A file cannot be read, or does not hold what it should.
        """
        authorities = _read_file("ca", self.ca) if self.ca else system_authorities()
        certificate = _read_file("cert", self.cert) if self.cert else None
        key = _read_file("key", self.key) if self.key else None
        # gRPC notices nothing before it connects, and then does not say what is wrong.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca and authorities is not None:
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii", "replace"))
            except (ssl.SSLError, ValueError):
                raise ValueError(f"ca: {self.ca}: holds no certificates in PEM") from None
        if certificate is not None:
            _check_pair(context, self.cert, self.key)
            warn_if_shared(_path(self.key), stat.S_IRWXO)
        return authorities, key, certificate


def system_authorities() -> bytes | None:
    """Read the authorities that this system trusts. gRPC has a list of its own, without those that a company adds.

    Returns:
        Their certificates; None where the list of gRPC is to be used, since there is no other or the environment names
        one for gRPC.
    """
    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return None
    for path in (ssl.get_default_verify_paths().cafile, *SYSTEM_AUTHORITIES):
        try:
            found = Path(path).read_bytes() if path else b""
        except OSError:
            continue
        if b"BEGIN CERTIFICATE" in found:
            return found
    return None


def _check_pair(context: ssl.SSLContext, cert: str, key: str) -> None:
    """Raise `ValueError` unless a key without a password belongs to a certificate."""

    def refuse() -> str:
        raise ValueError("has a password, which is not supported")

    try:
        context.load_cert_chain(_path(cert), _path(key), refuse)
    except ssl.SSLError as error:
        problem = "belongs to another certificate" if "MISMATCH" in (error.reason or "") else "are not both in PEM"
        raise ValueError(f"key: {key}: {problem if 'other' in problem else f'it and {cert} {problem}'}") from None
    except ValueError as error:
        raise ValueError(f"key: {key}: {error}") from None
    except OSError as error:
        raise ValueError(f"cert: {cert}: {error.strerror}") from None


def _read_file(name: str, path: str) -> bytes:
    try:
        return _path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: {path}: {error.strerror}") from None


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
