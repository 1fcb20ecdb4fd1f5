"""A running task that begins from its start again in a later run, and has its steps again, by their names."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from taskyard.v1.runtime_host_pb2 import TaskParked
from taskyard.v1.step_pb2 import Step
from taskyard.v1.wait_pb2 import NewWait
from taskyard.values.convert import Span
from taskyard.values.payloads import MISSING

from .artifact_work import Work
from .child_work import NOTHING, Child, Family
from .new_waits import answer_in, new_event, new_join, new_question, new_sleep, payload_in
from .park_work import RunWaits, WaitWork
from .step_work import RunSteps, StepWork, TaskSteps

if TYPE_CHECKING:
    from taskyard.action import Action
    from taskyard.blocking.submit_calls import SyncTaskHandle
    from taskyard.new_tasks import NewTask
    from taskyard.records.submitted import Submitted
    from taskyard.records.tasks import Task
    from taskyard.values.task_fields import ActionFields, TaskFields

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - input and output, as `Action` has them
O = TypeVar("O")  # noqa: E741

_MAKING = threading.Lock()


class ResumableTask:
    """The part of a running task that is about how its handler runs, and about how a later run goes on.

    Attributes:
        cancelled: Whether the work is no longer wanted.
        raises: True if calls raise once the task is cancelled, as they do in threads and processes.
        blocks: True if a plain function runs in the thread of the loop, as it does in worker processes.
        releases_target: Whether its target is free for other tasks while it waits without a slot. Set it before.
            Default False: a page or a repository that somebody works on stays as it is.

    Args:
        steps: Makes what has its steps, when they are needed. None: it has none.
    """

    __slots__ = (
        *("_loop", "_run_steps", "_run_waits", "_steps", "_thread", "_was_told"),
        *("blocks", "cancelled", "raises", "releases_target"),
    )

    def __init__(self, steps: Callable[[], TaskSteps] | None) -> None:
        self.cancelled = False
        self.raises = False
        self.blocks = False
        self.releases_target = False
        self._was_told = False
        self._steps = steps
        self._run_steps: RunSteps | None = None
        self._run_waits: RunWaits | None = None
        # None in a unit test: its task records what is reported, from any thread.
        self._loop = asyncio._get_running_loop()
        self._thread = threading.get_ident()

    def check(self) -> None:
        """Raise if the work is no longer wanted, once; for plain functions in a loop of theirs.

        Raises:
            CancelledError: The task was cancelled, paused or is past its deadline, or its lease is lost. It is
                asyncio's, which `except Exception` lets through.
            Parked: The task is parked, and its handler goes on all the same.
        """
        if self.cancelled and not self._was_told:
            self._was_told = True
            raise asyncio.CancelledError("the task is no longer wanted")
        if self._run_waits is not None:
            self._run_waits.check()

    @overload
    def step(self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> Work[T]: ...

    @overload
    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Work[T]: ...

    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Work[Any]:
        """Do a part of the work once and for all: a later attempt or run gets its result, and does not do it again.

        Await it in an async handler, where a plain function runs in a thread; a plain handler has the result as
        `.value` of what is returned. Once it is there, the server has it. The step is found again by its name, whatever
        its place among others. If the host dies between the end of the work and the record of it, it is done again.

        Args:
            name: The name, at most 256 characters, which no other step of the task has.
            function: Does the work: plain or async. Its result has the type that it is annotated with, as the output of
                a typed action; without one it is JSON. It may have any size.
            *args: Its arguments.
            **kwargs: Further ones by name.

        Returns:
            The result, the same for every run. What the function raises is raised, and nothing is recorded.

        Raises:
            ValueError: This run has a step of this name already.
            TypeError: The result cannot be kept: it has no type and is no JSON, or does not fit its type. Or the
                function is an async one and the handler is not.
            BadValue: What an earlier run has recorded does not fit the type.
            CancelledError: As `check`, in a thread or process.
            LeaseLost: The lease of the task has ended.
            TooLarge: The task has 1,000 steps already, or as many results as it may have.
            Unimplemented: The server takes no steps, since it is of an older version.
        """
        if self.raises:
            self.check()
        run = self._steps_of_run()
        call = partial(function, *args, **kwargs)
        return StepWork(run, name, function, call, must_wait=self._must_wait, may_wait=self._may_wait)

    @overload
    def ask(
        self,
        name: str,
        text: str = "",
        *,
        type: type[T],
        choices: Iterable[Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        default: Any = MISSING,
        timeout: Span | None = None,
        url: str | None = None,
    ) -> Work[T]: ...

    @overload
    def ask(
        self,
        name: str,
        text: str = "",
        *,
        type: Any = Any,
        choices: Iterable[Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        default: Any = MISSING,
        timeout: Span | None = None,
        url: str | None = None,
    ) -> Work[Any]: ...

    def ask(
        self,
        name: str,
        text: str = "",
        *,
        type: Any = Any,  # noqa: A002 - the name that it has everywhere
        choices: Iterable[Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        default: Any = MISSING,
        timeout: Span | None = None,
        url: str | None = None,
    ) -> Work[Any]:
        """Ask a person, or an agent. Until somebody answers, the task is parked: without a lease and without a slot.

        The handler is unwound by `Parked`, which is no `Exception`. Once there is an answer it begins from its start
        again, on any host, with its steps, and then this returns at once. What is no step is done again. Several that
        are awaited together, by `asyncio.gather`, are asked together, once no step is under way any more.

        Await it in an async handler; a plain handler has the answer as `.value`, and asks one thing at a time.

        Args:
            name: The id of the question, which no other of the task has: 1 to 128 letters, digits, `.`, `_` or `-`.
            text: The question, for people, at most 10,000 characters. Required, unless there is a `url`.
            type: The type of the answer: its JSON Schema is what the server checks. Default any JSON.
            choices: The answers that there are, JSON values. Default any.
            schema: The JSON Schema of the answer. Default that of the type.
            default: The answer that counts if nobody gives one in time. Default none: then the task fails, with the
                code `question_expired`.
            timeout: How long it can be answered, in seconds or as a timedelta, at most 366 days. Default a week.
            url: An address to visit for the answer, such as one to sign in at. Default none.

        Returns:
            The answer.

        Raises:
            Parked: There is no answer yet.
            ValueError: This run has asked this already, or a part of the question is malformed.
            TypeError: The type is none that can be sent, or a part is no JSON.
            BadValue: The answer does not fit the type.
            RuntimeError: It is asked within a step.
        """
        question = new_question(
            name, text, choices=choices, schema=schema, kind=type, default=default, timeout=timeout, url=url
        )
        return self._wait(question, partial(answer_in, kind=type))

    def sleep(self, span: Span, name: str = "sleep") -> Work[None]:
        """Wait for a time without a lease and without a slot, as `ask` waits for an answer.

        Args:
            span: How long, in seconds or as a timedelta, at most 366 days. It counts from the first time.
            name: The name, which no other sleep of the task has. Default `sleep`.

        Returns:
            None, once the time is over.

        Raises:
            Parked: It is not over yet.
            ValueError: This run has slept under this name already, or the span is negative or too long.
            RuntimeError: It is called within a step.
        """
        return self._wait(new_sleep(name, span), _nothing_in)

    def join(
        self,
        tasks: "Iterable[str | Task | Submitted | SyncTaskHandle[Any] | Child[Any]]",
        name: str = "join",
        timeout: Span | None = None,
    ) -> Work[None]:
        """Wait for the end of tasks without a lease and without a slot, as `ask` waits for an answer.

        Args:
            tasks: The tasks: children, handles, tasks or ids, at most 10,000. They are children of this task, or of its
                agent.
            name: The name, which no other join of the task has. Default `join`.
            timeout: How long at most, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            None, once all have ended, in whatever way.

        Raises:
            Parked: Some have not ended yet.
            TimeoutError: They have not ended in time.
            ValueError: This run has joined under this name already, or there are too many.
            RuntimeError: It is called within a step.
        """
        ids = [each if isinstance(each, str) else each.id for each in tasks]
        wait = new_join(name, ids, timeout)
        return self._wait(wait, _nothing_in) if ids else Work(_nothing, must_wait=False)

    @overload
    def child(
        self, name: str, action: "Action[I, O]", input: I, /, **fields: "Unpack[ActionFields]"
    ) -> "Work[Child[O]]": ...

    @overload
    def child(self, name: str, task: "str | NewTask", /, **fields: "Unpack[TaskFields]") -> "Work[Child[Any]]": ...

    def child(self, name: str, task: Any, input: Any = NOTHING, /, **fields: Any) -> "Work[Child[Any]]":  # noqa: A002
        """Submit a child of this task, once and for all: a later attempt or run gets the same one by its name.

        It is of the task's agent, and is cancelled when the task ends, unless `on_parent_end` is `"keep"`. Await it in
        an async handler; a plain handler has the child as `.value`. `await child.result()` and `join` wait for its
        end without a slot.

        Args:
            name: Its name, which no other child of the task has: 1 to 128 letters, digits, `.`, `_` or `-`.
            task: The typed action; or the name of an action, or a task whose fields are the defaults.
            input: The input, of the action's type. With a typed action alone.
            **fields: Fields of the task, see `NewTask`, without keys, since the name is one.

        Returns:
            The child, the same for every run.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
            LeaseLost: The lease of the task has ended.
            QueueFull: There is no room for it.
            TooLarge: The task has 1,000 children already, or the params are too large for an artifact, too.
            Unimplemented: The server takes no children, since it is of an older version.
        """
        if self.raises:
            self.check()
        return Family(self._steps_of_run(), self.join, lambda: self._must_wait).submit(name, task, input, fields)

    def event(self, event: str, timeout: Span | None = None, name: str | None = None) -> Work[Any]:
        """Wait for an event without a lease and without a slot, as `ask` waits for an answer.

        It is the oldest one of its name that the task has not had yet, of those that live, else the next one that is
        sent, see `Client.send_event`.

        Args:
            event: The name of the event: 1 to 256 letters, digits, `.`, `_` or `-`.
            timeout: How long at most, in seconds or as a timedelta. Default as long as it takes.
            name: The name of the wait, which no other event of the task has. Default that of the event.

        Returns:
            The payload of the event, a JSON value.

        Raises:
            Parked: None has come yet.
            TimeoutError: None has come in time.
            ValueError: This run has waited for an event under this name already, or a name is malformed.
            RuntimeError: It is called within a step.
        """
        return self._wait(new_event(event, name, timeout), payload_in)

    @property
    def is_parked(self) -> bool:
        """True if the handler is unwound since its task waits, or should be. The host uses it."""
        return self._run_waits is not None and self._run_waits.is_parked

    async def parked(self) -> TaskParked:
        """Wait until no step is under way, and tell what the run waits for. The host uses it.

        Returns:
            What its task waits for.
        """
        assert self._run_waits is not None
        if self._run_waits.steps.is_under_way:
            await asyncio.to_thread(self._run_waits.steps.wait_until_quiet)
        return TaskParked(waits=self._run_waits.waits, release_target=self.releases_target)

    def leave(self) -> None:
        """Let nothing park the run any more, since its handler has ended. The host uses it."""
        if self._run_waits is not None:
            self._run_waits.close()

    def complain(self, text: str, error: BaseException | None = None) -> None:
        """Log what the handler does wrong.

        Args:
            text: What it is.
            error: What it has raised. Default nothing.
        """
        raise NotImplementedError

    def _wait(self, wait: NewWait, read: Callable[[Step], T]) -> Work[T]:
        if self.raises:
            self.check()
        steps = self._steps_of_run()
        with _MAKING:
            if self._run_waits is None:
                self._run_waits = RunWaits(steps, self._note_parked, self.complain)
        return WaitWork(self._run_waits, wait, read, must_wait=self._must_wait, may_wait=self._may_wait)

    def _note_parked(self) -> None:
        # From now on all that it reports is checked.
        self.raises = True

    def _steps_of_run(self) -> RunSteps:
        with _MAKING:
            # Several threads of a handler may take their first steps at once.
            if self._run_steps is None:
                if self._steps is None:
                    raise RuntimeError("this task has no steps")
                self._run_steps = RunSteps(self._steps())
            return self._run_steps

    @property
    def _must_wait(self) -> bool:
        return self._is_in_loop and not self.blocks

    @property
    def _may_wait(self) -> bool:
        return self._must_wait

    @property
    def _is_in_loop(self) -> bool:
        return self._loop is not None and threading.get_ident() == self._thread


def _nothing() -> None:
    pass


def _nothing_in(step: Step) -> None:
    """Read a step that has no result."""
    if step.expired:
        raise TimeoutError(f"join {step.name!r}: the tasks have not ended in time")
