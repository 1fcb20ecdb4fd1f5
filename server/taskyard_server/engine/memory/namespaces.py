"""The namespaces of one engine, created by the first command that adds something to them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler

from .answers import Answers
from .driver import Driver
from .namespace import NamespaceState

if TYPE_CHECKING:
    from taskyard_server.engine.clock import Clock
    from taskyard_server.engine.sessions import DrainNotice


class Namespaces:
    """The namespaces by name, and what the facets of the engine share: limits, both clocks, the driver, the answers.

    `drain_notice` is set while the engine drains, `closed` once it accepts no more waiting calls.
    """

    def __init__(self, limits: Limits, clock: Clock, wall: Clock, seed: int | None) -> None:
        self.limits = limits
        self.now = clock
        self.wall = wall
        self.drain_notice: DrainNotice | None = None
        self.closed = False
        self._random = random.Random(seed)
        self._states: dict[str, NamespaceState] = {}
        self.driver = Driver(self._states, clock, wall)
        self.answers = Answers()

    def __iter__(self) -> Iterator[NamespaceState]:
        return iter(self._states.values())

    def names(self) -> list[str]:
        """The names, in order of creation."""
        return list(self._states)

    def find(self, name: str) -> NamespaceState | None:
        """The namespace, for reading only; None if it does not exist."""
        return self._states.get(name)

    def get(self, name: str, resource: str) -> NamespaceState:
        """The namespace, for reading only. Raises `NotFound` with the name of the resource that the caller needs."""
        state = self._states.get(name)
        if state is None:
            raise NotFound(f"{resource} not found")
        return state

    def get_for_command(self, name: str, resource: str) -> NamespaceState:
        """The namespace, for a command on an existing resource; it is marked dirty. Raises `NotFound`."""
        state = self.get(name, resource)
        self.driver.mark_dirty(state)
        return state

    def get_or_create(self, name: str) -> NamespaceState:
        """The namespace, for a command that may add to it; it is marked dirty."""
        state = self._states.get(name)
        if state is None:
            scheduler = Scheduler(self.limits, self._random_bits)
            if self.drain_notice is not None:
                scheduler.drain()
            state = self._states[name] = NamespaceState(name, scheduler)
        self.driver.mark_dirty(state)
        return state

    def refuse_once_closed(self) -> None:
        """Raise `Unavailable` if the engine is closed."""
        if self.closed:
            raise Unavailable("the engine is closed")

    def for_each(self, command: Callable[[NamespaceState], None]) -> None:
        """Run a command in every namespace, and mark each dirty."""
        for state in self._states.values():
            command(state)
            self.driver.mark_dirty(state)

    def _random_bits(self) -> int:
        return self._random.getrandbits(40)
