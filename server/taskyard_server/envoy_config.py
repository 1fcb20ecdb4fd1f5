"""Writes the configuration of Envoy: gateway/envoy.yaml with what differs from one control plane to the next.

gateway/README.md explains the file.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple

from taskyard_server.certificates import CertificateFiles


class GatewayError(Exception):
    """The gateway cannot run; the text is one line for the operator."""


class Address(NamedTuple):
    """An IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def yaml(self) -> str:
        """The address as envoy.yaml writes it."""
        host = json.dumps(self.host) if ":" in self.host else self.host
        return f"socket_address: {{address: {host}, port_value: {self.port}}}"


class Pipe(NamedTuple):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    @property
    def yaml(self) -> str:
        """The address as envoy.yaml writes it."""
        return f"pipe: {{path: {json.dumps(self.path)}}}"


REST_IN_FILE: Final = Address("127.0.0.1", 9867)
GRPC_IN_FILE: Final = Address("127.0.0.1", 50051)
PAGES_IN_FILE: Final = '&pages {exact: ""}'
NAMES_IN_FILE: Final = '&names ["localhost", "127.0.0.1", "[::1]"]'
OTHER_NAMES_IN_FILE: Final = '&other_names ["*"]'
TLS_IN_FILE: Final = "transport_socket: null"
TLS: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
CONNECTIONS_IN_FILE: Final = "max_active_downstream_connections: 100000"
TURN_IN_FILE: Final = "http.max_requests_per_io_cycle: 1000000"
LIMITED_TURN: Final = 5
HEAP_IN_FILE: Final = "max_heap_size_bytes: 4294967296"
MAX_CONNECTIONS: Final = 100_000
OTHER_FILES: Final = 256
"""Open files of Envoy that are no callers."""
LEAST_HEAP_BYTES: Final = 1 << 30
NO_NAMES: Final = ["none.invalid"]
SERVER_SECRET: Final = "server"
CLIENTS_SECRET: Final = "clients"


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """What one Envoy is to serve: REST on `rest`, in front of the gRPC server on `server`, for pages of `origins`.

    With `is_limited` a caller that sends thousands of requests at once does not hold up others.
    """

    rest: Address
    server: Address | Pipe
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    secrets: Secrets | None = None
    max_connections: int = MAX_CONNECTIONS
    is_limited: bool = False

    def write(self, config: Path, template: Path, admin: Path) -> None:
        """Write the configuration, with an admin endpoint that only this user can reach. Raises `GatewayError`.

        The text is edited, since Envoy appends lists of a second configuration: that cannot replace a listener's
        address.
        """
        text = template.read_text()
        names = self.names()
        pages = {"safe_regex": {"regex": "|".join(map(_origin_pattern, self.origins))}} if self.origins else _NOBODY
        for name, in_file, ours in (
            (str(REST_IN_FILE), REST_IN_FILE.yaml, self.rest.yaml),
            (str(GRPC_IN_FILE), GRPC_IN_FILE.yaml, self.server.yaml),
            ("the pages that may call", PAGES_IN_FILE, f"&pages {json.dumps(pages)}"),
            ("the names of its host", NAMES_IN_FILE, f"&names {json.dumps(names)}"),
            ("other names", OTHER_NAMES_IN_FILE, f"&other_names {json.dumps(NO_NAMES if '*' in names else ['*'])}"),
            ("connections", CONNECTIONS_IN_FILE, f"max_active_downstream_connections: {self._connections()}"),
            ("memory", HEAP_IN_FILE, f"max_heap_size_bytes: {_heap_bytes()}"),
            ("requests of a turn", TURN_IN_FILE, self._turn()),
            (TLS_IN_FILE, TLS_IN_FILE, TLS_IN_FILE if self.secrets is None else self.secrets.yaml),
        ):
            if text.count(in_file) != 1:
                raise GatewayError(f"{template} does not name {name} exactly once")
            text = text.replace(in_file, ours)
        admin.unlink(missing_ok=True)  # Envoy leaves its socket behind
        text += f"\nadmin: {{address: {{pipe: {{path: {json.dumps(str(admin))}, mode: 384}}}}}}\n"  # 384 is 0600
        config.write_text(text)

    def names(self) -> list[str]:
        """The names by which callers may call, without ports.

        On loopback these are the names of this machine: a page whose own name resolves to this machine has another one.
        """
        if not ip_address(self.rest.host).is_loopback:
            return ["*"]
        machine = socket.gethostname().lower()
        own = f"[{self.rest.host}]" if ":" in self.rest.host else self.rest.host
        names = (*LOOPBACK_NAMES, own, machine, machine.partition(".")[0], *(name.lower() for name in self.hosts))
        return ["*"] if "*" in names else list(dict.fromkeys(name for name in names if name))

    def _turn(self) -> str:
        return f"http.max_requests_per_io_cycle: {LIMITED_TURN}" if self.is_limited else TURN_IN_FILE

    def _connections(self) -> int:
        """As many as open files allow: Envoy takes as many of these as the system lets it have."""
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        allowed = MAX_CONNECTIONS if open_files == resource.RLIM_INFINITY else open_files - OTHER_FILES
        return max(16, min(self.max_connections, allowed))


def _heap_bytes() -> int:
    """The memory that Envoy may take: half of what the machine has."""
    return max(LEAST_HEAP_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


class Secrets:
    """The files from which Envoy takes its certificates. They lie in a folder and name the files of the settings.

    Envoy reads a file again when another one was renamed to its name. What that names must be new as well, so that each
    set of certificates is named by links of its own. No key is copied.
    """

    def __init__(self, folder: Path, files: CertificateFiles) -> None:
        self._folder = folder
        self._files = files
        self._generation = 0
        self._has_clients = files.client_ca is not None

    @property
    def yaml(self) -> str:
        """What envoy.yaml says instead of `transport_socket: null`."""
        common: dict[str, Any] = {
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_certificate_sds_secret_configs": [self._source(SERVER_SECRET)],
        }
        if self._has_clients:
            common["validation_context_sds_secret_config"] = self._source(CLIENTS_SECRET)
        context = {
            "@type": f"{TLS}.DownstreamTlsContext",
            "common_tls_context": common,
            # One that comes is verified.
            "require_client_certificate": False,
        }
        return "transport_socket: " + json.dumps({"name": "envoy.transport_sockets.tls", "typed_config": context})

    def write(self) -> None:
        """Make Envoy read the certificates, which are known to fit together."""
        self._generation += 1
        links = self._folder / f"certificates-{self._generation}"
        links.mkdir()
        pair = {
            "certificate_chain": _link(links / "cert.pem", self._files.cert),
            "private_key": _link(links / "key.pem", self._files.key),
        }
        if self._files.client_ca is not None:
            clients = {"trusted_ca": _link(links / "clients.pem", self._files.client_ca)}
            self._write(CLIENTS_SECRET, {"validation_context": clients})
        self._write(SERVER_SECRET, {"tls_certificate": pair})
        # Envoy may still be about to read the ones before.
        shutil.rmtree(self._folder / f"certificates-{self._generation - 2}", ignore_errors=True)

    def _source(self, name: str) -> dict[str, Any]:
        source = {"path": str(self._file(name)), "watched_directory": {"path": str(self._folder)}}
        return {"name": name, "sds_config": {"path_config_source": source, "resource_api_version": "V3"}}

    def _write(self, name: str, secret: dict[str, Any]) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(json.dumps({"resources": [{"@type": f"{TLS}.Secret", "name": name, **secret}]}))
        new.rename(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.yaml"


def _link(link: Path, target: Path) -> dict[str, str]:
    link.symlink_to(target)
    return {"filename": str(link)}


_NOBODY: Final = {"exact": ""}


def _origin_pattern(origin: str) -> str:
    """The regular expression for an origin of the settings."""
    if origin == "*":
        return ".*"
    pattern = re.escape(origin).replace(r"://\*\.", r"://([a-z0-9_-]+\.)+")
    return re.sub(r":\\\*$", "(:[0-9]+)?", pattern)
