"""A handle of a submitted task: its typed result, its events, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from taskyard.v1 import task_pb2 as pb

from .action import Action, O
from .calls.runs import questions_of
from .errors import NotFound
from .failures import TaskLost, failure_of
from .records.artifacts import Artifact
from .records.explanations import Explanation
from .records.output import OutputChunk
from .records.questions import OpenQuestion
from .records.steps import Step
from .records.stopping import Stopping
from .records.submitted import Submitted
from .records.tasks import Task, TaskState
from .values.convert import Span
from .values.payloads import decode_value

if TYPE_CHECKING:
    from .streams.output_reading import OnDropped
    from .streams.task_desk import TaskDesk
    from .streams.watching import TaskEvent

T = TypeVar("T")

ACCEPTANCE: Final = ("state", "position", "created_at", "existing")


class TaskHandle(Submitted, Generic[O]):
    """A task that was submitted, or that `Client.handle` has picked up by its id.

    A handle that was picked up knows its id alone: `state`, `position`, `created_at` and `existing` raise
    AttributeError then.

    Attributes:
        id: The task's id.
        state: Its state when it was accepted, `queued` or `pending`. `task` says what it is now.
        position: The number of queued tasks of the namespace at that moment.
        created_at: When it was accepted.
        existing: Whether it is a task that had the unique key already, so that nothing was submitted.
        action: The typed action, None for one that was submitted by its name.

    Args:
        desk: Follows and ends the task.
        task_id: The task.
        action: The typed action, None for results as plain JSON.
        accepted: Its acceptance, None for a task that is picked up.
        by_default: Whether it was submitted without a deadline, so that the server's default holds.
    """

    action: Action[Any, O] | None

    def __init__(
        self,
        desk: TaskDesk,
        task_id: str,
        action: Action[Any, O] | None,
        accepted: Submitted | None = None,
        by_default: bool = False,
    ) -> None:
        put = object.__setattr__
        put(self, "id", task_id)
        put(self, "action", action)
        put(self, "_desk", desk)
        put(self, "_was_accepted", accepted is not None)
        put(self, "_by_default", by_default)
        put(self, "_ended", None)
        if accepted is not None:
            put(self, "state", accepted.state)
            put(self, "position", accepted.position)
            put(self, "created_at", accepted.created_at)
            put(self, "existing", accepted.existing)

    if TYPE_CHECKING:
        _desk: TaskDesk
        _was_accepted: bool
        _by_default: bool
        _ended: Task | None
    else:

        def __getattr__(self, name: str) -> Any:
            if name in ACCEPTANCE:
                raise AttributeError(f"{name}: {self.id} was picked up by its id: `await handle.task()` shows it")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def result(self, timeout: Span | None = None) -> O:  # noqa: ASYNC109
        """Wait until the task has ended.

        Args:
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            Its output, of the action's type; plain JSON without a typed action.

        Raises:
            TaskFailed: It did not end as done; `TaskCancelled` if it was cancelled.
            TaskLost: The server no longer knows it, most likely since it was started anew and keeps nothing.
            TimeoutError: It has not ended in time.
            BadValue: The output does not fit the action's type, or cannot be read.
        """
        return self.output_of(await self._desk.artifacts.whole(await self.wait(timeout)))

    async def wait(self, timeout: Span | None = None) -> Task:  # noqa: ASYNC109
        """Wait until the task has ended, however it ends.

        Args:
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The ended task.

        Raises:
            TaskLost: The server no longer knows it, most likely since it was started anew and keeps nothing.
            TimeoutError: It has not ended in time.
        """
        if self._ended is not None:
            return self._ended
        try:
            ended = await self._desk.wait(self.id, timeout)
        except NotFound as error:
            raise self.lost(error) from error
        if ended.state is TaskState.DONE:
            # Nothing else can become of it.
            self.note(ended)
        return ended

    async def task(self) -> Task:
        """Get the task.

        Returns:
            The task as it is now.

        Raises:
            TaskLost: The server no longer knows it.
        """
        try:
            return await self._desk.get(self.id)
        except NotFound as error:
            raise self.lost(error) from error

    @overload
    async def cancel(
        self, *, cancel_children: bool = False, reason: str | None = None, wait: None = None
    ) -> TaskState: ...

    @overload
    async def cancel(self, *, cancel_children: bool = False, reason: str | None = None, wait: Span) -> Stopping: ...

    async def cancel(
        self, *, cancel_children: bool = False, reason: str | None = None, wait: Span | None = None
    ) -> TaskState | Stopping:
        """Cancel the task at once.

        Args:
            cancel_children: Whether what its work has submitted is cancelled too, and so on. Default False.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host to say that nothing of it runs any more, in seconds or as a timedelta,
                at most a minute. Default the answer comes at once.

        Returns:
            The new state, `cancelled`; with `wait` whether anything of it may still run.

        Raises:
            TaskLost: The server no longer knows it.
            Conflict: It has ended.
            ValueError: The wait is negative, or too long.
        """
        try:
            if wait is None:
                return await self._desk.cancel(self.id, cancel_children=cancel_children, reason=reason)
            return await self._desk.cancel(self.id, cancel_children=cancel_children, reason=reason, wait=wait)
        except NotFound as error:
            raise self.lost(error) from error

    async def explain(self) -> Explanation:
        """Find out why the task waits.

        Returns:
            Every reason, see `Client.explain`.

        Raises:
            TaskLost: The server no longer knows it.
        """
        try:
            return await self._desk.explain(self.id)
        except NotFound as error:
            raise self.lost(error) from error

    async def events(self) -> AsyncGenerator[TaskEvent, None]:
        """Watch the task: first as it is now, then what happens to it, until it has ended.

        Yields:
            The events. None if it has ended so long ago that it is found in the history alone.

        Raises:
            TaskLost: The server does not know it.
        """
        request = pb.WatchTasksRequest(task_ids=[self.id], include_current=True, until_ended=True)
        is_known = False
        async with contextlib.aclosing(self._desk.watch(request)) as events:
            async for event in events:
                is_known = True
                yield event
        if not is_known:
            await self.task()

    async def output(
        self,
        *,
        after: int = 0,
        channels: Iterable[str] = (),
        follow: bool = True,
        on_dropped: OnDropped | None = None,
    ) -> AsyncGenerator[OutputChunk, None]:
        """Read what the task says until it has ended, see `Client.output`.

        Args:
            after: Only chunks with a greater sequence number. Default 0: from the oldest that is kept.
            channels: Only chunks of these channels. Default all.
            follow: Whether it goes on until the task has ended. Default True.
            on_dropped: Called with the number of chunks that are missing. Default a warning is logged.

        Yields:
            The chunks.

        Raises:
            TaskLost: The server no longer knows it.
        """
        chunks = self._desk.output(self.id, after=after, channels=channels, follow=follow, on_dropped=on_dropped)
        async with contextlib.aclosing(chunks):
            try:
                async for chunk in chunks:
                    yield chunk
            except NotFound as error:
                raise self.lost(error) from error

    async def steps(self) -> tuple[Step, ...]:
        """Get the steps that its runs have done, see `Client.steps`.

        Returns:
            The steps, in the order in which they were recorded.

        Raises:
            NotFound: There is no such task.
        """
        return await self._desk.runs.steps(self.id)

    async def questions(self) -> tuple[OpenQuestion, ...]:
        """Get the questions that the task asks now.

        Returns:
            The questions, none unless it is parked.

        Raises:
            TaskLost: The server no longer knows it.
        """
        return questions_of(await self.task())

    async def answer(self, question_id: str, answer: Any) -> TaskState:
        """Answer a question of the task, see `Client.answer`.

        Args:
            question_id: The id of the question.
            answer: The answer, a JSON value.

        Returns:
            The state of the task now: `queued` where it was parked.

        Raises:
            NotFound: There is no such task, or it has not asked this.
            BadRequest: The question does not allow the answer.
            Conflict: It has another answer, or its time is over.
            TypeError: The answer is no JSON.
        """
        return await self._desk.runs.answer(self.id, question_id, answer)

    async def read_artifact(self, name: str) -> bytes:
        """Read an artifact of the task, see `Client.read_artifact`.

        Args:
            name: The name of the artifact.

        Returns:
            Its bytes.

        Raises:
            NotFound: There is no such task, or it has no such artifact.
        """
        return await self._desk.artifacts.read(self.id, name)

    async def save_artifact(self, name: str, path: str | os.PathLike[str]) -> Artifact:
        """Save an artifact of the task in a file, see `Client.save_artifact`.

        Args:
            name: The name of the artifact.
            path: The file. One that is there is replaced.

        Returns:
            The artifact.

        Raises:
            NotFound: There is no such task, or it has no such artifact.
            OSError: The file cannot be written.
        """
        return await self._desk.artifacts.save(self.id, name, Path(path))

    def output_of(self, task: Task) -> O:
        """Find the output of the ended task.

        Args:
            task: The task as it ended.

        Returns:
            Its output, of the action's type.

        Raises:
            TaskFailed: It did not end as done.
            BadValue: The output does not fit the action's type, or cannot be read.
        """
        if (failure := failure_of(task, self._by_default)) is not None:
            raise failure
        return output_of(task, self.action, self._desk)

    def note(self, ended: Task) -> None:
        """Note how the task has ended, so that nobody is asked again.

        Args:
            ended: The task as it ended.
        """
        object.__setattr__(self, "_ended", ended)

    def lost(self, error: NotFound) -> NotFound:
        """Choose the error for a task that the server does not know.

        Args:
            error: What the server says.

        Returns:
            The error to raise.
        """
        return TaskLost(self.id) if self._was_accepted else error


def output_of(task: Task, action: Action[Any, O] | None, desk: TaskDesk) -> O:
    """Find the output of a task that is done.

    Args:
        task: The task.
        action: The typed action, None for plain JSON.
        desk: What has the codec.

    Returns:
        The output.

    Raises:
        BadValue: It does not fit the action's type, or cannot be read.
    """
    kind = Any if action is None else action.output_type
    output: O = decode_value(kind, task.result, task.output, desk.codec)
    return output


async def as_completed(handles: Iterable[TaskHandle[O]]) -> AsyncIterator[TaskHandle[O]]:
    """Go through handles in the order in which their tasks end. It costs a few watches, not a call for each task.

    The result of a handle that was yielded is at hand: `await handle.result()` returns or raises at once.

    Args:
        handles: The handles, of one client or several.

    Yields:
        Each handle once, as soon as its task has ended. Of a task that the server no longer knows `result` raises
        `TaskLost`.

    Raises:
        TaskyardError: The tasks cannot be watched; `Unavailable` after an outage that is longer than the patience.
    """
    waiting: dict[asyncio.Future[Task], TaskHandle[O]] = {}
    try:
        for handle in dict.fromkeys(handles):
            waiting[handle._desk.completions.expect(handle.id)] = handle
        while waiting:
            ended, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                handle = waiting.pop(future)
                # Of a task that is lost its result says so.
                with contextlib.suppress(NotFound):
                    handle.note(future.result())
                yield handle
    finally:
        for future, handle in waiting.items():
            handle._desk.completions.forget(handle.id, future)
