"""Tasks that are submitted at the same time share the messages of one stream (DESIGN, Submitting fast).

What is submitted in one turn of the loop, or while a message is being written, goes into one message; a task that is
alone waits for nothing. Every task carries an idempotency key, so that after a break only what has no answer is sent
again, over a new stream, and nothing is made twice.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from taskyard.v1 import task_pb2 as pb

from .channel import answer_of
from .errors import ClientClosed, Internal, TaskyardError, Unavailable, error_from_message, error_from_rpc
from .retrying import BROKEN, backoff_within, persistent

if TYPE_CHECKING:
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub

log = logging.getLogger(__name__)

MAX_TASKS: Final = 50
MAX_BYTES: Final = 1_000_000
"""The most that shares a message; a server takes 8 MiB."""
MAX_UNANSWERED: Final = 20
"""Messages on their way. They hide the time of a round trip; the bound keeps memory small here and there."""


@dataclass(eq=False, slots=True)
class _Submission:
    """One task on its way. `fate` is set once; its submitter may have given up on it."""

    request: pb.SubmitTaskRequest
    size: int
    submitted_at: float
    fate: asyncio.Future[pb.SubmitTaskResponse]


class Submitter:
    """Takes single tasks and sends them together. Every request must carry an idempotency key.

    The stream is opened by the first task and stays open. `patience_secs` is how long the server may owe an answer
    before tasks are given up as `Unavailable`; until then a broken stream is replaced.
    """

    def __init__(
        self,
        stub: TaskServiceAsyncStub,
        metadata: tuple[tuple[str, str], ...],
        timeout_secs: float,
        patience_secs: float,
    ) -> None:
        self._stub = stub
        self._metadata = metadata
        self._timeout = timeout_secs
        self._patience = patience_secs
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Submission] = deque()
        self._unanswered: deque[list[_Submission]] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._owing_since: float | None = None
        self._backoff = backoff_within(patience_secs)
        self._stall: asyncio.Timeout | None = None
        self._task: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[tuple[pb.SubmitTaskResponse, bool]]] = set()

    async def submit(self, request: pb.SubmitTaskRequest) -> pb.SubmitTaskResponse:
        """The server's acceptance of one task.

        Raises the error that the server gave for this task, or `Unavailable` when it owed an answer for too long; the
        task may then have been accepted all the same. Giving up the wait takes the task back unless it was sent.
        """
        size = request.ByteSize()
        if size > MAX_BYTES:
            return await self._submit_alone(request)
        fate: asyncio.Future[pb.SubmitTaskResponse] = self._loop.create_future()
        self._waiting.append(_Submission(request, size, self._loop.time(), fate))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        self._wake.set()
        return await fate

    async def close(self) -> None:
        """Wait until every task has its fate, then end the stream. Cancelled, it gives up the tasks."""
        self._closing = True
        self._wake.set()
        pending = {task for task in (self._task, *self._alone) if task is not None}
        try:
            if pending:
                await asyncio.wait(pending)
        finally:
            for task in pending:
                task.cancel()

    async def _submit_alone(self, request: pb.SubmitTaskRequest) -> pb.SubmitTaskResponse:
        """A task too large to share a message: one over the server's limit would break the stream for all."""

        async def call() -> pb.SubmitTaskResponse:
            return await answer_of(self._stub.SubmitTask(request, metadata=self._metadata, timeout=self._timeout))

        task = asyncio.create_task(persistent(call, self._patience))
        self._alone.add(task)
        task.add_done_callback(self._alone.discard)
        return (await answer_of(task))[0]

    async def _run(self) -> None:
        try:
            while await self._is_wanted():
                try:
                    await self._converse()
                except grpc.aio.AioRpcError as broken:
                    await self._recover(error_from_rpc(broken))
                except TaskyardError as error:
                    await self._recover(error)
        finally:
            self._requeue()
            self._give_up(ClientClosed("the client was closed"), self._waiting)

    async def _is_wanted(self) -> bool:
        """Waits until there is something to send; false once there will be nothing more."""
        while not self._waiting and not self._closing:
            self._wake.clear()
            await self._wake.wait()
        return bool(self._waiting)

    # One stream

    async def _converse(self) -> None:
        """Send what waits and settle what is answered, over one stream, until it ends well."""
        call = self._stub.SubmitTasks(metadata=self._metadata)
        writer: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(None) as self._stall:
                writer = asyncio.create_task(self._write(call))
                while isinstance(answer := await call.read(), pb.SubmitTasksResponse):
                    self._settle(answer)
        except TimeoutError:
            raise Unavailable(f"the server has owed an answer for {self._patience:g} s") from None
        finally:
            self._stall = None
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)
            call.cancel()
        if self._unanswered or not self._closing:
            raise Unavailable("the server ended the stream")

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
                    self._unanswered.append(message)
                    if self._owing_since is None:
                        self._owing_since = self._loop.time()
                    self._reset_stall()
                    await call.write(pb.SubmitTasksRequest(tasks=[each.request for each in message]))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The stream has ended; its reader learns why.
            return

    def _next_message(self) -> list[_Submission]:
        """As much of what waits as may share a message, without what nobody waits for any more."""
        message: list[_Submission] = []
        size = 0
        while self._waiting and len(message) < MAX_TASKS:
            first = self._waiting[0]
            if message and size + first.size > MAX_BYTES:
                break
            self._waiting.popleft()
            if not first.fate.done():
                message.append(first)
                size += first.size
        return message

    def _settle(self, answer: pb.SubmitTasksResponse) -> None:
        """One message was answered: its tasks have their fates."""
        message = self._unanswered.popleft() if self._unanswered else []
        if len(message) != len(answer.outcomes):
            self._unanswered.appendleft(message)
            raise Internal("the server answered for other tasks than were sent")
        again, why = [], None
        for submission, outcome in zip(message, answer.outcomes, strict=True):
            if not outcome.HasField("error"):
                _set_result(submission, outcome.accepted)
                continue
            error = error_from_message(outcome.error, outcome.rejected_task_id)
            if isinstance(error, Unavailable):
                again.append(submission)
                why = error
            else:
                _set_error(submission, error)
        if why is not None:
            # A server that drains is as good as gone: try another one, or the next one in its place.
            self._unanswered.appendleft(again)
            raise why
        self._owing_since = self._loop.time() if self._unanswered else None
        self._backoff.reset()
        self._reset_stall()
        self._wake.set()

    def _reset_stall(self) -> None:
        """The stream is given up when the oldest task on it is."""
        if self._stall is not None:
            self._stall.reschedule(self._expires_at(self._unanswered[0][0]) if self._unanswered else None)

    def _expires_at(self, submission: _Submission) -> float:
        """When a task is given up, in the loop's time: the server had its time since it last answered."""
        return max(submission.submitted_at, self._owing_since or 0) + self._patience

    # Between streams

    async def _recover(self, error: TaskyardError) -> None:
        """A stream broke: what has no answer waits again, unless the error is final or the time is up."""
        self._requeue()
        if not isinstance(error, BROKEN):
            self._owing_since = None
            self._give_up(error, self._waiting)
            return
        if self._owing_since is None:
            self._owing_since = self._loop.time()
        self._expire(error)
        if self._waiting:
            left = self._expires_at(self._waiting[0]) - self._loop.time()
            delay = min(self._backoff.delay(), left)
            log.info("%d tasks wait %.1f s for a new stream: %s", len(self._waiting), delay, error)
            await asyncio.sleep(delay)
            self._expire(error)

    def _expire(self, error: TaskyardError) -> None:
        """Give up the tasks whose time is up; without any left the outage is nobody's any more."""
        now = self._loop.time()
        expired: deque[_Submission] = deque()
        while self._waiting and self._expires_at(self._waiting[0]) <= now:
            expired.append(self._waiting.popleft())
        self._give_up(error, expired)
        if not self._waiting:
            self._owing_since = None
            self._backoff.reset()

    def _requeue(self) -> None:
        """What was sent and not answered goes first again, in its order."""
        for message in reversed(self._unanswered):
            self._waiting.extendleft(each for each in reversed(message) if not each.fate.done())
        self._unanswered.clear()

    @staticmethod
    def _give_up(error: TaskyardError, submissions: deque[_Submission]) -> None:
        for submission in submissions:
            # An error of their own for each: a raised one collects the traces of those who await it.
            _set_error(submission, copy.copy(error))
        submissions.clear()


def _set_result(submission: _Submission, response: pb.SubmitTaskResponse) -> None:
    if not submission.fate.done():
        submission.fate.set_result(response)


def _set_error(submission: _Submission, error: TaskyardError) -> None:
    if not submission.fate.done():
        submission.fate.set_exception(error)
