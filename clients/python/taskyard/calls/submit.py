"""The calls of a client that submit tasks: one, a batch, one and its result, and a map of many inputs."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack, overload
from uuid import uuid4

from taskyard.action import Action, I, O
from taskyard.errors import TooLarge
from taskyard.handles import TaskHandle, as_completed
from taskyard.mapping import OnFailure, TaskMap
from taskyard.new_tasks import NewTask, common_task, new_task, task_of
from taskyard.records.batches import SubmittedBatch
from taskyard.renamed import either
from taskyard.streams.task_desk import ENDING_SECS, TaskDesk, WhenFull
from taskyard.v1 import batch_pb2
from taskyard.values.params_artifact import refuses_params
from taskyard.values.task_fields import ActionFields, TaskFields, known

from .calls import Calls
from .tasks import submit_batch_once

if TYPE_CHECKING:
    from taskyard.v1.batch_pb2_grpc import BatchServiceAsyncStub
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub

NOTHING: Final[Any] = object()
"""No input was given."""


class SubmitCalls:
    """The part of `Client` that submits."""

    if TYPE_CHECKING:
        _desk: TaskDesk
        _calls: Calls
        _tasks: TaskServiceAsyncStub
        _batches: BatchServiceAsyncStub

    @overload
    async def submit(
        self,
        action: Action[I, O],
        input: I,
        /,
        *,
        cancel_on_exit: bool = False,
        when_full: WhenFull = "raise",
        **fields: Unpack[ActionFields],
    ) -> TaskHandle[O]: ...

    @overload
    async def submit(
        self,
        task: str | NewTask,
        /,
        *,
        cancel_on_exit: bool = False,
        when_full: WhenFull = "raise",
        **fields: Unpack[TaskFields],
    ) -> TaskHandle[Any]: ...

    async def submit(
        self,
        task: Any,
        input: Any = NOTHING,  # noqa: A002
        /,
        *,
        cancel_on_exit: bool = False,
        when_full: WhenFull = "raise",
        **fields: Any,
    ) -> TaskHandle[Any]:
        """Submit one task: `submit(crawl, Page(...))` with a typed action, `submit("crawl", params={...})` without.

        Tasks that are submitted at the same time travel together: a thousand of them cost little more than a batch. A
        task without an idempotency key gets one, and is made once, however often the connection breaks. Cancelling the
        call takes the task back unless it was sent. A task that a handler submits carries that handler's task as its
        parent. An input of more than 256 KiB becomes an artifact of the task, and its handler sees the value.

        Args:
            task: The typed action; or the name of an action, or a task whose fields are the defaults.
            input: The input, of the action's type. With a typed action alone.
            cancel_on_exit: Whether the task is cancelled when the client closes before its end is known, and when this
                call is cancelled after it was sent. Default False: it outlives the program. One that had the unique key
                before is left alone.
            when_full: `"wait"` tries again until a full queue has room, for as long as that takes. Default `"raise"`.
            **fields: Fields of the task, see `NewTask`.

        Returns:
            The handle of the task, with its acceptance.

        Raises:
            QueueFull: The queue is full. The task is kept as rejected, under the error's `task_id`.
            TooLarge: The input is too large, also for an artifact; or the server keeps none.
            AlreadyExists: The idempotency key belongs to a different task, or the unique key is taken and `on_conflict`
                is `"reject"`.
            NotFound: A task that it comes `after`, or that is an input, is not known.
            Unavailable: The server owed its answer for longer than `patience`. It may have accepted the task.
            BadValue: The input does not fit the action's type.
            TypeError: A field is unknown, or has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        action, new = _task_from(task, input, fields)
        accepted = await self._desk.accept(new, when_full, ends_if_cancelled=cancel_on_exit)
        if cancel_on_exit and not accepted.existing:
            self._desk.end_at_close(accepted.id)
        return TaskHandle(self._desk, accepted.id, action, accepted, _is_due_by_default(new))

    async def submit_batch(
        self,
        tasks: Iterable[NewTask],
        *,
        agent_id: str | None = None,
        callback_url: str | None = None,
        agent: str | None = None,
    ) -> SubmittedBatch:
        """Submit several tasks of one agent as a batch. Each is accepted or refused by itself.

        Args:
            tasks: The tasks; `task_of` makes those of typed actions. One may come `after` others that stand before it,
                and have them as `inputs`.
            agent_id: The agent of all tasks. Default the client's.
            callback_url: The URL that each task is posted to when it ends. Default none.
            agent: The old name of `agent_id`.

        Returns:
            The outcome of each task.

        Raises:
            BatchTooLarge: There are too many tasks; none was submitted.
            TooLarge: The params of a task are too large for a batch; none was submitted. `submit` takes such a task.
            BadRequest: A task is malformed; none was submitted.
            TypeError: A field has a type that the API cannot express.
            ValueError: A task has an agent or a callback of its own, comes after one that does not stand before it, or
                has a value that the API cannot express.
        """
        parent_id, given = self._desk.parent_id(), list(tasks)
        request = batch_pb2.SubmitBatchRequest(
            agent_id=either(agent_id, agent, "agent", "agent_id") or self._desk.agent_id,
            callback_url=callback_url,
            tasks=[
                task.to_batch_message(uuid4().hex, self._desk.codec, parent_id, before=given[:place])
                for place, task in enumerate(given)
            ],
        )
        try:
            return await submit_batch_once(self._calls, self._batches, self._tasks, request)
        except TooLarge as error:
            if refuses_params(error):
                error.reason += "; submit this task by itself: `submit` makes an artifact of them"
            raise

    @overload
    async def run(
        self,
        action: Action[I, O],
        input: I,
        /,
        *,
        cancel_on_exit: bool = True,
        when_full: WhenFull = "raise",
        **fields: Unpack[ActionFields],
    ) -> O: ...

    @overload
    async def run(
        self,
        task: str | NewTask,
        /,
        *,
        cancel_on_exit: bool = True,
        when_full: WhenFull = "raise",
        **fields: Unpack[TaskFields],
    ) -> Any: ...

    async def run(
        self,
        task: Any,
        input: Any = NOTHING,  # noqa: A002
        /,
        *,
        cancel_on_exit: bool = True,
        when_full: WhenFull = "raise",
        **fields: Any,
    ) -> Any:
        """Submit one task and wait until it has ended: `run(crawl, Page(...))`, or `run("crawl", params={...})`.

        Args:
            task: The typed action; or the name of an action, or a task whose fields are the defaults.
            input: The input, of the action's type. With a typed action alone.
            cancel_on_exit: Whether the task is cancelled if this call is, by a time-out around it or by Ctrl-C. Default
                True. One that had the unique key before is left alone.
            when_full: `"wait"` tries again until a full queue has room, for as long as that takes. Default `"raise"`.
            **fields: Fields of the task, see `NewTask`.

        Returns:
            The output of the task, of the action's type; plain JSON without a typed action.

        Raises:
            TaskFailed: The task did not end as done; `TaskCancelled` if it was cancelled.
            TaskLost: The server accepted the task and knows it no longer, since it was started anew and keeps nothing.
            BadValue: The input or the output does not fit the action's type.
            TaskyardError: What `submit` and `wait` raise.
        """
        handle: TaskHandle[Any] = await self.submit(
            task, input, cancel_on_exit=cancel_on_exit, when_full=when_full, **fields
        )
        try:
            return await handle.result()
        except asyncio.CancelledError:
            if cancel_on_exit and not handle.existing:
                ending = asyncio.ensure_future(self._desk.end_tasks([handle.id]))
                await asyncio.wait([ending], timeout=ENDING_SECS)
            raise
        finally:
            self._desk.has_ended(handle.id)

    @overload
    def handle(self, task_id: str, action: Action[Any, O], /) -> TaskHandle[O]: ...

    @overload
    def handle(self, task_id: str, action: None = None, /) -> TaskHandle[Any]: ...

    def handle(self, task_id: str, action: Any = None, /) -> TaskHandle[Any]:
        """Pick up a task that was submitted before, perhaps by another process. The server is not asked yet.

        Args:
            task_id: The task.
            action: The typed action that it was submitted with. Default none: its result is plain JSON.

        Returns:
            Its handle.
        """
        return TaskHandle(self._desk, task_id, action)

    @overload
    def map(
        self,
        action: Action[I, O],
        inputs: Iterable[I] | AsyncIterable[I],
        /,
        *,
        max_outstanding: int = 100,
        on_failure: OnFailure = "yield",
        progress: bool = False,
        when_full: WhenFull = "wait",
        **fields: Unpack[ActionFields],
    ) -> TaskMap[I, O]: ...

    @overload
    def map(
        self,
        action: str,
        inputs: Iterable[Mapping[str, Any]] | AsyncIterable[Mapping[str, Any]],
        /,
        *,
        max_outstanding: int = 100,
        on_failure: OnFailure = "yield",
        progress: bool = False,
        when_full: WhenFull = "wait",
        **fields: Unpack[ActionFields],
    ) -> TaskMap[Mapping[str, Any], Any]: ...

    def map(
        self,
        action: Any,
        inputs: Any,
        /,
        *,
        max_outstanding: int = 100,
        on_failure: OnFailure = "yield",
        progress: bool = False,
        when_full: WhenFull = "wait",
        **fields: Any,
    ) -> TaskMap[Any, Any]:
        """Submit a task for each input, and get each outcome once, as it ends.

            async with client.map(crawl, pages) as outcomes:
                async for outcome in outcomes:
                    print(outcome.input, outcome.result)

        Inputs are read as there is room, so that they may be any number. Leaving the block cancels the tasks that have
        not ended. How tasks end is learnt by a few watches; only a failed task costs a call, for its traceback.

        Args:
            action: The typed action, or the name of an action.
            inputs: The inputs, an iterable or an asynchronous iterable; without a typed action they are `params`.
            max_outstanding: How many tasks are submitted and not yet handed out, at most. Default 100.
            on_failure: `"yield"` hands out an outcome with an error, `"raise"` raises the error, `"cancel_rest"` hands
                it out, reads no further inputs and cancels the tasks that have not ended. Default `"yield"`.
            progress: Whether a bar is shown at a terminal. Default False.
            when_full: What happens when the queue is full, see `submit`. Default `"wait"`.
            **fields: Fields of all tasks, see `NewTask`.

        Returns:
            The map, to be entered by `async with`. Going through it raises what concerns more than one input, such as
            `Unavailable`; what concerns one input is in its outcome.

        Raises:
            TypeError: A field is unknown, or the inputs cannot be gone through.
            ValueError: An argument has a value that is not known.
        """
        # A mistake in the call is raised by it, and is not the outcome of each input.
        common = common_task(action.name if isinstance(action, Action) else action, fields)
        if isinstance(action, Action):
            typed: Action[Any, Any] = action

            def make(value: Any) -> NewTask:
                return task_of(typed, value, **fields)

        else:

            def make(value: Any) -> NewTask:
                return dataclasses.replace(common, params=value)

        return TaskMap(
            self._desk,
            action if isinstance(action, Action) else None,
            inputs,
            make,
            max_outstanding=max_outstanding,
            on_failure=on_failure,
            progress=progress,
            when_full=when_full,
        )

    def as_completed(self, handles: Iterable[TaskHandle[O]]) -> AsyncIterator[TaskHandle[O]]:
        """Go through handles in the order in which their tasks end, see `taskyard.as_completed`.

        Args:
            handles: The handles.

        Returns:
            An iterator over each handle once, as soon as its task has ended.
        """
        return as_completed(handles)


def _task_from(task: Any, value: Any, fields: Any) -> tuple[Action[Any, Any] | None, NewTask | Mapping[str, Any]]:
    """The typed action, if it is one, and the task: for the name of an action just the fields, which is less work."""
    if isinstance(task, str) and value is NOTHING:
        return None, {"action": task, **known(fields)}
    if isinstance(task, Action):
        if value is NOTHING:
            raise TypeError(f"the action {task.name!r} takes an input, the second argument")
        return task, task_of(task, value, **fields)
    if value is not NOTHING:
        raise TypeError("an input, the second argument, is for an Action; the name of an action takes params=")
    return None, new_task(task, fields)


def _is_due_by_default(task: NewTask | Mapping[str, Any]) -> bool:
    """True if a task is due at once, and its deadline is the server's."""
    if isinstance(task, NewTask):
        return task.deadline is None and not task.hold and task.not_before is None
    return task.get("deadline") is None and not task.get("hold") and task.get("not_before") is None
