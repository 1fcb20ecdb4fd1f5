"""How a command reaches one of several servers: the first that answers, and another try where that is the wrong one."""

import queue
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import grpc

from taskyard.calls.retrying import Backoff
from taskyard.connection.channel import options_for
from taskyard.connection.credentials import Credentials
from taskyard.connection.explaining import explained
from taskyard.errors import DeadlineExceeded, NotOwner, Unavailable, error_from_rpc

from .failure import Failure, Misuse, NoServer

CONNECT_SECS: Final = 5.0
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
    addresses = random.sample(credentials.addresses, len(credentials.addresses))
    with ExitStack() as ends:
        channels: list[grpc.Channel] = []
        for address in addresses:
            options = (*KEEPALIVE, *options_for(address))
            channel = (
                grpc.insecure_channel(address, options)
                if encryption is None
                else grpc.secure_channel(address, encryption, options)
            )
            channels.append(ends.enter_context(channel))
        chosen = first_to_answer(channels, CONNECT_SECS) if len(channels) > 1 else 0
        for channel in channels:
            if channel is not channels[chosen]:
                channel.close()
        try:
            yield grpc.intercept_channel(channels[chosen], RepeatsStrays())
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call):
                raise
            problem = explained(error_from_rpc(error), credentials, addresses[chosen])
            kind = NoServer if isinstance(problem, Unavailable | DeadlineExceeded) else Failure
            raise kind(problem.reason) from None


def first_to_answer(channels: Sequence[grpc.Channel], secs: float) -> int:
    """The index of the channel that is connected first; if none is within that time, of one that has failed."""
    states: queue.SimpleQueue[tuple[int, grpc.ChannelConnectivity]] = queue.SimpleQueue()

    def listener(index: int) -> Callable[[grpc.ChannelConnectivity], None]:
        return lambda state: states.put((index, state))

    until = time.monotonic() + secs
    failed: set[int] = set()
    for index, channel in enumerate(channels):
        channel.subscribe(listener(index), try_to_connect=True)
    while len(failed) < len(channels):
        try:
            index, state = states.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            break
        if state is grpc.ChannelConnectivity.READY:
            return index
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            failed.add(index)
    return min(failed, default=0)


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
