"""A task as the handler that runs it sees it, and how a handler fails one with its own words."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from datetime import datetime
from typing import Any, Final

from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.task_pb2 import Progress

from .tasks import Task
from .values import struct_from

TRACE_VARIABLES: Final = frozenset({"TRACEPARENT", "TRACESTATE", "TASKYARD_TRACE_ID"})
"""What tells a process of its trace. That of the host's own process is not the task's."""


class ActionFailed(Exception):
    """Raise it in a handler to fail the task with just this text.

    `code` is a word for the kind of failure, which a retry policy may name as final. `retryable=False` makes this
    failure final whatever the policy says.
    """

    def __init__(self, error: str, *, code: str | None = None, retryable: bool = True) -> None:
        super().__init__(error)
        self.code = code
        self.retryable = retryable


class RunningTask:
    """What a handler is given: the task as it was handed out, and a way to report on it.

    `fencing_token` grows with each hand-out of the task; give it along with side effects, so that a later run is told
    from an earlier one. `tokens_used` is yours to set: the tokens of a language model that this attempt has used so
    far, which every later report carries; once one of them is over the task's budget, the task fails and is stopped.
    `cancelled` turns True when the work is no longer wanted; an async handler is cancelled then, a plain function
    should look and return.
    """

    __slots__ = ("_loop", "_report", "_thread", "cancelled", "fencing_token", "task", "tokens_used")

    def __init__(self, task: Task, fencing_token: int, report: Callable[[Report], None]) -> None:
        self.task = task
        self.fencing_token = fencing_token
        self.tokens_used: int | None = None
        self.cancelled = False
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def id(self) -> str:
        """The task's id."""
        return self.task.id

    @property
    def action(self) -> str:
        """The kind of action to run."""
        return self.task.action

    @property
    def params(self) -> dict[str, Any]:
        """Fields for the action, empty if the submitter gave none."""
        return self.task.params

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
        """The submitter's own marks."""
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
    def attempt(self) -> int:
        """The number of this execution within the task's run, from 1."""
        if not self.task.attempts:
            return 1
        last = self.task.attempts[-1]
        return last.number if last.ended_at is None else last.number + 1

    def environment(self) -> dict[str, str]:
        """The environment for a process that does the work: `subprocess.run(command, env=task.environment())`.

        It is this process's own, with `TASKYARD_TASK_ID`, `TASKYARD_ATTEMPT` and `TASKYARD_FENCING_TOKEN`; for a task
        with a trace context also `TRACEPARENT`, which tracing tools look for, and its trace id as `TASKYARD_TRACE_ID`
        (scheduler-daemon, Structured Logging).
        """
        found = {name: value for name, value in os.environ.items() if name not in TRACE_VARIABLES}
        found["TASKYARD_TASK_ID"] = self.id
        found["TASKYARD_ATTEMPT"] = str(self.attempt)
        found["TASKYARD_FENCING_TOKEN"] = str(self.fencing_token)
        if self.traceparent is not None:
            found["TRACEPARENT"] = self.traceparent
            found["TASKYARD_TRACE_ID"] = self.traceparent.split("-")[1]
        return found

    def progress(
        self, fraction: float | None = None, message: str | None = None, details: Mapping[str, Any] | None = None
    ) -> Awaitable[None]:
        """Tell how far the work is; `fraction` is 0 to 1, and what lies outside counts as the nearer of both.

        It waits for nobody: the report goes out soon, unless a later one takes its place first. Awaiting what it
        answers only lets others run; a plain function in its thread just calls it. Raises TypeError or ValueError for
        details that are not JSON.
        """
        progress = Progress(message=message)
        if fraction is not None:
            progress.fraction = min(1.0, max(0.0, fraction))
        if details is not None:
            progress.details.CopyFrom(struct_from(details))
        report = self.report(progress=progress)
        if threading.get_ident() == self._thread:
            self._report(report)
        else:
            # The loop is closed once the host has left without waiting for this thread.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._report, report)
        return _NextTurn()

    def report(self, **event: Any) -> Report:
        """A report on this task, of the one event that is given."""
        return Report(task_id=self.id, fencing_token=self.fencing_token, tokens_used=self.tokens_used, **event)


class _NextTurn:
    """Nothing to wait for but the next turn of the loop, and nothing lost if nobody waits."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield
