"""What a host reports of one task: the same whether it comes as a call or on a stream."""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.struct_pb2 import Value

from taskyard.v1.lease_pb2 import FailTaskRequest
from taskyard.v1.runtime_host_pb2 import TaskFailed
from taskyard.v1.task_pb2 import Progress
from taskyard_server.core.errors import BadRequest, Conflict
from taskyard_server.core.task import Task
from taskyard_server.engine.port import Engine

from . import requests
from .times import timestamp

MAX_ERROR_CHARS: Final = 10_000


class About(NamedTuple):
    """Which lease a report is about."""

    namespace: str
    host_id: str
    task_id: str
    token: int


class Reports:
    """Takes reports to the engine. All raise `NotFound`, and `LeaseLost` where the lease has ended."""

    def __init__(self, engine: Engine, max_payload_bytes: int) -> None:
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes

    async def started(self, about: About) -> Task:
        """The work has begun."""
        try:
            return await self._engine.start(*about)
        except Conflict:
            # It said so before under this very lease, and the answer was lost.
            return await self._engine.get(about.namespace, about.task_id)

    async def progressed(self, about: About, progress: Progress | None, tokens: int | None) -> Task:
        """The work goes on; None is as before."""
        packed = None
        if progress is not None:
            if progress.HasField("fraction") and not 0 <= progress.fraction <= 1:
                raise BadRequest("progress.fraction: must be from 0 to 1")
            progress.reported_at.CopyFrom(timestamp(self._engine.now()))
            packed = requests.payload(progress.details, "progress.details", self._max_payload_bytes, progress)
        return await self._engine.progress(*about, packed, tokens)

    async def completed(self, about: About, result: Value | None, tokens: int | None) -> Task:
        """The work ended well."""
        packed = None if result is None else requests.payload(result, "result", self._max_payload_bytes)
        return await self._engine.complete(*about, packed, tokens)

    async def failed(self, about: About, said: TaskFailed | FailTaskRequest, tokens: int | None) -> Task:
        """The work ended with an error."""
        if not said.error:
            raise BadRequest("error: is required")
        retryable = said.retryable if said.HasField("retryable") else True
        code = requests.name(said.code, "code")
        return await self._engine.fail(*about, said.error[:MAX_ERROR_CHARS], retryable, code, tokens)

    async def released(self, about: About) -> Task:
        """Nothing runs under the lease any more."""
        task = await self._engine.get(about.namespace, about.task_id)
        if self._has_ended(task, about):
            await self._engine.stopped(*about)
            return task
        return await self._engine.release(*about)

    def _has_ended(self, task: Task, about: About) -> bool:
        """Whether that lease ended before: it is said again, or after a cancellation.

        Who held the leases before the task's last one is not known; to say that nothing runs under them is harmless.
        """
        if about.token < task.token:
            return True
        return about.token == task.token and task.host_id == about.host_id and task.lease is None
