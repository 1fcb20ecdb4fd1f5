"""How the gRPC server listens: the limits of its connections, and its ports."""

import resource
from typing import Final

import grpc

from taskyard_server.certificates import CertificateFiles, server_credentials

MAX_CONNECTIONS: Final = 50_000
"""Of callers that do not come by the gateway. Fewer where the system allows fewer open files."""
OTHER_FILES: Final = 512
"""Open files that are left for the store, the log, and whatever else the server does."""
HANDSHAKE_SECS: Final = 10
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
    # The gateway's keepalive on idle streams would otherwise be answered with "too many pings".
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Streams of hosts that vanished without a word end within a minute.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)


def server_options() -> tuple[tuple[str, int], ...]:
    """The options of the server. Takes as many open files as the system allows, since each caller is one."""
    return (*SERVER_OPTIONS, ("grpc.max_allowed_incoming_connections", _connections(_raise_open_files())))


def listen(server: grpc.aio.Server, address: str, certificates: CertificateFiles | None) -> None:
    """Add HOST:PORT, with TLS where there are certificates.

    Raises `RuntimeError` if it cannot be listened on, and `CertificateError`.
    """
    if certificates is None:
        server.add_insecure_port(address)
    else:
        certificates.load()
        server.add_secure_port(address, server_credentials(certificates))


def _raise_open_files() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def _connections(open_files: int) -> int:
    if open_files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(64, min(MAX_CONNECTIONS, open_files - OTHER_FILES))
