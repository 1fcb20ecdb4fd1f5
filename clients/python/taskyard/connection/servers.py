"""Which of several servers is called (docs/rules.md, Several addresses).

Servers that do the same work have an address each, and any will do. Every address has a channel of gRPC, so that the
certificate of each server is checked for its own name. One connection is used for all calls and streams as long as it
works; which one it is chance decides, so that not all clients come to the first address.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

import grpc

from taskyard.calls.retrying import Notice
from taskyard.errors import (
    CallCancelled,
    ClientClosed,
    DeadlineExceeded,
    NotOwner,
    TaskyardError,
    Unavailable,
    error_from_rpc,
)

from .channel import check_cancelled, check_process, open_channel
from .credentials import Credentials
from .explaining import explained, unreached

HEAD_START_SECS: Final = 0.25
"""How long one server may take to connect before the next is tried beside it."""
CONNECT_SECS: Final = 5.0
"""How long no server may answer before a call goes to one that has failed, and says why."""
AVOIDED_SECS: Final = 10.0
"""How long a server that has failed comes after those that have not."""
DOWN_SECS: Final = 0.05
"""How long it holds that no server can be reached: during an outage many calls may ask."""
STRAYS: Final = 10
"""This many calls in a row for what another server owns, and this one has heard too little: another is asked."""
REFUSALS: Final = 10
"""This many failures in a row at the only address, and a new connection is tried."""
SLOW_SECS: Final = 1.0
"""A caller that waits no longer than this says nothing about the server."""
NEVER_SENT: Final = "failed to connect to all addresses"
"""The words of gRPC for a call that no server has seen."""

Opening: TypeAlias = Callable[[Credentials, str, int], grpc.aio.Channel]
"""Opens a channel by credentials and address. Channels of different numbers share no connection."""

FAILED: Final = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


class Server:
    """One server.

    Attributes:
        address: Where it listens.
        failed_at: When it failed last, in seconds of the event loop.
        strays: How many calls in a row it has refused since another server owns what they name.
        refusals: How many calls in a row have failed, if there is no other server.

    Args:
        address: Where it listens.
        credentials: How it is reached.
        opening: Opens a channel to it.
    """

    def __init__(self, address: str, credentials: Credentials, opening: Opening) -> None:
        self.address = address
        self._opening = opening
        self.failed_at = float("-inf")
        self.strays = 0
        self.refusals = 0
        self._channels = 0
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None
        self._uses: Counter[grpc.aio.Channel] = Counter()
        """How many calls and streams each channel has."""
        self._methods: dict[str, Any] = {}

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel to it. It is opened anew after `take_channel`. Calls and streams take that of `used`."""
        if self._channel is None:
            self._channel = self._opening(self._credentials, self.address, self._channels)
        return self._channel

    @contextmanager
    def used(self) -> Iterator[grpc.aio.Channel]:
        """Keep the channel open for a call or stream: to close it would leave the readers of streams waiting.

        Yields:
            The channel.
        """
        channel = self.channel
        self._uses[channel] += 1
        try:
            yield channel
        finally:
            self._uses[channel] -= 1
            if not self._uses[channel]:
                del self._uses[channel]

    @property
    def state(self) -> grpc.ChannelConnectivity:
        """How its connection is."""
        return grpc.ChannelConnectivity.IDLE if self._channel is None else self._channel.get_state()

    @property
    def is_connected(self) -> bool:
        """True if there is a connection to it."""
        return self.state is grpc.ChannelConnectivity.READY

    async def connect(self) -> bool:
        """Wait until there is a connection to it, or the attempt has failed.

        Returns:
            Whether there is one.
        """
        channel = self.channel
        while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            if state in FAILED:
                return False
            try:
                await channel.wait_for_state_change(state)
            except grpc.aio.UsageError:
                # The channel was closed meanwhile.
                return False
        return True

    def method(self, path: str, serializer: Any, deserializer: Any) -> Callable[..., Awaitable[Any]]:
        """Find a method of the server.

        Args:
            path: Its path.
            serializer: Serializes its request.
            deserializer: Reads its answer.

        Returns:
            The method.
        """
        found: Callable[..., Awaitable[Any]] | None = self._methods.get(path)
        if found is None:
            found = self._methods[path] = self.channel.unary_unary(path, serializer, deserializer)
        return found

    def is_used(self, channel: grpc.aio.Channel) -> bool:
        """Say whether a channel has calls or streams.

        Args:
            channel: A channel to this server.

        Returns:
            Whether it has.
        """
        return channel in self._uses

    def take_channel(self) -> grpc.aio.Channel | None:
        """Give up the channel, which the caller closes.

        Returns:
            The channel, None if there is none.
        """
        channel, self._channel = self._channel, None
        self._methods = {}
        self._channels += 1
        return channel

    def error_of(self, error: grpc.RpcError) -> TaskyardError:
        """Convert the error of a failed call or stream.

        Args:
            error: The error that gRPC raised.

        Returns:
            The error to raise, which says what to do about wrong credentials.
        """
        return explained(error_from_rpc(error), self._credentials, self.address)

    def error_of_silence(self, channel: grpc.aio.Channel, secs: float) -> Unavailable:
        """Make the error of a stream that has owed an answer for too long.

        Args:
            channel: The channel of the stream.
            secs: For how long.

        Returns:
            The error to raise, which tells a server that says nothing from one that is not there.
        """
        if channel.get_state() is grpc.ChannelConnectivity.READY:
            return Unavailable(f"the server has owed an answer for {secs:g} s")
        return unreached(self._credentials, self.address)


class Servers:
    """The servers at the addresses of some credentials. They are connected to by the first call.

    Attributes:
        are_several: Whether there is more than one.
        notice: Tells people when none can be reached.
        unary: What stubs take for a channel. Their unary calls go to the server of the moment, and raise
            `TaskyardError`; they have no streams.

    Args:
        credentials: Where the servers listen, and how connections are encrypted.
        opening: Opens a channel to one of them. Default one of grpc's asyncio API.

    Raises:
        ValueError: A file of the credentials cannot be read, or does not hold what it should.
        RuntimeError: This process was forked from one that had a channel.
    """

    def __init__(self, credentials: Credentials, opening: Opening = open_channel) -> None:
        check_process()
        # A mistake in a file shows at once.
        credentials.for_channel()
        self._all = [Server(address, credentials, opening) for address in credentials.addresses]
        self.are_several = len(self._all) > 1
        self.notice = Notice()
        self.unary = cast(grpc.aio.Channel, _UnaryChannel(self))
        self._is_closed = False
        self._current: Server | None = None
        self._connecting: asyncio.Task[Server] | None = None
        self._down: tuple[float, Server | None] = (0.0, None)
        """Until when no server can be reached, and one that cannot."""
        self._left: list[tuple[Server, grpc.aio.Channel]] = []
        """Channels that are for no new calls."""

    # Choosing

    async def pick(self) -> Server:
        """Choose the server of a call or stream.

        Returns:
            The server. Where there are several it is connected, if any of them can be reached; else a call to it fails
            and says why.

        Raises:
            ClientClosed: The connections were closed for good.
        """
        if self._is_closed:
            raise ClientClosed("the client was closed")
        await self._close_left()
        if not self.are_several:
            return self._all[0]
        if self._current is not None:
            if self._current.is_connected:
                return self._current
            self._avoid(self._current)
        until, unreachable = self._down
        if unreachable is not None and asyncio.get_running_loop().time() < until:
            return unreachable
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.create_task(self._connect())
        return await asyncio.shield(self._connecting)

    def note(self, server: Server, error: TaskyardError) -> None:
        """Note how a call or stream has failed. After what speaks against its server another comes first.

        Where there is one address alone, it may be that of a balancer with several servers behind it: after a few
        failures the next calls go over a new connection.

        Args:
            server: The server.
            error: How it has failed.
        """
        if isinstance(error, NotOwner):
            server.strays += 1
            if self.are_several and server.strays < STRAYS:
                return
        elif not isinstance(error, Unavailable | CallCancelled | DeadlineExceeded):
            return
        if self.are_several:
            self._avoid(server)
            return
        server.refusals += 1
        if server.refusals >= REFUSALS:
            server.refusals = server.strays = 0
            self._leave(server)

    def _avoid(self, server: Server) -> None:
        server.failed_at = asyncio.get_running_loop().time()
        server.strays = 0
        if server is self._current:
            self._current = None

    async def _connect(self) -> Server:
        """Connect to one server after the other until one answers; the slow are not waited for."""
        loop = asyncio.get_running_loop()
        servers = self._in_order()
        waiting = deque(servers)
        attempts: dict[asyncio.Task[bool], Server] = {}
        until = loop.time() + CONNECT_SECS
        try:
            while waiting or (attempts and loop.time() < until):
                if waiting:
                    server = waiting.popleft()
                    attempts[asyncio.create_task(server.connect())] = server
                patience = HEAD_START_SECS if waiting else until - loop.time()
                done, _ = await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for attempt in done:
                    server = attempts.pop(attempt)
                    if attempt.result():
                        self._settle(server, attempts.values())
                        await self._close_left()
                        return server
                    server.failed_at = loop.time()
        finally:
            for attempt in attempts:
                attempt.cancel()
        unreachable = next((server for server in servers if server.state in FAILED), servers[0])
        self._down = (loop.time() + DOWN_SECS, unreachable)
        return unreachable

    def _in_order(self) -> list[Server]:
        """The servers in the order to try them: by chance, and those last that have failed of late."""
        latest = asyncio.get_running_loop().time() - AVOIDED_SECS
        servers = random.sample(self._all, len(self._all))
        return sorted(servers, key=lambda server: max(server.failed_at, latest))

    def _settle(self, server: Server, slower: Any) -> None:
        """Use a connected server from now on, and let gRPC no longer try to reach the others."""
        self._current, self._down = server, (0.0, None)
        for each in slower:
            each.failed_at = asyncio.get_running_loop().time()
        for each in self._all:
            if each is not server and not each.is_connected:
                self._leave(each)

    # Closing

    async def renew(self) -> None:
        """Close all connections, so that the next calls open new ones, with new files of certificates."""
        self._current, self._down = None, (0.0, None)
        for channel in [server.take_channel() for server in self._all]:
            if channel is not None:
                await channel.close()

    async def close(self) -> None:
        """Close all connections for good, and end their calls."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        await self.renew()
        for _, channel in self._left:
            await channel.close()

    def _leave(self, server: Server) -> None:
        """Use the channel to a server for no new calls."""
        channel = server.take_channel()
        if channel is not None:
            self._left.append((server, channel))

    async def _close_left(self) -> None:
        """Close the channels whose last calls have ended."""
        for each in tuple(self._left):
            server, channel = each
            if not server.is_used(channel):
                self._left.remove(each)
                await channel.close()


class _NeverSent(Exception):
    """The call was not sent, for the reason that `error` says."""

    def __init__(self, error: TaskyardError) -> None:
        self.error = error


class _UnaryChannel:
    """The part of a channel that stubs need for their unary calls. Streams choose their server by `pick`."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., Awaitable[Any]]:
        servers = self._servers

        async def call_once(request: Any, timeout_secs: float, metadata: Any) -> Any:
            begun = asyncio.get_running_loop().time()
            server = await _picked(servers, timeout_secs)
            left = timeout_secs - (asyncio.get_running_loop().time() - begun)
            method = server.method(path, request_serializer, response_deserializer)
            try:
                with server.used():
                    answer = await method(request, timeout=left, metadata=metadata)
            except grpc.aio.AioRpcError as failed:
                check_cancelled()
                error = server.error_of(failed)
                if timeout_secs >= SLOW_SECS or not isinstance(error, DeadlineExceeded):
                    servers.note(server, error)
                if servers.are_several and (failed.details() or "").startswith(NEVER_SENT):
                    raise _NeverSent(error) from failed
                raise error from failed
            server.strays = server.refusals = 0
            return answer

        async def call(request: Any, *, timeout: float, metadata: Any) -> Any:  # noqa: ASYNC109
            try:
                return await call_once(request, timeout, metadata)
            except _NeverSent:
                pass
            # The connection was lost just before the call, which nobody has seen.
            try:
                return await call_once(request, timeout, metadata)
            except _NeverSent as again:
                raise again.error from again.__cause__

        return call

    def unary_stream(self, *_: Any, **__: Any) -> None:
        return None

    def stream_unary(self, *_: Any, **__: Any) -> None:
        return None

    def stream_stream(self, *_: Any, **__: Any) -> None:
        return None


async def _picked(servers: Servers, timeout_secs: float) -> Server:
    """The server of a call that may take this long. Raises `DeadlineExceeded` if none is found by then."""
    if not servers.are_several:
        return await servers.pick()
    try:
        async with asyncio.timeout(timeout_secs):
            return await servers.pick()
    except TimeoutError:
        raise DeadlineExceeded(f"no server answered within {timeout_secs:g} s") from None
