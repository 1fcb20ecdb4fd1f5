"""The certificates of the settings: whether they can be used, for whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.x509 import (
    Certificate,
    DNSName,
    ExtendedKeyUsage,
    ExtensionNotFound,
    IPAddress,
    SubjectAlternativeName,
    UniformResourceIdentifier,
    load_pem_x509_certificates,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskyard_server.executors.tls_files import TlsFiles, TlsFilesError
from taskyard_server.gateway.envoy_secrets import GATEWAYS
from taskyard_server.net.certificates import CertificateError, CertificateFiles, certificate_files, replica_files
from taskyard_server.settings.config import Settings
from taskyard_server.settings.security import is_url

from .examined import WILDCARDS, Examined
from .findings import Findings, failure, ok, warning
from .store import may_use, user

SOON_DAYS: Final = 14
DAY_SECS: Final = 86_400
MENDS: Final = (
    ("does not belong", "put the key there that belongs to this certificate, or the certificate of this key"),
    ("permission denied", "let the user of the server read it"),
    ("no such file", "put it there, or correct the setting"),
    ("is missing", "set it"),
)
USAGES: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


class _Names(NamedTuple):
    """For whom a certificate is."""

    hosts: list[str]
    uris: list[str]

    def covers(self, host: str) -> bool:
        """True if a client that calls this host takes the certificate."""
        return host in self.hosts or f"*.{host.partition('.')[2]}" in self.hosts


def certificates(on: Examined) -> Findings:
    """Look at each certificate that the settings name."""
    settings = on.settings
    yield from _section("tls", settings.grpc, lambda: certificate_files("tls", settings.tls))
    if settings.gateway:
        yield from _section("gatewayTls", settings.rest, lambda: certificate_files("gatewayTls", settings.gateway_tls))
    yield from _section("replicas", None, lambda: replica_files(settings.replicas), settings.replicas.name)
    yield from _of_executor(settings)
    for issuer in settings.auth.jwt:
        if not is_url(issuer.jwks) and not may_use(Path(issuer.jwks), 4):
            yield failure("auth.jwt", f"{issuer.jwks} cannot be read by {user()}", "put the keys of the issuer there")


def _section(
    name: str, address: str | None, files_of: Callable[[], CertificateFiles | None], replica: str = ""
) -> Findings:
    check = f"certificate {name}"
    try:
        files = files_of()
        if files is None:
            return
        content = files.read()
    except CertificateError as error:
        text = str(error)
        todo = next((mend for part, mend in MENDS if part in text.lower()), "put a PEM file there that can be used")
        yield failure(check, text, todo)
        return
    chain = load_pem_x509_certificates(content.cert)
    authorities = [] if content.client_ca is None else load_pem_x509_certificates(content.client_ca)
    names = _names(chain[0])
    yield from _life(check, str(files.cert), chain, names)
    for number, (one, above) in enumerate(pairwise(chain), 1):
        if not _is_signed_by(one, above):
            todo = "let the file hold the certificate first, then the one that signed it, and so on"
            yield failure(check, f"{files.cert}: certificate {number} is not signed by the next one", todo)
    if authorities:
        yield from _life(f"authorities of {name}", str(files.client_ca), authorities, None)
    if replica:
        yield from _of_replica(check, replica, chain, authorities, names)
    elif address is not None:
        yield from _host(check, address.rpartition(":")[0].strip("[]"), names)


def _life(check: str, file: str, chain: list[Certificate], names: _Names | None) -> Findings:
    """The time for which a chain is valid: as long as all of it is."""
    now = datetime.now(UTC)
    first = min(chain, key=lambda each: each.not_valid_after_utc)
    since, until = max(each.not_valid_before_utc for each in chain), first.not_valid_after_utc
    days = (until - now).total_seconds() / DAY_SECS
    todo = "renew it: the server takes the new files within a second, without a restart"
    whom = "" if names is None else f", for {', '.join(names.hosts + names.uris) or 'no name'}"
    if days < 0:
        yield failure(check, f"{file} has expired on {until:%Y-%m-%d %H:%M} UTC", todo)
    elif now < since:
        yield failure(check, f"{file} is not valid before {since:%Y-%m-%d %H:%M} UTC", "see to the clock, or wait")
    elif days < SOON_DAYS:
        yield warning(check, f"{file} ends in {days:.0f} days, on {until:%Y-%m-%d}", todo)
    else:
        yield ok(check, f"{file} is valid for {days:.0f} days{whom}")


def _host(check: str, host: str, names: _Names) -> Findings:
    if not names.hosts:
        todo = "make one with the names by which callers call (subjectAltName)"
        yield failure(check, "it holds no name of a host, so that no caller takes it", todo)
    elif host not in WILDCARDS and not names.covers(host):
        todo = f"fine if nobody calls by {host}; else make one that has it (subjectAltName)"
        yield warning(check, f"it is for {', '.join(names.hosts)}, and not for {host}, where the server listens", todo)


def _of_replica(
    check: str, name: str, chain: list[Certificate], authorities: list[Certificate], names: _Names
) -> Findings:
    uri = f"{GATEWAYS}{name}"
    if names.uris != [uri]:
        seen = f"its URI is {', '.join(names.uris) or 'missing'}, and this replica needs {uri}"
        yield failure(check, seen, "make one with that URI alone, or correct replicas.name")
    last = chain[-1]
    if last not in authorities and not any(_is_signed_by(last, each) for each in authorities):
        todo = "let the authority in replicas.ca sign it, the same for all replicas"
        yield failure(check, "no authority of replicas.ca has signed it: the others refuse it", todo)
    try:
        usages = chain[0].extensions.get_extension_for_class(ExtendedKeyUsage).value
    except ExtensionNotFound:
        return
    if not set(USAGES) <= set(usages):
        yield failure(check, "it is not for servers and clients both", "make one with serverAuth and clientAuth")


def _of_executor(settings: Settings) -> Findings:
    check = "certificate executor"
    files = TlsFiles(settings.executor_ca, settings.executor_cert, settings.executor_key)
    if (files.ca, files.cert, files.key) == (None, None, None):
        return
    try:
        files.context()
    except TlsFilesError as error:
        yield failure(check, str(error), "put files there that can be used and fit together")
        return
    for file in (files.ca, files.cert):
        if file is not None:
            yield from _life(check, str(file), load_pem_x509_certificates(file.read_bytes()), None)


def _names(certificate: Certificate) -> _Names:
    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return _Names([], [])
    addresses = [str(ip_address(str(each))) for each in found.get_values_for_type(IPAddress)]
    return _Names(found.get_values_for_type(DNSName) + addresses, found.get_values_for_type(UniformResourceIdentifier))


def _is_signed_by(one: Certificate, above: Certificate) -> bool:
    try:
        one.verify_directly_issued_by(above)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
