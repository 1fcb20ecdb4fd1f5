"""Yards that the tests of the doctor examine, made of settings alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from taskyard.connection.credentials import Credentials
from taskyard_server.cli.connection import Connection
from taskyard_server.cli.doctor.examined import Examined, Reply
from taskyard_server.cli.doctor.findings import Finding, Findings
from taskyard_server.net.admin_address import server_at, socket_of
from taskyard_server.settings.config import Settings
from tests.ports import free_port

NOBODY = Reply(False, "no server answers at 127.0.0.1:1")
READY = Reply(True, "")
DAY_SECS = 86_400


def yard(
    settings: dict[str, Any],
    *,
    reply: Reply = NOBODY,
    address: str = "127.0.0.1:1",
    is_named: bool = False,
    config_file: Path | None = None,
    sources: dict[str, str] | None = None,
) -> Examined:
    """The yard of these settings, on ports that nobody has, with nothing kept unless they say otherwise."""
    ports = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "rest", "metrics")}
    found = Settings.model_validate({"store": {"url": "memory://"}, **ports, **settings})
    path = socket_of(found)
    server = None if path is None else server_at(path)
    connection = Connection(Credentials(address))
    return Examined(found, sources or {}, config_file, connection, is_named, reply, path, server)


def told(check: Callable[[Examined], Findings], on: Examined) -> list[tuple[str, str]]:
    """The findings of a check, each with its status and its text."""
    return [(finding.status.value, f"{finding.check}: {finding.seen}") for finding in check(on)]


def ill(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are not well, each of which has to say what to do."""
    found = [finding for finding in findings if finding.status != "ok"]
    assert all(finding.todo for finding in found)
    return found


def only(findings: Iterable[Finding]) -> Finding:
    """The one that is not well."""
    (found,) = ill(findings)
    return found
