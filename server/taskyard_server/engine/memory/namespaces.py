"""All namespaces of one engine: found, made by the first command that puts something in, and driven together."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler

from .driver import Driver
from .namespace import NamespaceState

if TYPE_CHECKING:
    from taskyard_server.engine.clock import Clock
    from taskyard_server.engine.sessions import DrainNotice


class Namespaces:
    """The namespaces by name, with what their facets share: the limits, both clocks and the driver.

    `drain_notice` is set while the engine drains; `closed` once it takes no more calls that wait.
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

    def __iter__(self) -> Iterator[NamespaceState]:
        return iter(self._states.values())

    def names(self) -> list[str]:
        """The names, in the order in which they were first used."""
        return list(self._states)

    def find(self, name: str) -> NamespaceState | None:
        """The namespace, to be read only; None if nothing was ever put into it."""
        return self._states.get(name)

    def look(self, name: str, sought: str) -> NamespaceState:
        """The namespace, to be read only; raises `NotFound` for what is `sought` where there is none."""
        state = self._states.get(name)
        if state is None:
            raise NotFound(f"{sought} not found")
        return state

    def existing(self, name: str, sought: str) -> NamespaceState:
        """The namespace for a command about something that must exist already; raises `NotFound`."""
        state = self.look(name, sought)
        self.driver.mark_dirty(state)
        return state

    def enter(self, name: str) -> NamespaceState:
        """The namespace for a command, made if there is none."""
        state = self._states.get(name)
        if state is None:
            scheduler = Scheduler(self.limits, self._entropy)
            if self.drain_notice is not None:
                scheduler.drain()
            state = self._states[name] = NamespaceState(name, scheduler)
        self.driver.mark_dirty(state)
        return state

    def refuse_once_closed(self) -> None:
        """Raise `Unavailable` if the engine is closed."""
        if self.closed:
            raise Unavailable("the engine is closed")

    def for_each(self, act: Callable[[NamespaceState], None]) -> None:
        """Run a command in every namespace."""
        for state in self._states.values():
            act(state)
            self.driver.mark_dirty(state)

    def _entropy(self) -> int:
        return self._random.getrandbits(40)
