"""Knows principals by the URIs of their client certificates (docs/operate/security.md, Client certificates).

The URI is a SPIFFE id of the trust domain `taskyard`, such as `spiffe://taskyard/host/h1`. Whether the certificate
holds was checked where TLS ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from taskyard_server.core.errors import Unauthenticated
from taskyard_server.core.names import Names, names
from taskyard_server.settings.security import CertificateRule

from .configured_grants import grants_of
from .grants import Grant, Principal

GATEWAYS: Final = names(["spiffe://taskyard/gateway", "spiffe://taskyard/gateway/*"])
"""The credential of a gateway. It passes calls on and is nobody itself."""
MAX_URI_CHARS: Final = 2_048
SPIFFE_ID: Final = re.compile(r"spiffe://taskyard(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
"""As SPIFFE writes them: no percent sign, no empty part, no dots alone."""
GATEWAY_ID: Final = re.compile(r"spiffe://taskyard/gateway/(?!\.{1,2}$)([A-Za-z0-9._-]+)")
MAX_REMEMBERED: Final = 10_000
MAX_READ: Final = 4_096
"""Certificates that need not be read anew for each call."""
URI: Final = re.compile(r"(?:^|;)URI=")
NO_URIS: Final = ("",)

EXPIRED: Final = "the client certificate has expired"


class _Rule(NamedTuple):
    uris: Names
    grants: tuple[Grant, ...]


class KnownCertificate(NamedTuple):
    """The identity in a certificate: its URIs, and when it expires, in seconds since the epoch."""

    uris: tuple[str, ...]
    valid_until: float


@lru_cache(MAX_READ)
def read_certificate(pem: bytes) -> KnownCertificate:
    """The identity in a certificate whose signature and dates were found good.

    Its URIs are those of its alternative names and nothing else. Without any it has the empty one, which is nobody's.
    """
    # It is loaded only where certificates are used.
    from cryptography.x509 import SubjectAlternativeName, UniformResourceIdentifier, load_pem_x509_certificate
    from cryptography.x509.extensions import ExtensionNotFound

    try:
        certificate = load_pem_x509_certificate(pem)
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
        uris = tuple(found.get_values_for_type(UniformResourceIdentifier))
        return KnownCertificate(uris or NO_URIS, certificate.not_valid_after_utc.timestamp())
    except (ValueError, ExtensionNotFound):
        return KnownCertificate(NO_URIS, 0)


@lru_cache(MAX_READ)
def read_gateway(pem: bytes) -> str | None:
    """The name of the gateway that a certificate is of, whose signature and dates were found good; None if of none."""
    uris = read_certificate(pem).uris
    found = GATEWAY_ID.fullmatch(uris[0]) if len(uris) == 1 else None
    return None if found is None else found[1]


def forwarded_uris(header: str | None) -> tuple[str, ...]:
    """The URI in an `x-forwarded-client-cert` of our gateway: `By=...;Hash=...;URI=...`. Without the header, none.

    Envoy writes URIs as they are in the certificate, with all their semicolons and commas. What begins with the first
    `URI=` is therefore taken as one URI up to the end; if it was several, or if anything follows, that is nobody's.
    """
    if header is None:
        return ()
    found = URI.search(header)
    return NO_URIS if found is None else (header[found.end() :],)


class ClientCertificates:
    """The rules of the configuration. A certificate gets the grants of all that its URI meets.

    `clock` is the wall clock, in seconds since the epoch.
    """

    def __init__(self, rules: Iterable[CertificateRule] = (), clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._rules = [_Rule(names([rule.uri]), grants_of(rule.grants)) for rule in rules]
        self._remembered: dict[str, Principal | None] = {}

    def find(self, uris: Sequence[str], valid_until: float | None = None) -> Principal | None:
        """The principal of a certificate with just this URI; None if no rule knows it. Raises `Unauthenticated`.

        As SPIFFE has it, a certificate with several URIs is nobody's.
        """
        if valid_until is not None and self._clock() >= valid_until:
            raise Unauthenticated(EXPIRED)
        if len(uris) != 1:
            return None
        uri = uris[0]
        if uri not in self._remembered:
            if len(self._remembered) == MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[uri] = self._find(uri)
        return self._remembered[uri]

    def _find(self, uri: str) -> Principal | None:
        if len(uri) > MAX_URI_CHARS or not SPIFFE_ID.fullmatch(uri) or uri in GATEWAYS:
            return None
        met = [rule for rule in self._rules if uri in rule.uris]
        grants = dict.fromkeys(grant for rule in met for grant in rule.grants)
        return Principal(uri, f"certificate:{uri}", tuple(grants)) if met else None
