"""A control plane and a fleet of hosts, each a process of its own, and the diaries of the hosts."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskyard import Client
from tests.environment import without_settings
from tests.ports import free_port, listening

from .cutter import Cutter

WORKER = Path(__file__).parent / "worker.py"
LEASE_SECS = 2
GRACE_SECS = 1.0
CONFIG = {
    "scheduler": {
        "maxQueueSize": 10_000,
        "maxPerAgent": 10_000,
        "maxInflight": 1_000,
        "maxPerAgentInflight": 1_000,
        "resultTTLSec": 600,
        "defaultDeadlineSec": 600,
        "leaseSecs": LEASE_SECS,
        "reconnectGraceSecs": GRACE_SECS,
        "startTimeoutSecs": 3,
        "maxDeliveries": 10,
    }
}


@dataclass
class Worker:
    """One host process. After a kill it is started again under the same name."""

    name: str
    slots: int
    lease_secs: int
    address: str
    cutter: Cutter
    diary: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = (self.address, self.name, str(self.slots), str(self.lease_secs), str(self.diary))
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), *arguments, stderr=asyncio.subprocess.DEVNULL
        )

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def kill(self) -> None:
        """End it without warning."""
        assert self.process is not None
        self.process.kill()
        await self.process.wait()


@dataclass
class Fleet:
    """The server at `address`, and its workers."""

    folder: Path
    port: int = field(default_factory=free_port)
    workers: list[Worker] = field(default_factory=list)
    server: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start_server(self) -> None:
        config = self.folder / "taskyard.json"
        config.write_text(json.dumps(CONFIG))
        flags = ("--config", str(config), "--grpc", self.address, "--metrics", f"127.0.0.1:{free_port()}")
        command = (sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", *flags)
        with (self.folder / "server.log").open("ab") as log:
            self.server = await asyncio.create_subprocess_exec(*command, env=without_settings(), stdout=log, stderr=log)
        await listening(self.port, self.server)

    async def start_workers(self, count: int, slots: int, lease_secs: int = LEASE_SECS) -> None:
        """Start more hosts, and wait until their slots are free."""
        for number in range(len(self.workers), len(self.workers) + count):
            cutter = Cutter(self.port)
            name = f"host-{number:02}"
            worker = Worker(name, slots, lease_secs, await cutter.open(), cutter, self.folder / f"{name}.jsonl")
            self.workers.append(worker)
            await worker.start()
        async with asyncio.timeout(60), Client(self.address) as client:
            while True:
                hosts = (await client.stats()).hosts
                if hosts is not None and hosts.free_credit == count * slots:
                    return
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """End every process, suspended ones too."""
        for worker in self.workers:
            if worker.process is not None and worker.process.returncode is None:
                await worker.kill()
            await worker.cutter.close()
        if self.server is not None and self.server.returncode is None:
            self.server.kill()
            await self.server.wait()

    def diaries(self) -> list[dict[str, Any]]:
        """The entries of all hosts, in order of time."""
        entries = []
        for worker in self.workers:
            if worker.diary.exists():
                for line in worker.diary.read_text().splitlines():
                    entries.append(json.loads(line))
        return sorted(entries, key=lambda entry: entry["at"])


async def until(moment: float) -> None:
    """Wait until a time of the wall clock."""
    await asyncio.sleep(max(0.0, moment - time.time()))
