"""A task as its handler sees it."""

import contextlib
import logging
import operator
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.struct_pb2 import Struct

from taskyard.records.tasks import Task
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.task_pb2 import Progress
from taskyard.v1.task_pb2 import Task as TaskMessage
from taskyard.values.convert import struct_from

from .artifact_work import TaskArtifacts, Work
from .chunks import Piece, pieces_of
from .environment import environment_of
from .failing import ActionFailed
from .resumable_task import ResumableTask
from .step_work import TaskSteps
from .task_log import TaskLogger
from .task_output import NextTurn, TaskOutput, check_sent

if TYPE_CHECKING:
    from taskyard.calls.artifacts import Content
    from taskyard.records.artifacts import Artifact

    from .inputs import TaskInput

MAX_TOKENS: Final = 2**32 - 1
NO_INPUTS: Final[Mapping[str, Any]] = MappingProxyType({})


class RunningTask(ResumableTask):
    """The task that a handler runs, and the way to report on it.

    Attributes:
        id: The task's id.
        action: The kind of action to run.
        fencing_token: Grows with each assignment of any task of the namespace. Pass it along with side effects, so that
            what they change can refuse those of an earlier run, or of an earlier task.
        cancelled: Becomes True when the work is no longer wanted. An async handler is cancelled then; a plain function
            in a thread should check it and return, or call `check`; one in a process is ended.
        input: The input: of a typed action in its type, else the params.
        inputs: The tasks whose results are handed to it, by the names that it was submitted with, and their results as
            plain JSON. A handler takes them in their types by keyword-only parameters of these names.
        state: What the host's lifespan has yielded, None without one.
        releases_target: Whether its target is free for other tasks while it waits without a slot. Set it before it
            asks, sleeps or joins. Default False.

    Args:
        task: The task, or the message in which it came.
        fencing_token: The fencing token of its lease.
        report: Called with each progress report, in the event loop.
        state: What the host's lifespan has yielded. Default None.
        output: Where what it says goes. Default it can say nothing.
        artifacts: Makes what has its artifacts, when they are needed. Default it has none.
        steps: The same for its steps.
    """

    __slots__ = (
        "_artifacts",
        "_details",
        "_log",
        "_output",
        "_params",
        "_report",
        "_task",
        "_tokens_used",
        "action",
        "fencing_token",
        "id",
        "input",
        "inputs",
        "state",
        "tell_tokens",
    )

    def __init__(
        self,
        task: Task | TaskMessage,
        fencing_token: int,
        report: Callable[[Report], None],
        state: Any = None,
        output: TaskOutput | None = None,
        artifacts: Callable[[], TaskArtifacts] | None = None,
        steps: Callable[[], TaskSteps] | None = None,
    ) -> None:
        super().__init__(steps)
        self.fencing_token = fencing_token
        self.input: Any = None
        self.inputs: Mapping[str, TaskInput] = NO_INPUTS
        self._task = task
        if isinstance(task, Task):
            self.id, self.action = task.id, task.action
        else:
            self.id, self.action = task.task_id, task.action
        self._params: dict[str, Any] | None = None
        self.state = state
        self.tell_tokens: Callable[[int | None], None] | None = None
        """Called with the tokens used when they are set, from any thread."""
        self._tokens_used: int | None = None
        self._details: Struct | None = None
        """The details that were reported last, also by an earlier attempt. The server keeps the last report alone."""
        self._report = report
        self._output = output
        self._artifacts = artifacts
        self._log: TaskLogger | None = None

    @property
    def task(self) -> Task:
        """The task as it was assigned.

        Raises:
            ActionFailed: It holds what this host cannot read.
        """
        # Read when it is asked for: to read all of it costs more than most of what a host does for a task.
        if not isinstance(self._task, Task):
            try:
                self._task = Task.from_message(self._task)
            except Exception as error:
                problem = f"the host cannot read the task: {type(error).__name__}: {error}"
                raise ActionFailed(problem, code="unreadable") from error
        return self._task

    @property
    def params(self) -> dict[str, Any]:
        """Fields for the action, empty if the submitter gave none. Those of a typed action as plain JSON."""
        if self._params is None:
            self._params = self.task.params
            if not self._params and isinstance(self.input, dict):
                self._params = self.input
        return self._params

    @property
    def tab_id(self) -> str | None:
        """The browser tab that the action is for."""
        return self.task.tab_id

    @property
    def ref(self) -> str | None:
        """The element that the action is for."""
        return self.task.ref

    @property
    def labels(self) -> dict[str, str]:
        """The labels that the submitter gave."""
        return self.task.labels

    @property
    def deadline(self) -> datetime | None:
        """When the task fails unless it has ended."""
        return self.task.deadline

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context that the task was submitted under."""
        return self.task.traceparent

    @property
    def parent_id(self) -> str | None:
        """The task whose handler submitted this one, None if there is none."""
        return self.task.parent_id

    @property
    def checkpoint(self) -> dict[str, Any]:
        """The `details` of the last progress that an earlier attempt reported, empty if there is none.

        An attempt goes on from there: report what is done as `details`, and begin with what stands here.
        """
        return {} if self.task.progress is None else self.task.progress.details

    @property
    def attempt(self) -> int:
        """The number of this execution within the task's run, from 1."""
        if not self.task.attempts:
            return 1
        last = self.task.attempts[-1]
        return last.number if last.ended_at is None else last.number + 1

    @property
    def tokens_used(self) -> int | None:
        """The tokens of a language model that this attempt has used so far, None until the handler sets it.

        Setting it is enough: the next heartbeat carries it, and so does every later report. Once it exceeds the task's
        budget, the task fails and the handler is stopped. May be set from any thread.

        Raises:
            TypeError: The new value is not an integer.
            ValueError: The new value is negative, or does not fit 32 bits.
        """
        return self._tokens_used

    @tokens_used.setter
    def tokens_used(self, tokens: int | None) -> None:
        if tokens is not None:
            # Refused here, it does not break a heartbeat, which carries all tasks of the host.
            try:
                tokens = operator.index(tokens)
            except TypeError:
                raise TypeError(f"tokens_used: must be an integer, is {tokens!r}") from None
            if not 0 <= tokens <= MAX_TOKENS:
                raise ValueError(f"tokens_used: must be from 0 to {MAX_TOKENS}, is {tokens}")
        self._tokens_used = tokens
        if self.tell_tokens is not None:
            self.tell_tokens(tokens)

    def environment(self) -> dict[str, str]:
        """Build the environment for a process that does the work: `subprocess.run(command, env=task.environment())`.

        It is that of this process, with `TASKYARD_TASK_ID`, `TASKYARD_ATTEMPT` and `TASKYARD_FENCING_TOKEN`; for a task
        with a trace context also `TRACEPARENT`, which tracing tools look for, and its trace id as `TASKYARD_TRACE_ID`
        (docs/rules.md, Traces).

        Returns:
            The environment variables by name.
        """
        return environment_of(self.id, self.attempt, self.fencing_token, self.traceparent)

    def take_input(self, value: Any, params: dict[str, Any] | None = None) -> None:
        """Set what was read of the input. The host uses it.

        Args:
            value: The input.
            params: The params, where they were read for it. Default they are read when they are asked for.
        """
        self.input = value
        self._params = params

    def progress(
        self, fraction: float | None = None, message: str | None = None, details: Mapping[str, Any] | None = None
    ) -> Awaitable[None]:
        """Report how far the work is. May be called from any thread.

        The report is sent soon, unless a later one replaces it before.

        Args:
            fraction: From 0 to 1; a value outside counts as the nearer bound. Default none.
            message: A text for people. Default none.
            details: A JSON object: what the next attempt finds as its `checkpoint`. Default those that were reported
                last, also by an earlier attempt; `{}` takes them away.

        Returns:
            An awaitable that lets others run. Awaiting it is optional; a plain function cannot.

        Raises:
            CancelledError: As `check`, in a thread or process.
            TypeError: The details are not JSON.
            ValueError: The details hold a number that JSON cannot.
        """
        if self.raises:
            self.check()
        progress = Progress(message=message)
        if fraction is not None:
            progress.fraction = min(1.0, max(0.0, fraction))
        if details is not None:
            if not isinstance(details, Mapping):
                raise TypeError(f"details: is a JSON object, a dict, not {details!r}")
            self._details = struct_from(details, "details")
        elif self._details is None:
            self._details = struct_from(self.checkpoint)
        if self._details.fields:
            progress.details.CopyFrom(self._details)
        self._deliver(self.report(progress=progress))
        return NextTurn()

    def emit(self, chunk: Any, channel: str = "output") -> Awaitable[None]:
        """Say something: it becomes a part of the task's output, which callers read and follow.

        Await it in an async handler: it waits while much was said that the server has not kept yet. Elsewhere it blocks
        meanwhile; any thread may call it. All that was said is kept before the end of the task is told.

        Args:
            chunk: A text, bytes, or any other JSON value. Texts and bytes of more than 64 KiB become several chunks.
            channel: What it is, for readers who want only some: letters, digits, `.`, `_`, `-` and `/`, at most 64 of
                them. Default `output`.

        Returns:
            An awaitable that has sent it.

        Raises:
            CancelledError: As `check`, in a thread or process.
            TypeError: It is not JSON.
            ValueError: The JSON is larger than 64 KiB or nests too deep, the text is no valid Unicode, or the channel
                is malformed.
            Unimplemented: The server takes no output, since it is of an older version.
        """
        if self.raises:
            self.check()
        pieces = pieces_of(chunk, channel)
        output = self._open_output()
        for index, piece in enumerate(pieces):
            if output.take(*piece):
                continue
            if self._is_in_loop:
                return self._emit_rest(output, pieces[index:])
            check_sent(output.wait(*piece))
            if self.raises:
                self.check()
        return NextTurn()

    def put_artifact(self, name: str, content: "Content | str", media_type: str | None = None) -> "Work[Artifact]":
        """Put an artifact of the task: a file, an image, or any other bytes under a name.

        Await it in an async handler; a plain function has it as `.value` of what is returned. The task has the artifact
        once it is whole, in the place of an earlier one of its name.

        Args:
            name: The name: letters, digits, `.`, `_` and `-`, at most 128 of them, and no `.` first.
            content: The bytes; or the path of a file, as text or `Path`.
            media_type: The media type. Default what the name says.

        Returns:
            The artifact.

        Raises:
            CancelledError: As `check`, in a thread or process.
            LeaseLost: The lease of the task has ended.
            TooLarge: It has more bytes than a task may have.
            Conflict: The server keeps no artifacts.
            OSError: The file cannot be read.
        """
        if self.raises:
            self.check()
        artifacts = self._open_artifacts()
        found = Path(content) if isinstance(content, str) else content
        return Work(lambda: artifacts.put(name, found, media_type), self._must_wait)

    def read_artifact(self, name: str, *, of: str | None = None) -> "Work[bytes]":
        """Read an artifact of the task, such as one that its submitter has attached, or that an earlier attempt put.

        Args:
            name: Its name.
            of: The name of an input: then it is an artifact of that task. Default one of this task.

        Returns:
            Its bytes, as `put_artifact` returns the artifact.

        Raises:
            CancelledError: As `check`, in a thread or process.
            NotFound: The task has no such artifact, or no such input.
            LeaseLost: The lease of the task has ended.
            Internal: Its bytes do not have its hash.
        """
        if self.raises:
            self.check()
        artifacts = self._open_artifacts()
        return Work(lambda: artifacts.read(name, of or ""), self._must_wait)

    @property
    def log(self) -> logging.Logger:
        """A logger whose records are output, too, in the channel `log`: those from INFO on, unless its level is set.

        They go on to the program's logger `taskyard.tasks`. Any thread may use it.
        """
        if self._log is None:
            self._log = TaskLogger(self.id, self._output, self._thread if self._loop is not None else None)
        return self._log

    def complain(self, text: str, error: BaseException | None = None) -> None:
        """Log what the handler does wrong, in the log of the task.

        Args:
            text: What it is.
            error: What it has raised. Default nothing.
        """
        self.log.error("%s", text, exc_info=error)

    def stop(self) -> None:
        """Note that the work is no longer wanted. The host uses it."""
        self.cancelled = True
        if self._output is not None:
            self._output.stop()

    def end(self) -> None:
        """Note that the work has ended. The host uses it."""
        if self._output is not None:
            self._output.end()

    @property
    def sink(self) -> TaskOutput | None:
        """Where what it says goes, None if it can say nothing. The host uses it."""
        return self._output

    def report(self, **event: Any) -> Report:
        """Build a report on this task. The host uses it.

        Args:
            **event: The one event to report, under its name in the proto.

        Returns:
            The report, with the tokens used so far.
        """
        return Report(task_id=self.id, fencing_token=self.fencing_token, tokens_used=self.tokens_used, **event)

    def _open_artifacts(self) -> TaskArtifacts:
        if self._artifacts is None:
            raise RuntimeError("this task has no artifacts")
        return self._artifacts()

    def _open_output(self) -> TaskOutput:
        if self._output is None:
            raise RuntimeError("emit: this task has no output")
        check_sent(not self._output.refusal, self._output.refusal)
        return self._output

    async def _emit_rest(self, output: TaskOutput, pieces: list[Piece]) -> None:
        for piece in pieces:
            check_sent(await output.wait_here(*piece))

    def _deliver(self, report: Report) -> None:
        if self._loop is None or self._is_in_loop:
            self._report(report)
        else:
            # The loop is closed once the host has left without waiting for this thread.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._report, report)
