"""Databases that replicas share, for tests: each kind behind one way to open stores over it."""

from collections.abc import AsyncIterator

import pytest

from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.shared_port import SharedStore

from .shared_dict_store import SharedDictStore
from .shared_rows import SharedRows

START = 1_700_000_000.0


class TickingClock:
    """A clock that goes on a little whenever it is looked at, as that of a database does between two calls."""

    def __init__(self, at: float = START) -> None:
        self.at = at

    def __call__(self) -> float:
        self.at += 0.001
        return self.at


class DictDatabase:
    """A database in memory."""

    def __init__(self) -> None:
        self.rows = SharedRows(TickingClock())

    async def opened(self) -> SharedStore:
        """The store of one replica."""
        store = SharedDictStore(self.rows)
        await store.open()
        return store

    async def close(self) -> None:
        """Nothing is left of it."""


class PostgresDatabase:
    """A database of PostgreSQL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stores: list[PostgresStore] = []

    async def opened(self) -> SharedStore:
        """The store of one replica."""
        store = PostgresStore(self._url)
        self._stores.append(store)
        await store.open()
        return store

    async def close(self) -> None:
        """Let go of it."""
        for store in self._stores:
            await store.close()


KINDS = ("dict", "postgres")


@pytest.fixture(params=sorted(KINDS))
async def database(request: pytest.FixtureRequest) -> AsyncIterator[DictDatabase | PostgresDatabase]:
    is_dict = request.param == "dict"
    database = DictDatabase() if is_dict else PostgresDatabase(request.getfixturevalue("postgres_url"))
    yield database
    await database.close()
