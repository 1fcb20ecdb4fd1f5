"""Secrets that a store keeps, one of each kind, so that what was made by them outlives a restart.

Each is made when it is needed first. Who reads the store knows them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.store.port import Group, Table

if TYPE_CHECKING:
    from .persistence import Persistence

log = structlog.get_logger(__name__)

SECRET_BYTES: Final = 32
SEALING: Final = 1
"""The key of the row of the secret by which cursors and page tokens are sealed."""
YARD: Final = 2
"""The key of the row of the name of the folder in which the artifacts of this store stand."""


async def kept_secret(persistence: Persistence, number: int) -> bytes:
    """The secret that the store of an open engine keeps; a new one if it kept none. Raises `Unavailable`."""
    if (found := await _found(persistence, number)) is not None:
        return found
    made = _NewSecret(number, os.urandom(SECRET_BYTES))
    await persistence.committer.keep(made)
    # Another replica may have been faster, whose secret stays then.
    return await _found(persistence, number) or made.secret


async def _found(persistence: Persistence, wanted: int) -> bytes | None:
    async for rows in persistence.store.rows(Table.SECRETS):
        for number, secret in rows:
            if number == wanted and len(secret) == SECRET_BYTES:
                return bytes(secret)
    return None


class _NewSecret:
    """A `Source` of the committer, with one row."""

    def __init__(self, number: int, secret: bytes) -> None:
        self.number = number
        self.secret = secret

    def add_rows(self, group: Group) -> None:
        """See `Source`."""
        group.put(Table.SECRETS, self.number, self.secret)

    def is_among(self, namespaces: frozenset[int]) -> bool:
        """See `Source`. It belongs to no namespace."""
        del namespaces
        return False

    def committed(self, at: float) -> None:
        """See `Source`."""

    def close_for(self, error: Exception) -> None:
        """See `Source`. What was made by it ends with the process."""
        log.error("secret_not_kept", fault=str(error))
