"""The desk of a client: it submits tasks, follows them and ends them, for the client, its handles and its maps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Final, Literal, TypeAlias, overload

from taskyard.calls.calls import Calls
from taskyard.calls.retrying import Backoff
from taskyard.calls.runs import Runs
from taskyard.calls.tasks import move, stop, wait_until_ended
from taskyard.connection.channel import answer_of
from taskyard.connection.credentials import Credentials
from taskyard.connection.servers import Servers
from taskyard.current import current_task
from taskyard.errors import Conflict, NotFound, QueueFull, TaskyardError, TooLarge
from taskyard.new_tasks import NewTask, request_of
from taskyard.records.explanations import Explanation
from taskyard.records.output import OutputChunk
from taskyard.records.stopping import Stopping, wait_ms
from taskyard.records.submitted import Submitted
from taskyard.records.tasks import ENDED, Task, TaskState
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.output_pb2 import ReadOutputRequest
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard.values.convert import Span, seconds
from taskyard.values.params_artifact import refuses_params, size_of_params
from taskyard.values.payloads import Codec

from .artifacts import Artifacts
from .completions import Completions
from .large_params import MAX_BYTES, LargeParams
from .output_reading import OnDropped, OutputReading
from .submitting import Submitter
from .watching import TaskEvent, Watch

log = logging.getLogger(__name__)

WhenFull: TypeAlias = Literal["raise", "wait"]
"""The policy when the queue is full: `QueueFull` is raised, or there are further tries until there is room."""

SubmitMiddleware: TypeAlias = Callable[[NewTask, Callable[[NewTask], Awaitable[Submitted]]], Awaitable[Submitted]]
"""The middleware around each submit: `async def (task, call_next)`, which returns `await call_next(task)`."""

ENDED_STATES: Final = ",".join(sorted(ENDED))
ENDING_SECS: Final = 5.0
"""How long one who leaves waits for the cancel of what he leaves behind."""
MAX_ENDINGS: Final = 50
"""The most tasks that are cancelled at the same time."""
FULL_DELAYS_SECS: Final = (0.05, 5.0)
"""The first and the longest delay between tries while the queue is full."""


class TaskDesk:
    """Operations of a client on single tasks.

    Attributes:
        agent_id: The agent that submits the tasks that name no other.
        codec: What encodes inputs and decodes outputs, None for nothing.
        completions: The ends of tasks, for many at once.
        artifacts: The artifacts of tasks.
        runs: The steps and questions of tasks.
        watches: The open streams of watches.
        middleware: What is called around each submit, the outermost first. Default nothing.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
        credentials: What is sent with every stream.
        timeout_secs: How long an answer may take, in seconds.
        patience_secs: The longest outage to sit out, in seconds.
        agent_id: The agent that submits the tasks that name no other.
        codec: What encodes inputs and decodes outputs, None for nothing.
    """

    def __init__(
        self,
        calls: Calls,
        servers: Servers,
        credentials: Credentials,
        timeout_secs: float,
        patience_secs: float,
        agent_id: str,
        codec: Codec | None,
    ) -> None:
        self.agent_id = agent_id
        self.codec = codec
        self.completions = Completions(self._ends_of, self.get)
        self.watches: set[Any] = set()
        self.artifacts = Artifacts(calls, servers, credentials, patience_secs, self.watches)
        self.runs = Runs(calls, servers, codec)
        self.middleware: Sequence[SubmitMiddleware] = ()
        self._calls = calls
        # What was begun goes on, and what is left behind is ended, after the client takes no more calls.
        self._last_calls = Calls(credentials, timeout_secs, patience_secs)
        self._servers = servers
        self._credentials = credentials
        self._patience = patience_secs
        self._stub = TaskServiceStub(servers.unary)
        self._submitter = Submitter(servers, credentials, timeout_secs, patience_secs)
        last = self._last_calls
        artifacts = Artifacts(last, servers, credentials, patience_secs, self.watches)
        self._large_params = LargeParams(last, self._stub, artifacts, self._end_soon)
        self._large: set[asyncio.Task[pb.SubmitTaskResponse]] = set()
        self._full = asyncio.Lock()
        self._to_end: dict[str, None] = {}
        """The tasks that are to be cancelled when the client closes."""
        self._endings: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Semaphore(MAX_ENDINGS)

    # Submitting

    @property
    def is_idle(self) -> bool:
        """True if every submitted task has its answer."""
        return self._submitter.is_idle and not self._large

    def parent_id(self) -> str:
        """Find the task whose handler runs here.

        Returns:
            Its id, empty outside of handlers.
        """
        task = current_task.get()
        return "" if task is None else task.id

    async def accept(
        self, task: NewTask | Mapping[str, Any], when_full: WhenFull = "raise", *, ends_if_cancelled: bool = False
    ) -> Submitted:
        """Submit one task.

        Args:
            task: The task; or its action and the fields that are set, which takes less time.
            when_full: What happens when the queue is full. Default QueueFull is raised.
            ends_if_cancelled: Whether a task that was sent is cancelled if this call is. Default False: it stays.

        Returns:
            The acceptance.

        Raises:
            TaskyardError: It was refused, see `Client.submit`.
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        self._calls.check_open()
        if when_full not in ("raise", "wait"):
            raise ValueError(f"when_full: is 'raise' or 'wait', not {when_full!r}")
        if not self.middleware:
            return await self._submit(when_full, ends_if_cancelled, task)
        submit: Callable[[NewTask], Awaitable[Submitted]] = partial(self._submit, when_full, ends_if_cancelled)
        for each in reversed(self.middleware):
            submit = partial(_around, each, submit)
        return await submit(task if isinstance(task, NewTask) else NewTask(**task))

    async def _submit(
        self, when_full: WhenFull, ends_if_cancelled: bool, task: NewTask | Mapping[str, Any]
    ) -> Submitted:
        about = (self.agent_id, token_hex(16), self.codec, self.parent_id())
        request = task.to_message(*about) if isinstance(task, NewTask) else request_of(dict(task), *about)
        send = partial(self._send, request, request.idempotency_key != about[1], ends_if_cancelled)
        if when_full == "raise":
            return Submitted.from_message(await send())
        if not self._full.locked():
            try:
                return Submitted.from_message(await send())
            except QueueFull:
                log.info("the queue is full: submitting waits for room")
        # One at a time tries until there is room: what the others would send is refused as well.
        async with self._full:
            backoff = Backoff(*FULL_DELAYS_SECS)
            while True:
                try:
                    return Submitted.from_message(await send())
                except QueueFull as error:
                    told_secs = 0.0 if error.retry_after is None else error.retry_after.total_seconds()
                    await asyncio.sleep(max(backoff.delay(), told_secs))

    async def _send(
        self, request: pb.SubmitTaskRequest, is_repeatable: bool, ends_if_cancelled: bool
    ) -> pb.SubmitTaskResponse:
        if size_of_params(request) <= MAX_BYTES:
            try:
                return await self._submitter.submit(request, self._end_late if ends_if_cancelled else None)
            except TooLarge as error:
                if not refuses_params(error):
                    raise
        # Without its params nobody can run it, but a repeat may bring them.
        is_left = is_repeatable and not ends_if_cancelled
        submit = partial(self._submitter.submit, late=None if is_left else self._end_late)
        large = asyncio.create_task(self._large_params.submit(request, submit, is_repeatable=is_left))
        self._large.add(large)
        large.add_done_callback(self._large.discard)
        return await answer_of(large)

    # Following

    async def get(self, task_id: str) -> Task:
        """Get one task.

        Args:
            task_id: The task.

        Returns:
            The task as it is now.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
        """
        answer = await self._calls.sure(self._stub.GetTask, pb.GetTaskRequest(task_id=task_id))
        return Task.from_message(answer, self.codec)

    async def wait(self, task_id: str, timeout: Span | None = None) -> Task:  # noqa: ASYNC109
        """Wait until a task has ended.

        Args:
            task_id: The task.
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The ended task.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            TimeoutError: The task has not ended in time.
        """
        timeout_secs = None if timeout is None else seconds(timeout)
        return await wait_until_ended(self._calls, self._stub, task_id, timeout_secs, self.codec)

    async def explain(self, task_id: str) -> Explanation:
        """Find out why a task waits.

        Args:
            task_id: The task.

        Returns:
            Every reason.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
        """
        answer = await self._calls.sure(self._stub.ExplainTask, pb.ExplainTaskRequest(task_id=task_id))
        return Explanation.from_message(answer)

    def watch(
        self,
        request: pb.WatchTasksRequest,
        on_gap: Callable[[str], None] | None = None,
        on_begun: Callable[[], None] | None = None,
    ) -> AsyncGenerator[TaskEvent, None]:
        """Watch tasks.

        Args:
            request: The filters, and where to begin.
            on_gap: Called with the reason when events may be missing. Default nothing.
            on_begun: Called once the current tasks were shown. Default nothing.

        Returns:
            An iterator over the events.

        Raises:
            ClientClosed: The client is closed.
        """
        self._calls.check_open()
        about = (self._servers, self._credentials, request, self._patience, self.watches)
        return Watch(*about, codec=self.codec, on_gap=on_gap, on_begun=on_begun).events()

    def output(
        self,
        task_id: str,
        *,
        after: int = 0,
        channels: Iterable[str] = (),
        follow: bool = False,
        on_dropped: OnDropped | None = None,
    ) -> AsyncGenerator[OutputChunk, None]:
        """Read the output of a task.

        Args:
            task_id: The task.
            after: Only chunks with a greater sequence number. Default 0: from the oldest that is kept.
            channels: Only chunks of these channels. Default all.
            follow: Whether it goes on until the task has ended. Default False.
            on_dropped: Called with the number of chunks that were dropped to make room. Default a warning is logged.

        Returns:
            An iterator over the chunks.

        Raises:
            TypeError: `channels` is one channel instead of several.
            ClientClosed: The client is closed.
        """
        self._calls.check_open()
        if isinstance(channels, str):
            raise TypeError("channels: is a sequence of channels, not one channel")
        request = ReadOutputRequest(task_id=task_id, after=after, channels=channels, follow=follow)
        reading = OutputReading(
            self._servers, self._credentials, request, self._patience, self.watches, on_dropped=on_dropped
        )
        return reading.chunks()

    def _ends_of(self, task_ids: list[str], on_begun: Callable[[], None]) -> AsyncGenerator[TaskEvent, None]:
        request = pb.WatchTasksRequest(task_ids=task_ids, state=ENDED_STATES, include_current=True, until_ended=True)
        return self.watch(request, on_begun=on_begun)

    # Ending

    @overload
    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: None = None
    ) -> TaskState: ...

    @overload
    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span
    ) -> Stopping: ...

    async def cancel(
        self, task_id: str, *, cancel_children: bool = False, reason: str | None = None, wait: Span | None = None
    ) -> TaskState | Stopping:
        """Cancel a task at once.

        Args:
            task_id: The task.
            cancel_children: Whether what its work has submitted is cancelled too, and so on. Default False.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host, in seconds or as a timedelta. Default the answer comes at once.

        Returns:
            The new state, `cancelled`; with `wait` whether anything of it may still run.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task has ended.
            ValueError: The wait is negative, or too long.
        """
        request = pb.CancelTaskRequest(
            task_id=task_id, cancel_children=cancel_children or None, wait_ms=wait_ms(wait), reason=reason
        )
        method, aim = self._stub.CancelTask, TaskState.CANCELLED
        if wait is None:
            return await move(self._calls, self._stub, method, request, aim)
        return await stop(self._calls, self._stub, method, request, (aim,))

    async def pause(self, task_id: str, wait: Span, reason: str | None) -> Stopping:
        """Interrupt a task, and wait for its host.

        Args:
            task_id: The task.
            wait: How long to wait, in seconds or as a timedelta.
            reason: Why, for people. None for none.

        Returns:
            Whether anything of it may still run.

        Raises:
            NotFound: There is no such task, or it is no longer retained.
            Conflict: The task is neither assigned nor running.
            ValueError: The wait is negative, or too long.
        """
        request = pb.PauseTaskRequest(task_id=task_id, wait_ms=wait_ms(wait), reason=reason)
        aims = (TaskState.PAUSED, TaskState.FAILED)
        return await stop(self._calls, self._stub, self._stub.PauseTask, request, aims)

    def end_at_close(self, task_id: str) -> None:
        """Cancel a task when the client closes, unless it has ended.

        Args:
            task_id: The task.
        """
        self._to_end[task_id] = None

    def has_ended(self, task_id: str) -> None:
        """Note that a task has ended, and need not be cancelled.

        Args:
            task_id: The task.
        """
        self._to_end.pop(task_id, None)

    async def end_tasks(self, task_ids: Iterable[str]) -> None:
        """Cancel tasks that may have ended. If it is left early, it goes on until the client is closed.

        Args:
            task_ids: The tasks.
        """
        endings = [self._end_soon(task_id) for task_id in tuple(task_ids)]
        if endings:
            await asyncio.wait(endings)

    async def close(self) -> None:
        """Wait until every submitted task has its answer, then cancel what is to be cancelled."""
        try:
            if self._large:
                await asyncio.wait(self._large)
            await self._submitter.close()
            for task_id in tuple(self._to_end):
                self._end_soon(task_id)
            self._to_end.clear()
            if self._endings:
                await asyncio.wait(self._endings, timeout=ENDING_SECS)
        finally:
            for begun in (*self._large, *self._endings):
                begun.cancel()

    def _end_late(self, accepted: pb.SubmitTaskResponse) -> None:
        if not accepted.existing:
            self._end_soon(accepted.task_id)

    def _end_soon(self, task_id: str) -> asyncio.Task[None]:
        ending = asyncio.create_task(self._end(task_id))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return ending

    async def _end(self, task_id: str) -> None:
        async with self._ending:
            try:
                request = pb.CancelTaskRequest(task_id=task_id)
                await move(self._last_calls, self._stub, self._stub.CancelTask, request, TaskState.CANCELLED)
            except (Conflict, NotFound):
                # It has ended.
                pass
            except TaskyardError as error:
                log.warning("%s may go on, it could not be cancelled: %s", task_id, error)


async def _around(
    middleware: SubmitMiddleware, call_next: Callable[[NewTask], Awaitable[Submitted]], task: NewTask
) -> Submitted:
    return await middleware(task, call_next)
