"""The files that a server writes beside its store: log and audit log, and the admin socket."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from taskyard_server.cli.server import size_text
from taskyard_server.store.sqlite.file import free_bytes

from .examined import Examined
from .findings import Finding, Findings, failure, ok, warning
from .store import may_use, user

SOCKET: Final = "admin socket"


def files(on: Examined) -> Findings:
    """Look at the log file and at the audit log, where the settings name them."""
    log, audit = on.settings.log, on.settings.audit
    if log.file is not None:
        yield _file("log.file", log.file, log.max_bytes, log.backups)
    if audit.file is not None:
        yield _file("audit.file", audit.file, audit.max_bytes, audit.backups)


def _file(check: str, path: Path, max_bytes: int, backups: int) -> Finding:
    folder = path.parent if path.parent.exists() else path.parent.parent
    if not folder.is_dir():
        return failure(check, f"{folder} is not there: the server makes one folder, not two", f"mkdir -p {path.parent}")
    if path.exists() and not path.is_file():
        return failure(check, f"{path} is not a file", f"name another one in {check}")
    unwritable = path if path.exists() and not may_use(path, os.W_OK) else folder
    if not may_use(unwritable, os.W_OK):
        return failure(check, f"{unwritable} cannot be written by {user()}", f"let {user()} write there")
    most, free = max_bytes * (backups + 1), free_bytes(str(folder))
    kept = sum(each.stat().st_size for each in folder.glob(f"{path.name}*") if each.is_file())
    words = f"{path}: {size_text(kept)} of at most {size_text(most)} with its backups; {size_text(free)} are free"
    if free < most - kept:
        return warning(check, words, f"make room, or lower {check.partition('.')[0]}.maxBytes or .backups")
    return ok(check, words)


def admin_socket(on: Examined) -> Findings:
    """Look at the socket where the server answers its own user."""
    path = on.admin_socket
    if path is None:
        yield ok(SOCKET, "there is none: nothing is kept")
        return
    folder = path.parent
    try:
        owner = folder.stat().st_uid
        may_enter = os.access(folder, os.X_OK, effective_ids=True)
    except PermissionError:
        owner, may_enter = None, False
    except OSError:
        owner, may_enter = os.geteuid(), True
    if not may_enter:
        whose = "another user" if owner is None else f"user {owner}"
        todo = "run this as the user of the server, to see more of it"
        yield warning(SOCKET, f"{folder} can be entered by {whose} alone, and this is {user()}", todo)
    elif on.server is not None:
        yield ok(SOCKET, f"{path} is served by {f'process {on.server}' if on.server else 'the running server'}")
    elif owner not in (os.geteuid(), None):
        todo = f"start the server as user {owner}, or remove {folder}"
        yield warning(SOCKET, f"{folder} belongs to user {owner}: a server of {user()} would have no socket", todo)
    elif on.runs:
        todo = "see its log for admin_socket_failed, or whether it was started with another --store"
        yield warning(SOCKET, f"a server answers at {on.address}, and nobody listens at {path}", todo)
    else:
        yield ok(SOCKET, f"nobody listens at {path}: no server runs on this store")
