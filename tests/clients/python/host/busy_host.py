"""A host whose handlers leave little to others: `busy_host.py ADDRESS NAMESPACE`. A signal ends it."""

import asyncio
import logging
import re
import sys
import time

from taskyard import Host, RunningTask

host = Host(sys.argv[1], "busy", namespace=sys.argv[2], slots=10, lease=5)


@host.action("compute")
def compute(task: RunningTask) -> int:
    """Use this thread for seconds of its processor time."""
    end, steps = time.thread_time() + task.params["secs"], 0
    while time.thread_time() < end:
        steps += 1
    return task.fencing_token


@host.action("block")
async def block(task: RunningTask) -> int:
    """Block the event loop."""
    time.sleep(task.params["secs"])  # noqa: ASYNC251
    return task.fencing_token


@host.action("hold")
def hold(task: RunningTask) -> int:
    """Hold the interpreter by one call into C that does not end for a while."""
    for letters in range(20, 60):
        began = time.monotonic()
        re.match(r"(a+)+$", "a" * letters + "b")
        if time.monotonic() - began > task.params["secs"]:
            break
    return task.fencing_token


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(host.run(handle_signals=True))
