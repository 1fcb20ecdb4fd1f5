"""A connection to a Taskyard server, configured to survive idle proxies and short outages.

gRPC repeats no call. That is left to those who make them, and know the effect of a repeat (see `retrying`): the pauses
of gRPC, of which it allows four, would end either before a restart of the server does or seconds after it.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc

from taskyard.errors import ClientClosed, TaskyardError, Unavailable

from .addresses import is_local
from .credentials import Credentials

T = TypeVar("T")

MAX_RECEIVE_BYTES: Final = 8 * 1024 * 1024
"""A page of tasks has about 3 MB. A single task may have more, depending on the server's configuration."""

BY_CHANCE: Final = json.dumps({"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": True}}]})
"""Of the addresses that one name has, a client connects to any, and to another where that one does not answer."""
KEEPALIVE: Final = (
    # The server permits a ping every 10 s; proxies drop connections that are idle for a minute or more.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)
KEEPALIVE_BESIDE_OTHERS: Final = (
    # Where there are other servers, one that is silent is to be left soon.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 7_000),
    # The state of the channel shall be that of its own connection.
    ("grpc.use_local_subchannel_pool", 1),
)


def options_for(address: str) -> tuple[tuple[str, int | str], ...]:
    """Choose the options of a channel that follow from where it leads.

    Args:
        address: The address of a server.

    Returns:
        The options of gRPC.
    """
    if is_local(address):
        # gRPC would send what is meant for this machine through the proxy that the environment names.
        return (("grpc.enable_http_proxy", 0),)
    return (("grpc.service_config", BY_CHANCE),)


def open_channel(credentials: Credentials, address: str, number: int = 0) -> grpc.aio.Channel:
    """Open a channel. It connects with its first call, and reconnects whenever the connection is lost.

    Args:
        credentials: How the connection is encrypted.
        address: Where the server listens.
        number: Channels of different numbers share no connection. Default 0.

    Returns:
        The channel, which the caller closes.

    Raises:
        ValueError: A file of the credentials cannot be read, or does not hold what it should.
        RuntimeError: This process was forked from one that had a channel.
    """
    check_process()
    options = channel_options(credentials, address, number)
    encryption = credentials.for_channel()
    if encryption is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, encryption, options=options)


def channel_options(credentials: Credentials, address: str, number: int = 0) -> list[tuple[str, int | str]]:
    """Choose all options of a channel.

    Args:
        credentials: How the connection is encrypted.
        address: Where the server listens.
        number: Channels of different numbers share no connection. Default 0.

    Returns:
        The options of gRPC.
    """
    return [
        *(KEEPALIVE_BESIDE_OTHERS if len(credentials.addresses) > 1 else KEEPALIVE),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # By default gRPC waits up to two minutes between attempts to connect.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
        *options_for(address),
        *((("taskyard.channel", number),) if number else ()),
    ]


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


async def answer_of(
    call: Awaitable[T],
    convert: Callable[[grpc.aio.AioRpcError], TaskyardError] | None = None,
    quiet_secs: float | None = None,
) -> T:
    """Wait for the answer of a call.

    Args:
        call: The call.
        convert: Converts an error that gRPC raises. Default the call raises none.
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
        if convert is None:
            raise
        raise convert(error) from error
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


_process: int | None = None
"""The process in which gRPC runs its threads."""
