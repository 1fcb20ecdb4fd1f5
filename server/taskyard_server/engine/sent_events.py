"""Events that are sent to names, for all tasks that are parked until one comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from taskyard_server.core.errors import AlreadyExists

if TYPE_CHECKING:
    from taskyard_server.core.runs.events import NewEvent

    from .namespaces import Namespaces


class EventCommands:
    """Commands on events."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier

    def new_id(self) -> str:
        """An id for an event that comes without one."""
        return f"evt_{self._namespaces.random_bits() << 40 | self._namespaces.random_bits():020x}"

    async def send(self, namespace: str, new: NewEvent, *, is_same: Callable[[bytes], bool]) -> tuple[int, bool]:
        """Send an event; answers once it is kept: how many tasks waited for it when it came, and if it is a repeat.

        Of one that `is_same` compares the payload. Raises `AlreadyExists`, `TooManyEvents` or `Unavailable`.
        """
        self._namespaces.require_room()
        state = self._namespaces.get_or_create(namespace)

        def command() -> tuple[int, bool]:
            event, is_repeat = state.scheduler.parks.events.send(self._now(), new)
            if is_repeat and not is_same(event.payload):
                raise AlreadyExists("eventId: is that of another event")
            return event.waited, is_repeat

        return await self._barrier.give(state, command)
