"""The admin socket: where a server answers its own user about its store and its tokens (docs/operate/durability.md).

It lies in a folder that only that user can enter. Who has the store open owns the socket, so that it is opened after
the store and closed before it. A store in PostgreSQL has no folder on this machine, and may be shared: there the socket
lies in the user's state folder, one for each replica.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

import grpc
import structlog

from taskyard.v1.store_pb2_grpc import add_StoreServiceServicer_to_server
from taskyard.v1.token_pb2_grpc import add_TokenServiceServicer_to_server
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.logs.audit import AuditLog
from taskyard_server.net.admin_address import address_of, is_served
from taskyard_server.services.store import StoreService
from taskyard_server.services.tokens import TokenService

log = structlog.get_logger(__name__)

STOP_SECS: Final = 1.0
DOOR: Final = "admin_socket"
"""How the audit log names it."""


class AdminSocket:
    """Serves the store service, and that of tokens, at a socket. Without it the server goes on, and the log says why.

    Anyone who calls there is admin. What is changed through it is written to `audit`.
    """

    def __init__(self, path: Path, store: StoreService, tokens: TokenService, audit: AuditLog | None = None) -> None:
        self.path = path
        self._store = store
        self._tokens = tokens
        self._admission = None if audit is None else CallAdmission(None, audit=audit, door=DOOR)
        self._server: grpc.aio.Server | None = None

    async def open(self) -> None:
        """Serve. To be called by the one that has the store open: what another one left behind is removed."""
        if is_served(self.path):
            log.error("admin_socket_failed", path=str(self.path), error="another server of this name listens there")
            return
        try:
            _private_folder(self.path.parent)
            self.path.unlink(missing_ok=True)
            server = grpc.aio.server(interceptors=(CallInterceptor(self._admission),))
            add_StoreServiceServicer_to_server(self._store, server)
            add_TokenServiceServicer_to_server(self._tokens, server)
            server.add_insecure_port(address_of(self.path))
            await server.start()
        except (OSError, RuntimeError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            log.error("admin_socket_failed", path=str(self.path), error=reason)
            return
        self._server = server

    async def close(self) -> None:
        """Stop serving; a check or a backup that is under way is given up."""
        if self._server is not None:
            await self._server.stop(STOP_SECS)
            self._server = None
            self.path.unlink(missing_ok=True)


def _private_folder(folder: Path) -> None:
    """Make the folder, or make sure that it is ours alone. Raises `OSError`."""
    folder.mkdir(0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
