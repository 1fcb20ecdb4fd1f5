"""The client for code without asyncio: the same calls, blocking, from any thread.

Nothing is implemented twice: a `Client` runs on an event loop in a thread of its own, and every call is passed to it.
Simultaneous calls of several threads therefore share messages, as those of several coroutines do.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, Unpack

from .channel import check_process
from .client import PATIENCE_SECS, TIMEOUT_SECS, Client
from .credentials import Addresses, CredentialOptions
from .errors import ClientClosed
from .namespace_calls import Namespaces
from .payloads import Codec
from .renamed import either
from .scheduling import Schedules
from .shared_loop import refuse_in, shared_loop
from .sync_submit_calls import SyncSubmitCalls
from .task_desk import SubmitMiddleware
from .values import Span

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

END: Final = object()


class _Blocking(Protocol[C]):
    """The blocking form of an object: that object, which lives on the loop, and how calls are passed to the loop."""

    _client: C

    def _run(self, call: Coroutine[Any, Any, T]) -> T: ...

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]: ...


def _blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Blocking[C], P], T]:
    """Turn a coroutine method into a blocking one."""

    @functools.wraps(method)
    def call(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[C, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[_Blocking[C], P], Iterator[T]]:
    """Turn a method that returns an asynchronous iterator into one that returns a blocking iterator."""

    @functools.wraps(method)
    def call(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._iterate(method(self._client, *args, **kwargs))

    return call


class SyncSchedules:
    """The schedules of the client's namespace. Its methods are those of `Schedules`, blocking.

    Args:
        client: The blocking client.
        schedules: The schedules of its `Client`.
    """

    def __init__(self, client: SyncClient, schedules: Schedules) -> None:
        self._client = schedules
        self._run = client._run
        self._iterate = client._iterate

    create = _blocking(Schedules.create)
    put = _blocking(Schedules.put)
    get = _blocking(Schedules.get)
    list = _iterating(Schedules.list)
    update = _blocking(Schedules.update)
    delete = _blocking(Schedules.delete)
    pause = _blocking(Schedules.pause)
    resume = _blocking(Schedules.resume)
    trigger = _blocking(Schedules.trigger)
    preview = _blocking(Schedules.preview)
    get_trigger = _blocking(Schedules.get_trigger)
    triggers = _iterating(Schedules.triggers)


class SyncNamespaces:
    """The namespaces of the server. Its methods are those of `Namespaces`, blocking.

    Args:
        client: The blocking client.
        namespaces: The namespaces of its `Client`.
    """

    def __init__(self, client: SyncClient, namespaces: Namespaces) -> None:
        self._client = namespaces
        self._run = client._run
        self._iterate = client._iterate

    list = _iterating(Namespaces.list)
    create = _blocking(Namespaces.create)
    get = _blocking(Namespaces.get)
    update = _blocking(Namespaces.update)
    delete = _blocking(Namespaces.delete)


class SyncClient(SyncSubmitCalls):
    """Calls a Taskyard server from code without asyncio. Its methods are those of `Client`, blocking.

    Threads may share it. Iterators, such as those of `list`, `targets` and `watch`, block until there is a next item;
    each is for one thread at a time. Close the client, best by `with`.

    gRPC does not survive a fork: in a process that was forked from one that has used any client, calls raise
    RuntimeError. Create clients after forking, or start processes by `spawn`.

    Attributes:
        schedules: The calls about schedules.
        namespaces: The calls about namespaces.

    Args:
        address: Where the server listens, or several servers do, as for `Client`.
        agent_id: The agent that submits the tasks that name no other. Default TASKYARD_AGENT, or none.
        namespace: The namespace to act in, as for `Client`.
        timeout: How long the answer to a call may take, in seconds or as a timedelta. Default 30 s.
        patience: How long calls are repeated during an outage, in seconds or as a timedelta. Default 30 s.
        codec: Encodes all inputs, and decodes inputs and outputs, as for `Client`. Default none.
        middleware: What is called around each submit, as for `Client`. Default none.
        agent: The old name of `agent_id`.
        **access: Who it is, and how the connection is encrypted, see `CredentialOptions`. Default what the environment
            or a profile says.

    Raises:
        ValueError: The address, the namespace or a token is malformed, a file cannot be read, or the token would be
            sent in the clear to another machine.
        RuntimeError: This process was forked from one that has used a client.
    """

    def __init__(
        self,
        address: Addresses = None,
        *,
        agent_id: str = "",
        namespace: str | None = None,
        timeout: Span = TIMEOUT_SECS,
        patience: Span = PATIENCE_SECS,
        codec: Codec | None = None,
        middleware: Sequence[SubmitMiddleware] = (),
        agent: str | None = None,
        **access: Unpack[CredentialOptions],
    ) -> None:
        # Here, where the caller is told of it.
        agent_id = either(agent_id, agent, "agent", "agent_id")

        def make() -> Client:
            options: dict[str, Any] = {"namespace": namespace, "timeout": timeout, "patience": patience, "codec": codec}
            options["middleware"] = middleware
            return Client(address, agent_id=agent_id, **options, **access)

        started: Future[tuple[Client, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        shared = shared_loop()
        self._ended: Future[None] | None = None
        self._thread: threading.Thread | None = None
        if shared is not None:
            self._ended = asyncio.run_coroutine_threadsafe(_run_client(make, started), shared)
        else:
            self._thread = threading.Thread(
                target=lambda: asyncio.run(_run_client(make, started)), name="taskyard-client", daemon=True
            )
            self._thread.start()
        try:
            self._client, self._loop, self._stop = started.result()
        except BaseException:
            self._wait_for_end()
            raise
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self.schedules: Final = SyncSchedules(self, self._client.schedules)
        self.namespaces: Final = SyncNamespaces(self, self._client.namespaces)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait until every submitted task has its answer, then close the connection. Other calls then raise.

        In a forked process it does nothing.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                # The loop that a yard has shared may have ended before.
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._stop.set)
        self._wait_for_end()

    submit_batch = _blocking(Client.submit_batch)
    get = _blocking(Client.get)
    wait = _blocking(Client.wait)
    list = _iterating(Client.list)
    targets = _iterating(Client.targets)
    get_batch = _blocking(Client.get_batch)
    stats = _blocking(Client.stats)
    watch = _iterating(Client.watch)
    cancel = _blocking(Client.cancel)
    cancel_batch = _blocking(Client.cancel_batch)
    pause = _blocking(Client.pause)
    resume = _blocking(Client.resume)
    resume_target_task = _blocking(Client.resume_target_task)
    resolve = _blocking(Client.resolve)

    def _wait_for_end(self) -> None:
        if self._thread is not None:
            self._thread.join()
        elif self._ended is not None and not self._loop.is_closed():
            refuse_in(self._loop)
            self._ended.result()

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            check_process()
            refuse_in(self._loop)
        except RuntimeError:
            call.close()
            raise
        # Under the lock, so that a call is either passed to the loop before it stops, or refused.
        with self._lock:
            if self._closed:
                call.close()
                raise ClientClosed("the client is closed")
            answer = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise ClientClosed("the client was closed") from None
        finally:
            # A thread that is interrupted cancels its call.
            answer.cancel()

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        async def next_item() -> Any:
            return await anext(items, END)

        try:
            while (item := self._run(next_item())) is not END:
                yield item
        finally:
            # Without the lock and without waiting: this may run wherever Python collects an unused iterator, also at
            # interpreter exit, when the thread of the client no longer runs.
            end = items.aclose()
            try:
                asyncio.run_coroutine_threadsafe(end, self._loop)
            except RuntimeError:
                # The client is closed, and with it everything that ran on its loop.
                end.close()


async def _run_client(
    make: Callable[[], Client], started: Future[tuple[Client, asyncio.AbstractEventLoop, asyncio.Event]]
) -> None:
    """Run a client until it is stopped: the main function of its thread."""
    stop = asyncio.Event()
    try:
        client = make()
    except BaseException as error:
        started.set_exception(error)
        return
    started.set_result((client, asyncio.get_running_loop(), stop))
    await stop.wait()
    await client.close()
