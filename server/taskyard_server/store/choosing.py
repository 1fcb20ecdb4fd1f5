"""The store that a URL names."""

from __future__ import annotations

from taskyard_server.store_url import sqlite_path

from .port import Store
from .sqlite import SqliteStore


def store_of(url: str, *, synchronous: str = "full", min_free_bytes: int = 0) -> Store | None:
    """The store, not yet opened, that a checked `store.url` names; None for `memory://`, which keeps nothing.

    Below `min_free_bytes` no room is set aside for a full disk.
    """
    path = sqlite_path(url)
    if path is None:
        return None
    return SqliteStore(str(path), synchronous=synchronous, min_free_bytes=min_free_bytes)
