"""An engine whose commits wait until the test lets them through."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.engine.conftest import Clock
from tests.engine.keeping.history_yard import HistoryYard
from tests.store.gated_store import GatedStore


@pytest.fixture
def store() -> GatedStore:
    return GatedStore()


@pytest.fixture
async def engine(store: GatedStore, clock: Clock) -> AsyncIterator[Engine]:
    engine = Engine(Limits(), clock, store=store, store_options=StoreOptions(patience_secs=10))
    await engine.open()
    yield engine
    store.gate.set()
    await engine.admin.close()


@pytest.fixture
async def make_yard(clock: Clock) -> AsyncIterator[Callable[..., Awaitable[HistoryYard]]]:
    """Opens engines whose tasks can leave memory, with these limits."""
    yards: list[HistoryYard] = []

    async def make(**limits: Any) -> HistoryYard:
        yards.append(await HistoryYard(clock, **limits).open())
        return yards[-1]

    yield make
    for yard in yards:
        yard.store.commits.set()
        yard.store.answers.set()
        await yard.engine.admin.close()


@pytest.fixture
async def yard(make_yard: Callable[..., Awaitable[HistoryYard]]) -> HistoryYard:
    return await make_yard()
