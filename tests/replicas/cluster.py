"""Replicas on one PostgreSQL behind one address, each path between them a proxy that a test can break."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from tests.durability.yard import Yard, YardDied
from tests.ports import free_port
from tools.replica_yard import Place, certify, front_command, host_and_port, ways_to

from .database import Database
from .proxy import Proxy

WALL_CLOCK: Final = Path(__file__).with_name("wall_clock")
FRONT_SECS: Final = 30.0
CALL_SECS: Final = 5.0
SUPERVISED_SECS: Final = 120.0
AGAIN_SECS: Final = 1.0


class Member:
    """One replica: `database` is its path to PostgreSQL, `carried` that of the others' gateways to it."""

    def __init__(
        self, name: str, folder: Path, authority: Path, database: Database, settings: Mapping[str, Any], python: Path
    ) -> None:
        self.name = name
        self.database = Proxy(database.address)
        grpc, rest, metrics, listen = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.carried = Proxy(host_and_port(listen))
        self.place = Place(name, folder, grpc, rest, metrics, listen, self.carried.address)
        self._clock = folder / "wall-clock"
        store = database.server.url(self.database.port)
        ports = {kind: host_and_port(at)[1] for kind, at in (("grpc", grpc), ("rest", rest), ("metrics", metrics))}
        self.yard = Yard(
            folder,
            self.place.settings(authority, store, dict(settings)),
            store,
            {"WALL_CLOCK_FILE": str(self._clock), "PYTHONPATH": os.pathsep.join(_paths())},
            python,
            ports,
        )
        self.set_wall_clock(0.0)

    async def start(self) -> None:
        """Start it, and again where it ends since it cannot reach its database, as a supervisor does."""
        give_up_at = time.monotonic() + SUPERVISED_SECS
        while True:
            try:
                await self.yard.start()
            except YardDied as died:
                if "does not answer" not in str(died) or time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(AGAIN_SECS)
            else:
                return

    def set_wall_clock(self, offset_secs: float) -> None:
        """Let its clock be off the right time from now on."""
        self._clock.write_text(f"{offset_secs}")

    def freeze(self, *, gateway: bool) -> None:
        """Let its server stand still, and its gateway, too."""
        self._signal(signal.SIGSTOP, gateway=gateway)

    def thaw(self) -> None:
        """Let all of it go on."""
        self._signal(signal.SIGCONT, gateway=True)

    def _signal(self, number: signal.Signals, *, gateway: bool) -> None:
        with suppress(psutil.NoSuchProcess):
            server = psutil.Process(self.yard.pid)
            for process in [server, *(server.children(recursive=True) if gateway else ())]:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(number)


class Cluster:
    """Replicas, their database, and an Envoy in front. Callers reach it at `grpc` and `rest`, over `clients`.

    `settings` are those of all replicas, `python` runs their first starts.
    """

    keeps: Final = True

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], size: int = 3, python: Path = Path(sys.executable)
    ) -> None:
        self.folder = folder
        self.database = Database(folder / "postgres")
        names = [f"replica-{number + 1}" for number in range(size)]
        authority = folder / "authority"
        certify(authority, names)
        self.members = [Member(name, folder / name, authority, self.database, settings, python) for name in names]
        self._front_ports = free_port(), free_port()
        self.clients = [Proxy(("127.0.0.1", port)) for port in self._front_ports]
        self._front: asyncio.subprocess.Process | None = None

    @property
    def grpc(self) -> str:
        return self.clients[0].address

    @property
    def rest(self) -> str:
        return f"http://{self.clients[1].address}"

    @property
    def proxies(self) -> list[Proxy]:
        """All of them."""
        return [*self.clients, *(proxy for each in self.members for proxy in (each.database, each.carried))]

    async def start(self) -> None:
        """Start everything, and return once calls are served by the address in front."""
        await self.database.start()
        for proxy in self.proxies:
            await proxy.start()
        await asyncio.gather(*(member.start() for member in self.members))
        addresses = [f"127.0.0.1:{port}" for port in self._front_ports]
        grpc, rest = addresses
        command = front_command(ways_to([member.place for member in self.members], grpc, rest), self.folder)
        with (self.folder / "front.log").open("ab") as log:
            self._front = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
        # Until the first checks of health.
        await self._front_serves()

    async def stop(self) -> None:
        """End every process that it has started, however it is."""
        self.heal()
        for member in self.members:
            member.thaw()
        await asyncio.gather(*(member.yard.stop() for member in self.members))
        if self._front is not None and self._front.returncode is None:
            self._front.kill()
            await self._front.wait()
        for proxy in self.proxies:
            await proxy.stop()
        await self.database.stop()

    async def check_store(self) -> None:
        """Let all replicas end in order, and assert that nothing is wrong with what they have kept."""
        await asyncio.gather(*(member.yard.terminate() for member in self.members))
        await self.members[0].yard.check_store()

    def heal(self) -> None:
        """Let all paths be good again."""
        for proxy in self.proxies:
            proxy.heal()

    def follow_database(self) -> None:
        """Lead all replicas to where the database is now, as a virtual address would."""
        for member in self.members:
            member.database.target = self.database.address
            member.database.reset()

    async def ask_of_replica(self, what: str, name: str) -> None:
        """`drain` or `resume` a replica, by whichever answers. Done as well where it lives no more."""
        await self._until_answered("POST", f"/admin/replicas/{name}/{what}", json={})

    async def _front_serves(self) -> None:
        async with asyncio.timeout(FRONT_SECS):
            await self._until_answered("GET", "/tasks")

    async def _until_answered(self, verb: str, path: str, **given: Any) -> None:
        async with httpx.AsyncClient(base_url=self.rest, trust_env=False, timeout=CALL_SECS) as client:
            while True:
                with suppress(httpx.TransportError):
                    answer = await client.request(verb, path, **given)
                    if answer.is_success or answer.status_code == httpx.codes.NOT_FOUND:
                        return
                    assert answer.is_server_error, answer.text
                await asyncio.sleep(0.1)


def _paths() -> list[str]:
    """Where a replica finds what it imports, the shift of its clock first."""
    return [str(WALL_CLOCK), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
