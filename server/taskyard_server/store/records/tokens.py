"""A row of the tokens: one token, without its secret.

Fields are only ever appended, with a default, as in all records (records.py).
"""

from __future__ import annotations

from typing import Final

from msgspec.msgpack import Decoder

from .records import Record


class GrantRecord(Record):
    """One grant: the number of its role, and the patterns of the names that it covers."""

    role: int
    namespaces: tuple[str, ...]
    agents: tuple[str, ...]
    hosts: tuple[str, ...]
    projects: tuple[str, ...]
    actions: tuple[str, ...]
    payloads: bool


class TokenRecord(Record):
    """A token. `digest` is the SHA-256 of its secret; times are on the engine's clock."""

    id: str
    digest: bytes
    name: str
    grants: tuple[GrantRecord, ...]
    created_at: float
    created_by: str
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None


class TokenUseRecord(Record):
    """When a token was last used. It is a row of its own, so that who writes it touches nothing else of the token."""

    at: float


decode_token: Final = Decoder(TokenRecord).decode
decode_token_use: Final = Decoder(TokenUseRecord).decode
