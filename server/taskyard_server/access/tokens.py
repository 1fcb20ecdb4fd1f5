"""Tokens: how their secrets are made and recognized, and what is kept of one, which is never the secret."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from taskyard_server.core.names import Names, names
from taskyard_server.store.records.tasks import encode
from taskyard_server.store.records.tokens import GrantRecord, TokenRecord, decode_token

from .grants import Grant, Principal, Role
from .token_text import BASE62, PREFIX, RANDOM_CHARS, checksum

ID_PREFIX: Final = "tok_"
ID_CHARS: Final = 20


def new_secret() -> str:
    """A secret that nobody else has: `tyd_`, 32 random characters, 6 of their checksum."""
    drawn = _drawn(RANDOM_CHARS)
    return PREFIX + drawn + checksum(drawn)


def new_id() -> str:
    """The id of a token, which is no secret."""
    return ID_PREFIX + _drawn(ID_CHARS)


def digest_of(secret: str) -> bytes:
    """The digest of a secret, which is kept, and by which it is found."""
    return sha256(secret.encode()).digest()


def _drawn(count: int) -> str:
    return "".join([secrets.choice(BASE62) for _ in range(count)])


@dataclass(slots=True, eq=False, kw_only=True)
class Token:
    """One token. `number` is the key of its row; times are on the engine's clock, in seconds.

    `principal` is who calls with it.
    """

    number: int
    id: str
    digest: bytes = field(repr=False)
    name: str
    grants: tuple[Grant, ...]
    created_at: float
    created_by: str
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None
    principal: Principal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.principal = Principal(self.name, self.id, self.grants, self.expires_at)

    def ended_at(self) -> float | None:
        """When it was revoked, or else when it expires; None if it holds for good."""
        return self.expires_at if self.revoked_at is None else self.revoked_at

    def holds(self, now: float) -> bool:
        """True if it is a credential at this time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def encode_token(token: Token) -> bytes:
    """The record of a token."""
    return encode(
        TokenRecord(
            token.id,
            token.digest,
            token.name,
            tuple([_record_of(grant) for grant in token.grants]),
            token.created_at,
            token.created_by,
            token.expires_at,
            token.last_used_at,
            token.revoked_at,
        )
    )


def token_of(number: int, record: bytes, shift: float = 0.0) -> Token:
    """The token of a row, its times moved by `shift` seconds.

    Raises `ValueError` or `msgspec.MsgspecError` for a record that is not as it must be.
    """
    its = decode_token(record)

    def moved(at: float | None) -> float | None:
        return None if at is None else at + shift

    return Token(
        number=number,
        id=its.id,
        digest=its.digest,
        name=its.name,
        grants=tuple([_grant_of(grant) for grant in its.grants]),
        created_at=its.created_at + shift,
        created_by=its.created_by,
        expires_at=moved(its.expires_at),
        last_used_at=moved(its.last_used_at),
        revoked_at=moved(its.revoked_at),
    )


def _record_of(grant: Grant) -> GrantRecord:
    def listed(its: Names) -> tuple[str, ...]:
        return tuple(its.patterns)

    return GrantRecord(
        int(grant.role),
        listed(grant.namespaces),
        listed(grant.agents),
        listed(grant.hosts),
        listed(grant.projects),
        listed(grant.actions),
        grant.payloads,
    )


def _grant_of(its: GrantRecord) -> Grant:
    return Grant(
        role=Role(its.role),
        namespaces=names(its.namespaces),
        agents=names(its.agents),
        hosts=names(its.hosts),
        projects=names(its.projects),
        actions=names(its.actions),
        payloads=its.payloads,
    )
