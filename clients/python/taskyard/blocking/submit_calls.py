"""The calls of a blocking client that submit tasks, its handles and its maps: those of `Client`, blocking."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, overload

from taskyard.action import Action, I, O
from taskyard.calls.submit import NOTHING
from taskyard.handles import TaskHandle, as_completed
from taskyard.mapping import OnFailure, TaskMap
from taskyard.new_tasks import NewTask
from taskyard.records.artifacts import Artifact
from taskyard.records.explanations import Explanation
from taskyard.records.outcomes import Outcome
from taskyard.records.output import OutputChunk
from taskyard.records.questions import OpenQuestion
from taskyard.records.steps import Step
from taskyard.records.stopping import Stopping
from taskyard.records.submitted import Submitted
from taskyard.records.tasks import Task, TaskState
from taskyard.streams.task_desk import WhenFull
from taskyard.values.convert import Span
from taskyard.values.task_fields import ActionFields, TaskFields

if TYPE_CHECKING:
    from taskyard.client import Client
    from taskyard.streams.output_reading import OnDropped
    from taskyard.streams.watching import TaskEvent

T = TypeVar("T")


class SyncTaskHandle(Submitted, Generic[O]):
    """A task that was submitted, or that `SyncClient.handle` has picked up by its id. See `TaskHandle`.

    Attributes:
        id: The task's id.
        action: The typed action, None for one that was submitted by its name.

    Args:
        client: The client that asks for it.
        handle: The handle that lives on the client's loop.
    """

    action: Action[Any, O] | None

    def __init__(self, client: SyncSubmitCalls, handle: TaskHandle[O]) -> None:
        for name, value in {"id": handle.id, "action": handle.action, "_client": client, "_handle": handle}.items():
            object.__setattr__(self, name, value)

    if TYPE_CHECKING:
        _client: SyncSubmitCalls
        _handle: TaskHandle[O]
    else:

        def __getattr__(self, name: str) -> Any:
            # What it does not know itself its handle may know, or says why it does not.
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self._handle, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncTaskHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def result(self, timeout: Span | None = None) -> O:
        """Wait until the task has ended.

        Args:
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            Its output, of the action's type; plain JSON without a typed action. It raises as `TaskHandle.result` does.
        """
        return self._client._run(self._handle.result(timeout))

    def wait(self, timeout: Span | None = None) -> Task:
        """Wait until the task has ended, however it ends.

        Args:
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The ended task.
        """
        return self._client._run(self._handle.wait(timeout))

    def task(self) -> Task:
        """Get the task.

        Returns:
            The task as it is now.
        """
        return self._client._run(self._handle.task())

    @overload
    def cancel(self, *, cancel_children: bool = False, reason: str | None = None, wait: None = None) -> TaskState: ...

    @overload
    def cancel(self, *, cancel_children: bool = False, reason: str | None = None, wait: Span) -> Stopping: ...

    def cancel(
        self, *, cancel_children: bool = False, reason: str | None = None, wait: Span | None = None
    ) -> TaskState | Stopping:
        """Cancel the task at once.

        Args:
            cancel_children: Whether what its work has submitted is cancelled too, and so on. Default False.
            reason: Why, for people, up to 1,000 characters. The task shows it, and its host is told. Default none.
            wait: How long to wait for its host, in seconds or as a timedelta. Default the answer comes at once.

        Returns:
            The new state, `cancelled`; with `wait` whether anything of it may still run. It raises as
            `TaskHandle.cancel` does.
        """
        if wait is None:
            return self._client._run(self._handle.cancel(cancel_children=cancel_children, reason=reason))
        return self._client._run(self._handle.cancel(cancel_children=cancel_children, reason=reason, wait=wait))

    def explain(self) -> Explanation:
        """Find out why the task waits.

        Returns:
            Every reason, see `Client.explain`.
        """
        return self._client._run(self._handle.explain())

    def events(self) -> Iterator[TaskEvent]:
        """Watch the task: first as it is now, then what happens to it, until it has ended.

        Returns:
            An iterator over the events.
        """
        return self._client._iterate(self._handle.events())

    def output(
        self,
        *,
        after: int = 0,
        channels: Iterable[str] = (),
        follow: bool = True,
        on_dropped: OnDropped | None = None,
    ) -> Iterator[OutputChunk]:
        """Read what the task says until it has ended, see `Client.output`.

        Args:
            after: Only chunks with a greater sequence number. Default 0: from the oldest that is kept.
            channels: Only chunks of these channels. Default all.
            follow: Whether it goes on until the task has ended. Default True.
            on_dropped: Called with the number of chunks that are missing. Default a warning is logged.

        Returns:
            An iterator over the chunks.
        """
        chunks = self._handle.output(after=after, channels=channels, follow=follow, on_dropped=on_dropped)
        return self._client._iterate(chunks)

    def steps(self) -> tuple[Step, ...]:
        """Get the steps that its runs have done, see `Client.steps`.

        Returns:
            The steps, in the order in which they were recorded.
        """
        return self._client._run(self._handle.steps())

    def questions(self) -> tuple[OpenQuestion, ...]:
        """Get the questions that the task asks now.

        Returns:
            The questions, none unless it is parked.
        """
        return self._client._run(self._handle.questions())

    def answer(self, question_id: str, answer: Any) -> TaskState:
        """Answer a question of the task, see `Client.answer`.

        Args:
            question_id: The id of the question.
            answer: The answer, a JSON value.

        Returns:
            The state of the task now: `queued` where it was parked.
        """
        return self._client._run(self._handle.answer(question_id, answer))

    def read_artifact(self, name: str) -> bytes:
        """Read an artifact of the task, see `Client.read_artifact`.

        Args:
            name: The name of the artifact.

        Returns:
            Its bytes.
        """
        return self._client._run(self._handle.read_artifact(name))

    def save_artifact(self, name: str, path: str | os.PathLike[str]) -> Artifact:
        """Save an artifact of the task in a file, see `Client.save_artifact`.

        Args:
            name: The name of the artifact.
            path: The file. One that is there is replaced.

        Returns:
            The artifact.
        """
        return self._client._run(self._handle.save_artifact(name, path))


class SyncTaskMap(Generic[I, O]):
    """The tasks of some inputs, as `SyncClient.map` makes them. Enter it by `with`, then go through the outcomes.

    Leaving the block cancels the tasks that have not ended. Inputs are read in a thread of their own.

    Args:
        client: The client.
        tasks: The map that lives on the client's loop.
    """

    def __init__(self, client: SyncSubmitCalls, tasks: TaskMap[I, O]) -> None:
        self._client = client
        self._tasks = tasks
        tasks.in_thread = True

    def __enter__(self) -> Self:
        self._client._run(self._tasks.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client._run(self._tasks.__aexit__(kind, error, trace))

    def __iter__(self) -> Iterator[Outcome[I, O]]:
        while outcomes := self._client._run(self._tasks.take()):
            yield from outcomes


class SyncSubmitCalls:
    """The part of `SyncClient` that submits."""

    if TYPE_CHECKING:
        _client: Client

        def _run(self, call: Coroutine[Any, Any, T]) -> T: ...

        def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]: ...

    @overload
    def submit(
        self,
        action: Action[I, O],
        input: I,
        /,
        *,
        cancel_on_exit: bool = False,
        when_full: WhenFull = "raise",
        **fields: Unpack[ActionFields],
    ) -> SyncTaskHandle[O]: ...

    @overload
    def submit(
        self,
        task: str | NewTask,
        /,
        *,
        cancel_on_exit: bool = False,
        when_full: WhenFull = "raise",
        **fields: Unpack[TaskFields],
    ) -> SyncTaskHandle[Any]: ...

    def submit(self, task: Any, input: Any = NOTHING, /, **options: Any) -> SyncTaskHandle[Any]:  # noqa: A002
        """Submit one task, as `Client.submit` does.

        Args:
            task: The typed action; or the name of an action, or a task whose fields are the defaults.
            input: The input, of the action's type. With a typed action alone.
            **options: Those of `Client.submit`, and fields of the task, see `NewTask`.

        Returns:
            The handle of the task, with its acceptance.
        """
        return SyncTaskHandle(self, self._run(self._client.submit(task, input, **options)))

    @overload
    def run(
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
    def run(
        self,
        task: str | NewTask,
        /,
        *,
        cancel_on_exit: bool = True,
        when_full: WhenFull = "raise",
        **fields: Unpack[TaskFields],
    ) -> Any: ...

    def run(self, task: Any, input: Any = NOTHING, /, **options: Any) -> Any:  # noqa: A002
        """Submit one task and wait until it has ended, as `Client.run` does. Ctrl-C cancels it.

        Args:
            task: The typed action; or the name of an action, or a task whose fields are the defaults.
            input: The input, of the action's type. With a typed action alone.
            **options: Those of `Client.run`, and fields of the task, see `NewTask`.

        Returns:
            The output of the task, of the action's type; plain JSON without a typed action.
        """
        return self._run(self._client.run(task, input, **options))

    @overload
    def handle(self, task_id: str, action: Action[Any, O], /) -> SyncTaskHandle[O]: ...

    @overload
    def handle(self, task_id: str, action: None = None, /) -> SyncTaskHandle[Any]: ...

    def handle(self, task_id: str, action: Any = None, /) -> SyncTaskHandle[Any]:
        """Pick up a task that was submitted before, as `Client.handle` does.

        Args:
            task_id: The task.
            action: The typed action that it was submitted with. Default none: its result is plain JSON.

        Returns:
            Its handle.
        """
        return SyncTaskHandle(self, self._client.handle(task_id, action))

    @overload
    def map(
        self,
        action: Action[I, O],
        inputs: Iterable[I],
        /,
        *,
        max_outstanding: int = 100,
        on_failure: OnFailure = "yield",
        progress: bool = False,
        when_full: WhenFull = "wait",
        **fields: Unpack[ActionFields],
    ) -> SyncTaskMap[I, O]: ...

    @overload
    def map(
        self,
        action: str,
        inputs: Iterable[Mapping[str, Any]],
        /,
        *,
        max_outstanding: int = 100,
        on_failure: OnFailure = "yield",
        progress: bool = False,
        when_full: WhenFull = "wait",
        **fields: Unpack[ActionFields],
    ) -> SyncTaskMap[Mapping[str, Any], Any]: ...

    def map(self, action: Any, inputs: Any, /, **options: Any) -> SyncTaskMap[Any, Any]:
        """Submit a task for each input, and get each outcome once, as it ends, as `Client.map` does.

        Args:
            action: The typed action, or the name of an action.
            inputs: The inputs, an iterable, which is read in another thread; without a typed action they are `params`.
            **options: Those of `Client.map`, and fields of all tasks, see `NewTask`.

        Returns:
            The map, to be entered by `with`.
        """

        async def make() -> TaskMap[Any, Any]:
            return self._client.map(action, inputs, **options)

        return SyncTaskMap(self, self._run(make()))

    def as_completed(self, handles: Iterable[SyncTaskHandle[O]]) -> Iterator[SyncTaskHandle[O]]:
        """Go through handles in the order in which their tasks end, see `taskyard.as_completed`.

        Args:
            handles: The handles.

        Returns:
            An iterator over each handle once, as soon as its task has ended.
        """
        by_handle = {handle._handle: handle for handle in handles}

        async def ended() -> AsyncGenerator[SyncTaskHandle[O], None]:
            async for handle in as_completed(by_handle):
                yield by_handle[handle]

        return self._iterate(ended())
