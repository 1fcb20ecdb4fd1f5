"""The PostgreSQL of a trial, with a standby that has every commit before it is acknowledged, and what happens to it."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import asyncpg

from tests.ports import free_port
from tools.local_postgres import UNSAFE, LocalPostgres

MOST_CONNECTIONS: Final = 40
SETTINGS: Final = {**UNSAFE, "max_connections": str(MOST_CONNECTIONS), "shared_buffers": "64MB"}


class Database:
    """A server, the address of which changes when its standby takes over; `address` is where it is now."""

    def __init__(self, folder: Path) -> None:
        self.server = LocalPostgres(folder / "1", free_port(), SETTINGS)
        self._folder = folder
        self._copies = 1
        self._standby: LocalPostgres | None = None
        self._held: list[Any] = []

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.server.port

    @property
    def has_standby(self) -> bool:
        return self._standby is not None

    async def start(self) -> None:
        """Start it, without a standby."""
        await asyncio.to_thread(self.server.start)

    async def stop(self) -> None:
        """End all of it, at once."""
        await self.release_connections()
        for each in (self.server, self._standby):
            if each is not None:
                await asyncio.to_thread(each.kill)

    async def add_standby(self) -> None:
        """Let a standby follow, without which no commit is acknowledged from then on."""
        self._copies += 1
        folder = self._folder / str(self._copies)
        standby = await asyncio.to_thread(self.server.standby, folder, free_port())
        await asyncio.to_thread(self.server.wait_for_standby)
        self._standby = standby

    async def fail_over(self) -> None:
        """Lose the server with its disk, and let the standby take over."""
        lost, standby = self.server, self._standby
        assert standby is not None
        await asyncio.to_thread(lost.kill)
        await asyncio.to_thread(standby.promote)
        self.server, self._standby = standby, None
        await asyncio.to_thread(shutil.rmtree, lost.folder)

    async def restart(self, away_secs: float, *, by_kill: bool) -> None:
        """Stop it in order or by kill -9, and start it after a while."""
        await asyncio.to_thread(self.server.kill if by_kill else self.server.stop)
        await asyncio.sleep(away_secs)
        await asyncio.to_thread(self.server.start)

    async def take_all_connections(self) -> int:
        """Take every connection that the role of the replicas can have; how many."""
        with suppress(asyncpg.PostgresError, OSError):
            while len(self._held) < MOST_CONNECTIONS:
                self._held.append(await asyncpg.connect(self.server.url()))
        return len(self._held)

    async def release_connections(self) -> None:
        """Give back what `take_all_connections` took."""
        held, self._held = self._held, []
        for connection in held:
            connection.terminate()
