"""The namespaces of one engine, created by the first command that adds something to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from taskyard_server.core.changes import Changes
from taskyard_server.core.errors import Internal, NotFound, NotOwner, Unavailable
from taskyard_server.core.limits import Limits
from taskyard_server.core.rules import NO_RULES, ConfiguredRules
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Counters, TriggerCounters
from taskyard_server.store.port import ADDED_FIELDS_LEVEL, ARTIFACTS_LEVEL, EXTRAS_LEVEL, FORMAT_LEVEL, OUTPUT_LEVEL
from taskyard_server.store.rows import AboutNamespace

from .answers import CommitBarrier
from .driver import Driver
from .entropy import entropy
from .namespace import NamespaceState
from .output_log import ALL_BYTES, ALL_TAILS_BYTES, Memory
from .virtual_clock import VirtualClock

if TYPE_CHECKING:
    from taskyard_server.store.loading import LoadedNamespace

    from .answers import PersistencePort
    from .clock import Clock
    from .history import StoredHistory
    from .sessions import DrainNotice


class Namespaces:
    """The namespaces by name, and what the facets of the engine share: limits, both clocks, the driver, the barrier.

    `persistence` keeps them in a store, if there is one, and `history` is what has left memory, if that is kept.
    `drain_notice` is set while the engine drains, `closed` once it accepts no more waiting calls. If `private` nothing
    that is told of one task tells of others.

    Where replicas share the store, namespaces come and go (`owned_namespaces.py`), and `is_elsewhere` says of a name
    that is not here whether another replica may have it.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        wall: Clock,
        seed: int | None,
        private: bool = False,
        monotonic: Clock = time.monotonic,
    ) -> None:
        self.limits = limits
        self.rules: ConfiguredRules = NO_RULES
        self.now = clock
        self.wall = wall
        self.drain_notice: DrainNotice | None = None
        self.closed = False
        self.persistence: PersistencePort | None = None
        self.history: StoredHistory | None = None
        self.is_elsewhere: Callable[[str], bool] | None = None
        # Counters of all namespaces together never go back.
        self.deleted_at_ms: dict[str, int] = {}
        self.deleted_counters = Counters()
        self.deleted_trigger_counters = TriggerCounters()
        self._last_number = 0
        self._last_outbox: dict[str, int] = {}
        self._memory: Memory | None = None
        self._private = private
        self._level = FORMAT_LEVEL
        self._entropy = entropy(seed, private)
        self._states: dict[str, NamespaceState] = {}
        self.driver = Driver(self._states, clock, wall, monotonic)
        self.barrier = CommitBarrier()

    def __iter__(self) -> Iterator[NamespaceState]:
        return iter(self._states.values())

    def names(self) -> list[str]:
        """The names, in order of creation."""
        return list(self._states)

    def here(self, name: str) -> NamespaceState | None:
        """The namespace, if it is here."""
        return self._states.get(name)

    def find(self, name: str) -> NamespaceState | None:
        """The namespace, for reading only; None if it does not exist.

        Raises `NotOwner`, and `Unavailable` while it is being deleted, as all that follow.
        """
        state = self._states.get(name)
        if state is not None:
            state.require_here()
        elif self.is_elsewhere is not None and self.is_elsewhere(name):
            raise NotOwner()
        return state

    def get(self, name: str, resource: str) -> NamespaceState:
        """The namespace, for reading only. Raises `NotFound` with the name of the resource that the caller needs."""
        state = self.find(name)
        if state is None:
            raise NotFound(f"{resource} not found")
        if state.fault is not None:
            raise Internal(state.fault)
        return state

    def get_for_command(self, name: str, resource: str, patient: bool = False) -> NamespaceState:
        """The namespace, for a command on an existing resource; it is marked dirty.

        Raises `NotFound`, and `Unavailable` while the store does not answer, unless the caller is `patient`.
        """
        state = self.get(name, resource)
        if self.persistence is not None and not patient:
            self.persistence.require_answers()
        self.driver.mark_dirty(state)
        return state

    def get_or_create(self, name: str, patient: bool = False) -> NamespaceState:
        """The namespace, for a command that may add to it; it is marked dirty. Raises `Unavailable` likewise."""
        if self.persistence is not None and not patient:
            self.persistence.require_answers()
        state = self.find(name)
        if state is None:
            if self.is_elsewhere is not None:
                # It is made in the store first.
                raise NotOwner()
            self._last_number += 1
            changes = None if self.persistence is None else Changes()
            scheduler = Scheduler(self.limits, self._entropy, changes)
            self._set_up(scheduler)
            state = self._states[name] = NamespaceState(name, scheduler, self._last_number, changes)
            state.keep_history(self.history is not None)
            state.outputs.memory = self._output_memory(is_all=self.persistence is None)
            state.about = AboutNamespace(self.now())
            state.outbox.last = self._last_outbox.pop(name, 0)
        elif state.fault is not None:
            raise Internal(state.fault)
        self.driver.mark_dirty(state)
        return state

    def remembers_secs(self, state: NamespaceState | None) -> float:
        """How long what has ended in a namespace can be found."""
        limits = self.limits if state is None else state.scheduler.limits
        return max(limits.result_ttl_secs, 0.0 if self.persistence is None else self.persistence.history_secs)

    @property
    def longest_result_ttl_secs(self) -> float:
        """How long what has ended stays in memory, in the namespace where that is longest."""
        return max([self.limits.result_ttl_secs, *[state.scheduler.limits.result_ttl_secs for state in self]])

    def require_room(self) -> None:
        """Raise `Unavailable` while there is no room for new tasks."""
        if self.persistence is not None:
            self.persistence.require_room()

    def restore(self, loaded: LoadedNamespace) -> NamespaceState:
        """Add a namespace that a store has kept."""
        self.note_number(loaded.number)
        state = NamespaceState(loaded.name, loaded.scheduler, loaded.number, loaded.scheduler.changes)
        state.fault, state.about = loaded.error, loaded.about
        self._set_up(loaded.scheduler)
        state.outbox.last = loaded.last_outbox
        state.outputs.memory = self._output_memory(is_all=False)
        state.keep_history(self.history is not None)
        self._states[loaded.name] = state
        return state

    def _set_up(self, scheduler: Scheduler) -> None:
        _set_level_of(scheduler, self._level)
        if self.rules != NO_RULES:
            scheduler.rules.configure(self.now(), self.rules)
        if self._private:
            scheduler.readers.make_private()
        scheduler.outputs.unknown_until = scheduler.view.last_seq
        if self.drain_notice is not None:
            scheduler.drain()
        if self.wall is self.now and isinstance(self.wall, VirtualClock):
            scheduler.schedules.wall_may_jump = False

    def note_number(self, number: int) -> None:
        """Give no namespace this number any more, nor a lower one."""
        self._last_number = max(self._last_number, number)

    def remove(self, state: NamespaceState) -> None:
        """Take a namespace out: it is served here no longer."""
        if self._states.get(state.namespace) is state:
            del self._states[state.namespace]
            if state.is_deleted:
                # Deliveries of it may still be under way, and be told as done to the next one of its name.
                self._last_outbox[state.namespace] = state.outbox.last
                self.deleted_counters.add(state.scheduler.view.counters)
                self.deleted_trigger_counters.add(state.scheduler.schedules.counters)
            self.driver.left(state)

    def refuse_once_closed(self) -> None:
        """Raise `Unavailable` if the engine is closed."""
        if self.closed:
            raise Unavailable("the engine is closed")

    def set_level(self, level: int) -> None:
        """The format level up to which tasks may have fields, in namespaces here and to come."""
        if level != self._level:
            self._level = level
            for state in self._states.values():
                _set_level_of(state.scheduler, level)

    def _output_memory(self, is_all: bool) -> Memory:
        """The memory that the output of all namespaces shares; it `is_all` there is where nothing is kept."""
        if self._memory is None:
            self._memory = Memory(ALL_BYTES if is_all else ALL_TAILS_BYTES, is_all)
        return self._memory

    @property
    def takes_output(self) -> bool:
        """True if tasks may have output at this level."""
        return self._level >= OUTPUT_LEVEL

    @property
    def takes_artifacts(self) -> bool:
        """True if tasks may have artifacts at this level."""
        return self._level >= ARTIFACTS_LEVEL

    def for_each(self, command: Callable[[NamespaceState], None]) -> None:
        """Run a command in every namespace, and mark each dirty."""
        for state in self._states.values():
            command(state)
            self.driver.mark_dirty(state)

    def random_bits(self) -> int:
        """Forty random bits, for an id."""
        return self._entropy()


def _set_level_of(scheduler: Scheduler, level: int) -> None:
    scheduler.readers.allow_fields(
        added=level >= ADDED_FIELDS_LEVEL,
        extras=level >= EXTRAS_LEVEL,
        output=level >= OUTPUT_LEVEL,
        artifacts=level >= ARTIFACTS_LEVEL,
    )
