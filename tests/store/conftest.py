"""Stores for tests: each kind behind one way to open it, close it and open it again."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from taskyard_server.store.port import Store
from taskyard_server.store.sqlite import SqliteStore

KINDS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: SqliteStore(str(folder / "yard.db"), min_free_bytes=0),
}
"""How a store is made whose content lies in a folder; the contract holds for each."""


class Yard:
    """The content of a store, over its openings."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self.store: Store

    async def reopened(self) -> Store:
        """The same content in a new store."""
        await self.store.close()
        return await self.opened()

    async def opened(self) -> Store:
        self.store = KINDS[self._kind](self._folder)
        self.kept = await self.store.open()
        return self.store


@pytest.fixture(params=sorted(KINDS))
async def yard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Yard]:
    yard = Yard(request.param, tmp_path)
    await yard.opened()
    yield yard
    await yard.store.close()


@pytest.fixture
def store(yard: Yard) -> Store:
    return yard.store
