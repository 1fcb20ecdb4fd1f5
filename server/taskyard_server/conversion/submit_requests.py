"""The requests that submit tasks, as the interceptor and the services read them: SubmitTask, SubmitTasks, SubmitBatch.

Each is scanned (`submission_scan.py`), and parsed by protobuf only where one of its tasks has not the common shape, or
where something asks for all of it. Then `submissions.py` converts it. Which way a request goes makes no difference to
anybody but the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from taskyard.v1.batch_pb2 import SubmitBatchRequest
from taskyard.v1.task_pb2 import SubmitTaskRequest, SubmitTasksRequest
from taskyard_server.core.admission import check_indexes
from taskyard_server.core.errors import Refusal
from taskyard_server.core.task import Submission

from . import submissions
from .submission_scan import ScannedTask, scan_agent, scan_task, scan_tasks, submission_of
from .submissions import DefaultRetry
from .wire import tag

TASK: Final = tag(SubmitTasksRequest, "tasks")
BATCH_AGENT: Final = tag(SubmitBatchRequest, "agent_id")
BATCH_TASK: Final = tag(SubmitBatchRequest, "tasks")


class TaskRequest:
    """A `SubmitTaskRequest`. Raises `DecodeError` for bytes that are none."""

    __slots__ = ("_data", "_parsed", "_task")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._task: ScannedTask | None = scan_task(data, 0, len(data))
        self._parsed: SubmitTaskRequest | None = SubmitTaskRequest.FromString(data) if self._task is None else None

    @property
    def parsed(self) -> SubmitTaskRequest:
        """The request as protobuf reads it."""
        if self._parsed is None:
            self._parsed = SubmitTaskRequest.FromString(self._data)
        return self._parsed

    @property
    def agent_id(self) -> str:
        """Whose task it is to be; "" where it does not say."""
        return self.parsed.agent_id if self._task is None else self._task.agent_id or ""

    @property
    def traceparent(self) -> str:
        """The trace context of the request itself; "" where it has none."""
        return self.parsed.traceparent if self._task is None else self._task.traceparent or ""

    def submission(self, traceparent: str | None, max_payload_bytes: int, default_retry: DefaultRetry) -> Submission:
        """The task as a submission. Raises what `submissions.submission` does."""
        task = self._task
        if task is not None and task.agent_id is not None and _fits(task, max_payload_bytes):
            return submission_of(task, task.agent_id, traceparent, default_retry)
        parsed = self.parsed
        return submissions.submission(
            parsed, parsed.agent_id, parsed.callback_url, traceparent, max_payload_bytes, default_retry
        )


class TasksRequest:
    """A `SubmitTasksRequest`. `size` is in bytes. Raises `DecodeError` for bytes that are none."""

    __slots__ = ("_data", "_parsed", "_tasks", "_traces", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self._traces: dict[int, str] = {}
        self._tasks: list[ScannedTask] | None = scan_tasks(data, 0, TASK)
        self._parsed: SubmitTasksRequest | None = SubmitTasksRequest.FromString(data) if self._tasks is None else None

    @property
    def parsed(self) -> SubmitTasksRequest:
        """The request as protobuf reads it."""
        if self._parsed is None:
            self._parsed = SubmitTasksRequest.FromString(self._data)
        return self._parsed

    @property
    def tasks(self) -> Sequence[Any]:
        """The tasks, of which each has a `traceparent`."""
        return self.parsed.tasks if self._tasks is None else self._tasks

    def begin_trace(self, index: int, traceparent: str) -> None:
        """Give the task at this index a trace context. It is not the caller's, so no fingerprint has it."""
        self._traces[index] = traceparent

    def submissions(
        self, first: int, end: int, traceparent: str | None, max_payload_bytes: int, default_retry: DefaultRetry
    ) -> list[Submission | Refusal]:
        """The tasks from `first` to before `end` as submissions, in order; an invalid one is its refusal."""
        if self._tasks is not None:
            made: list[Submission | Refusal] = []
            for index, task in enumerate(self._tasks[first:end], first):
                if task.agent_id is None or not _fits(task, max_payload_bytes):
                    break
                trace = self._traces.get(index, traceparent) if self._traces else traceparent
                made.append(submission_of(task, task.agent_id, trace, default_retry))
            else:
                return made
        if not self._traces:
            return submissions.submissions(self.parsed.tasks[first:end], traceparent, max_payload_bytes, default_retry)
        return [
            submissions.submissions((task,), self._traces.get(index, traceparent), max_payload_bytes, default_retry)[0]
            for index, task in enumerate(self.parsed.tasks[first:end], first)
        ]


class BatchRequest:
    """A `SubmitBatchRequest`. Raises `DecodeError` for bytes that are none."""

    __slots__ = ("_agent_id", "_data", "_parsed", "_tasks")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._agent_id, at = scan_agent(data, BATCH_AGENT)
        self._tasks: list[ScannedTask] | None = None if self._agent_id is None else scan_tasks(data, at, BATCH_TASK)
        self._parsed: SubmitBatchRequest | None = SubmitBatchRequest.FromString(data) if self._tasks is None else None

    @property
    def parsed(self) -> SubmitBatchRequest:
        """The request as protobuf reads it."""
        if self._parsed is None:
            self._parsed = SubmitBatchRequest.FromString(self._data)
        return self._parsed

    @property
    def agent_id(self) -> str:
        """Whose tasks they are to be; "" where it does not say."""
        return self.parsed.agent_id if self._tasks is None or self._agent_id is None else self._agent_id

    @property
    def count(self) -> int:
        """How many tasks it has."""
        return len(self.parsed.tasks) if self._tasks is None else len(self._tasks)

    def submissions(
        self, traceparent: str | None, max_payload_bytes: int, default_retry: DefaultRetry
    ) -> list[Submission]:
        """The tasks as submissions, in order. Raises what `submissions.submission` does, with the index of the task."""
        if self._tasks is not None and self._agent_id is not None:
            made: list[Submission] = []
            for task in self._tasks:
                # A task of a batch has no agent of its own.
                if task.agent_id is not None or not _fits(task, max_payload_bytes):
                    break
                made.append(submission_of(task, self._agent_id, traceparent, default_retry))
            else:
                return made
        parsed = self.parsed
        converted = [
            submissions.submission(
                task,
                parsed.agent_id,
                parsed.callback_url,
                traceparent,
                max_payload_bytes,
                default_retry,
                prefix=f"tasks[{number}].",
            )
            for number, task in enumerate(parsed.tasks)
        ]
        for number, submission in enumerate(converted):
            check_indexes(number, submission.options.extras)
        return converted


def _fits(task: ScannedTask, max_payload_bytes: int) -> bool:
    return task.params is None or len(task.params) <= max_payload_bytes


READERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "/taskyard.v1.TaskService/SubmitTask": TaskRequest,
    "/taskyard.v1.TaskService/SubmitTasks": TasksRequest,
    "/taskyard.v1.BatchService/SubmitBatch": BatchRequest,
}
"""The readers of the requests of these methods, in the place of protobuf."""
