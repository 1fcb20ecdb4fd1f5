"""A store whose commits wait until the test lets them through."""

import asyncio

from taskyard_server.store.port import Committed, Group
from tests.store.dict_store import DictStore


class GatedStore(DictStore):
    """A store whose commits wait while `gate` is shut. Each raises the next of `faults` first, where there are any."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.faults: list[Exception] = []
        self.tried: list[int] = []

    async def commit(self, group: Group) -> Committed:
        self.tried.append(group.number)
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        return await super().commit(group)
