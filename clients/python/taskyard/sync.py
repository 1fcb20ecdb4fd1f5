"""The client for code without asyncio: the same calls, blocking, from any thread.

Nothing is implemented twice: a `Client` runs on an event loop in a thread of its own, and every call is passed to it.
Simultaneous calls of several threads therefore share messages, as those of several coroutines do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack, overload

from .blocking.parts import (
    SyncAgents,
    SyncLimits,
    SyncNamespaces,
    SyncOperations,
    SyncSchedules,
    beginning,
    blocking,
    iterating,
)
from .blocking.shared_loop import refuse_in, shared_loop
from .blocking.submit_calls import SyncSubmitCalls
from .client import PATIENCE_SECS, TIMEOUT_SECS, Client
from .connection.channel import check_process
from .connection.credentials import Addresses, CredentialOptions
from .errors import ClientClosed
from .records.stopping import Stopping
from .records.tasks import TaskState
from .renamed import either
from .streams.task_desk import SubmitMiddleware
from .values.convert import Span
from .values.payloads import Codec

T = TypeVar("T")

END: Final = object()


class SyncClient(SyncSubmitCalls):
    """Calls a Taskyard server from code without asyncio. Its methods are those of `Client`, blocking.

    Threads may share it. Iterators, such as those of `list`, `targets` and `watch`, block until there is a next item;
    each is for one thread at a time. Close the client, best by `with`.

    gRPC does not survive a fork: in a process that was forked from one that has used any client, calls raise
    RuntimeError. Create clients after forking, or start processes by `spawn`.

    Attributes:
        schedules: The calls about schedules.
        namespaces: The calls about namespaces.
        limits: The calls about limits of concurrency keys.
        agents: The calls about weights of agents.
        operations: The calls about what is done to many tasks at once.

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
        self.limits: Final = SyncLimits(self, self._client.limits)
        self.agents: Final = SyncAgents(self, self._client.agents)
        self.operations: Final = SyncOperations(self, self._client.operations)

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

    submit_batch = blocking(Client.submit_batch)
    get = blocking(Client.get)
    wait = blocking(Client.wait)
    list = iterating(Client.list)
    targets = iterating(Client.targets)
    get_batch = blocking(Client.get_batch)
    stats = blocking(Client.stats)
    samples = blocking(Client.samples)
    watch = iterating(Client.watch)
    output = iterating(Client.output)
    steps = blocking(Client.steps)
    questions = iterating(Client.questions)
    answer = blocking(Client.answer)
    send_event = blocking(Client.send_event)
    read_artifact = blocking(Client.read_artifact)
    save_artifact = blocking(Client.save_artifact)
    attach_artifact = blocking(Client.attach_artifact)
    explain = blocking(Client.explain)
    fairness = iterating(Client.fairness)
    demand = blocking(Client.demand)
    cancel_batch = blocking(Client.cancel_batch)
    resume = blocking(Client.resume)
    resume_target_task = blocking(Client.resume_target_task)
    resolve = blocking(Client.resolve)
    cancel_tasks = beginning(Client.cancel_tasks)
    pause_tasks = beginning(Client.pause_tasks)
    resume_tasks = beginning(Client.resume_tasks)
    resolve_tasks = beginning(Client.resolve_tasks)
    reprioritize_tasks = beginning(Client.reprioritize_tasks)

    @overload
    def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: None = None
    ) -> TaskState: ...

    @overload
    def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span
    ) -> Stopping: ...

    def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span | None = None
    ) -> TaskState | Stopping:
        """Cancel a task at once, as `Client.cancel` does.

        Args:
            task_id: The task.
            cancel_children: Whether what its work has submitted is cancelled too, and so on. Default False.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host, in seconds or as a timedelta. Default the answer comes at once.

        Returns:
            The new state, `cancelled`; with `wait` whether anything of it may still run.
        """
        if wait is None:
            return self._run(self._client.cancel(task_id, cancel_children=cancel_children, reason=reason))
        return self._run(self._client.cancel(task_id, cancel_children=cancel_children, reason=reason, wait=wait))

    @overload
    def pause(self, task_id: str, *, reason: str | None = None, wait: None = None) -> TaskState: ...

    @overload
    def pause(self, task_id: str, *, reason: str | None = None, wait: Span) -> Stopping: ...

    def pause(self, task_id: str, *, reason: str | None = None, wait: Span | None = None) -> TaskState | Stopping:
        """Interrupt a task that is assigned or running, as `Client.pause` does.

        Args:
            task_id: The task.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host, in seconds or as a timedelta. Default the answer comes at once.

        Returns:
            The new state; with `wait` whether anything of it may still run.
        """
        if wait is None:
            return self._run(self._client.pause(task_id, reason=reason))
        return self._run(self._client.pause(task_id, reason=reason, wait=wait))

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
