"""What commits to a SQLite store cost: groups of 1 and of 200 rows, one at a time, under load and with pauses.

python bench/store.py [SECONDS a row] [FOLDER]
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from taskyard_server.store.port import Group, Table, key_of
from taskyard_server.store.sqlite.store import SqliteStore

TASK = bytes(range(256)) * 2
STATE = bytes(72)


def group(number: int, tasks: int) -> Group:
    """A group as tasks make it that are submitted, and of which those before the last thousand end."""
    made = Group(number, float(number))
    for one in range(tasks):
        seq = number * tasks + one
        made.put(Table.TASKS, key_of(1, seq), TASK)
        made.put(Table.STATES, key_of(1, seq), STATE)
        if seq > 1000:
            made.remove(Table.STATES, key_of(1, seq - 1000))
            made.ended.append((key_of(1, seq - 1000), number, STATE))
    made.put(Table.NAMESPACES, 1, STATE)
    return made


async def measure(folder: Path, synchronous: str, tasks: int, secs: float, pause: float) -> None:
    store = SqliteStore(str(folder / f"{synchronous}-{tasks}-{pause}.db"), synchronous=synchronous)
    number = (await store.open()).number
    took: list[float] = []
    rows = 0
    log = 0
    until = time.perf_counter() + secs
    while (began := time.perf_counter()) < until:
        number += 1
        made = group(number, tasks)
        rows += len(made)
        began = time.perf_counter()
        done = await store.commit(made)
        took.append(time.perf_counter() - began)
        log = max(log, done.used_bytes)
        if pause:
            await asyncio.sleep(pause)
    await store.close()
    took.sort()
    at = {share: took[min(len(took) - 1, int(len(took) * share))] * 1e3 for share in (0.5, 0.99, 0.999, 1.0)}
    figures = "  ".join(f"{at[share]:7.2f}" for share in at)
    name = f"{synchronous:7} {rows // len(took):5} rows/group, pause {pause * 1e3:3.0f} ms"
    rates = f"{len(took) / secs:7.0f} groups/s {rows / secs:8.0f} rows/s"
    print(f"{name}: {rates}   p50 p99 p99.9 max ms: {figures}")


async def main() -> None:
    secs = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        for synchronous in ("full", "normal"):
            for tasks, pause in ((1, 0.0), (1, 0.005), (50, 0.0), (50, 0.005), (500, 0.0)):
                await measure(Path(folder), synchronous, tasks, secs, pause)


if __name__ == "__main__":
    uvloop.run(main())
