"""How every command answers: at once, or once what its answer tells of is kept.

An answer is made in the turn of its command. A refusal is an answer too, since it tells of what was done before, except
that the queue is full: such a task is never kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from taskyard_server.core.errors import QueueFull, Refusal
from taskyard_server.engine.port.answers import Ready

if TYPE_CHECKING:
    from .namespace import NamespaceState

T = TypeVar("T")


class Keeper(Protocol):
    """Keeps what commands change."""

    async def kept(self, state: NamespaceState) -> None:
        """Wait until all that has changed in a namespace so far is kept."""


class Answers:
    """Gives the answers of commands. Without a `keeper` nothing is waited for."""

    def __init__(self) -> None:
        self.keeper: Keeper | None = None

    async def give(self, state: NamespaceState, command: Callable[[], T]) -> T:
        """Run a command, and answer what it returns or raises."""
        if self.keeper is None:
            return command()
        try:
            answer = command()
        except QueueFull:
            raise
        except Refusal:
            await self.keeper.kept(state)
            raise
        await self.keeper.kept(state)
        return answer

    def of(self, state: NamespaceState, answer: T) -> Awaitable[T]:
        """The answer of a command that has just been applied, and that refused nothing as a whole."""
        return Ready(answer) if self.keeper is None else self._once_kept(self.keeper, state, answer)

    async def _once_kept(self, keeper: Keeper, state: NamespaceState, answer: T) -> T:
        await keeper.kept(state)
        return answer
