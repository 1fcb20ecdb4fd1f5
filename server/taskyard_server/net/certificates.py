"""The certificate files of a listener: read, checked, and noticed when they change.

A set of files is in force as a whole or not at all: while the new ones do not fit together, the old ones stay. So it
does not matter that a certificate and its key are replaced one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc
import structlog

from taskyard_server.settings.replicas import ReplicaSettings
from taskyard_server.settings.security import GatewayTlsSettings, TlsSettings

from .file_marks import FileMark, marks_of

if TYPE_CHECKING:  # It is loaded only where TLS is used.
    from cryptography.x509 import Certificate

log = structlog.get_logger(__name__)

LOOK_SECS: Final = 0.5
"""How often the files are looked at."""
PATIENCE_SECS: Final = 3.0
"""How long new files may not fit together before the log says so: they are replaced one by one."""
CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})
LEAST_RSA_BITS: Final = 2048
MAX_BYTES: Final = 1 << 20


class CertificateError(Exception):
    """The files cannot be used; the text is one line that names the setting and the file."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of a listener's files, all in PEM."""

    cert: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None
    valid_from: datetime
    valid_until: datetime

    def warning(self, now: datetime) -> str | None:
        """The reason for which callers will refuse this certificate, if any."""
        if now > self.valid_until:
            return f"it has expired at {self.valid_until:%Y-%m-%d %H:%M} UTC"
        return None if now >= self.valid_from else f"it is not valid before {self.valid_from:%Y-%m-%d %H:%M} UTC"


class CertificateFiles:
    """The files that a section of the settings names, the authorities by `ca_key`. `load` before anything else."""

    def __init__(
        self, section: str, cert: Path, key: Path, client_ca: Path | None, *, ca_key: str = "clientCa"
    ) -> None:
        self._section = section
        self._ca_key = ca_key
        self.cert, self.key, self.client_ca = cert.absolute(), key.absolute(), _absolute(client_ca)
        self._current: Certificates | None = None
        self._seen: object = None
        self._error: str | None = None
        self._since = 0.0

    @property
    def current(self) -> Certificates:
        """The content in force; another object once it has changed."""
        assert self._current is not None
        return self._current

    def load(self) -> None:
        """Read the files. Raises `CertificateError`."""
        self._seen = self._marks()
        self._take(self.read())

    def look(self, now: float) -> bool:
        """Look at the files, at a time in seconds; whether others are in force now.

        What cannot be used is logged once, if it stays so.
        """
        marks = self._marks()
        if marks != self._seen:
            self._seen, self._error, self._since = marks, None, now
            try:
                found = self.read()
            except CertificateError as error:
                self._error = str(error)
                return False
            if found == self.current:
                return False
            self._take(found)
            log.info("certificate_replaced", section=self._section, valid_until=found.valid_until.isoformat())
            return True
        if self._error is not None and now - self._since >= PATIENCE_SECS:
            log.error("certificate_not_replaced", error=self._error)
            self._error = None
        return False

    async def watch(self, replaced: Callable[[], None] = lambda: None) -> None:
        """Look at the files until cancelled; `replaced` is called when others are in force."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(LOOK_SECS)
            if await asyncio.to_thread(self.look, clock()):
                replaced()

    def _take(self, found: Certificates) -> None:
        self._current = found
        if (warning := found.warning(datetime.now(UTC))) is not None:
            log.warning("certificate_not_valid", section=self._section, file=str(self.cert), why=warning)

    def _marks(self) -> list[FileMark | None]:
        return marks_of((self.cert, self.key, self.client_ca))

    def read(self) -> Certificates:
        """The content of the files, which is not put in force. Raises `CertificateError`."""
        cert, key = self._content("cert", self.cert), self._content("key", self.key)
        first = self._certificates("cert", self.cert, cert)[0]
        self._check_key(first, key)
        client_ca = None
        if self.client_ca is not None:
            client_ca = self._content(self._ca_key, self.client_ca)
            self._certificates(self._ca_key, self.client_ca, client_ca)
        return Certificates(cert, key, client_ca, first.not_valid_before_utc, first.not_valid_after_utc)

    def _content(self, name: str, path: Path) -> bytes:
        try:
            if not path.is_file() and path.exists():
                raise self._error_of(name, path, "is not a file")
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise self._error_of(name, path, (error.strerror or "cannot be read").lower()) from None
        if len(content) > MAX_BYTES:
            raise self._error_of(name, path, "is too long")
        return content

    def _certificates(self, name: str, path: Path, content: bytes) -> list[Certificate]:
        from cryptography.x509 import load_pem_x509_certificates

        try:
            return load_pem_x509_certificates(content)
        except ValueError:
            raise self._error_of(name, path, "holds no certificate in PEM, or a broken one") from None

    def _check_key(self, cert: Certificate, content: bytes) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(content, None)
        except TypeError:
            raise self._error_of("key", self.key, "is encrypted; the server needs one without a password") from None
        except (ValueError, UnsupportedAlgorithm):
            raise self._error_of("key", self.key, "holds no private key in PEM, or a broken one") from None
        known = (isinstance(key, EllipticCurvePrivateKey) and key.curve.name in CURVES) or (
            isinstance(key, RSAPrivateKey) and key.key_size >= LEAST_RSA_BITS
        )
        if not known:
            raise self._error_of("key", self.key, "must be RSA of 2048 bits or more, or P-256, P-384 or P-521")
        if key.public_key() != cert.public_key():
            raise self._error_of("key", self.key, f"does not belong to the certificate in {self.cert}")

    def _error_of(self, name: str, path: Path, problem: str) -> CertificateError:
        return CertificateError(f"{self._section}.{name}: {path}: {problem}")


def certificate_files(section: str, settings: TlsSettings | GatewayTlsSettings) -> CertificateFiles | None:
    """The files of this section of the settings, or None where it is empty. Raises `CertificateError`."""
    cert, key = settings.cert, settings.key
    if cert is not None and key is not None:
        return CertificateFiles(section, cert, key, settings.client_ca)
    if cert is key is settings.client_ca is None:
        return None
    missing = "cert" if cert is None else "key"
    raise CertificateError(f"{section}.{missing}: is missing; {section} needs cert and key")


def replica_files(settings: ReplicaSettings) -> CertificateFiles | None:
    """The files that a replica shows to others; None without `advertise`. Raises `CertificateError`."""
    if settings.advertise is None:
        return None
    cert, key, ca = settings.cert, settings.key, settings.ca
    if cert is None or key is None or ca is None:
        missing = "cert" if cert is None else "key" if key is None else "ca"
        raise CertificateError(f"replicas.{missing}: is missing; replicas.advertise needs cert, key and ca")
    return CertificateFiles("replicas", cert, key, ca, ca_key="ca")


def server_credentials(files: CertificateFiles) -> grpc.ServerCredentials:
    """The credentials with which grpc listens: new connections get what is in force by then.

    Where there are authorities, callers need a certificate of one of them.
    """
    served = files.current

    # For each handshake, on threads of grpc.
    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal served
        current = files.current
        if current is served:
            return None
        served = current
        return _configuration(current)

    is_required = files.client_ca is not None
    # The stubs do not say that None is an answer: nothing has changed.
    return grpc.dynamic_ssl_server_credentials(_configuration(served), fetch, is_required)  # type: ignore[arg-type]


def _configuration(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    pair = (certificates.key, certificates.cert)
    return grpc.ssl_server_certificate_configuration([pair], certificates.client_ca)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()
