"""How a command reaches one of several servers: the first that answers, and another try where that is the wrong one."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc

from taskyard.calls.retrying import Backoff
from taskyard.connection.channel import options_for
from taskyard.connection.credentials import Credentials
from taskyard.connection.explaining import explained
from taskyard.connection.servers import Servers
from taskyard.errors import DeadlineExceeded, NotOwner, Unavailable, error_from_rpc

from .failure import Failure, Misuse, NoServer

PATIENCE_SECS: Final = 30.0
KEEPALIVE: Final = (
    # A watch may be silent for long. Keepalive notices a dead connection.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)


@contextmanager
def opened_channel(credentials: Credentials) -> Iterator[grpc.Channel]:
    """A channel to a server that answers, if any does, on which every error is one line."""
    try:
        encryption = credentials.for_channel()
    except ValueError as error:
        raise Misuse(f"--{error}") from None
    several = len(credentials.addresses) > 1
    address = asyncio.run(first_to_answer(credentials)) if several else credentials.addresses[0]
    options = (*KEEPALIVE, *options_for(address))
    with (
        grpc.insecure_channel(address, options)
        if encryption is None
        else grpc.secure_channel(address, encryption, options)
    ) as channel:
        try:
            yield grpc.intercept_channel(channel, RepeatsStrays())
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            problem = explained(error_from_rpc(error), credentials, address)
            kind = NoServer if isinstance(problem, Unavailable | DeadlineExceeded) else Failure
            raise kind(problem.reason) from None


async def first_to_answer(credentials: Credentials) -> str:
    """The address of the server that is connected first; if none is, of one that has failed."""
    # Not by the connectivity of blocking channels: the threads that watch it print a traceback where one is closed.
    servers = Servers(credentials)
    try:
        return (await servers.pick()).address
    finally:
        await servers.close()


class RepeatsStrays(grpc.UnaryUnaryClientInterceptor):
    """Repeats calls that came to a server which does not own what they name: they have had no effect."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        """Make a call, and repeat it while it goes astray."""
        until, backoff = time.monotonic() + PATIENCE_SECS, Backoff()
        while True:
            answer = continuation(client_call_details, request)
            error = answer.exception()
            stray = error_from_rpc(error) if isinstance(error, grpc.RpcError) else None
            if not isinstance(stray, NotOwner) or time.monotonic() > until:
                return answer
            time.sleep(backoff.delay(stray))
