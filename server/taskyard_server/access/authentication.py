"""Finds the principal of a call by its credential: a token, a JWT, or a client certificate, in this order.

One that fails is refused, never passed over for the next way (docs/operate/security.md, Who).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from taskyard_server.core.errors import Unauthenticated

from .grants import Grant, Principal, Role
from .tokens import digest_of

BEARER: Final = "bearer "
ADMIN_TOKEN: Final = "admin-token"
MAX_CREDENTIAL_BYTES: Final = 8_192

NOTHING: Final = "no credential came with the call: send a token as `authorization: Bearer TOKEN`"
MALFORMED: Final = "authorization: must be `Bearer TOKEN`"
UNKNOWN: Final = "authorization: the token is unknown, revoked or expired"
NO_GRANT: Final = "the client certificate is not one that the server knows"


def bearer_in(authorization: str) -> str | None:
    """The token of an `authorization` header; None if it is none of `Bearer TOKEN`."""
    token = authorization[len(BEARER) :].strip()
    return token if token and authorization[: len(BEARER)].lower() == BEARER else None


class Credentials(NamedTuple):
    """The credentials of a call: its `authorization`, and the URIs of its client certificate.

    `valid_until` is when that certificate expires, in seconds since the epoch, where it is known.
    """

    authorization: str | None = None
    certificates: Sequence[str] = ()
    valid_until: float | None = None


class BearerSource(Protocol):
    """Knows the principals of some bearer tokens."""

    def find(self, token: str) -> Principal | None:
        """The principal of a token that holds now; None if it is none of these. May raise `Unauthenticated`."""


class CertificateSource(Protocol):
    """Knows the principals of client certificates."""

    def find(self, uris: Sequence[str], valid_until: float | None = None) -> Principal | None:
        """The principal of a certificate with these URIs; None if no rule knows it. May raise `Unauthenticated`."""


class AdminToken:
    """The one token of the configuration, which is admin."""

    def __init__(self, secret: str) -> None:
        self._digest = digest_of(secret)
        self._principal = Principal("admin", ADMIN_TOKEN, (Grant(role=Role.ADMIN),))

    def find(self, token: str) -> Principal | None:
        # A digest tells nothing of the secret, however long its comparison takes.
        return self._principal if digest_of(token) == self._digest else None


class Authentication:
    """All ways to be known. `bearers` are asked in their order. Both can be replaced while the server runs."""

    def __init__(self, bearers: Sequence[BearerSource] = (), certificates: CertificateSource | None = None) -> None:
        self.replace(bearers, certificates)

    def replace(self, bearers: Sequence[BearerSource], certificates: CertificateSource | None = None) -> None:
        """Know principals by these from now on."""
        self._bearers = tuple(bearers)
        self._certificates = certificates

    def principal(self, credentials: Credentials) -> Principal:
        """The principal of a call. Raises `Unauthenticated`."""
        authorization = credentials.authorization
        if authorization is not None:
            token = bearer_in(authorization)
            if token is None:
                raise Unauthenticated(MALFORMED)
            if len(token) <= MAX_CREDENTIAL_BYTES:
                for source in self._bearers:
                    if (principal := source.find(token)) is not None:
                        return principal
            raise Unauthenticated(UNKNOWN)
        if credentials.certificates and self._certificates is not None:
            if (principal := self._certificates.find(*credentials[1:])) is not None:
                return principal
            raise Unauthenticated(NO_GRANT)
        raise Unauthenticated(NOTHING)
