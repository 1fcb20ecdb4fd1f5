"""Agent and worker of beanstalkd, by greenstalk: `beanstalkd_side.py worker ADDRESS` or `agent ADDRESS SUBMITTERS BATCH
SECS`.

Each submitter and each of the worker's threads has a connection. A worker deletes a task when it has executed it.
"""

import asyncio
import json
import sys
import threading
from typing import Any

import uvloop
from greenstalk import Client
from waves import DURABLE_BACKLOG, Executed, by_threads, run_window

THREADS = 4


def connect(address: str) -> Client:
    host, _, port = address.rpartition(":")
    return Client((host, int(port)))


async def agent(address: str, submitters: int, batch: int, secs: float) -> None:
    local = threading.local()

    def submit(task: dict[str, Any]) -> None:
        if not hasattr(local, "client"):
            local.client = connect(address)
        local.client.put(json.dumps(task))

    submit_all = by_threads(submit, submitters)
    await run_window(submit_all, submitters, batch, secs, backlog=DURABLE_BACKLOG)


def worker(address: str) -> None:
    executed, lock = Executed(), threading.Lock()

    def run() -> None:
        client = connect(address)
        while True:
            job = client.reserve()
            json.loads(job.body)
            with lock:
                executed.add()
            client.delete(job)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    kind, server, *numbers = sys.argv[1:]
    if kind == "worker":
        worker(server)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(agent(server, int(numbers[0]), int(numbers[1]), float(numbers[2])))
