"""Channels of grpc's synchronous API, for an event loop beside that of the program.

grpc's asyncio API works in one event loop of a process; in a second one it breaks (grpc issue 25364). The synchronous
API has threads of its own. Here it has the face that `servers.Server` and stubs know from the other, as far as hosts
need it: streams in both directions, unary calls, and the state of the connection.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

import grpc

from taskyard.streams.mailbox import Mailbox

from .channel import channel_options, check_process
from .credentials import Credentials, Metadata

Request = TypeVar("Request")
Response = TypeVar("Response")

WATCH_SECS: Final = 0.25
"""grpc looks at the state of a channel this long at once. One that is closed meanwhile would have it print an error."""
END: Final = object()
MAX_WAITING: Final = 8
"""This many messages may wait to be written, and no more are given before some were."""


class StreamEnded(Exception):
    """Nothing more can be written to a stream. Reading tells how it has ended."""


def open_threaded_channel(credentials: Credentials, address: str, number: int = 0) -> grpc.aio.Channel:
    """Open a channel of the synchronous API for the event loop that runs. It connects with its first call.

    Args:
        credentials: How the connection is encrypted.
        address: Where the server listens.
        number: Channels of different numbers share no connection. Default 0.

    Returns:
        The channel, which the caller closes: a `ThreadedChannel` in the place of one of the asyncio API.

    Raises:
        ValueError: A file of the credentials cannot be read, or does not hold what it should.
        RuntimeError: This process was forked from one that had a channel.
    """
    check_process()
    options = channel_options(credentials, address, number)
    encryption = credentials.for_channel()
    if encryption is None:
        channel = grpc.insecure_channel(address, options=options)
    else:
        channel = grpc.secure_channel(address, encryption, options=options)
    return cast(grpc.aio.Channel, ThreadedChannel(channel))


class ThreadedChannel:
    """A channel of the synchronous API, used in the event loop in which it is made.

    Args:
        channel: The channel of gRPC.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._state = grpc.ChannelConnectivity.IDLE
        self._changed = asyncio.Event()
        self._is_watched = False

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Tell the state of the connection.

        Args:
            try_to_connect: Whether to connect. The state is followed from then on.

        Returns:
            The state.
        """
        if try_to_connect and not self._is_watched:
            self._is_watched = True
            self._channel.subscribe(self._on_state, try_to_connect=True)
        return self._state

    async def wait_for_state_change(self, last: grpc.ChannelConnectivity) -> None:
        """Wait until the state is another one.

        Args:
            last: The state that it has.
        """
        while self._state is last:
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Close the channel, and end its calls."""
        self._note(grpc.ChannelConnectivity.SHUTDOWN)
        if not self._is_watched:
            self._channel.close()
            return
        self._channel.unsubscribe(self._on_state)
        closing = self._loop.create_task(self._close_soon())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Find a method for stubs.

        Args:
            path: Its path.
            request_serializer: Serializes its request.
            response_deserializer: Reads its answer.
            **_: What else stubs say.

        Returns:
            The method.
        """
        method = self._channel.unary_unary(path, request_serializer, response_deserializer)

        async def call(request: Any, *, timeout: float | None = None, metadata: Any = None) -> Any:  # noqa: ASYNC109
            answer = method.future(request, timeout=timeout, metadata=metadata)
            ended = asyncio.Event()
            box: Mailbox[Any] = Mailbox(self._loop, lambda _: ended.set())
            answer.add_done_callback(box.put)
            try:
                await ended.wait()
            finally:
                answer.cancel()
            return answer.result()

        return call

    def stream_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: Any
    ) -> Callable[..., ThreadedStream[Any, Any]]:
        """Find a method with a stream in both directions for stubs.

        Args:
            path: Its path.
            request_serializer: Serializes its requests.
            response_deserializer: Reads its answers.
            **_: What else stubs say.

        Returns:
            The method, which opens a stream.
        """
        method = self._channel.stream_stream(path, request_serializer, response_deserializer)

        def call(*, metadata: Metadata = ()) -> ThreadedStream[Any, Any]:
            return ThreadedStream(lambda requests: method(requests, metadata=metadata), self._loop)

        return call

    def unary_stream(self, *_: Any, **__: Any) -> None:
        """Answer stubs, which ask for it; hosts have no such calls.

        Args:
            *_: What stubs say.
            **__: What stubs say.
        """

    def stream_unary(self, *_: Any, **__: Any) -> None:
        """Answer stubs, which ask for it; hosts have no such calls.

        Args:
            *_: What stubs say.
            **__: What stubs say.
        """

    def _on_state(self, state: grpc.ChannelConnectivity) -> None:
        # A thread of gRPC calls this.
        box: Mailbox[grpc.ChannelConnectivity] = Mailbox(self._loop, lambda states: self._note(states[-1]))
        box.put(state)

    def _note(self, state: grpc.ChannelConnectivity) -> None:
        if self._state is not grpc.ChannelConnectivity.SHUTDOWN:
            self._state = state
        self._changed.set()

    async def _close_soon(self) -> None:
        try:
            await asyncio.sleep(WATCH_SECS)
        finally:
            self._channel.close()


class ThreadedStream(Generic[Request, Response]):
    """A stream in both directions over the synchronous API, for the event loop in which it is opened.

    It has two threads: one of gRPC, which waits for what is to be written, and one that reads.

    Args:
        opening: Opens the stream, given the iterator of its requests.
        loop: The event loop.
    """

    def __init__(self, opening: Callable[[Iterator[Request]], Any], loop: asyncio.AbstractEventLoop) -> None:
        self._box: Mailbox[Any] = Mailbox(loop, self._take)
        self._loop = loop
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._writes: set[asyncio.Future[None]] = set()
        self._arrived: deque[Response] = deque()
        self._news = asyncio.Event()
        self._has_ended = False
        self._error: grpc.RpcError | None = None
        self._call = opening(self._iterate_requests())
        threading.Thread(target=self._read_all, name="taskyard-host-reader", daemon=True).start()

    async def read(self) -> Response | None:
        """Wait for the next message.

        Returns:
            The message, None once the server has ended the stream in order.

        Raises:
            RpcError: The stream has failed.
        """
        while not self._arrived:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return None
            self._news.clear()
            await self._news.wait()
        return self._arrived.popleft()

    async def write(self, request: Request) -> None:
        """Write a message, and wait until gRPC has taken it.

        Args:
            request: The message.

        Raises:
            StreamEnded: The stream has ended.
        """
        written = self.write_soon(request, tells=True)
        assert written is not None
        await written

    def write_soon(self, request: Request, *, tells: bool) -> asyncio.Future[None] | None:
        """Write a message after those that were given before.

        Args:
            request: The message.
            tells: Whether to tell when gRPC has taken it, which costs as much as to write it.

        Returns:
            What ends once gRPC has taken it; None if that is not told, unless many messages wait.

        Raises:
            StreamEnded: The stream has ended. Awaiting the future may raise it too.
        """
        if self._has_ended:
            raise StreamEnded
        written: asyncio.Future[None] | None = None
        if tells or self._requests.qsize() > MAX_WAITING:
            written = self._loop.create_future()
        self._requests.put((request, written))
        if written is not None:
            self._writes.add(written)
        return written

    async def done_writing(self) -> None:
        """End the stream in this direction."""
        self._requests.put(END)

    def done(self) -> bool:
        """Say whether the stream has ended.

        Returns:
            Whether it has.
        """
        return self._has_ended or not self._call.is_active()

    def cancel(self) -> None:
        """End the stream at once."""
        self._requests.put(END)
        self._call.cancel()

    def _iterate_requests(self) -> Iterator[Request]:
        # A thread of gRPC runs this. It comes back for the next request once the last one is written.
        while (item := self._requests.get()) is not END:
            request, written = item
            yield request
            if written is not None:
                self._box.put(_Written(written))

    def _read_all(self) -> None:
        error = None
        try:
            for message in self._call:
                self._box.put(message)
        except grpc.RpcError as failed:
            error = failed
        self._requests.put(END)
        self._box.put(_End(error))

    def _take(self, news: list[Any]) -> None:
        for each in news:
            if isinstance(each, _Written):
                self._writes.discard(each.future)
                _settle(each.future, None)
            elif isinstance(each, _End):
                self._has_ended, self._error = True, each.error
                while self._writes:
                    _settle(self._writes.pop(), StreamEnded())
            else:
                self._arrived.append(each)
        self._news.set()


@dataclass(frozen=True, slots=True)
class _End:
    """The stream has ended."""

    error: grpc.RpcError | None


@dataclass(frozen=True, slots=True)
class _Written:
    """gRPC has taken a message."""

    future: asyncio.Future[None]


def _settle(written: asyncio.Future[None], error: Exception | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


_closing: set[asyncio.Task[None]] = set()
"""Channels that are about to be closed."""
