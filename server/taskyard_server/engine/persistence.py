"""Keeps the namespaces of an engine in a store: loads them, commits what changes, and says when it is committed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog

from taskyard_server.core.errors import Unavailable
from taskyard_server.store.committer import Committer, RowSource
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.loading import load
from taskyard_server.store.port import CommitDelayed, Store, StoreError, StoreMeta, key_of
from taskyard_server.store.shared_port import is_shared

from .clock import Clock, SteadyClock
from .history import StoredHistory
from .removals import Removals

if TYPE_CHECKING:
    from .namespace import NamespaceState
    from .namespaces import Namespaces

log = structlog.get_logger(__name__)

MAX_AHEAD_SECS: Final = 5.0
"""How far the time of the last commit may be ahead of the clock."""
CLOSE_SECS: Final = 5.0
"""How long the end of the server waits for that of the store, whose writer may be stuck."""
KEEP_TIME_SECS: Final = 5.0
LOOK_AT_ROOM_SECS: Final = 2.0
"""While tasks are live the time is committed this often, since default deadlines stand still while nobody serves."""
FORGET_EVERY_SECS: Final = 15.0
FORGET_PAUSE_SECS: Final = 0.01
FORGOTTEN_AT_ONCE: Final = 500
"""History is removed in slices of this many tasks, with a pause after each, so that no commit waits for long."""
DAY_SECS: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """How a store is used (docs/operate/settings.md, store)."""

    patience_secs: float = 10.0
    history_days: float = 7.0
    min_free_bytes: int = 0
    accept_clock: bool = False

    @property
    def has_history(self) -> bool:
        """True if ended tasks are kept once they leave the memory."""
        return self.history_days > 0


class Persistence:
    """Keeps the namespaces of one engine. `committer` is there once it is open.

    `shift` is then the seconds by which all stored times of the steady clock are moved (docs/operate/durability.md, The
    clock). Where replicas share the store nothing is loaded here (`owned_namespaces.py`), `on_lost` is called with a
    namespace that another replica owns, and `may_tell` is the committer's.
    """

    committer: Committer
    shift: float

    def __init__(self, namespaces: Namespaces, store: Store, store_options: StoreOptions) -> None:
        self.store = store
        self.options = store_options
        self.figures = StoreFigures(store.url)
        self.on_lost: Callable[[RowSource], None] = lambda _: None
        self.may_tell: Callable[[], Awaitable[object] | None] = lambda: None
        self.is_shared = is_shared(store)
        self.removals = Removals(store)
        self._namespaces = namespaces
        self._is_open = False

    async def open(self) -> None:
        """Open the store, load it, and commit what follows from the restart, before anything is served."""
        namespaces, driver = self._namespaces, self._namespaces.driver
        began_at = time.monotonic()
        meta = await self.store.open()
        self.figures.free_bytes = await self.store.free_bytes()
        for line in getattr(self.store, "warnings", ()):
            log.warning("store_at_risk", reason=line)
        shift = self.shift = 0.0 if self.is_shared else self._set_clock(meta, namespaces.now)
        self.committer = Committer(
            self.store,
            meta,
            namespaces.now,
            self.options.patience_secs,
            driver.flush,
            driver.commit_ended,
            self.figures,
            lambda source: self.on_lost(source),
            lambda: self.may_tell(),
        )
        if self.is_shared:
            driver.committer = self.committer
            self._begin_keeping()
            return
        now = namespaces.now()
        since_ms = int((now - namespaces.limits.result_ttl_secs) * 1000)
        # All that is loaded stays: looking through it again and again would take as long as loading it.
        gc.disable()
        try:
            for loaded in await load(self.store, namespaces.limits, namespaces.random_bits, now, meta, since_ms, shift):
                if loaded.is_deleted:
                    namespaces.note_number(loaded.number)
                    self.removals.add(loaded.number)
                    continue
                namespaces.restore(loaded)
                if loaded.error is not None:
                    log.error("namespace_closed", namespace=loaded.name, fault=loaded.error, see="taskyard store check")
        finally:
            gc.enable()
        driver.committer = self.committer
        for state in namespaces:
            state.keep_history(self.options.has_history)
            await self.recover(state)
        self._begin_keeping()
        driver.flush()
        await self.committer.settle()
        load_secs = self.figures.load_secs = time.monotonic() - began_at
        log.info("store_loaded", url=self.store.url, commit=meta.number, secs=round(load_secs, 2))

    def _begin_keeping(self) -> None:
        namespaces = self._namespaces
        self._is_open = True
        namespaces.persistence = namespaces.barrier.persistence = self
        if self.options.has_history:
            namespaces.history = StoredHistory(
                self.store, self.options.patience_secs, namespaces.barrier, namespaces.driver
            )

    async def recover(self, state: NamespaceState) -> None:
        """Do in a namespace that was loaded what follows from the time in which nobody served it."""
        self._namespaces.driver.note_wall(state)
        state.scheduler.recover(self._namespaces.now())
        # Calls may come in between, so that the time of before would be one that has passed.
        while state.scheduler.advance(self._namespaces.now()):  # noqa: ASYNC110 - it works, it does not wait
            await asyncio.sleep(0)
        self._namespaces.driver.mark_dirty(state)

    def start_at(self, at: float) -> None:
        """Let the clock show no earlier time than this, which was stored."""
        clock = self._namespaces.now
        if isinstance(clock, SteadyClock):
            clock.start_at(at)

    async def run(self) -> None:
        """Keep the time and remove old history, until cancelled; raises `StoreError` once the store has failed."""
        parts = [
            asyncio.create_task(part)
            for part in (self._keep_time(), self._look_at_room(), self._forget_history(), self.removals.run())
        ]
        try:
            await asyncio.wait((self.committer.failed, *parts), return_when=asyncio.FIRST_COMPLETED)
            for ended in (self.committer.failed, *parts):
                if ended.done():
                    await ended
        finally:
            for part in parts:
                part.cancel()

    async def close(self) -> None:
        """Commit what is left, and let go of the store.

        It waits no longer than a call: what is not committed then nobody has learned of.
        """
        if self._is_open:
            await self.settle()
        try:
            async with asyncio.timeout(CLOSE_SECS):
                await self.store.close()
        except TimeoutError:
            log.error("store_left_open", secs=CLOSE_SECS)

    async def settle(self) -> None:
        """Wait until nothing is left to be committed, but no longer than a call waits."""
        self._namespaces.driver.flush()
        if self.committer.is_stuck:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.patience_secs):
                await self.committer.settle()

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to be committed, or the store has failed."""
        return self.committer.is_idle

    @property
    def history_secs(self) -> float:
        """How long ended tasks are kept."""
        return self.options.history_days * DAY_SECS

    def require_answers(self) -> None:
        """Raise `Unavailable` while the store does not answer."""
        self.committer.require_answers()

    def require_room(self) -> None:
        """Raise `Unavailable` while the disk is nearly full, so that what is under way can still end."""
        if self._is_short_of_room:
            free = self.figures.free_bytes >> 20
            raise Unavailable(f"the disk is nearly full, {free} MiB are free: no new tasks are taken")

    @property
    def _is_short_of_room(self) -> bool:
        return self.figures.free_bytes < self.options.min_free_bytes

    def wait(self, state: NamespaceState, patient: bool = False) -> asyncio.Future[None] | None:
        """Done once all that happened in a namespace until now is committed; None if it is.

        Raises `Unavailable` at once while the store does not answer, unless the caller is `patient`.
        """
        if state.has_left:
            raise state.absence
        if self._namespaces.driver.is_dirty(state):
            return self.committer.wait(state, patient)
        return self.committer.wait_for_past(state, patient)

    def _set_clock(self, meta: StoreMeta, clock: Clock) -> float:
        """Let the clock go on from the last commit; the seconds by which what is stored must be moved."""
        now = clock()
        if meta.at - now > MAX_AHEAD_SECS:
            if not self.options.accept_clock:
                raise StoreError(
                    f"{self.store.url}: its last commit is of {_at(meta.at)}, but the clock shows {_at(now)}: "
                    "set the clock, or start with --accept-clock to move what is stored to the clock's time"
                )
            return now - meta.at
        if isinstance(clock, SteadyClock):
            clock.start_at(meta.at)
        return 0.0

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(KEEP_TIME_SECS)
            if self.is_shared:
                # The renewals of the replica tell until when its namespaces were served.
                continue
            is_old = self._namespaces.now() - self.committer.kept_at >= KEEP_TIME_SECS
            if is_old and any(_has_live_tasks(state) for state in self._namespaces):
                self.committer.keep_time()

    async def _look_at_room(self) -> None:
        """Others fill and clear the disk, too, while nothing is committed."""
        while True:
            await asyncio.sleep(LOOK_AT_ROOM_SECS)
            self.figures.free_bytes = await self.store.free_bytes()

    async def _forget_history(self) -> None:
        while True:
            await asyncio.sleep(FORGET_EVERY_SECS)
            # What is still in memory can come back to life, and needs its rows.
            secs = max(
                self.options.history_days * DAY_SECS, self._namespaces.longest_result_ttl_secs + FORGET_EVERY_SECS
            )
            before_ms = int((self._namespaces.now() - secs) * 1000)
            # A full disk delays this; the next round will do.
            with contextlib.suppress(CommitDelayed):
                while forgotten := await self.store.forget(before_ms, FORGOTTEN_AT_ONCE, self._needed_by_others()):
                    self.figures.forgotten += forgotten
                    await asyncio.sleep(FORGET_PAUSE_SECS)

    def _needed_by_others(self) -> list[int]:
        """The keys of the tasks whose time is over, but that others come after or have as inputs."""
        return [key_of(state.number, seq) for state in self._namespaces for seq in state.scheduler.view.aside]


def _has_live_tasks(state: NamespaceState) -> bool:
    view = state.scheduler.view
    return view.queued > 0 or view.inflight > 0


def _at(secs: float) -> str:
    return datetime.fromtimestamp(secs, UTC).isoformat(timespec="seconds")
