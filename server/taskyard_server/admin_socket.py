"""The admin socket: where a server answers its own user about its store and its tokens (docs/keeping.md).

It lies in a folder that only that user can enter. Who has the store open owns the socket, so that it is opened after
the store and closed before it. A store in PostgreSQL has no place on this machine, and may be shared: there the socket
lies in the user's state folder, one for each replica.
"""

from __future__ import annotations

import os
import socket
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final

import grpc
import structlog
from platformdirs import user_runtime_path, user_state_path

from taskyard.v1.store_pb2_grpc import add_StoreServiceServicer_to_server
from taskyard.v1.token_pb2_grpc import add_TokenServiceServicer_to_server
from taskyard_server.audit import AuditLog
from taskyard_server.config import Settings
from taskyard_server.interceptors.admission import Admission
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.private_sockets import MAX_PATH_BYTES, PLAIN
from taskyard_server.services.store import StoreService
from taskyard_server.services.tokens import TokenService
from taskyard_server.store_url import is_postgres, shown_store_url, sqlite_path

log = structlog.get_logger(__name__)

STOP_SECS: Final = 1.0
DOOR: Final = "admin_socket"
"""How the audit log names it."""


def socket_of(settings: Settings) -> Path | None:
    """Where the server with these settings listens; None for one that keeps nothing."""
    url = settings.store.url
    if is_postgres(url):
        return replica_socket_path(settings.replicas.name, shown_store_url(url))
    path = sqlite_path(url)
    return None if path is None else socket_path(path)


def socket_path(file: Path) -> Path:
    """Where the server that keeps its tasks in this file listens: beside it, or else in the user's run folder."""
    # The same for server and command, whichever way they name the file.
    file = Path(os.path.realpath(file))
    return _short_enough(file.with_name(f"{file.name}.admin") / "admin.sock", os.fsencode(file))


def replica_socket_path(name: str, url: str) -> Path:
    """Where the replica of this name on the database of this URL listens: in the user's state folder, if it may."""
    text = os.fsencode(f"{name} {url}")
    folder = user_state_path("taskyard", appauthor=False) / "replicas" / sha256(text).hexdigest()[:16]
    return _short_enough(folder / "admin.sock", text)


def _short_enough(path: Path, text: bytes) -> Path:
    """The path, or one in the user's run folder for what the socket is of."""
    if len(os.fsencode(path)) <= MAX_PATH_BYTES and PLAIN.fullmatch(str(path)):
        return path
    return user_runtime_path("taskyard", appauthor=False) / sha256(text).hexdigest()[:16] / "admin.sock"


def is_served(path: Path) -> bool:
    """Whether a server listens at this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return False
        return True


def address_of(path: Path) -> str:
    """The socket as grpc names it."""
    return f"unix:{path}"


class AdminSocket:
    """Serves the store service, and that of tokens, at a socket. Without it the server goes on, and the log says why.

    Whoever calls there is admin. What is changed through it is written to `audit`.
    """

    def __init__(self, path: Path, store: StoreService, tokens: TokenService, audit: AuditLog | None = None) -> None:
        self.path = path
        self._store = store
        self._tokens = tokens
        self._admission = None if audit is None else Admission(None, audit=audit, door=DOOR)
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
