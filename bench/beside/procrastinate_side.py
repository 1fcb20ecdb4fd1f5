"""Agent and worker of Procrastinate: `procrastinate_side.py setup|worker DSN` or `agent DSN SUBMITTERS BATCH SECS`.

By psycopg in C, with a connection for each submitter.
"""

import asyncio
import sys
from typing import Any

import uvloop
from procrastinate import App, PsycopgConnector
from waves import DURABLE_BACKLOG, Executed, run_window

WORKERS, CONCURRENCY = 4, 5
"""Workers in this process, and the tasks that each executes at once: a worker takes one task after the other."""
ENDED = "SELECT count(*) AS ended FROM procrastinate_jobs WHERE status = 'succeeded'"


def app(dsn: str, connections: int) -> App:
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=connections, max_size=connections))


async def agent(dsn: str, submitters: int, batch: int, secs: float) -> None:
    here = app(dsn, submitters)

    @here.task(name="click")
    async def click(**task: Any) -> None: ...

    async def submit_all(tasks: list[dict[str, Any]]) -> None:
        if batch == 1:
            await click.defer_async(**tasks[0])
        else:
            await click.batch_defer_async(*tasks)

    async def ended() -> int:
        return int((await here.connector.execute_query_one_async(ENDED))["ended"])

    async with here.open_async():
        await run_window(submit_all, submitters, batch, secs, ended, DURABLE_BACKLOG)


async def worker(dsn: str) -> None:
    here, executed = app(dsn, WORKERS * (CONCURRENCY + 2)), Executed()

    @here.task(name="click")
    async def click(**task: Any) -> None:
        del task
        executed.add()

    async with here.open_async():
        workers = [here.run_worker_async(concurrency=CONCURRENCY) for _ in range(WORKERS)]
        await asyncio.gather(*workers)


async def setup(dsn: str) -> None:
    async with app(dsn, 1).open_async() as here:
        await here.schema_manager.apply_schema_async()


async def main(kind: str, dsn: str, *numbers: str) -> None:
    if kind == "setup":
        await setup(dsn)
    elif kind == "worker":
        await worker(dsn)
    else:
        submitters, batch, secs = numbers
        await agent(dsn, int(submitters), int(batch), float(secs))


if __name__ == "__main__":
    # Procrastinate warns of an app in the main module, whose tasks workers could not find.
    from procrastinate_side import main as main_of_module

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main_of_module(*sys.argv[1:]))
