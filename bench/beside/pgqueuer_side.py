"""Agent and worker of PgQueuer, by asyncpg: `pgqueuer_side.py setup|worker DSN` or `agent DSN SUBMITTERS BATCH SECS`.

The tables are those of `pgq install`, of which all are durable by default. Each submitter has a connection.
"""

import asyncio
import json
import sys
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from waves import DURABLE_BACKLOG, Executed, run_window

CONNECTIONS = 4
"""The connections of a worker."""
TAKEN_AT_ONCE = 200
"""More than the default of 10, which commits more often."""
ENDED = "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'"


async def setup(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def agent(dsn: str, submitters: int, batch: int, secs: float) -> None:
    async with asyncpg.create_pool(dsn, min_size=submitters, max_size=submitters) as pool:
        queries = Queries.from_asyncpg_pool(pool)

        async def submit_all(tasks: list[dict[str, Any]]) -> None:
            payloads: list[bytes | None] = [json.dumps(task).encode() for task in tasks]
            if batch == 1:
                await queries.enqueue("click", payloads[0])
            else:
                await queries.enqueue(["click"] * len(payloads), payloads, [0] * len(payloads))

        async def ended() -> int:
            return int(await pool.fetchval(ENDED))

        await run_window(submit_all, submitters, batch, secs, ended, DURABLE_BACKLOG)


async def worker(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
        here, executed = PgQueuer.from_asyncpg_pool(pool), Executed()

        @here.entrypoint("click")
        async def click(job: Job) -> None:
            json.loads(job.payload or b"")
            executed.add()

        await here.run(batch_size=TAKEN_AT_ONCE)


async def main(kind: str, dsn: str, *numbers: str) -> None:
    if kind == "setup":
        await setup(dsn)
    elif kind == "worker":
        await worker(dsn)
    else:
        submitters, batch, secs = numbers
        await agent(dsn, int(submitters), int(batch), float(secs))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
