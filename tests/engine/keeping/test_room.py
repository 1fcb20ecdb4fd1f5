"""While the disk is nearly full no new task is taken, whoever has filled it (docs/rules.md, Keeping)."""

import asyncio

import pytest

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.task import Submission
from taskyard_server.engine import persistence as keeper
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.engines import running_engine
from tests.live import live
from tests.store.dict_store import DictStore
from tests.waiting import until

NS = "default"


class Disk(DictStore):
    """A store on a disk that others use, too."""

    free = 1_000

    async def free_bytes(self) -> int:
        return self.free


async def submit(engine: Engine) -> str:
    task = await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    return task.id


async def test_the_first_task_of_a_new_store_is_refused_too() -> None:
    disk = Disk()
    disk.free = 999
    async with running_engine(store=disk, store_options=StoreOptions(min_free_bytes=1_000)) as engine:
        with pytest.raises(Unavailable, match="the disk is nearly full"):
            await submit(engine)
        assert disk.meta.number == 0


async def test_the_disk_is_looked_at_by_time_and_not_by_commits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "LOOK_AT_ROOM_SECS", 0.0)
    disk = Disk()
    async with running_engine(store=disk, store_options=StoreOptions(min_free_bytes=1_000)) as engine:
        run = asyncio.create_task(engine.run())
        assert engine.persistence is not None
        figures = engine.persistence.figures

        async def seen() -> int:
            return figures.free_bytes

        await submit(engine)
        disk.free = 500
        await until(seen, lambda free: free == 500)
        with pytest.raises(Unavailable, match="the disk is nearly full"):
            await submit(engine)
        disk.free = 1_000
        await until(seen, lambda free: free == 1_000)
        await submit(engine)
        run.cancel()
