"""What commits to PostgreSQL cost: groups of some rows, one at a time, with one and with many namespaces; and a load.

python bench/postgres.py URL [SECONDS a row] [LIVE TASKS to load]

The database is to be empty, and is left full.
"""

import sys
import time

import uvloop

from taskyard_server.store.port import Fence, Group, Table, key_of
from taskyard_server.store.postgres.store import PostgresStore
from taskyard_server.store.shared_port import Replica

TASK = bytes(range(256)) * 2
STATE = bytes(72)
NAMESPACES = 100


class Bench:
    """One replica with some namespaces."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)
        self.numbers = [0] * (NAMESPACES + 1)

    async def open(self) -> None:
        await self.store.open()
        await self.store.join(Replica("bench", "bench", None, 1, "0"))
        for number in range(1, NAMESPACES + 1):
            await self.store.create(f"bench {number}", "bench")

    def group(self, rows: int, namespaces: int) -> Group:
        """A group of so many rows over so many namespaces: of tasks that are submitted."""
        made = Group(0, 0.0)
        for space in range(1, namespaces + 1):
            self.numbers[space] += 1
            made.fences[space] = Fence(1, self.numbers[space], needs_owner=True)
            made.put(Table.NAMESPACES, space, STATE)
        for one in range((rows - namespaces) // 2):
            space = one % namespaces + 1
            key = key_of(space, self.numbers[space] * 1000 + one)
            made.put(Table.TASKS, key, TASK)
            made.put(Table.STATES, key, STATE)
        return made

    async def measure(self, rows: int, namespaces: int, secs: float) -> None:
        took: list[float] = []
        until = time.perf_counter() + secs
        while time.perf_counter() < until:
            group = self.group(rows, namespaces)
            began = time.perf_counter()
            committed = await self.store.commit(group)
            took.append(time.perf_counter() - began)
            assert not committed.lost
        rate = len(took) / sum(took)
        took.sort()
        p50, p99 = (took[int(len(took) * share)] * 1e3 for share in (0.5, 0.99))
        print(
            f"{len(group):4} rows, {namespaces:3} namespaces: {rate:7.0f} groups/s {rate * len(group):8.0f} rows/s"
            f"   p50 {p50:6.2f} p99 {p99:6.2f} ms"
        )

    async def load(self, tasks: int) -> None:
        for first in range(0, tasks, 1000):
            group = Group(0, 0.0)
            self.numbers[1] += 1
            group.fences[1] = Fence(1, self.numbers[1], needs_owner=True)
            for one in range(first, first + 1000):
                key = key_of(1, 10_000_000_000 + one)
                group.put(Table.TASKS, key, TASK)
                group.put(Table.STATES, key, STATE)
            await self.store.commit(group)
        began = time.perf_counter()
        found = 0
        async for found_rows in self.store.live_tasks(1):
            found += len(found_rows)
        print(f"{found} live tasks are loaded in {time.perf_counter() - began:.1f} s")


async def main() -> None:
    url = sys.argv[1]
    secs = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
    bench = Bench(url)
    await bench.open()
    for rows, namespaces in ((1, 1), (10, 1), (50, 1), (200, 1), (200, 100), (300, 100)):
        await bench.measure(rows, namespaces, secs)
    if len(sys.argv) > 3:
        await bench.load(int(sys.argv[3]))
    await bench.store.close()


if __name__ == "__main__":
    uvloop.run(main())
