"""Submissions whose params are too large for a message (docs/rules.md, Artifacts).

The task is submitted with a reference in their place and held, until they are an artifact of it. A repeat under the
same idempotency key goes on where the first one was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from taskyard.calls.calls import Calls
from taskyard.calls.retrying import BROKEN
from taskyard.errors import ClientClosed, Conflict, Unimplemented
from taskyard.v1 import task_pb2 as pb
from taskyard.values.params_artifact import held_without_params, no_artifact
from taskyard.values.references import JSON, PARAMS

from .artifacts import Artifacts

if TYPE_CHECKING:
    from taskyard.v1.task_pb2_grpc import TaskServiceAsyncStub

MAX_BYTES: Final = 262_144
"""The most bytes of params, encoded, that are submitted as they are; a server may take fewer."""
FOR_A_REPEAT: Final = (*BROKEN, ClientClosed, asyncio.CancelledError)
"""The errors after which a task may be left held, for a repeat to find."""


class LargeParams:
    """Submits tasks whose params become an artifact.

    Args:
        calls: The calls of the client.
        stub: The stub of the task service.
        artifacts: The artifacts of the client.
        end: Cancels a task in the background.
    """

    def __init__(
        self, calls: Calls, stub: TaskServiceAsyncStub, artifacts: Artifacts, end: Callable[[str], object]
    ) -> None:
        self._calls = calls
        self._stub = stub
        self._artifacts = artifacts
        self._end = end

    async def submit(
        self,
        request: pb.SubmitTaskRequest,
        send: Callable[[pb.SubmitTaskRequest], Awaitable[pb.SubmitTaskResponse]],
        *,
        is_repeatable: bool,
    ) -> pb.SubmitTaskResponse:
        """Submit a task, attach its params, and let it go unless it is to be held.

        Args:
            request: The task as it would be submitted if its params were small.
            send: Submits what it is given.
            is_repeatable: Whether the caller knows the idempotency key. Then what an outage leaves half is left to a
                repeat; else it is cancelled.

        Returns:
            The acceptance.

        Raises:
            TaskyardError: It was refused; `TooLarge` also if the server keeps no artifacts.
        """
        held, data = held_without_params(request)
        accepted = await send(held)
        if accepted.existing or accepted.state != pb.Task.pending:
            # A repeat, or the unique key is taken: it has its params.
            return accepted
        try:
            is_held = await self._attach(accepted.task_id, data)
            if is_held and not request.hold:
                accepted.state = await self._release(accepted)
        except BaseException as error:
            if not (is_repeatable and isinstance(error, FOR_A_REPEAT)):
                self._end(accepted.task_id)
            raise
        return accepted

    async def _attach(self, task_id: str, data: bytes) -> bool:
        """Attach params, unless the task was let go before, by an earlier try. Returns whether it is held."""
        try:
            await self._artifacts.attach(task_id, PARAMS, data, JSON)
        except (Conflict, Unimplemented) as error:
            if isinstance(error, Conflict) and not await self._is_held(task_id):
                return False
            raise no_artifact(error) from error
        return True

    async def _release(self, accepted: pb.SubmitTaskResponse) -> pb.Task.State.ValueType:
        async def attempt(is_repeat: bool) -> pb.Task.State.ValueType:
            # Later it could be a failure that is resumed.
            if is_repeat and not await self._is_held(accepted.task_id):
                return accepted.state
            request = pb.ResumeTaskRequest(task_id=accepted.task_id)
            try:
                return (await self._calls.single(self._stub.ResumeTask, request)).status
            except Conflict:
                if await self._is_held(accepted.task_id):
                    raise
                return accepted.state

        return (await self._calls.attempted(attempt))[0]

    async def _is_held(self, task_id: str) -> bool:
        return (await self._calls.sure(self._stub.GetTask, pb.GetTaskRequest(task_id=task_id))).hold
