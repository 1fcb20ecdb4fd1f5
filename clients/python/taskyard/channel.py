"""The connection to a Taskyard server, configured to survive idle proxies and short outages.

gRPC repeats no call. That is left to those who make them, and know the effect of a repeat (see `retrying`): the pauses
of gRPC, of which it allows four, would end either before a restart of the server does or seconds after it.
"""

import asyncio
import os
from collections.abc import Awaitable
from typing import Final, TypeVar

import grpc

from .credentials import Credentials
from .errors import ClientClosed, TaskyardError, Unavailable, error_from_rpc
from .explaining import explained

T = TypeVar("T")

MAX_RECEIVE_BYTES: Final = 8 * 1024 * 1024
"""A page of tasks has about 3 MB. A single task may have more, depending on the server's configuration."""


def open_channel(credentials: Credentials) -> grpc.aio.Channel:
    """Open a channel. It connects with its first call, and reconnects whenever the connection is lost.

    Args:
        credentials: Where the server listens, and how the connection is encrypted.

    Returns:
        The channel, which the caller closes.

    Raises:
        ValueError: A file of the credentials cannot be read, or does not hold what it should.
        RuntimeError: This process was forked from one that had a channel.
    """
    check_process()
    options = [
        # The server permits a ping every 10 s; proxies drop connections that are idle for a minute or more.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # By default gRPC waits up to two minutes between attempts to connect.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        *credentials.channel_options(),
    ]
    encryption = credentials.for_channel()
    if encryption is None:
        return grpc.aio.insecure_channel(credentials.address, options=options)
    return grpc.aio.secure_channel(credentials.address, encryption, options=options)


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


async def answer_of(call: Awaitable[T], credentials: Credentials, quiet_secs: float | None = None) -> T:
    """Wait for the answer of a call.

    Args:
        call: The call.
        credentials: How it reaches the server.
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
        raise error_of(error, credentials) from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # When a channel is closed, grpc cancels its calls and the tasks that await them.
        raise ClientClosed("the client was closed") from None


def error_of(error: grpc.aio.AioRpcError, credentials: Credentials) -> TaskyardError:
    """Convert the error of a failed call or stream.

    Args:
        error: The error that gRPC raised.
        credentials: How the call has reached the server.

    Returns:
        The error to raise, which says what to do about wrong credentials.
    """
    return explained(error_from_rpc(error), credentials)


def check_cancelled() -> None:
    """Check that the task goes on after a failed call: in that moment grpc swallows its cancellation.

    Raises:
        CancelledError: The task was cancelled.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


_process: int | None = None
"""The process in which gRPC runs its threads."""
