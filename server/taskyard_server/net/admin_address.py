"""Where the admin socket of a server is, for the server and for the commands that ask it.

See docs/operate/durability.md.
"""

from __future__ import annotations

import os
import socket
import struct
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_runtime_path, user_state_path

from taskyard_server.settings.store_url import is_postgres, shown_store_url, sqlite_path

from .private_sockets import MAX_PATH_BYTES, PLAIN

if TYPE_CHECKING:
    from taskyard_server.settings.config import Settings


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
    """True if a server listens at this socket."""
    return server_at(path) is not None


def server_at(path: Path) -> int | None:
    """The process that listens at this socket, 0 for one that cannot be seen from here; None if none does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:
            # It is there, and does not come to taking more.
            return 0
        except OSError:
            return None
        if not hasattr(socket, "SO_PEERCRED"):
            return 0
        pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(pid)


def address_of(path: Path) -> str:
    """The socket as grpc names it."""
    return f"unix:{path}"
