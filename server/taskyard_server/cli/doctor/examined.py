"""The yard that is examined: its settings, its server if one runs, and how that is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import grpc
import psutil

from taskyard.connection.credentials import AT_THE_TERMINAL, DEFAULT_ADDRESS, Credentials
from taskyard.connection.tls import TlsFiles
from taskyard.errors import error_from_rpc
from taskyard.v1 import health_pb2
from taskyard.v1.health_pb2_grpc import HealthServiceStub
from taskyard_server.cli.connection import Connection
from taskyard_server.cli.failure import Failure, Misuse, NoServer
from taskyard_server.net.admin_address import server_at, socket_of
from taskyard_server.net.exposure import is_loopback
from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import Loaded
from taskyard_server.settings.store_url import is_postgres

CALL_SECS: Final = 4.0
LATE: Final = "Deadline Exceeded"
"""The words of gRPC for it."""
WILDCARDS: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]", "::": "[::1]"}
"""Where a server is called that listens on all addresses."""


class Reply(NamedTuple):
    """The answer at the gRPC port: a server is there or not, and why it does not serve, empty where it does."""

    is_there: bool
    problem: str


@dataclass(frozen=True, slots=True)
class Examined:
    """A yard. `is_named` says that the options name a server, which need not be that of the settings.

    `server` is the process that listens at the admin socket, 0 for one that cannot be seen from here, None for none.
    """

    settings: Settings
    sources: Mapping[str, str]
    config_file: Path | None
    connection: Connection
    is_named: bool
    reply: Reply
    admin_socket: Path | None
    server: int | None

    @property
    def address(self) -> str:
        """Where the server is asked."""
        return self.connection.credentials.address

    @property
    def runs(self) -> bool:
        """True if a server runs with these settings, as far as can be seen from here."""
        if self.server is not None:
            return True
        return self.reply.is_there and not self.is_named and not _is_visible(self.admin_socket, self.settings)

    def processes(self) -> dict[int, str]:
        """The processes of the running server that can be seen from here, by id, with their names."""
        if not self.server:
            return {}
        try:
            parent = psutil.Process(self.server)
            return {each.pid: each.name() for each in (parent, *parent.children(recursive=True))}
        except psutil.Error:
            return {}


def examined(loaded: Loaded, config_file: Path | None, connection: Connection) -> Examined:
    """The yard of these settings. Asks its server, or the one that the options name, whether it serves."""
    settings = loaded.settings
    reached, is_named = _reached(settings, connection)
    path = socket_of(settings)
    server = None if path is None else server_at(path)
    reply = _reply(reached)
    return Examined(settings, loaded.sources, config_file, reached, is_named, reply, path, server)


def reachable(address: str) -> str:
    """Where to call a server that listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    return f"{WILDCARDS.get(host, host)}:{port}"


def _reached(settings: Settings, connection: Connection) -> tuple[Connection, bool]:
    given = connection.credentials
    address = reachable(settings.grpc)
    if connection.is_given or given.address != DEFAULT_ADDRESS:
        # A variable may name the server of these settings, as it does in containers.
        is_other = len(given.addresses) > 1 or not (
            _is_same_port(given.address, address) and is_loopback(given.address)
        )
        return connection, connection.is_given or is_other or not is_loopback(address)
    # The certificate that the server shows is the one of its settings: trusted by itself it shows just that.
    tls = given.tls or (None if settings.tls.cert is None else TlsFiles(str(settings.tls.cert)))
    try:
        return Connection(Credentials(address, given.namespace, given.token, tls, spelling=AT_THE_TERMINAL)), False
    except ValueError:
        # No token is sent in the clear to an address that others may listen at.
        return Connection(Credentials(address, given.namespace, None, tls, spelling=AT_THE_TERMINAL)), False


def _is_same_port(one: str, other: str) -> bool:
    return one.rpartition(":")[2] == other.rpartition(":")[2]


def _reply(connection: Connection) -> Reply:
    try:
        with connection.opened() as channel:
            health = HealthServiceStub(channel)
            health.GetHealth(health_pb2.GetHealthRequest(), **connection.call(CALL_SECS))
            try:
                health.GetReadiness(health_pb2.GetReadinessRequest(), **connection.call(CALL_SECS))
            except grpc.RpcError as error:
                return Reply(True, error_from_rpc(error).reason)
    except Misuse as error:
        return Reply(False, f"no server was asked: {error}")
    except NoServer as error:
        late = f"the server at {connection.credentials.address} does not answer within {CALL_SECS:g} s"
        return Reply(False, late if str(error) == LATE else str(error))
    except Failure as error:
        return Reply(True, str(error))
    return Reply(True, "")


def _is_visible(socket: Path | None, settings: Settings) -> bool:
    """True if somebody who listens at the admin socket would have been seen."""
    if socket is None or is_postgres(settings.store.url):
        # That of a replica lies in the home of its user.
        return False
    try:
        os.stat(socket)
    except PermissionError:
        return False
    except OSError:
        return True
    return os.access(socket, os.W_OK)
