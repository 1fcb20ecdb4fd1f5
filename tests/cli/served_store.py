"""A store with rows that this process has open, as a server has it, behind its admin socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from taskyard_server.app.admin_socket import AdminSocket
from taskyard_server.net.admin_address import socket_path
from taskyard_server.services.store import StoreService
from taskyard_server.services.tokens import TokenService
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.small_yard import make_yard


@asynccontextmanager
async def served_store(file: Path) -> AsyncIterator[SqliteStore]:
    """The store in a new file, for as long as it is served."""
    await make_yard(file)
    opened = SqliteStore(str(file), ballast_bytes=0)
    await opened.open()
    admin = AdminSocket(socket_path(file), StoreService(opened), TokenService(None, None))
    await admin.open()
    yield opened
    await admin.close()
    await opened.close()
