"""SubmitTasks: a stream of messages with tasks, each answered with the outcomes of its tasks, in order."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import task_pb2 as pb
from taskyard_server.access.authorization import check_agent
from taskyard_server.access.grants import Access
from taskyard_server.access.limits import CallBucket
from taskyard_server.conversion.refusals import converted, with_refusals
from taskyard_server.conversion.responses import error_message
from taskyard_server.conversion.submissions import DefaultRetry
from taskyard_server.conversion.submit_requests import TasksRequest
from taskyard_server.conversion.task_encoding import encode_outcomes
from taskyard_server.core.errors import PermissionDenied, QueueFull, Refusal, Unavailable
from taskyard_server.core.predecessors import IN_MEMORY, name_others
from taskyard_server.core.task import Submission
from taskyard_server.engine.answers import Answer
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.fair_yield import SMALL
from taskyard_server.interceptors.callers import Call, current_call

from .pending_acks import PendingAcks
from .shown_tasks import shown_refusal

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Messages: TypeAlias = AsyncIterator["TasksRequest | Refusal"]

SHUTDOWN: Final = "the server shuts down"


class SubmissionStreams:
    """All open streams of submissions."""

    def __init__(self, engine: Engine, max_payload_bytes: int, default_retry: DefaultRetry) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes
        self._default_retry = default_retry
        self._closing = False
        self._idle: dict[_Stream, None] = {}

    async def serve(self, messages: Messages, context: Context) -> None:
        """Answer every message. Raises `Unavailable` once the server shuts down."""
        call = current_call()
        stream = _Stream(context)
        try:
            while (request := await self._next_request(messages, stream)) is not None:
                if isinstance(request, Refusal):
                    raise request
                if call.pace is not None:
                    await _wait_for(call.pace)
                await stream.write(await self._submit(call, request), request.size)
            await stream.finish()
        except Refusal:
            # What was applied before is answered first.
            await stream.write_all()
            raise
        finally:
            stream.drop()

    def close(self) -> None:
        """End the streams that have nothing to answer, and the others after their answer."""
        self._closing = True
        for stream in self._idle:
            stream.interrupt(Unavailable(SHUTDOWN))

    async def _next_request(self, messages: Messages, stream: _Stream) -> TasksRequest | Refusal | None:
        """The next message of a stream, None at its end."""
        if self._closing:
            raise Unavailable(SHUTDOWN)
        self._idle[stream] = None
        try:
            return await stream.next(messages)
        finally:
            del self._idle[stream]

    async def _submit(self, call: Call, request: TasksRequest) -> Answer[bytes]:
        """The outcome of each task, encoded. A refusal affects neither the stream nor other tasks."""
        count, fair_yield = len(request.tasks), self._engine.fair_yield
        if count <= SMALL:
            fair_yield.small_came()
            return await self._submit_chunk(call, request, 0, count)
        outcomes: list[bytes] = []
        kept: asyncio.Future[None] | None = None
        first = 0
        while first < count:
            end = min(first + fair_yield.slice_size, count)
            await fair_yield.take(end - first)
            answer = await self._submit_chunk(call, request, first, end)
            outcomes.append(answer.value)
            first = end
            # What was applied last is kept last. A slice of which nothing was applied waits for nothing.
            kept = answer.kept or kept
        return Answer(b"".join(outcomes), kept)

    async def _submit_chunk(self, call: Call, request: TasksRequest, first: int, end: int) -> Answer[bytes]:
        """Submit the tasks from `first` on, before `end`."""
        submissions = request.submissions(first, end, call.traceparent, self._max_payload_bytes, self._default_retry)
        if call.access.agents is not None:
            submissions = _judged(call.access, submissions)
        encode_refusal = partial(_encode_refusal, call.access)
        valid, known = converted(submissions), IN_MEMORY
        if name_others(valid):
            known = await self._engine.tasks.known(call.namespace, valid, agents=call.access.agents)
        return self._engine.tasks.submit_each(
            call.namespace,
            valid,
            known=known,
            show=lambda admitted: encode_outcomes(with_refusals(submissions, admitted), encode_refusal),
        )


async def _wait_for(pace: CallBucket) -> None:
    """Wait until a message may be applied, which counts as a call. Its sender waits meanwhile, and nothing is lost."""
    while secs := pace.take(time.monotonic()):  # noqa: ASYNC110
        await asyncio.sleep(secs)


class _Stream:
    """One stream: it reads on while answers wait for a commit, and writes them in order."""

    def __init__(self, context: Context) -> None:
        self._context = context
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._ahead: PendingAcks[bytes] = PendingAcks(self._send, self.interrupt)
        self._unwritten: deque[bytes] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._reading = False

    async def next(self, messages: Messages) -> TasksRequest | Refusal | None:
        """The next message, None at the end. Raises what `interrupt` was given."""
        self._raise_failure()
        self._reading = True
        try:
            return await anext(messages, None)
        except asyncio.CancelledError:
            if self._failure is None:
                raise
            self._task.uncancel()
            raise self._failure from None
        finally:
            self._reading = False

    async def write(self, answer: Answer[bytes], size: int) -> None:
        """Write an answer once it is kept; wait if too many do."""
        if answer.kept is None and not self._ahead and self._writer is None:
            await self._context.write(answer.value)
            return
        self._ahead.add(answer.value, size, answer.kept)
        await self._ahead.wait_for_room()

    async def finish(self) -> None:
        """Wait until every answer is written. Raises what `interrupt` was given."""
        await self.write_all()
        self._raise_failure()

    async def write_all(self) -> None:
        """Wait until every answer is written, as far as it can be."""
        await self._ahead.wait_for_all()
        if self._writer is not None:
            await self._writer

    def interrupt(self, failure: BaseException) -> None:
        """End the stream with this failure."""
        if self._failure is None:
            self._failure = failure
            if self._reading:
                self._task.cancel()

    def drop(self) -> None:
        """The stream has ended."""
        self._ahead.drop()
        if self._writer is not None:
            self._writer.cancel()

    def _send(self, answer: bytes) -> None:
        self._unwritten.append(answer)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_unwritten())

    async def _write_unwritten(self) -> None:
        try:
            while self._unwritten:
                await self._context.write(self._unwritten.popleft())
        except Exception as error:
            self.interrupt(error)
        finally:
            self._writer = None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _judged(access: Access, submissions: list[Submission | Refusal]) -> list[Submission | Refusal]:
    """The same, with the refusal of each in the name of an agent that the caller is not."""
    judged: list[Submission | Refusal] = []
    for submission in submissions:
        if not isinstance(submission, Refusal):
            try:
                check_agent(access, submission.agent_id)
            except PermissionDenied as refusal:
                judged.append(refusal.with_traceback(None))
                continue
        judged.append(submission)
    return judged


def _encode_refusal(access: Access, refusal: Refusal) -> bytes:
    outcome = pb.SubmitOutcome(error=error_message(shown_refusal(access, refusal)))
    if isinstance(refusal, QueueFull):
        outcome.rejected_task_id = refusal.task.id
    return outcome.SerializeToString()
