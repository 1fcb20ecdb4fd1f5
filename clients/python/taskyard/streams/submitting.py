"""Single tasks that are submitted at the same time share messages of one stream (docs/rules.md, Submission streams).

Tasks that are submitted in one turn of the event loop, or while a message is being written, share a message; a lone
task is sent at once. Every task has an idempotency key: after a break only unanswered tasks are sent again, over a new
stream, and none is made twice.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc

from taskyard.calls.calls import call_once
from taskyard.calls.retrying import BROKEN, backoff_within, call_persistently, given_up
from taskyard.connection.channel import answer_of, check_cancelled
from taskyard.connection.credentials import Credentials, Metadata, Renewal
from taskyard.connection.servers import Server, Servers
from taskyard.errors import (
    ClientClosed,
    Internal,
    StreamEnded,
    TaskyardError,
    Unauthenticated,
    Unavailable,
    error_from_message,
)
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub

log = logging.getLogger(__name__)

MAX_TASKS: Final = 50
"""Maximum tasks per message."""
MAX_BYTES: Final = 1_000_000
"""Maximum bytes per message, well below what a server accepts."""
MAX_UNANSWERED: Final = 20
"""Maximum unanswered messages. They hide the round trip; the bound limits memory here and in the server."""


Late = Callable[[pb.SubmitTaskResponse], None]
"""Told of the acceptance of a task whose submitter has left meanwhile."""


@dataclass(eq=False, slots=True)
class _Submission:
    """One task. `outcome` is set once. If the submitter gives up it is cancelled, and `late` is told what was sent."""

    request: pb.SubmitTaskRequest
    size: int
    submitted_at: float
    outcome: asyncio.Future[pb.SubmitTaskResponse]
    late: Late | None = None
    was_sent: bool = False

    @property
    def is_wanted(self) -> bool:
        """True if its answer concerns somebody."""
        return not self.outcome.done() or (self.was_sent and self.late is not None and self.outcome.cancelled())


class Submitter:
    """Sends single tasks together, over a stream that is opened by the first task and stays open.

    Args:
        servers: The servers to choose from.
        credentials: What is sent with every call and stream.
        timeout_secs: How long the answer of a unary call may take, in seconds.
        patience_secs: How long the server may owe an answer, in seconds. Until then a broken stream is replaced;
            afterwards tasks are given up as `Unavailable`.
    """

    def __init__(
        self,
        servers: Servers,
        credentials: Credentials,
        timeout_secs: float,
        patience_secs: float,
    ) -> None:
        self._servers = servers
        self._stub = TaskServiceStub(servers.unary)
        self._credentials = credentials
        self._renewal = Renewal(credentials)
        self._sent: Metadata = ()
        """The metadata of the last stream."""
        self._timeout = timeout_secs
        self._patience = patience_secs
        # One of several servers may hang: then there must be time left for another one.
        self._stall_secs = patience_secs / 2 if servers.are_several else patience_secs
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Submission] = deque()
        self._unanswered: deque[list[_Submission]] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._owing_since: float | None = None
        self._backoff = backoff_within(patience_secs)
        self._stall: asyncio.Timeout | None = None
        self._heard_at = 0.0
        """When the server last answered, or last began to owe an answer."""
        self._broken_by: TaskyardError | None = None
        """Why the last stream broke, as long as an answer is owed."""
        self._task: asyncio.Task[None] | None = None
        self._large: set[asyncio.Task[tuple[pb.SubmitTaskResponse, bool]]] = set()

    @property
    def is_idle(self) -> bool:
        """True if every submitted task has its answer."""
        return not (self._waiting or self._unanswered or self._large)

    async def submit(self, request: pb.SubmitTaskRequest, late: Late | None = None) -> pb.SubmitTaskResponse:
        """Submit one task. Cancelling the call takes the task back unless it was sent.

        Args:
            request: The task, with an idempotency key.
            late: Told of the acceptance if the call is cancelled and the task was sent. Default nothing.

        Returns:
            The acceptance.

        Raises:
            TaskyardError: The server refused the task; or `Unavailable` if it owed the answer for too long. In the
                latter case it may have accepted the task.
        """
        size = request.ByteSize()
        if size > MAX_BYTES:
            return await self._submit_large(request, late)
        outcome: asyncio.Future[pb.SubmitTaskResponse] = self._loop.create_future()
        self._waiting.append(_Submission(request, size, self._loop.time(), outcome, late))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        self._wake.set()
        return await outcome

    async def close(self) -> None:
        """Wait until every task has an outcome, then end the stream. Cancelled, it gives up the tasks."""
        self._closing = True
        self._wake.set()
        pending = {task for task in (self._task, *self._large) if task is not None}
        try:
            if pending:
                await asyncio.wait(pending)
        finally:
            for task in pending:
                task.cancel()

    async def _submit_large(self, request: pb.SubmitTaskRequest, late: Late | None) -> pb.SubmitTaskResponse:
        """Submit a task by a call of its own. One over the server's limit would break the stream for all others."""

        async def call(_: bool) -> pb.SubmitTaskResponse:
            return await call_once(self._stub.SubmitTask, request, self._credentials, self._timeout)

        task = asyncio.create_task(call_persistently(call, self._patience, notice=self._servers.notice))
        self._large.add(task)
        task.add_done_callback(self._large.discard)
        if late is None:
            return (await answer_of(task))[0]
        try:
            return (await answer_of(asyncio.shield(task)))[0]
        except asyncio.CancelledError:
            task.add_done_callback(lambda _: _tell_late(task, late))
            raise

    async def _run(self) -> None:
        try:
            while await self._has_work():
                server = await self._servers.pick()
                try:
                    with server.used() as channel:
                        await self._run_stream(server, channel)
                except grpc.aio.AioRpcError as broken:
                    check_cancelled()
                    error = server.error_of(broken)
                except TaskyardError as raised:
                    error = raised
                else:
                    continue
                self._servers.note(server, error)
                await self._recover(error)
        finally:
            self._requeue()
            self._fail(ClientClosed("the client was closed"), self._waiting)

    async def _has_work(self) -> bool:
        """Wait until there is something to send. Returns False once nothing more will come."""
        while not self._waiting and not self._closing:
            self._wake.clear()
            await self._wake.wait()
        return bool(self._waiting)

    # One stream

    async def _run_stream(self, server: Server, channel: grpc.aio.Channel) -> None:
        """Send tasks and take answers over one stream, until it is closed in order."""
        self._sent = self._credentials.metadata()
        call = TaskServiceStub(channel).SubmitTasks(metadata=self._sent)
        writer: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as self._stall:
                writer = asyncio.create_task(self._write(call))
                while isinstance(answer := await call.read(), pb.SubmitTasksResponse):
                    self._handle_answer(answer)
        except TimeoutError:
            raise self._error_of_silence(server, channel) from None
        finally:
            self._stall = None
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)
            call.cancel()
        if self._unanswered or not self._closing:
            raise StreamEnded("the server ended the stream")

    async def _write(self, call: Any) -> None:
        try:
            while True:
                while not self._waiting or len(self._unanswered) >= MAX_UNANSWERED:
                    if self._closing and not self._waiting:
                        await call.done_writing()
                        return
                    self._wake.clear()
                    await self._wake.wait()
                message = self._next_message()
                if message:
                    if not self._unanswered:
                        self._heard_at = self._loop.time()
                    self._unanswered.append(message)
                    if self._owing_since is None:
                        self._owing_since = self._loop.time()
                    self._reset_stall()
                    await call.write(pb.SubmitTasksRequest(tasks=[submission.request for submission in message]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The stream has ended; its reader learns the reason.
            return

    def _next_message(self) -> list[_Submission]:
        """Take the waiting tasks that share the next message, without those that were given up."""
        message: list[_Submission] = []
        size = 0
        while self._waiting and len(message) < MAX_TASKS:
            first = self._waiting[0]
            if message and size + first.size > MAX_BYTES:
                break
            self._waiting.popleft()
            if first.is_wanted:
                first.was_sent = True
                message.append(first)
                size += first.size
        return message

    def _handle_answer(self, answer: pb.SubmitTasksResponse) -> None:
        """Set the outcomes of the oldest unanswered message."""
        message = self._unanswered.popleft() if self._unanswered else []
        if len(message) != len(answer.outcomes):
            self._unanswered.appendleft(message)
            raise Internal("the server answered for other tasks than were sent")
        unavailable, reason = [], None
        for submission, outcome in zip(message, answer.outcomes, strict=True):
            if not outcome.HasField("error"):
                _set_result(submission, outcome.accepted)
                continue
            error = error_from_message(outcome.error, outcome.rejected_task_id)
            if isinstance(error, Unavailable):
                unavailable.append(submission)
                reason = error
            else:
                _set_error(submission, error)
        if reason is not None:
            # The server drains: replace the stream, and send the tasks to another server or to its successor.
            self._unanswered.appendleft(unavailable)
            raise reason
        self._heard_at = self._loop.time()
        self._owing_since = self._heard_at if self._unanswered else None
        self._broken_by = None
        self._backoff.reset()
        self._renewal.worked()
        self._servers.notice.worked()
        self._reset_stall()
        self._wake.set()

    def _reset_stall(self) -> None:
        """Give up the stream when its oldest task expires, or when another server is to be asked."""
        if self._stall is None:
            return
        if self._unanswered:
            self._stall.reschedule(min(self._expires_at(self._unanswered[0][0]), self._heard_at + self._stall_secs))
        else:
            self._stall.reschedule(None)

    def _error_of_silence(self, server: Server, channel: grpc.aio.Channel) -> TaskyardError:
        """Make the error of a stream that was given up: why the one before it broke, if it had less than its time."""
        given_up_at = self._stall.when() if self._stall is not None else None
        if self._broken_by is not None and given_up_at is not None and given_up_at < self._heard_at + self._stall_secs:
            return copy.copy(self._broken_by)
        return server.error_of_silence(channel, self._stall_secs)

    def _expires_at(self, submission: _Submission) -> float:
        """When a task is given up, in the time of the loop. The server's time counts from its last answer."""
        return max(submission.submitted_at, self._owing_since or 0) + self._patience

    # Between streams

    async def _recover(self, error: TaskyardError) -> None:
        """Let unanswered tasks wait for a new stream, unless the error is final or their time is up."""
        self._requeue()
        if isinstance(error, Unauthenticated) and self._renewal.is_worth_it(self._sent):
            log.info("%d tasks are sent over a new stream: %s", len(self._waiting), error)
            await asyncio.sleep(self._backoff.delay())
            return
        if not isinstance(error, BROKEN):
            self._owing_since = self._broken_by = None
            self._fail(error, self._waiting)
            return
        if isinstance(error, StreamEnded) and self._broken_by is not None:
            error = self._broken_by
        self._broken_by = error
        if self._owing_since is None:
            self._owing_since = self._loop.time()
        self._servers.notice.failed(error, self._patience)
        self._expire(error)
        if self._waiting:
            left = self._expires_at(self._waiting[0]) - self._loop.time()
            delay = min(self._backoff.delay(error), left)
            log.info("%d tasks wait %.1f s for a new stream: %s", len(self._waiting), delay, error)
            await asyncio.sleep(delay)
            self._expire(error)

    def _expire(self, error: TaskyardError) -> None:
        """Give up the tasks whose time is up. The outage no longer counts once no task is left."""
        now = self._loop.time()
        expired: deque[_Submission] = deque()
        while self._waiting and self._expires_at(self._waiting[0]) <= now:
            expired.append(self._waiting.popleft())
        if expired:
            self._fail(given_up(error, self._patience), expired)
        if not self._waiting:
            self._owing_since = self._broken_by = None
            self._backoff.reset()

    def _requeue(self) -> None:
        """Put unanswered tasks before the waiting ones, in their order."""
        for message in reversed(self._unanswered):
            self._waiting.extendleft(each for each in reversed(message) if each.is_wanted)
        self._unanswered.clear()

    @staticmethod
    def _fail(error: TaskyardError, submissions: deque[_Submission]) -> None:
        for submission in submissions:
            # A copy for each task: a raised error collects the tracebacks of those that await it.
            _set_error(submission, copy.copy(error))
        submissions.clear()


def _set_result(submission: _Submission, response: pb.SubmitTaskResponse) -> None:
    if not submission.outcome.done():
        submission.outcome.set_result(response)
    elif submission.is_wanted and submission.late is not None:
        submission.late(response)


def _set_error(submission: _Submission, error: TaskyardError) -> None:
    if not submission.outcome.done():
        submission.outcome.set_exception(error)


def _tell_late(task: asyncio.Task[tuple[pb.SubmitTaskResponse, bool]], late: Late) -> None:
    if not task.cancelled() and task.exception() is None:
        late(task.result()[0])
