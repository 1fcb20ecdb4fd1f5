"""The connection to a Taskyard server, configured to survive idle proxies and short outages.

gRPC itself repeats a call while the server is unavailable if the proto marks it as idempotent (`idempotency_level`).
All other calls are left to their callers, which know the effect of a repeat.
"""

import asyncio
import json
import os
import re
from collections.abc import Awaitable
from typing import Final, TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from taskyard.v1 import (
    admin_pb2,
    batch_pb2,
    lease_pb2,
    runtime_host_pb2,
    schedule_pb2,
    stats_pb2,
    target_pb2,
    task_pb2,
)

from .errors import ClientClosed, Unavailable, error_from_rpc

T = TypeVar("T")

WITH_SCHEME: Final = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|vsock|xds):.+")
"""Addresses that gRPC accepts beside `HOST:PORT`."""
NAMESPACE_KEY: Final = "taskyard-namespace"
AUTHORIZATION_KEY: Final = "authorization"
MAX_RECEIVE_BYTES: Final = 8 * 1024 * 1024
"""A page of tasks has about 3 MB. A single task may have more, depending on the server's configuration."""

FILES: Final = (
    admin_pb2,
    batch_pb2,
    lease_pb2,
    runtime_host_pb2,
    schedule_pb2,
    stats_pb2,
    target_pb2,
    task_pb2,
)

RETRY_POLICY: Final = {
    "maxAttempts": 5,
    "initialBackoff": "0.2s",
    "maxBackoff": "5s",
    "backoffMultiplier": 3,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
"""Attempts over about seven seconds, which is how long a restart takes. gRPC allows five at most, and adds jitter."""


def open_channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.aio.Channel:
    """Open a channel. It connects with its first call, and reconnects whenever the connection is lost.

    Args:
        address: Where the server listens: `HOST:PORT`, or a target of gRPC such as `dns:///HOST:PORT` or `unix:PATH`.
        credentials: Credentials that encrypt the connection. Default no encryption.

    Returns:
        The channel, which the caller closes.

    Raises:
        ValueError: The address is malformed.
        RuntimeError: This process was forked from one that had a channel.
    """
    check_process()
    check_address(address)
    options = [
        # The server permits a ping every 10 s; proxies drop connections that are idle for a minute or more.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # By default gRPC waits up to two minutes between attempts to connect.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 3_000),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        ("grpc.service_config", SERVICE_CONFIG),
        ("grpc.enable_retries", 1),
    ]
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, credentials, options=options)


def check_address(address: str) -> None:
    """Check an address before gRPC tries it without end.

    Args:
        address: The address of a server.

    Raises:
        ValueError: The address is malformed.
    """
    host, _, port = address.rpartition(":")
    is_host_and_port = bool(host) and "/" not in host and port.isdecimal() and 0 < int(port) < 65536
    if not is_host_and_port and not WITH_SCHEME.fullmatch(address):
        raise ValueError(f"address: must be HOST:PORT, is {address!r}")


def check_process() -> None:
    """Check that gRPC works in this process.

    Raises:
        RuntimeError: This process was forked from one that called this before.
    """
    global _process
    _process = _process or os.getpid()
    if _process != os.getpid():
        # The threads of gRPC do not exist here, while its state says that they do: calls hang or crash the process.
        raise RuntimeError(
            "this process was forked from one that has used a Taskyard client or host, and gRPC does not work after "
            "that: make the first one after the fork, or start processes by 'spawn'"
        )


def call_metadata(namespace: str, token: str | None = None) -> tuple[tuple[str, str], ...]:
    """Build what is sent with every call and stream.

    Args:
        namespace: The namespace to act in.
        token: A bearer token. It is sent over any connection, also without encryption. Default none.

    Returns:
        The metadata of gRPC.

    Raises:
        ValueError: A header cannot hold the text, for example because of a line break.
    """
    for name, text in (("namespace", namespace), ("token", token or "")):
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"{name}: must be printable ASCII, on one line")
    metadata = ((NAMESPACE_KEY, namespace),)
    return (*metadata, (AUTHORIZATION_KEY, f"Bearer {token}")) if token else metadata


async def answer_of(call: Awaitable[T], quiet_secs: float | None = None) -> T:
    """Wait for the answer of a call.

    Args:
        call: The call.
        quiet_secs: How long the answer may take, in seconds. Default as long as the call allows.

    Returns:
        The answer.

    Raises:
        TaskyardError: The call failed. `Unavailable` if the answer takes too long, `ClientClosed` if the channel was
            closed meanwhile.
    """
    try:
        async with asyncio.timeout(quiet_secs):
            return await call
    except TimeoutError:
        raise Unavailable(f"nothing was heard of the server for {quiet_secs:g} s") from None
    except grpc.aio.AioRpcError as error:
        check_cancelled()
        raise error_from_rpc(error) from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # When a channel is closed, grpc cancels its calls and the tasks that await them.
        raise ClientClosed("the client was closed") from None


def check_cancelled() -> None:
    """Check that the task goes on after a failed call: in that moment grpc swallows its cancellation.

    Raises:
        CancelledError: The task was cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _service_config() -> str:
    names = [
        {"service": service.full_name, "method": method.name}
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if _may_be_repeated(method)
    ]
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": RETRY_POLICY}]})


def _may_be_repeated(method: MethodDescriptor) -> bool:
    options = method.GetOptions()
    # A broken stream is resumed by its reader, which knows how far it came.
    is_unary = not (method.client_streaming or method.server_streaming)
    return is_unary and options.idempotency_level in (MethodOptions.NO_SIDE_EFFECTS, MethodOptions.IDEMPOTENT)


SERVICE_CONFIG: Final = _service_config()
_process: int | None = None
"""The process in which gRPC runs its threads."""
