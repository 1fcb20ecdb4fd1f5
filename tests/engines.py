"""The one place where tests make engines: with a store or without one, as `--store` says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskyard_server.core.limits import Limits
from taskyard_server.engine.clock import Clock
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.listeners import DeliveryEncoder
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.objects import Objects
from taskyard_server.store.port import Store
from taskyard_server.store.sqlite.store import SqliteStore
from tests import environment
from tests.store.dict_store import DictStore

LOOP_TURNS = 10
"""Turns of the event loop that suffice to handle all consequences of a command, but for its commit."""


@asynccontextmanager
async def running_engine(
    limits: Limits | None = None,
    clock: Clock | None = None,
    seed: int | None = None,
    store: Store | None = None,
    *,
    store_options: StoreOptions | None = None,
    encode_delivery: DeliveryEncoder | None = None,
    objects: Objects | None = None,
) -> AsyncIterator[Engine]:
    """An engine that is open, with a store of the run or the given one.

    At the end it is closed, and lets go of its store, whose writer has ended then.
    """
    if store is None and environment.is_dict():
        store = DictStore()
    elif store is None and environment.is_kept():
        # Nothing here cuts the power, and the disk is not what is tested.
        path = str(environment.new_store_file())
        store = SqliteStore(path, synchronous="normal", ballast_bytes=0, min_free_bytes=0)
    engine = Engine(
        limits or Limits(),
        clock,
        seed,
        store=store,
        store_options=store_options,
        encode_delivery=encode_delivery,
        objects=objects,
    )
    try:
        await engine.open()
        yield engine
        await engine.admin.close()
    finally:
        await engine.release()


async def settled(engine: Engine) -> None:
    """Once all consequences of what was commanded are handled and, where there is a store, committed and told."""
    committed = None
    while True:
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)
        if engine.persistence is None or engine.persistence.committer.number == committed:
            return
        committed = engine.persistence.committer.number
        await engine.persistence.committer.settle()
