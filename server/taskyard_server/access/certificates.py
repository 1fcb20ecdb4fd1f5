"""Knows principals by the URIs of their client certificates (docs/security.md, Client certificates).

The URI is a SPIFFE id of the trust domain `taskyard`, such as `spiffe://taskyard/host/h1`. Whether the certificate
holds was checked by whoever ended TLS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from taskyard_server.core.names import Names, names
from taskyard_server.security_settings import CertificateRule

from .configured_grants import grants_of
from .grants import Grant, Principal

GATEWAYS: Final = names(["spiffe://taskyard/gateway", "spiffe://taskyard/gateway/*"])
"""What a gateway shows to the server. It passes calls on and is nobody itself."""
MAX_URI_CHARS: Final = 2_048
SPIFFE_ID: Final = re.compile(r"spiffe://taskyard(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
"""As SPIFFE writes them: no percent sign, no empty part, no dots alone."""
MAX_REMEMBERED: Final = 10_000


class _Rule(NamedTuple):
    uris: Names
    grants: tuple[Grant, ...]


class Certificates:
    """The rules of the configuration. A certificate gets the grants of all that its URI meets."""

    def __init__(self, rules: Iterable[CertificateRule] = ()) -> None:
        self._rules = [_Rule(names([rule.uri]), grants_of(rule.grants)) for rule in rules]
        self._remembered: dict[str, Principal | None] = {}

    def find(self, uris: Sequence[str]) -> Principal | None:
        """The principal of a certificate with just these URIs; None if no rule knows it, or not for sure.

        As SPIFFE has it, a certificate with several URIs is nobody's.
        """
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
