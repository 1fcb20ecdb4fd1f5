"""Stores for tests: each kind behind one way to open it, close it and open it again."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from taskyard_server.store.port import Store
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.dict_store import DictStore

KINDS: dict[str, Callable[[Any, Any], Store]] = {
    "dict": lambda place, before: before.copy() if before else DictStore(),  # noqa: ARG005
    "postgres": lambda place, before: PostgresStore(place),  # noqa: ARG005
    "sqlite": lambda place, before: SqliteStore(str(place / "yard.db"), min_free_bytes=0),  # noqa: ARG005
}
"""How a store is made that holds what lies in a place, or what the one before it holds; the contract is for each."""


class Yard:
    """The content of a store, over its openings."""

    def __init__(self, kind: str, place: Any) -> None:
        self._kind = kind
        self._place = place
        self.store: Any = None

    async def reopened(self) -> Store:
        """The same content in a new store."""
        await self.store.close()
        return await self.opened()

    async def opened(self) -> Store:
        self.store = KINDS[self._kind](self._place, self.store)
        self.meta = await self.store.open()
        return self.store


@pytest.fixture(params=sorted(KINDS))
async def yard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Yard]:
    place = request.getfixturevalue("least_postgres_url") if request.param == "postgres" else tmp_path
    yard = Yard(request.param, place)
    await yard.opened()
    yield yard
    await yard.store.close()


@pytest.fixture
def store(yard: Yard) -> Store:
    return yard.store
