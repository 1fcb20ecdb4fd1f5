"""Hosts of an engine that say chunks under a lease, and what readers get of them."""

from collections.abc import Sequence

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.runs.outputs import Appended, Saying
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from tests import reporting
from tests.live import live

HOST = "host"
SIZE = 10


class Speaker:
    """A task under a lease of a host, and what the host says under it: chunks that are their own numbers."""

    def __init__(self, engine: Engine, task_id: str, token: int, namespace: str = "default") -> None:
        self.engine, self.task_id, self.token, self._namespace = engine, task_id, token, namespace

    async def say(self, number: int, count: int = 1, size: int = SIZE) -> int:
        """Say chunks from this number on. Returns how many of the lease are taken."""

        def encode(_: int, taken: Appended, __: float) -> Sequence[bytes]:
            return [b"%d," % (taken.first + index) for index in range(count - taken.repeated)]

        saying = Saying(self.task_id, self.token, number, [size] * count)
        (outcome,) = await (await self.engine.output.append(self._namespace, HOST, [saying], encode))
        if isinstance(outcome, Refusal):
            raise outcome
        return outcome

    async def end(self) -> None:
        await reporting.complete(self.engine, self._namespace, HOST, self.task_id, self.token, None)


async def speaker(engine: Engine, namespace: str = "default") -> Speaker:
    """A host with the next task."""
    await engine.hosts.register(namespace, HOST, None, HostProfile(), show=live)
    await engine.tasks.submit(namespace, Submission("ann", "click"), show=live)
    (lease,) = await engine.leases.claim(namespace, HOST, show=live)
    return Speaker(engine, lease.task.id, lease.token, namespace)


async def numbers(engine: Engine, task_id: str, after: int = 0, *, namespace: str = "default") -> list[int]:
    """The numbers of the chunks in the rows that a reader gets after one, part after part."""
    found: list[int] = []
    while True:
        part = await engine.output.read(namespace, task_id, after)
        for row in part.rows:
            found += [int(each) for each in row.chunks.split(b",")[:-1]]
        after = part.after
        if part.is_last:
            return found
