"""Namespaces that come into an engine and leave it, where replicas share the store: each has one owner at a time.

Which of them this replica owns is decided elsewhere (`replicas/ownership.py`). Here one that was taken is loaded and
served, and one that is given up or lost is served no longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.core.errors import NotOwner
from taskyard_server.store.loading import load_one
from taskyard_server.store.port import Table, key_of

from .recent_events import CommitMark

if TYPE_CHECKING:
    from taskyard_server.store.committer import RowSource
    from taskyard_server.store.shared_port import SharedStore, Taken

    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .persistence import Persistence

log = structlog.get_logger(__name__)

MOST_AHEAD_SECS: Final = 0.03
"""How far the clocks of replicas may be apart; times that are further ahead are moved to this replica's clock."""
CLOCKS_APART_SECS: Final = 1.0
"""The clocks of replicas are never so far apart."""
LOADS_AT_ONCE: Final = 4
"""More would not be faster: the rows of all of them are decoded by one thread."""


class OwnedNamespaces:
    """The namespaces of one engine that its replica owns.

    `on_lost` is called with the name of one that was found to be another's. `left` are called with the name of each
    that is served here no longer, and `begun` with each that is from now on. `wanted` say whether anybody watches one,
    so that it is not idle.
    """

    def __init__(self, namespaces: Namespaces, persistence: Persistence, store: SharedStore) -> None:
        self.on_lost: Callable[[str], None] = lambda _: None
        self.left: list[Callable[[str], None]] = []
        self.begun: list[Callable[[str], None]] = []
        self.wanted: list[Callable[[str], bool]] = []
        self._namespaces = namespaces
        self._persistence = persistence
        self._store = store
        self._looked_at: float | None = None
        self._loading = asyncio.Semaphore(LOADS_AT_ONCE)
        persistence.on_lost = self._lost

    def use(self, is_elsewhere: Callable[[str], bool], is_trusted: Callable[[], bool]) -> None:
        """Ask whether a name may be another's, and whether this replica is trusted to own what it owns."""
        self._namespaces.is_elsewhere = is_elsewhere
        self._namespaces.driver.is_trusted = is_trusted

    def now(self) -> float:
        """The engine's time."""
        return self._namespaces.now()

    def looked(self, at: float) -> None:
        """All namespaces that there were at this time of the engine are known to `use`'s `is_elsewhere`."""
        self._looked_at = at

    def absent_until(self) -> float:
        """A time of the engine, in seconds: in a namespace that is not known, nothing has happened before.

        Another replica may have made it since the last look, and its clock may be behind this one's.
        """
        return self.now() if self._looked_at is None else self._looked_at - CLOCKS_APART_SECS

    def names(self) -> list[str]:
        """The namespaces that are served here."""
        return self._namespaces.names()

    def term_of(self, name: str) -> int:
        """The term under which a namespace is served here; 0 if it is not."""
        state = self._namespaces.here(name)
        return 0 if state is None or state.is_leaving else state.term

    def is_leaving(self, name: str) -> bool:
        """True if a namespace is being given up here: until that is done nobody may take it, this replica neither."""
        state = self._namespaces.here(name)
        return state is not None and state.is_leaving

    def is_idle(self, name: str) -> bool:
        """True if nobody would miss a namespace: nothing is live or waits, nobody is connected, nothing is retained."""
        state = self._namespaces.here(name)
        if state is None or state.needs_owner or state.sessions or state.claims or state.end_waits:
            return False
        if any(wanted(name) for wanted in self.wanted):
            return False
        return not state.scheduler.view.has_tasks and not any(host.leases for host in state.scheduler.hosts)

    def set_level(self, level: int) -> None:
        """The format level up to which tasks may have fields."""
        self._namespaces.set_level(level)

    async def begin(self, taken: Taken, is_ours: Callable[[], bool]) -> None:
        """Load a namespace that was taken, and commit what follows from the change of its owner; then serve it.

        Raises `NotOwner` where it `is_ours` no longer once it is loaded, `Refusal` where it was lost later or the store
        does not answer, and `CommitDelayed`.
        """
        async with self._loading:
            state = await self._load(taken, is_ours)
            try:
                await self._persistence.recover(state)
                await self._persistence.committer.wait(state, patient=True)
            except BaseException:
                self.end(state.namespace)
                raise
        for begun in self.begun:
            begun(state.namespace)

    async def _load(self, taken: Taken, is_ours: Callable[[], bool]) -> NamespaceState:
        namespaces, store = self._namespaces, self._store
        ahead = taken.meta.at - namespaces.now()
        # The clock of the owner before was ahead. This one must not jump, since leases of other namespaces would end.
        shift = -ahead if ahead > MOST_AHEAD_SECS else 0.0
        self._persistence.start_at(taken.meta.at + shift)
        now = namespaces.now()
        since_ms = int((now - namespaces.limits.result_ttl_secs) * 1000)
        loaded = await load_one(store, taken, namespaces.limits, namespaces.random_bits, now, since_ms, shift)
        first, last = key_of(taken.number, 0) - 1, key_of(taken.number + 1, 0) - 1
        waiting = 0
        async for rows in store.rows(Table.OUTBOX, after_key=first, last_key=last):
            waiting += len(rows)
        if loaded.is_deleted:
            # Anyone who deleted it came no further.
            await store.rename(taken.number, None)
            self.empty(taken.number)
            raise NotOwner()
        if not is_ours():
            raise NotOwner()
        state = namespaces.restore(loaded)
        state.term, state.commits = taken.term, taken.meta.number
        state.told = CommitMark(taken.meta.number, int((taken.meta.at or now) * 1000))
        state.outbox.waiting = waiting
        if loaded.error is not None:
            log.error("namespace_closed", namespace=loaded.name, fault=loaded.error, see="taskyard store check")
        return state

    async def give_up(self, name: str, release: Callable[[NamespaceState], Awaitable[None]]) -> None:
        """Let a namespace go: take no more commands, commit what is left, release it, and end what waits for it here.

        If `release` fails it is served no longer either: whether it took effect is not known, and it still may.
        """
        state = self._namespaces.here(name)
        if state is None or state.is_leaving:
            return
        state.is_leaving = True
        self._namespaces.driver.mark_dirty(state)
        try:
            await self._settle(state)
        except BaseException:
            state.is_leaving = state.has_left
            self._namespaces.driver.mark_dirty(state)
            raise
        try:
            await release(state)
        finally:
            self._leave(state)

    async def _settle(self, state: NamespaceState) -> None:
        self._namespaces.driver.flush()
        # Its own answers go out in the turns that follow their commit.
        while (kept := self._persistence.committer.wait_for_past(state, patient=True)) is not None:
            await kept
            await asyncio.sleep(0)
            self._namespaces.driver.flush()

    def end(self, name: str) -> None:
        """Serve a namespace no longer: it is another's, or may be."""
        state = self._namespaces.here(name)
        if state is not None:
            self._leave(state)

    def _lost(self, source: RowSource) -> None:
        for state in list(self._namespaces):
            if state is source:
                log.warning("namespace_lost", namespace=state.namespace, term=state.term)
                self._leave(state)
                self.on_lost(state.namespace)

    def _leave(self, state: NamespaceState) -> None:
        if state.has_left:
            return
        self._namespaces.remove(state)
        state.leave()
        self._persistence.committer.forget(state)
        self.tell_left(state.namespace)

    def empty(self, number: int) -> None:
        """Remove the rows of a namespace that was deleted."""
        self._persistence.removals.add(number)

    def tell_left(self, name: str) -> None:
        """Let anyone who watches a namespace here look for it elsewhere."""
        for left in self.left:
            left(name)
