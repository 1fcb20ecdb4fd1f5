"""A parent's table of a folder, and stores of processes over it, in one event loop: only the channels are real."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

from taskyard_server.process_channel import Channel
from taskyard_server.processes.child import ERRORS
from taskyard_server.processes.members import Members, common_store
from taskyard_server.store.folder import FolderStore
from taskyard_server.store.shared_port import Replica, Taken


class Folder:
    """A folder that one parent has open. It may be opened again, as by the next parent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listeners: list[dict[str, Any]] = []
        self._stores: list[FolderStore] = []
        self._channels: list[Channel] = []
        self._running: list[asyncio.Task[None]] = []

    async def open(self) -> Folder:
        self.members = Members(self.path, common_store(self.path, "normal"), self._tell)
        await self.members.open()
        return self

    async def process(self, instance: str) -> FolderStore:
        """The store of a process that has joined."""
        ours, theirs = socket.socketpair()
        parent, child = Channel(self._serve, ERRORS), Channel(self._serve, ERRORS)
        for channel, end in ((parent, ours), (child, theirs)):
            await channel.open(end)
            self._running.append(asyncio.create_task(channel.run()))
        self._channels += [parent, child]
        listeners: dict[str, Any] = {}
        self._listeners.append(listeners)
        store = FolderStore(str(self.path), child, listeners, synchronous="normal", min_free_bytes=0)
        self._stores.append(store)
        await store.open()
        await store.join(Replica(instance, f"name of {instance}", None, 1, "1.0"))
        return store

    async def kill(self, store: FolderStore, instance: str) -> None:
        """End a process at once: what was sent to its writers is still written."""
        await store.close()
        self.members.died(instance)

    async def close(self) -> None:
        """As if all had ended."""
        for store in self._stores:
            await store.close()
        for channel in self._channels:
            channel.close()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._stores, self._channels, self._running, self._listeners = [], [], [], []
        await self.members.close()

    async def _serve(self, method: str, arguments: tuple[Any, ...]) -> Any:
        assert method in Members.CALLED
        return await getattr(self.members, method)(*arguments)

    def _tell(self, news: str) -> None:
        for listeners in self._listeners:
            listeners[news]()


async def made(store: FolderStore, name: str, instance: str) -> Taken:
    """A namespace that a process has made."""
    taken = await store.create(name, instance)
    assert taken is not None
    return taken
