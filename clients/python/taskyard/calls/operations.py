"""The calls about operations on many tasks, as `client.operations` offers them, and the handle of one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from taskyard.connection.servers import Servers
from taskyard.records.operations import Operation
from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from taskyard.values.convert import Span, seconds

from .calls import Calls

FIRST_DELAY_SECS: Final = 0.05
LONGEST_DELAY_SECS: Final = 1.0
"""How long the server is not asked again at first, and at most."""


class Operations:
    """The operations of the client's namespace that are at work, or ended within the hour.

    Every method may also raise the errors that `Client` lists for all of its methods. `Client.cancel_tasks` and its
    like begin operations.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
    """

    def __init__(self, calls: Calls, servers: Servers) -> None:
        self._calls = calls
        self._stub = OperationServiceStub(servers.unary)

    def list(self, *, page_size: int | None = None) -> AsyncGenerator[Operation, None]:
        """List the operations, the newest first, one page after the other.

        Args:
            page_size: Operations per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the operations.
        """
        request = pb.ListOperationsRequest(page_size=page_size)
        return self._calls.listed(self._stub.ListOperations, request, "operations", Operation.from_message)

    async def get(self, operation_id: str) -> Operation:
        """Get one operation.

        Args:
            operation_id: The operation.

        Returns:
            The operation as it is now.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        request = pb.GetOperationRequest(operation_id=operation_id)
        return Operation.from_message((await self._calls.sure(self._stub.GetOperation, request)).operation)

    async def wait(self, operation_id: str, timeout: Span | None = None) -> Operation:  # noqa: ASYNC109
        """Wait until an operation has ended.

        Args:
            operation_id: The operation.
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The operation as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
            TimeoutError: It has not ended in time. It goes on.
        """
        async with (
            asyncio.timeout(None if timeout is None else seconds(timeout)),
            contextlib.aclosing(self.progress(operation_id)) as steps,
        ):
            async for step in steps:
                last = step
        return last

    async def progress(self, operation_id: str) -> AsyncGenerator[Operation, None]:
        """Follow an operation until it has ended. The server is asked every second, more often at first.

        Args:
            operation_id: The operation.

        Yields:
            The operation each time that it has changed, at last as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        delay_secs = FIRST_DELAY_SECS
        last: Operation | None = None
        while last is None or not last.ended:
            if last is not None:
                await asyncio.sleep(delay_secs)
                delay_secs = min(2 * delay_secs, LONGEST_DELAY_SECS)
            now = await self.get(operation_id)
            if now != last:
                last = now
                yield now

    async def cancel(self, operation_id: str) -> Operation:
        """End an operation where it stands. What it has done stays; one that has ended is answered as it is.

        Args:
            operation_id: The operation.

        Returns:
            The operation as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        request = pb.CancelOperationRequest(operation_id=operation_id)
        return Operation.from_message((await self._calls.sure(self._stub.CancelOperation, request)).operation)

    def handle(self, operation_id: str) -> OperationHandle:
        """Pick up an operation that was begun before, perhaps by another process. The server is not asked yet.

        Args:
            operation_id: The operation.

        Returns:
            Its handle.
        """
        return OperationHandle(self, operation_id)


class OperationHandle:
    """An operation on many tasks that was begun, or that `Operations.handle` has picked up.

    Attributes:
        id: The operation's id.
        begun: The operation as it was when its beginning was answered. None for one that is picked up.

    Args:
        operations: Asks for it.
        operation_id: The operation.
        begun: The operation as it was when its beginning was answered.
        is_dry: Whether tasks were only counted, so that there is nothing to ask for.
    """

    def __init__(
        self, operations: Operations, operation_id: str, begun: Operation | None = None, is_dry: bool = False
    ) -> None:
        self.id = operation_id
        self.begun = begun
        self._operations = operations
        self._counted = begun if is_dry else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def status(self) -> Operation:
        """Get the operation.

        Returns:
            The operation as it is now.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        return self._counted or await self._operations.get(self.id)

    async def wait(self, timeout: Span | None = None) -> Operation:  # noqa: ASYNC109
        """Wait until the operation has ended.

        Args:
            timeout: How long to wait, in seconds or as a timedelta. Default as long as it takes.

        Returns:
            The operation as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
            TimeoutError: It has not ended in time. It goes on.
        """
        return self._counted or await self._operations.wait(self.id, timeout)

    async def progress(self) -> AsyncGenerator[Operation, None]:
        """Follow the operation until it has ended, see `Operations.progress`.

        Yields:
            The operation each time that it has changed, at last as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        if self._counted is not None:
            yield self._counted
            return
        async with contextlib.aclosing(self._operations.progress(self.id)) as steps:
            async for step in steps:
                yield step

    async def cancel(self) -> Operation:
        """End the operation where it stands. What it has done stays.

        Returns:
            The operation as it ended.

        Raises:
            NotFound: It never began, or ended over an hour ago.
        """
        return self._counted or await self._operations.cancel(self.id)
