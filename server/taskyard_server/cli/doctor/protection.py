"""Protection: who can reach the server, who may call it, and who can read its secrets."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Final

from taskyard_server.net.exposure import authentication_is_on, exposed
from taskyard_server.settings.config import by_key
from taskyard_server.settings.setting_types import MASK
from taskyard_server.settings.store_url import MEMORY, sqlite_path

from .examined import Examined
from .findings import Finding, Findings, failure, ok, warning

CHECK: Final = "authentication"
OTHERS: Final = stat.S_IROTH | stat.S_IWOTH
SQLITE: Final = b"SQLite format 3\0"
"""The beginning of each file of SQLite (sqlite.org/fileformat.html, Magic Header String)."""


def protection(on: Examined) -> Findings:
    """Look at what `taskyard up` refuses to do, at authentication, and at the modes of files with secrets."""
    for problem in exposed(on.settings):
        seen, _, todo = problem.partition(": set ")
        yield failure("exposed", seen, f"set {todo}")
    yield _authentication(on)
    for name, path in _private_files(on):
        try:
            mode = path.stat().st_mode
        except OSError:
            # Other checks say what is not there.
            continue
        if mode & OTHERS:
            verb = "write" if mode & stat.S_IWOTH else "read"
            yield warning("secrets", f"{name}: every user of this machine can {verb} {path}", f"chmod o-rwx {path}")


def _authentication(on: Examined) -> Finding:
    auth = on.settings.auth
    if not authentication_is_on(on.settings):
        return ok(CHECK, "it is off: anyone who reaches the server is admin")
    ways = [
        *(["an admin token"] if auth.admin_token is not None else []),
        *(["JWTs"] if auth.jwt else []),
        *(["client certificates"] if auth.certificates and on.settings.tls.client_ca else []),
    ]
    if on.admin_socket is not None:
        ways.append("tokens of the store")
    elif not ways:
        return failure(CHECK, f"it is on, and nobody can come in: {MEMORY} keeps no tokens", "set auth.adminToken")
    return ok(CHECK, f"it is on, by {', '.join(ways)}")


def _private_files(on: Examined) -> list[tuple[str, Path]]:
    """The files that others of this machine must not read, by what names them."""
    settings = on.settings
    store = sqlite_path(settings.store.url)
    found: dict[str, Path | None] = {
        "--config": on.config_file if _has_secrets(on) else None,
        "tls.key": settings.tls.key,
        "gatewayTls.key": settings.gateway_tls.key,
        "replicas.key": settings.replicas.key,
        "executorKey": settings.executor_key,
        "store.url": None if store is None else _database(Path(os.path.realpath(store))),
        "audit.file": settings.audit.file,
        "log.file": settings.log.file,
    }
    return [(name, path) for name, path in found.items() if path is not None]


def _database(path: Path) -> Path | None:
    """The file, unless it is something else: nobody is told to change the mode of /etc/passwd."""
    try:
        with path.open("rb") as file:
            return path if file.read(len(SQLITE)) == SQLITE else None
    except OSError:
        return None


def _has_secrets(on: Examined) -> bool:
    """True if the file of the settings holds any."""
    plain, shown = by_key(on.settings, mode="python"), by_key(on.settings)
    return any(
        MASK in json.dumps(shown[key]) or (key == "store.url" and plain[key] != shown[key])
        for key, source in on.sources.items()
        if source == "file" and key in shown
    )
