"""The door in front of each call: its namespace is served here, or brought here, or is another replica's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from taskyard_server.core.errors import Unavailable

from .ownership import NO_ANSWER

if TYPE_CHECKING:
    from .ownership import OwnershipTable
    from .ownership_lease import OwnershipLease

SERVICES: Final = frozenset(
    {
        "Agent",
        "Artifact",
        "Batch",
        "Child",
        "Event",
        "Input",
        "Lease",
        "Limit",
        "Operation",
        "Output",
        "Park",
        "RuntimeHost",
        "Schedule",
        "Stats",
        "Step",
        "Target",
        "Task",
    }
)
"""The services whose calls are about the namespace that they name."""
MAKES_NAMESPACES: Final = frozenset(
    {
        "CancelTasks",
        "Connect",
        "CreateSchedule",
        "PauseTasks",
        "PutAgentWeight",
        "PutLimit",
        "RegisterHost",
        "ReprioritizeTasks",
        "ResolveTasks",
        "ResumeTasks",
        "SendEvent",
        "SubmitBatch",
        "SubmitTask",
        "SubmitTasks",
    }
)
"""The methods that make a namespace which is not there."""
BY_LINK: Final = frozenset({"AnswerByLink", "ReadAnswerLink"})
"""The methods for those who have no credential. A namespace in which a task is parked has an owner anyway."""
UNKNOWN: Final = "another replica may serve this namespace by now: whether this took effect is not known"


class OwnershipCheck:
    """Implements `calls.Door` for one replica. A call waits no longer than `patience_secs`."""

    def __init__(self, ownership: OwnershipTable, trust: OwnershipLease, patience_secs: float = 10.0) -> None:
        self._ownership = ownership
        self._trust = trust
        self._patience_secs = patience_secs
        self._creates: dict[str, bool | None] = {}

    @property
    def life(self) -> int:
        """See `Door`."""
        return self._trust.life

    def enter(self, method: str, namespace: str) -> Awaitable[None] | None:
        """See `Door`."""
        if method not in self._creates:
            self._creates[method] = _creates(method)
        create = self._creates[method]
        if create is None or self._ownership.is_here(namespace):
            return None
        return self._brought(namespace, create)

    def may_tell(self, life: int) -> Awaitable[None] | None:
        """See `Door`."""
        if life == self._trust.life and self._trust.holds:
            return None
        return self._trusted(life)

    async def _brought(self, namespace: str, create: bool) -> None:
        try:
            async with asyncio.timeout(self._patience_secs):
                await self._ownership.bring(namespace, create=create)
        except TimeoutError:
            raise Unavailable(NO_ANSWER) from None

    async def _trusted(self, life: int) -> None:
        try:
            async with asyncio.timeout(self._patience_secs):
                if life == self._trust.life and await self._trust.regained():
                    return
        except TimeoutError:
            pass
        raise Unavailable(UNKNOWN)


def _creates(method: str) -> bool | None:
    """True if a method makes a namespace; None if it is about none."""
    service, _, name = method.rpartition("/")
    kind = service.rpartition(".")[2].removesuffix("Service")
    if not service.startswith("/taskyard.v1.") or kind not in SERVICES or name in BY_LINK:
        return None
    return name in MAKES_NAMESPACES
