"""A worker for the tests of typed calls: it answers tasks as a host would, with plain results."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from taskyard.values.convert import plain_object, value_from
from tests.clients.python.conftest import Server

Answer = Callable[[str, dict[str, Any]], Any]


class Worker:
    """Takes every task and ends it with what `answer` makes of its action and params; fails it where that raises.

    Where `answer` returns `LEFT` the task goes on running. `seen` are the tasks by their params.
    """

    LEFT = object()

    def __init__(self, server: Server, answer: Answer) -> None:
        self._server = server
        self._answer = answer
        self.seen: list[dict[str, Any]] = []
        self.most = 0

    async def work(self) -> None:
        while True:
            leases = await self._server.claim(1_000)
            self.most = max(self.most, len(leases))
            for lease in leases:
                params = plain_object(Struct.FromString(lease.task.params or b""))
                self.seen.append(params)
                try:
                    result = self._answer(lease.task.action, params)
                except Exception as error:
                    await self._server.fail(lease, str(error))
                    continue
                if result is not self.LEFT:
                    await self._server.complete(lease, value_from(result).SerializeToString())
            await asyncio.sleep(0.002)


@pytest.fixture
def working() -> Callable[[Server, Answer], Any]:
    """Runs a worker beside what stands in its block."""

    @asynccontextmanager
    async def beside(server: Server, answer: Answer) -> AsyncIterator[Worker]:
        worker = Worker(server, answer)
        running = asyncio.create_task(worker.work())
        try:
            yield worker
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    return beside
