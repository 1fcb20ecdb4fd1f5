"""The port for operations: what is done to many tasks at once."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from taskyard_server.core.names import Names
from taskyard_server.core.operations.operation import Operation, OperationRequest

T = TypeVar("T")


class OperationPort(Protocol):
    """Commands on operations (docs/rules.md, Operations).

    `agents` are those of the caller, None for all: it finds the operations alone that were begun with the same ones.
    """

    async def begin(self, namespace: str, request: OperationRequest, *, show: Callable[[Operation], T]) -> T:
        """Begin an operation, or find the one that the same request began. Raises `Conflict` or `TooManyOperations`."""

    async def count(self, namespace: str, request: OperationRequest) -> int:
        """How many tasks such an operation would be about, as they are found in passing. Nothing is changed."""

    async def get(
        self, namespace: str, operation_id: str, *, agents: Names | None = None, show: Callable[[Operation], T]
    ) -> T:
        """The operation. Raises `NotFound`."""

    async def list_operations(
        self, namespace: str, before: int, *, agents: Names | None = None, show: Callable[[list[Operation]], T]
    ) -> T:
        """The operations with numbers below `before`, all for 0, the newest first."""

    async def cancel(
        self, namespace: str, operation_id: str, *, agents: Names | None = None, show: Callable[[Operation], T]
    ) -> T:
        """End an operation where it stands. Raises `NotFound`."""
