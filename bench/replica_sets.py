"""Replicas on a PostgreSQL of their own for a benchmark, with an Envoy in front: started, killed, told to stop.

PostgreSQL has its defaults, so that every acknowledgement follows an fsync. Everything ends with the block.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import servers

sys.path.insert(0, str(servers.HERE.parent))

from tools.front import front_command
from tools.local_postgres import LocalPostgres
from tools.replica_yard import Place, certify, ways_to

OWNERS = """SELECT o.name, r.name FROM taskyard.owners o JOIN taskyard.replicas r ON r.instance = o.instance
WHERE r.died_at IS NULL AND o.name IS NOT NULL"""
COMMITS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'taskyard'"
STOP_SECS = 30.0


@contextmanager
def database(**settings: str) -> Iterator[LocalPostgres]:
    """Starts a new PostgreSQL with its defaults, but for these settings."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        postgres = LocalPostgres(Path(folder), servers.free_port(), settings)
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.kill()


class ReplicaSet:
    """Some replicas. `front` is the gRPC address before all of them, `rest` that of REST."""

    def __init__(self, folder: Path, postgres: LocalPostgres, count: int, settings: Mapping[str, Any]) -> None:
        self.postgres = postgres
        self.front, self.rest = (servers.local(servers.free_port()) for _ in range(2))
        self.places = [_place(folder, number) for number in range(count)]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self._front: subprocess.Popen[bytes] | None = None
        certify(folder, [place.name for place in self.places])
        for place in self.places:
            place.folder.mkdir()
            config = place.settings(folder, postgres.url(), dict(settings))
            (place.folder / "taskyard.json").write_text(json.dumps(config))

    def start_all(self) -> None:
        """Start all, and the Envoy in front."""
        for number in range(len(self.places)):
            self.start(number, wait=False)
        for number in range(len(self.places)):
            self.wait(number)
        self._front = self._run(front_command(ways_to(self.places, self.front, self.rest), self._folder), "front.log")
        servers.wait_for(self.front, psutil.Process(self._front.pid))

    def start(self, number: int, *, wait: bool = True) -> None:
        """Start one."""
        config = str(self.places[number].folder / "taskyard.json")
        command = (*servers.command_line(), "up", "--config", config)
        self._processes[number] = self._run(command, f"{self.places[number].name}/log")
        if wait:
            self.wait(number)

    def wait(self, number: int) -> None:
        """Wait until one listens."""
        servers.wait_for(self.places[number].grpc, self.process(number))

    def process(self, number: int) -> psutil.Process:
        """The process of one's server."""
        process = self._processes[number]
        assert process is not None
        return psutil.Process(process.pid)

    def kill(self, number: int) -> None:
        """kill -9 one, with its gateway."""
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()

    def terminate(self, number: int) -> float:
        """Tell one to stop, and wait until it has ended; the seconds that this took."""
        process, began = self._processes[number], time.monotonic()
        assert process is not None
        process.terminate()
        process.wait(STOP_SECS)
        return time.monotonic() - began

    def owners(self) -> dict[str, str]:
        """The name of the replica that owns each namespace that has an owner alive."""
        rows = self.postgres.sql(OWNERS, "taskyard").splitlines()
        return dict(row.split("|") for row in rows if row)

    def statements(self) -> int:
        """The transactions of the database so far."""
        return int(self.postgres.sql(COMMITS))

    def stop(self) -> None:
        """End all, at once."""
        for process in (*self._processes, self._front):
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait()

    def _run(self, command: tuple[str, ...], log: str) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
        with (self._folder / log).open("ab") as file:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
            )


@contextmanager
def replicas(count: int, settings: Mapping[str, Any] = servers.SETTINGS, **postgres: str) -> Iterator[ReplicaSet]:
    """Starts replicas on a new PostgreSQL."""
    with database(**postgres) as server, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = ReplicaSet(Path(folder), server, count, settings)
        try:
            found.start_all()
            yield found
        finally:
            found.stop()


def _place(folder: Path, number: int) -> Place:
    name = f"replica-{number + 1}"
    grpc, rest, metrics, listen = (servers.local(servers.free_port()) for _ in range(4))
    return Place(name, folder / name, grpc, rest, metrics, listen, listen)
