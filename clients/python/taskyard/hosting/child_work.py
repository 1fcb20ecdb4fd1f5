"""Children as a handler has them: tasks that it submits by name, and what became of them (docs/rules.md, Children).

Nothing here needs grpc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

from taskyard.records.tasks import STATE_OF_NUMBER, TaskState
from taskyard.v1.input_pb2 import Input
from taskyard.v1.task_pb2 import SubmitTaskRequest
from taskyard.values.convert import plain_value
from taskyard.values.payloads import BadValue, decode_value

from .artifact_work import Work

if TYPE_CHECKING:
    from taskyard.values.convert import Span

    from .step_work import RunSteps

T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - the output of an action, as everywhere

NOTHING: Final[Any] = object()
"""In place of an input that was not given."""
Join: TypeAlias = "Callable[[list[str], str, Span | None], Work[None]]"
"""Waits for the end of tasks under a name, as `RunningTask.join` does."""


class ChildFailed(Exception):
    """A child did not end as done.

    Attributes:
        name: Its name among the children of the task.
        id: Its id.
        state: Its state: failed or cancelled.
        message: Why.

    Args:
        name: Its name.
        task_id: Its id.
        state: Its state.
        message: Why.
    """

    def __init__(self, name: str, task_id: str, state: TaskState, message: str) -> None:
        super().__init__(name, task_id, state, message)
        self.name = name
        self.id = task_id
        self.state = state
        self.message = message

    def __str__(self) -> str:
        return f"the child {self.name!r} ({self.id}) is {self.state}: {self.message}"


class TaskChildren(Protocol):
    """The children of one task. Its methods block, and may be called from any thread."""

    def submit(self, name: str, request: SubmitTaskRequest) -> str:
        """Submit a child, or find the one that has its name.

        Args:
            name: Its name.
            request: The child.

        Returns:
            Its id.

        Raises:
            TaskyardError: It is refused.
        """

    def find(self, name: str) -> Input:
        """Find a child by its name.

        Args:
            name: Its name.

        Returns:
            The child as it stands, with its result whole.

        Raises:
            TaskyardError: It cannot be read.
        """


class Child(Generic[O]):
    """A child of a running task, which `RunningTask.child` returns. `RunningTask.join` takes it.

    Attributes:
        name: Its name among the children of the task.
        id: Its id.

    Args:
        name: Its name.
        task_id: Its id.
        kind: The type of its result.
        family: What its parent knows of its children.
    """

    def __init__(self, name: str, task_id: str, kind: Any, family: Family) -> None:
        self.name = name
        self.id = task_id
        self._kind = kind
        self._family = family

    def __repr__(self) -> str:
        return f"Child({self.name!r}, {self.id!r})"

    def result(self, timeout: Span | None = None) -> Work[O]:
        """Get its result. Until it has ended, the task is parked, as `join` parks it.

        Await it in an async handler; a plain handler has the result as `.value`.

        Args:
            timeout: How long it may take at most, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The result: of a typed action in its type, else JSON.

        Raises:
            ChildFailed: It failed or was cancelled.
            Parked: It has not ended yet.
            TimeoutError: It has not ended in time.
            BadValue: The result does not fit the type.
        """
        return ResultWork(self, self._kind, self._family, timeout)


class Family:
    """The children of a task as its run knows them, and its way to wait for them.

    Args:
        steps: The steps of the run, which has the children.
        join: Waits for the end of tasks.
        must_wait: Finds out whether what is asked is awaited.
    """

    def __init__(self, steps: RunSteps, join: Join, must_wait: Callable[[], bool]) -> None:
        self.children = steps.kept.children
        self.codec = steps.kept.codec
        self.under_way = steps.under_way
        self.wait_of = steps.wait_of
        self.join = join
        self.must_wait = must_wait

    def submit(self, name: str, action: Any, value: Any, fields: Mapping[str, Any]) -> Work[Child[Any]]:
        """Submit a child.

        Args:
            name: Its name.
            action: The typed action, or the name of one, or a `NewTask`.
            value: The input, `NOTHING` for none.
            fields: Fields of the task.

        Returns:
            The child.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        from taskyard.action import Action
        from taskyard.new_tasks import new_task, task_of

        if isinstance(action, Action):
            new, kind = task_of(action, value, **fields), action.output_type
        elif value is NOTHING:
            new, kind = new_task(action, fields), Any
        else:
            raise TypeError("an input, the third argument, is for an Action; the name of an action takes params=")
        request = new.to_message("", "", self.codec)

        def call() -> Child[Any]:
            return Child(name, self.children.submit(name, request), kind, self)

        return ChildWork(call, self)


class ChildWork(Work[T]):
    """A call about a child, while which the run is not parked.

    Args:
        call: The call, which blocks.
        family: All children.
    """

    __slots__ = ("_family",)

    def __init__(self, call: Callable[[], T], family: Family) -> None:
        self._family = family
        super().__init__(call, family.must_wait())

    async def _made(self) -> T:
        with self._family.under_way():
            return await asyncio.to_thread(self._call)


class ResultWork(Work[O]):
    """The result of a child: awaited in an async handler, and there at once, as `value`, in a plain function.

    Args:
        child: The child.
        kind: The type of its result.
        family: The other children.
        timeout: How long it may take at most, None for as long as it takes.
    """

    __slots__ = ("_child", "_end", "_family", "_kind", "_timeout", "_wait")

    def __init__(self, child: Child[O], kind: Any, family: Family, timeout: Span | None) -> None:
        self._child = child
        self._kind = kind
        self._family = family
        self._timeout = timeout
        # In the order of the calls, which is the same in each run.
        self._wait = family.wait_of(child.name)
        self._end: Work[None] | None = None
        super().__init__(self._find, must_wait=True)  # type: ignore[arg-type]
        if not family.must_wait():
            self._look_now()

    def _look_now(self) -> None:
        """Take the result if it is there; else the task is parked, at once or when this is awaited."""
        found = self._find()
        if not _has_ended(found):
            self._end = self._ended()
            if not self._end.is_done:
                return
            found = self._find()
        self._value, self._is_done = self._read(found), True

    async def _made(self) -> O:
        found = await ChildWork(self._find, self._family)
        if not _has_ended(found):
            await (self._end or self._ended())
            found = await ChildWork(self._find, self._family)
        return self._read(found)

    def _find(self) -> Input:
        return self._family.children.find(self._child.name)

    def _ended(self) -> Work[None]:
        return self._family.join([self._child.id], self._wait, self._timeout)

    def _read(self, found: Input) -> O:
        child, state = self._child, STATE_OF_NUMBER[found.state]
        if state is not TaskState.DONE:
            raise ChildFailed(child.name, child.id, state, found.error or "no reason given")
        plain = plain_value(found.result) if found.HasField("result") else None
        output = found.output if found.HasField("output") else None
        try:
            value: O = decode_value(self._kind, plain, output, self._family.codec)
        except BadValue as error:
            raise BadValue(f"child {child.name!r}: the result does not fit: {error}") from error
        return value


def _has_ended(found: Input) -> bool:
    return STATE_OF_NUMBER[found.state].ended
