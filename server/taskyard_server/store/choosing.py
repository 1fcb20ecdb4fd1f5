"""The store that a URL names."""

from __future__ import annotations

from taskyard_server.settings.store_url import is_postgres, sqlite_path

from .objects import Objects
from .port import Store
from .sqlite.store import SqliteStore


def objects_of(url: str | None) -> Objects | None:
    """The objects below a checked `store.artifacts`; None where none are kept."""
    return None if url is None else Objects(url)


def store_of(
    url: str,
    *,
    synchronous: str = "full",
    min_free_bytes: int = 0,
    ballast_bytes: int = 0,
    failover_secs: float = 10.0,
    must_exist: bool = False,
) -> Store | None:
    """The store, not yet opened, that a checked `store.url` names; None for `memory://`, which keeps nothing.

    A server sets `ballast_bytes` aside for when the disk is full, where as many are free beside `min_free_bytes`. In
    `failover_secs` replicas take over from one that is not heard of. A database `must_exist` that is not to be made.
    """
    if is_postgres(url):
        # Not for all: a server with a file needs no client of PostgreSQL, which takes some 50 ms.
        from .postgres.store import PostgresStore

        return PostgresStore(url, failover_secs=failover_secs, must_exist=must_exist)
    path = sqlite_path(url)
    if path is None:
        return None
    return SqliteStore(str(path), synchronous=synchronous, min_free_bytes=min_free_bytes, ballast_bytes=ballast_bytes)
