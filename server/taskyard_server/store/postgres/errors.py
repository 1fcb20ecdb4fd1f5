"""Errors of PostgreSQL and of the way to it, in words: later, perhaps, or never; and what to do."""

from __future__ import annotations

import ssl
from typing import Final

import asyncpg

from taskyard_server.store.port import CommitDelayed, StoreError

from .address import PostgresAddress

_MAY_PASS: Final = {
    "08": "the connection was lost",
    "25": "it is read-only now, as after a failover",
    "40": "it was in the way of another one",
    "53": "it is short of something",
    "55": "something is locked",
    "57": "it is being stopped, or the statement was",
    "58": "its system failed",
}
"""Classes of errors after which the same may succeed."""
_MENDED_BY_ADMIN: Final = {
    "28": "see to the user, the password and pg_hba.conf",
    "3D": "make the database, or name another one in store.url",
    "42501": "see to the rights of the role (docs/operate/durability.md, PostgreSQL)",
}
"""Final at the start. Later they pass once an administrator has mended what was broken."""
_POOLED: Final = {"26000", "42P05", "25001"}
DIRECT: Final = "connect directly, or by a proxy that pools sessions"


def in_words(address: PostgresAddress, error: BaseException, *, is_opening: bool = False) -> CommitDelayed | StoreError:
    """An error as one that may pass or as a final one, in a line without secrets."""
    state = str(getattr(error, "sqlstate", None) or "")
    text = address.without_secrets(str(error) or type(error).__name__)
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return CommitDelayed(f"{address.shown}: no host takes writes; a standby must be promoted")
    for code, what in _MENDED_BY_ADMIN.items():
        if state.startswith(code):
            kind = StoreError if is_opening else CommitDelayed
            return kind(f"{address.shown}: {text}; {what}")
    if state in _POOLED:
        return StoreError(f"{address.shown}: {text}; a proxy seems to pool transactions: {DIRECT}")
    if state == "53100":
        return CommitDelayed(f"{address.shown}: its disk is full ({text}); make room")
    if state[:2] in _MAY_PASS:
        return CommitDelayed(f"{address.shown}: {_MAY_PASS[state[:2]]} ({text})")
    if state.startswith("42"):
        return StoreError(f"{address.shown}: {text}; its tables are not those of Taskyard: restore a backup")
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = StoreError if is_opening else CommitDelayed
        return kind(f"{address.shown}: {text}; see to sslrootcert, or to the name in the certificate")
    if isinstance(error, asyncpg.PostgresError):
        return StoreError(f"{address.shown}: {text} ({state}); see the log of PostgreSQL")
    if isinstance(error, TimeoutError):
        return CommitDelayed(f"{address.shown} does not answer")
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        if is_opening and isinstance(error, asyncpg.ClientConfigurationError):
            return StoreError(f"{address.shown}: {text}; see to store.url and the PG* variables")
        # What asyncpg says of its own states, as after a cancel in the middle of an answer, tells nobody what to do.
        return CommitDelayed(f"{address.shown}: {text if isinstance(error, OSError) else _MAY_PASS['08']}")
    return StoreError(
        f"{address.shown}: {text} ({type(error).__name__}); this is a defect of Taskyard, please report it"
    )


def is_lost(error: BaseException) -> bool:
    """True if the connection on which it happened is of no use any more."""
    state = str(getattr(error, "sqlstate", None) or "")
    return not isinstance(error, asyncpg.PostgresError) or (state[:2] in ("08", "25", "57", "58") and state != "57014")
