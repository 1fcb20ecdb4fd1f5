"""The secret by which cursors and page tokens are sealed, as the store keeps it, so that they outlive a restart.

It is made where authentication is on for the first time. Who reads the store could make such texts, and needs a
credential to use them.
"""

from __future__ import annotations

import os
from typing import Final

import structlog

from taskyard_server.engine.persistence import Persistence
from taskyard_server.store.port import Group, Table

from .token_encryption import SECRET_BYTES

log = structlog.get_logger(__name__)

NUMBER: Final = 1
"""The key of its row."""


async def kept_secret(persistence: Persistence) -> bytes:
    """The secret that the store of an open engine keeps; a new one if it kept none. Raises `Unavailable`."""
    if (found := await _found(persistence)) is not None:
        return found
    made = _NewSecret(os.urandom(SECRET_BYTES))
    await persistence.committer.keep(made)
    # Another replica may have been faster, whose secret stays then.
    return await _found(persistence) or made.secret


async def _found(persistence: Persistence) -> bytes | None:
    async for rows in persistence.store.rows(Table.SECRETS):
        for number, secret in rows:
            if number == NUMBER and len(secret) == SECRET_BYTES:
                return bytes(secret)
    return None


class _NewSecret:
    """A `Source` of the committer, with one row."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def add_rows(self, group: Group) -> None:
        """See `Source`."""
        group.put(Table.SECRETS, NUMBER, self.secret)

    def is_among(self, namespaces: frozenset[int]) -> bool:
        """See `Source`. It belongs to no namespace."""
        del namespaces
        return False

    def committed(self, at: float) -> None:
        """See `Source`."""

    def close_for(self, error: Exception) -> None:
        """See `Source`. What was sealed before ends with the process."""
        log.error("secret_not_kept", fault=str(error))
