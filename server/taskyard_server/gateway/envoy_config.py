"""Writes the configuration of Envoy: gateway/envoy.yaml with what differs from one control plane to the next.

gateway/README.md explains the file.
"""

from __future__ import annotations

import json
import os
import re
import resource
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, Final, NamedTuple

from .console_page import ConsolePage, as_yaml, root_route
from .envoy_secrets import Secrets


class GatewayError(Exception):
    """The gateway cannot run; the text is one line for the operator."""


class ListenAddress(NamedTuple):
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


class SocketPath(NamedTuple):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    @property
    def yaml(self) -> str:
        """The address as envoy.yaml writes it."""
        return f"pipe: {{path: {json.dumps(self.path)}}}"


CLUSTER_HEADER: Final = "x-taskyard-cluster"
"""Names the replica that a call is carried to. It is set and taken away within Envoy."""
REST_IN_FILE: Final = ListenAddress("127.0.0.1", 9867)
GRPC_IN_FILE: Final = ListenAddress("127.0.0.1", 50051)
PAGES_IN_FILE: Final = '&pages {exact: ""}'
NAMES_IN_FILE: Final = '&names ["localhost", "127.0.0.1", "[::1]"]'
OTHER_NAMES_IN_FILE: Final = '&other_names ["*"]'
TLS_IN_FILE: Final = "transport_socket: null"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
CONNECTIONS_IN_FILE: Final = "max_active_downstream_connections: 100000"
REQUESTS_IN_FILE: Final = "http.max_requests_per_io_cycle: 1000000"
LIMITED_REQUESTS: Final = 5
HTTP: Final = "type.googleapis.com/envoy.extensions.http"
HEAP_IN_FILE: Final = "max_heap_size_bytes: 4294967296"
MAX_CONNECTIONS: Final = 100_000
OTHER_FILES: Final = 256
"""Open files of Envoy that are no callers."""
LEAST_HEAP_BYTES: Final = 1 << 30
EARLY_IN_FILE: Final = "early_header_mutation_extensions: []"
CONSOLE_IN_FILE: Final = (
    "              # The console, from a file, and what `/` tells: `taskyard up` puts its routes in here.\n"
)
FILTERS_IN_FILE: Final = "          http_filters:\n"
CLUSTERS_IN_FILE: Final = "\n  clusters:\n"
STREAMS_IN_FILE: Final = "{cluster: taskyard, timeout: 0s"
ANSWERS_IN_FILE: Final = "{cluster: taskyard, timeout: "
LIMITS_IN_FILE: Final = re.compile(
    r"(?<=    # What follows is taken for the clusters of other replicas as well.\n)( {4}.*\n)+"
)
PINGS_IN_FILE: Final = "connection_keepalive: {interval: 30s, timeout: 10s}"
OWN_PINGS_IN_FILE: Final = f"{PINGS_IN_FILE}\n            # A stalled reader"
PROTOCOL_IN_FILE: Final = "        explicit_http_config:\n"
CONNECTION_SECS: Final = 600
"""After this a connection takes no more calls, so that a certificate of before is of no use for long."""
TRIES: Final = 8
"""How often a call is made, each time at the next replica (`envoy_routes.py`)."""
RETRIES: Final = {
    # Nothing was sent, nothing was looked at, or the server says that another replica has the namespace.
    "retry_on": "connect-failure,refused-stream,reset-before-request,retriable-headers",
    "retriable_headers": [{"name": "x-not-owner", "present_match": True}],
    # In a third of a second a replica that shuts down has handed its namespaces on.
    "num_retries": TRIES - 1,
    "retry_back_off": {"base_interval": "0.025s", "max_interval": "0.1s"},
}
"""Of calls by REST: their clients repeat nothing by themselves, and Envoy has their bodies anyway."""
NO_NAMES: Final = ["none.invalid"]


@dataclass(frozen=True, slots=True)
class Carrying:
    """That Envoy serves `grpc` as well, and carries calls to other replicas: by this filter, to these clusters."""

    grpc: ListenAddress
    secrets: Secrets | None
    filter: dict[str, Any]
    clusters: dict[str, Any]
    pings: str


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """The service of one Envoy: REST on `rest`, in front of the gRPC server on `server`, for pages of `origins`.

    With `is_limited` a caller that sends thousands of requests at once does not hold up others.
    """

    rest: ListenAddress
    server: ListenAddress | SocketPath
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    secrets: Secrets | None = None
    max_connections: int = MAX_CONNECTIONS
    is_limited: bool = False
    carrying: Carrying | None = None
    console: ConsolePage | None = None

    def write(self, config: Path, template: Path, admin: Path) -> None:
        """Write the configuration, with an admin endpoint that only this user can reach. Raises `GatewayError`.

        The text is edited, since Envoy appends lists of a second configuration: that cannot replace a listener's
        address.
        """
        text = template.read_text()
        names = self.names()
        pages = {"safe_regex": {"regex": "|".join(map(_origin_pattern, self.origins))}} if self.origins else _NOBODY
        for name, in_file, ours, times in (
            (str(REST_IN_FILE), REST_IN_FILE.yaml, self.rest.yaml, 1),
            (str(GRPC_IN_FILE), GRPC_IN_FILE.yaml, self.server.yaml, 1),
            ("the pages that may call", PAGES_IN_FILE, f"&pages {json.dumps(pages)}", 1),
            ("the names of its host", NAMES_IN_FILE, f"&names {json.dumps(names)}", 1),
            ("other names", OTHER_NAMES_IN_FILE, f"&other_names {json.dumps(NO_NAMES if '*' in names else ['*'])}", 1),
            ("connections", CONNECTIONS_IN_FILE, f"max_active_downstream_connections: {self._connections()}", 1),
            ("memory", HEAP_IN_FILE, f"max_heap_size_bytes: {_heap_bytes()}", 1),
            ("requests of a turn", REQUESTS_IN_FILE, self._request_limit(), 1),
            ("the console", CONSOLE_IN_FILE, CONSOLE_IN_FILE + self._console(config.parent), 1),
            (TLS_IN_FILE, TLS_IN_FILE, TLS_IN_FILE if self.secrets is None else self.secrets.yaml, 1),
            *(() if self.carrying is None else _edits_for(self.carrying)),
        ):
            if text.count(in_file) != times:
                raise GatewayError(f"{template} does not name {name} exactly {'once' if times == 1 else times}")
            text = text.replace(in_file, ours)
        if self.carrying is not None:
            text += f"\ndynamic_resources: {json.dumps(self.carrying.clusters)}\n"
        admin.unlink(missing_ok=True)  # Envoy leaves its socket behind
        text += f"\nadmin: {{address: {{pipe: {{path: {json.dumps(str(admin))}, mode: 384}}}}}}\n"  # 384 is 0600
        config.write_text(text)

    def names(self) -> list[str]:
        """The names by which callers may call, without ports.

        On loopback these are the names of this machine: a page whose own name resolves to this machine has another one.
        """
        hosts = [self.rest.host, *([] if self.carrying is None else [self.carrying.grpc.host])]
        if not all(ip_address(host).is_loopback for host in hosts):
            return ["*"]
        machine = socket.gethostname().lower()
        own = [f"[{host}]" if ":" in host else host for host in hosts]
        names = (*LOOPBACK_NAMES, *own, machine, machine.partition(".")[0], *(name.lower() for name in self.hosts))
        return ["*"] if "*" in names else list(dict.fromkeys(name for name in names if name))

    def _console(self, folder: Path) -> str:
        routes = [] if self.console is None else self.console.routes(folder)
        return as_yaml([*routes, root_route(self.console is not None)], indent=14)

    def _request_limit(self) -> str:
        return f"http.max_requests_per_io_cycle: {LIMITED_REQUESTS}" if self.is_limited else REQUESTS_IN_FILE

    def _connections(self) -> int:
        """As many as open files allow: Envoy takes as many of these as the system lets it have."""
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        allowed = MAX_CONNECTIONS if open_files == resource.RLIM_INFINITY else open_files - OTHER_FILES
        return max(16, min(self.max_connections, allowed))


def _edits_for(carrying: Carrying) -> list[tuple[str, str, str, int]]:
    """Edits of envoy.yaml for carrying calls: name, text, other text, how often the text is there."""
    drop = {
        "name": "drop",
        "typed_config": {
            "@type": f"{HTTP}.early_header_mutation.header_mutation.v3.HeaderMutation",
            "mutations": [{"remove": CLUSTER_HEADER}],
        },
    }
    tls = "transport_socket: null" if carrying.secrets is None else carrying.secrets.yaml
    listener = f"""
  - name: grpc
    address:
      {carrying.grpc.yaml}
    enable_reuse_port: false
    filter_chains:
    - {tls}
      transport_socket_connect_timeout: 10s
      filters: *callers
"""
    by_header = f"cluster_header: {CLUSTER_HEADER}, timeout: "
    return [
        ("early mutations", EARLY_IN_FILE, f"early_header_mutation_extensions: {json.dumps([drop])}", 1),
        ("the filters", FILTERS_IN_FILE, f"{FILTERS_IN_FILE}          - {json.dumps(carrying.filter)}\n", 1),
        ("the clusters", CLUSTERS_IN_FILE, listener + CLUSTERS_IN_FILE, 1),
        ("pings", OWN_PINGS_IN_FILE, OWN_PINGS_IN_FILE.replace(PINGS_IN_FILE, carrying.pings), 1),
        ("the route of streams", STREAMS_IN_FILE, f"{{{by_header}0s", 1),
        ("the other routes", ANSWERS_IN_FILE, f"{{retry_policy: {json.dumps(RETRIES)}, {by_header}", 3),
    ]


def pings_within(secs: float) -> str:
    """The pings by which a server that no longer answers is noticed in this time, with the 15 % that Envoy may add."""
    each = f"{secs / 2.2:.3f}s"
    return f"connection_keepalive: {{interval: {each}, timeout: {each}}}"


def limits_of_clusters(template: Path, pings: str) -> str:
    """The limits of the cluster in envoy.yaml, for those of other replicas, with these pings. Raises `GatewayError`."""
    found = LIMITS_IN_FILE.search(template.read_text())
    limits = "" if found is None else found[0]
    if limits.count(PINGS_IN_FILE) != 1 or limits.count(PROTOCOL_IN_FILE) != 1:
        raise GatewayError(f"{template} does not name the limits of clusters")
    lifetime = f"        common_http_protocol_options: {{max_connection_duration: {CONNECTION_SECS}s}}\n"
    limits = limits.replace(PINGS_IN_FILE, pings).replace(PROTOCOL_IN_FILE, lifetime + PROTOCOL_IN_FILE)
    return indent(dedent(limits), "  ")


def _heap_bytes() -> int:
    """The memory that Envoy may take: half of what the machine has."""
    return max(LEAST_HEAP_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)


_NOBODY: Final = {"exact": ""}


def _origin_pattern(origin: str) -> str:
    """The regular expression for an origin of the settings."""
    if origin == "*":
        return ".*"
    pattern = re.escape(origin).replace(r"://\*\.", r"://([a-z0-9_-]+\.)+")
    return re.sub(r":\\\*$", "(:[0-9]+)?", pattern)
