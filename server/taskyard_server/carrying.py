"""Tells Envoy which replicas there are and what each owns: files that it reads again when others take their places.

Envoy carries a call to the replica that owns its namespace (gateway/README.md, Replicas). Calls for a namespace that is
in no table, or whose owner is no replica that is known, go to the server beside it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

SETTLE_SECS: Final = 0.02
"""For how long further changes are waited for before a file is written."""
RETRY_SECS: Final = 1.0
"""After this a file that could not be written is written again."""
OWNERS: Final = "carrier"
PREFIX: Final = "replica-"
"""So that no name of a replica is that of another cluster."""
TABLE_IN_FILE: Final = "([[]])"
NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
REPLICA: Final = re.compile(r"[A-Za-z0-9._-]+")
TYPES: Final = "type.googleapis.com/envoy"
LUA: Final = f"{TYPES}.extensions.filters.http.lua.v3.Lua"


class Carrier:
    """The table of owners and the list of replicas, as Envoy reads them from files.

    What it is given is written once it has settled, and only if it is another than before. Before `open` it is kept in
    mind. `transport` is the configuration of TLS towards other replicas.
    """

    def __init__(self) -> None:
        self._replicas: Mapping[str, str] = {}
        self._owners: Mapping[str, str] = {}
        self._folder: Path | None = None
        self._lua = self._limits = ""
        self._transport: dict[str, Any] = {}
        self._written: dict[Path, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    def take_replicas(self, replicas: Mapping[str, str]) -> None:
        """Carry calls to these: for each replica, by the name that owners go by, the HOST:PORT of its listener.

        The mapping is read when the file is written. Calls that are under way to one that is missing go on.
        """
        self._replicas = replicas
        self._changed()

    def take_owners(self, owners: Mapping[str, str]) -> None:
        """Carry the calls of each of these namespaces to this replica. Read when the file is written."""
        self._owners = owners
        self._changed()

    def open(self, folder: Path, lua: str, limits: str, transport: dict[str, Any]) -> None:
        """Write the files into this folder now, and from now on when something changes.

        `lua` is carrier.lua, `limits` the part of a cluster that all of them share, as it is in envoy.yaml. Raises
        `OSError`.
        """
        self._lua, self._limits, self._transport = lua, limits, transport
        # A folder for each: Envoy reads a file again when anything in its folder is replaced.
        for name in ("owners", "replicas"):
            (folder / name).mkdir(exist_ok=True)
        self._folder = folder
        self._write()

    def close(self) -> None:
        """Write no more."""
        self._folder = None
        self._written.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def filter(self) -> dict[str, Any]:
        """The HTTP filter that names the cluster of a call."""
        source = {"config_source": self._source("owners"), "type_urls": [LUA]}
        return {"name": OWNERS, "config_discovery": source}

    @property
    def clusters(self) -> dict[str, Any]:
        """Where Envoy learns of the clusters of other replicas."""
        return {"cds_config": self._source("replicas")}

    def _source(self, name: str) -> dict[str, Any]:
        assert self._folder is not None
        source = {"path": str(self._file(name)), "watched_directory": {"path": str(self._folder / name)}}
        return {"path_config_source": source, "resource_api_version": "V3"}

    def _file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / name / f"{name}.yaml"

    def _changed(self) -> None:
        if self._folder is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_SECS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._write()
        except OSError as error:
            log.error("gateway_not_told", error=(error.strerror or str(error)).lower(), retry_in_secs=RETRY_SECS)
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECS, self._on_timer)

    def _write(self) -> None:
        # Clusters first: a table should name only those that are there.
        self._replace("replicas", self._replicas_text())
        self._replace("owners", self._owners_text())

    def _replace(self, name: str, text: str) -> None:
        path = self._file(name)
        if self._written.get(path) != text:
            new = path.with_suffix(".new")
            new.write_text(text)
            new.rename(path)
            self._written[path] = text

    def _owners_text(self) -> str:
        known = {name for name in self._replicas if REPLICA.fullmatch(name)}
        table = "\n".join(
            f"{namespace} {PREFIX}{owner}"
            for namespace, owner in sorted(self._owners.items())
            if owner in known and NAMESPACE.fullmatch(namespace)
        )
        assert self._lua.count(TABLE_IN_FILE) == 1
        source = self._lua.replace(TABLE_IN_FILE, f"([[{table}\n]])")
        lua = {"@type": LUA, "default_source_code": {"inline_string": source}}
        config = {"@type": f"{TYPES}.config.core.v3.TypedExtensionConfig", "name": OWNERS, "typed_config": lua}
        return json.dumps({"resources": [config]})

    def _replicas_text(self) -> str:
        found = sorted((name, address) for name, address in self._replicas.items() if REPLICA.fullmatch(name))
        return "resources:" + ("".join(self._cluster(*each) for each in found) or " []") + "\n"

    def _cluster(self, name: str, address: str) -> str:
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        socket_address = {"socket_address": {"address": host, "port_value": int(port)}}
        endpoints = [{"lb_endpoints": [{"endpoint": {"address": socket_address}}]}]
        cluster = PREFIX + name
        fields: dict[str, Any] = {
            "@type": f"{TYPES}.config.cluster.v3.Cluster",
            "name": cluster,
            # Of a name, any of its addresses that answers.
            **({"type": "STATIC"} if _is_ip(host) else {"type": "LOGICAL_DNS", "dns_lookup_family": "ALL"}),
            "wait_for_warm_on_init": False,
            "connect_timeout": "1s",
            "load_assignment": {"cluster_name": cluster, "endpoints": endpoints},
            "transport_socket": self._transport,
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
        return "\n- " + "\n  ".join(lines) + "\n" + self._limits


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
