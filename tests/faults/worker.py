"""A host for the fault tests. It records each start and each end of its work in a diary, a file of its own.

Run as `python worker.py ADDRESS HOST_ID SLOTS LEASE_SECS DIARY`. A task's `params.secs` is how long it takes, and
`params.stop_secs` how long its handler takes to stop once it is cancelled, 0 by default.
"""

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from taskyard import Host, RunningTask


def main(address: str, host_id: str, slots: int, lease_secs: int, diary: Path) -> None:
    """Run the host until it drains."""
    logging.basicConfig(level=logging.WARNING)
    host = Host(address, host_id, slots=slots, lease=lease_secs, drain_grace=5, machine_figures=False)
    # Each line is one unbuffered write, so that it survives a kill -9.
    diary_file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def record(event: str, task: RunningTask) -> None:
        entry = {"what": event, "task": task.id, "token": task.fencing_token, "host": host_id, "at": time.time()}
        os.write(diary_file, json.dumps(entry).encode() + b"\n")

    @host.action("work")
    async def work(task: RunningTask) -> Any:
        record("start", task)
        try:
            await asyncio.sleep(task.params["secs"])
        except asyncio.CancelledError:
            await asyncio.sleep(task.params.get("stop_secs", 0))
            record("stopped", task)
            raise
        record("end", task)
        return {"host": host_id, "token": task.fencing_token}

    asyncio.run(host.run(handle_signals=True))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
