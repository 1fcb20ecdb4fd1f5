"""How the server listens: its ports, the limits of their connections, and the gateway."""

import asyncio
import resource
from typing import Any, Final

import grpc
from grpc_channelz.v1 import channelz
from grpc_reflection.v1alpha import reflection

from taskyard_server.gateway.gateway import Gateway, Yard
from taskyard_server.interceptors.compression import LEFT_AS_THEY_COME
from taskyard_server.interceptors.replica_auth import GatewaysOnly
from taskyard_server.net.certificates import CertificateFiles, certificate_files, server_credentials
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.settings.config import Settings

MAX_CONNECTIONS: Final = 50_000
"""Of callers that do not come by the gateway. Fewer where the system allows fewer open files."""
OTHER_FILES: Final = 512
"""Open files that are left for the store, the log, and whatever else the server does."""
MAX_STREAMS: Final = 1_000
HANDSHAKE_SECS: Final = 10
LEAST_SILENCE_SECS: Final = 3.0
"""A server that is only busy must not be taken for one that stands still."""
MAX_METADATA_BYTES: Final = 16 * 1024

SERVER_OPTIONS: Final = (
    # Without this a second server could take the same port and steal half of the calls.
    ("grpc.so_reuseport", 0),
    # Above the limit of the interceptor, so that callers get the documented error.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    # grpc refuses by chance between a soft limit and a hard one. A token may take half of this.
    ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
    # Until a caller has shaken hands and said which settings it has.
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_SECS * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    # A connection of too many pings is answered each of them, and not closed: each that comes until it is closed takes
    # grpc kilobytes, and the time of all other calls.
    ("grpc.http2.max_ping_strikes", 0),
    # Streams of hosts that vanished without a word end within a minute.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    *LEFT_AS_THEY_COME,
)


class Servers:
    """The servers of gRPC: one for all callers, and another one for the gateway, each with its interceptor.

    With `has_replicas` there is one for the gateways of other replicas as well, and callers come by gateways alone.
    One connection of a gateway carries the calls of all its callers, so that no limit of a connection may hold there.
    With `is_limited` a caller has a thousand calls at once on a connection, and further ones wait in their client: what
    floods of calls that are cancelled at once can hold up is bounded so. Services are added to all of them. For a guest
    the limit of open files is left as it is.
    """

    def __init__(
        self,
        interceptor: grpc.aio.ServerInterceptor | None,
        for_gateway: grpc.aio.ServerInterceptor | None,
        *,
        is_limited: bool,
        has_replicas: bool = False,
        is_guest: bool = False,
    ) -> None:
        open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if is_guest else _raise_open_files()
        connections = ("grpc.max_allowed_incoming_connections", connections_within(open_files))
        streams = (("grpc.max_concurrent_streams", MAX_STREAMS),) if is_limited else ()
        self._outer = _server((*SERVER_OPTIONS, connections, *streams), interceptor)
        self._inner = _server(SERVER_OPTIONS, for_gateway)
        self._carried: grpc.aio.Server | None = None
        if has_replicas:
            assert for_gateway is not None
            self._carried = _server((*SERVER_OPTIONS, connections), GatewaysOnly(), for_gateway)
        self._all = [server for server in (self._outer, self._inner, self._carried) if server is not None]

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """As a server of grpc does."""
        for server in self._all:
            server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(self, service: str, handlers: Any) -> None:
        """As a server of grpc does."""
        for server in self._all:
            server.add_registered_method_handlers(service, handlers)

    def add_tools(self, names: list[str]) -> None:
        """Add channelz, and reflection of the services with these names."""
        for server in self._all:
            # They are about the server that is called, so that they are never carried.
            if server is self._carried:
                continue
            channelz.add_channelz_servicer(server)
            reflection.enable_server_reflection(names, server)

    def listen(self, address: str, certificates: CertificateFiles | None) -> None:
        """Take callers at HOST:PORT, with TLS where there are certificates.

        Raises `RuntimeError` if it cannot be listened on, and `CertificateError`.
        """
        assert self._outer is not None
        if certificates is None:
            self._outer.add_insecure_port(address)
        else:
            certificates.load()
            self._outer.add_secure_port(address, server_credentials(certificates))

    def listen_for_gateway(self, address: str) -> None:
        """Take the gateway's calls at `unix:PATH`."""
        assert self._inner is not None
        self._inner.add_insecure_port(address)

    def listen_for_replicas(self, address: str, certificates: CertificateFiles) -> None:
        """Take the calls of other replicas' gateways at HOST:PORT; they need a certificate of these authorities.

        Raises `RuntimeError` if it cannot be listened on, and `CertificateError`.
        """
        assert self._carried is not None
        assert certificates.client_ca is not None
        certificates.load()
        self._carried.add_secure_port(address, server_credentials(certificates))

    async def start(self) -> None:
        """Serve."""
        for server in self._all:
            await server.start()

    async def stop(self, grace: float | None) -> None:
        """Stop; calls under way have this many seconds."""
        await asyncio.gather(*(server.stop(grace) for server in self._all))


def gateway_of(settings: Settings, tls: CertificateFiles | None, replica: CertificateFiles | None) -> Gateway:
    """The gateway of these settings; with the files of a replica it takes the callers of gRPC too, with those of `tls`.

    Raises `CertificateError`.
    """
    silence_secs = max(LEAST_SILENCE_SECS, 0.7 * settings.store.failover_secs)
    yard = None if replica is None else Yard(settings.grpc, replica, tls, silence_secs)
    return Gateway(
        settings.rest,
        origins=settings.cors.origins,
        hosts=settings.cors.hosts,
        certificates=certificate_files("gatewayTls", settings.gateway_tls),
        is_limited=authentication_is_on(settings),
        yard=yard,
        has_console=settings.console.enabled,
    )


def _server(options: Any, *interceptors: grpc.aio.ServerInterceptor | None) -> grpc.aio.Server | None:
    """A server with these interceptors; None if one is missing."""
    if None in interceptors:
        return None
    return grpc.aio.server(interceptors=interceptors, options=options)  # type: ignore[arg-type]


def _raise_open_files() -> int:
    """Take as many open files as the system allows, since each caller is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def connections_within(open_files: int) -> int:
    """How many callers a server takes at once that may have `open_files`."""
    if open_files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(64, min(MAX_CONNECTIONS, open_files - OTHER_FILES))
