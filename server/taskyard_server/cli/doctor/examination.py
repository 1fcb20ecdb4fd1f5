"""The list of all checks, and how they are run: side by side, and none for longer than a while."""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from taskyard_server.cli.connection import Connection
from taskyard_server.cli.up import secure_folder
from taskyard_server.settings.config import ConfigError
from taskyard_server.settings.config_sources import Loaded, load

from .certificates import certificates
from .envoy import envoy
from .examined import Examined, examined
from .files import admin_socket, files
from .findings import Finding, Findings, failure, ok, reason_of, warning
from .machine import clock, limits, versions
from .ports import ports
from .protection import protection
from .replicas import replicas
from .server import server
from .store import store

CHECKS: Final[tuple[Callable[[Examined], Findings], ...]] = (
    *(server, ports, store, clock, replicas, envoy, certificates, protection, files, admin_socket, limits, versions),
)
"""The checks, in the order in which they are shown."""
SETTINGS: Final = "settings"
MAX_SECS: Final = 15.0
"""A check that has not ended by then is given up: a disk, a name server or another machine does not answer."""


def examine(
    connection: Connection, config_file: Path | None, store_url: str | None, secure: Path | None = None
) -> list[Finding]:
    """All that there is to say about the yard of these settings, or of those in the folder `secure`, and its server."""
    flags: dict[str, Any] = {} if store_url is None else {"store": {"url": store_url}}
    if secure is not None:
        config_file = secure.absolute() / secure_folder.SETTINGS
        if not config_file.exists():
            seen = f"{config_file} is not there: the first start with --secure makes it"
            return [warning(SETTINGS, seen, "start it, then look again; the rest was not looked at")]
    try:
        if secure is not None:
            flags = secure_folder.secured_flags(secure, flags)
        loaded = load(config_file, flags)
    except OSError as error:
        return [failure(SETTINGS, f"{error.filename}: {reason_of(error)}", "run this as the user of the server")]
    except ConfigError as error:
        todo = "correct it; docs/operate/settings.md has all keys. The rest was not looked at"
        return [failure(SETTINGS, line, todo) for line in str(error).splitlines()]
    on = examined(loaded, config_file, connection)
    return [_settings(loaded, config_file), *run(CHECKS, on)]


def run(checks: Iterable[Callable[[Examined], Findings]], on: Examined, secs: float = MAX_SECS) -> list[Finding]:
    """The findings of checks, in their order."""
    until = time.monotonic() + secs
    return [finding for running in [_Running(check, on) for check in checks] for finding in running.found(until)]


class _Running:
    """A check that runs in a thread, which does not hold up the end of the process."""

    def __init__(self, check: Callable[[Examined], Findings], on: Examined) -> None:
        self._name = check.__name__
        self._check = check
        self._findings: list[Finding] = []
        self._thread = threading.Thread(target=self._run, args=(on,), daemon=True)
        self._thread.start()

    def _run(self, on: Examined) -> None:
        try:
            for finding in self._check(on):
                self._findings.append(finding)
        except Exception as error:
            # Its text may quote what is secret.
            seen = f"this check broke ({type(error).__name__})"
            self._findings.append(warning(self._name, seen, "this is a defect of Taskyard, please report it"))

    def found(self, until: float) -> list[Finding]:
        """All that it has found by this time of the monotonic clock."""
        self._thread.join(max(0.0, until - time.monotonic()))
        found = [*self._findings]
        if self._thread.is_alive():
            todo = "see whether a disk, a name server or another machine that it asks does not answer"
            found.append(warning(self._name, "this check has not ended in time", todo))
        return found


def _settings(loaded: Loaded, config_file: Path | None) -> Finding:
    named = {"file": str(config_file), "environment": "variables", "flag": "flags"}
    used = [f"{list(loaded.sources.values()).count(source)} of {name}" for source, name in named.items()
            if source in loaded.sources.values()]  # fmt: skip
    return ok(SETTINGS, f"valid: {', '.join(used) or 'all at their defaults'}")
