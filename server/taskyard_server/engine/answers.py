"""The answers of commands: given at once, or once what they tell of is kept.

An answer is made in the turn of its command. A refusal is an answer too, since it tells of what was done before, except
that the queue is full: such a task is never kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from taskyard_server.core.errors import QueueFull, Refusal

if TYPE_CHECKING:
    from .namespace import NamespaceState

T = TypeVar("T")


class Answer(Generic[T]):
    """Awaiting it gives the `value` once what it tells of is kept, `kept`; None where nothing is waited for.

    Unlike a coroutine it may be awaited several times, or never. Who reads `value` earlier must not tell it to anybody.
    """

    __slots__ = ("kept", "value")

    def __init__(self, value: T, kept: asyncio.Future[None] | None = None) -> None:
        self.value = value
        self.kept = kept

    def __await__(self) -> Generator[Any, None, T]:
        if self.kept is not None:
            yield from self.kept
        return self.value


class PersistencePort(Protocol):
    """The part of persistence that commands wait for."""

    @property
    def history_secs(self) -> float:
        """How long ended tasks are kept."""

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to be kept."""

    def wait(self, state: NamespaceState, patient: bool = False) -> asyncio.Future[None] | None:
        """Done once all that happened in a namespace until now is kept; None if it is.

        It fails with `Unavailable` if that takes too long, unless the caller is `patient`.
        """

    async def settle(self) -> None:
        """Wait until nothing is left to be kept, but no longer than a call waits."""

    def require_answers(self) -> None:
        """Raise `Unavailable` while the store does not answer."""

    def require_room(self) -> None:
        """Raise `Unavailable` while there is no room for new tasks."""


class CommitBarrier:
    """Holds the answer of each command until what it tells of is kept; at once without a `persistence`."""

    def __init__(self) -> None:
        self.persistence: PersistencePort | None = None

    async def give(self, state: NamespaceState, command: Callable[[], T], patient: bool = False) -> T:
        """Run a command, and answer what it returns or raises."""
        if self.persistence is None:
            return command()
        try:
            answer = command()
        except QueueFull:
            raise
        except Refusal:
            await self.kept(state, patient)
            raise
        if (kept := self.persistence.wait(state, patient)) is not None:
            await kept
        return answer

    def of(self, state: NamespaceState, answer: T, patient: bool = False) -> Answer[T]:
        """The answer of a command that has just been applied, and that refused nothing as a whole."""
        return Answer(answer, None if self.persistence is None else self.persistence.wait(state, patient))

    async def kept(self, state: NamespaceState, patient: bool = False) -> None:
        """Wait until all that happened in a namespace until now is kept."""
        if self.persistence is not None and (kept := self.persistence.wait(state, patient)) is not None:
            await kept
