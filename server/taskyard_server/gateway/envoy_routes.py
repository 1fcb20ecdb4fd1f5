"""Tells Envoy which replicas there are, and what each of them owns.

Envoy carries a call to the replica that owns its namespace (gateway/README.md, Replicas). Calls for a namespace that is
in no table, or whose owner is no replica that is known, go to the server beside it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import structlog

from taskyard_server.net.exposure import is_ip

from .envoy_config import TRIES
from .owner_file import OwnerFile

log = structlog.get_logger(__name__)

SETTLE_SECS: Final = 0.02
"""How long further changes are waited for before a file is written."""
RETRY_SECS: Final = 1.0
"""After this a file that could not be written is written again."""
FILTER: Final = "carrier"
AT: Final = "at-"
"""Begins the name of the cluster that is one replica alone."""
PREFIX: Final = "replica-"
"""Begins the name of the one that tries a replica first, then the others."""
OWN: Final = "taskyard"
OWN_FIRST: Final = "own-first"
PATH_IN_FILE: Final = '"/dev/null"'
NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
REPLICA: Final = re.compile(r"[A-Za-z0-9._-]+")
ADDRESS: Final = re.compile(r"([^\s\[\]:]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
TYPES: Final = "type.googleapis.com/envoy"


class EnvoyRoutes:
    """The table of owners and the list of replicas, as Envoy reads them from files.

    What it is given is written once it has settled, and only what is new. Before `open` it is noted.
    """

    def __init__(self) -> None:
        self._replicas: Mapping[str, str] = {}
        self._owners: Mapping[str, str] = {}
        self._folder: Path | None = None
        self._table: OwnerFile | None = None
        self._lua = self._limits = self._clusters = ""
        self._transport: dict[str, Any] = {}
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
        self._folder = folder / "replicas"
        self._folder.mkdir(exist_ok=True)
        self._table = OwnerFile(folder / "owners")
        self._write()

    def close(self) -> None:
        """Write no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._table is not None:
            self._table.close()
        self._table = self._timer = None
        self._clusters = ""

    @property
    def filter(self) -> dict[str, Any]:
        """The HTTP filter that names the cluster of a call."""
        assert self._table is not None
        assert self._lua.count(PATH_IN_FILE) == 1
        # JSON writes a path as Lua does: it is plain (`private_sockets.py`).
        source = self._lua.replace(PATH_IN_FILE, json.dumps(str(self._table.path)))
        config = {
            "@type": f"{TYPES}.extensions.filters.http.lua.v3.Lua",
            "default_source_code": {"inline_string": source},
        }
        return {"name": FILTER, "typed_config": config}

    @property
    def clusters(self) -> dict[str, Any]:
        """Where Envoy learns of the clusters of other replicas."""
        source = {"path": str(self._file()), "watched_directory": {"path": str(self._folder)}}
        return {"cds_config": {"path_config_source": source, "resource_api_version": "V3"}}

    def _file(self) -> Path:
        assert self._folder is not None
        return self._folder / "clusters.yaml"

    def _changed(self) -> None:
        if self._table is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SETTLE_SECS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self._write()
        except OSError as error:
            log.error("gateway_not_told", error=(error.strerror or str(error)).lower(), retry_in_secs=RETRY_SECS)
            self._timer = asyncio.get_running_loop().call_later(RETRY_SECS, self._on_timer)

    def _write(self) -> None:
        assert self._table is not None
        # The table names only clusters that are there.
        clusters = self._replicas_text()
        if clusters != self._clusters:
            new = self._file().with_suffix(".new")
            new.write_text(clusters)
            new.rename(self._file())
            self._clusters = clusters
        self._table.write(self._owned())

    def _owned(self) -> dict[str, str]:
        known = {name: PREFIX + name for name, _ in self._known()}
        return {
            namespace: known[owner]
            for namespace, owner in self._owners.items()
            if owner in known and NAMESPACE.fullmatch(namespace)
        }

    def _replicas_text(self) -> str:
        known = self._known()
        at = {name: AT + name for name, _ in known}
        clusters = [self._cluster(at[name], address) for name, address in known]
        clusters += [self._round(PREFIX + name, [at[name], OWN, *at.values()]) for name in at]
        return "resources:" + "".join([*clusters, self._round(OWN_FIRST, [OWN, *at.values()])]) + "\n"

    def _round(self, name: str, servers: Sequence[str]) -> str:
        """A cluster by whose name a call is made at the first of these servers, and repeated at one after the other."""
        tried = islice(cycle(dict.fromkeys(servers)), TRIES)
        limits = dict.fromkeys(("max_pending_requests", "max_requests", "max_retries"), 1_000_000)
        kind = {
            "@type": f"{TYPES}.extensions.clusters.composite.v3.ClusterConfig",
            "clusters": [{"name": each} for each in tried],
        }
        fields = {
            "@type": f"{TYPES}.config.cluster.v3.Cluster",
            "name": name,
            "lb_policy": "CLUSTER_PROVIDED",
            "cluster_type": {"name": "envoy.clusters.composite", "typed_config": kind},
            "circuit_breakers": {"thresholds": [limits]},
        }
        return f"\n- {json.dumps(fields)}\n"

    def _known(self) -> list[tuple[str, str]]:
        """The replicas that can be written down: one with a malformed address must not keep the others from it."""
        found = self._replicas.items()
        return sorted(each for each in found if REPLICA.fullmatch(each[0]) and ADDRESS.fullmatch(each[1]))

    def _cluster(self, cluster: str, address: str) -> str:
        """A cluster of one HOST:PORT."""
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        reached = {"socket_address": {"address": host, "port_value": int(port)}}
        fields: dict[str, Any] = {
            "@type": f"{TYPES}.config.cluster.v3.Cluster",
            "name": cluster,
            # Of a name, any of its addresses that answers.
            **({"type": "STATIC"} if is_ip(host) else {"type": "LOGICAL_DNS", "dns_lookup_family": "ALL"}),
            "wait_for_warm_on_init": False,
            "connect_timeout": "1s",
            "load_assignment": {
                "cluster_name": cluster,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": reached}}]}],
            },
            "transport_socket": self._transport,
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items()]
        return "\n- " + "\n  ".join(lines) + "\n" + self._limits
