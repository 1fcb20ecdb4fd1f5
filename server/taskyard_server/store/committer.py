"""Group commit: all turns of the event loop that came while one commit ran go into the next one together.

A turn brings who changed, a `RowSource`, and what it has to tell, `publish`. When the store is free, the present state
of every source that changed becomes one group. Once that is committed, its turns are published in their order, and the
calls that wait for it go on. So nobody outside learns of what is not committed: see docs/operate/durability.md, The way
of a change.

Under load the next commit does not begin at once, so that more goes into it: each costs the server, the store and its
disk something, however little it carries.

A commit that fails for a reason that may pass is repeated as it is, since nobody has learned of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import structlog

from taskyard_server.core.errors import Internal, Refusal, Unavailable

from .figures import StoreFigures
from .port import CommitDelayed, Committed, Group, Store, StoreError, StoreMeta

log = structlog.get_logger(__name__)

SLOW_SECS: Final = 1.0
"""While a commit is under way for longer, nothing comes due."""
REPEAT_AFTER_SECS: Final = 0.25
"""Delay before a commit that failed is repeated."""
GATHER_SECS = 0.002
"""From the beginning of a commit to that of the next one, where it carried at least `GATHER_ROWS`. Calls that come so
close together take the server as long, so that hardly any waits for this. Tests lower it."""
GATHER_ROWS: Final = 24
UNKNOWN: Final = "the store does not answer: whether this took effect is not known"
NO_ANSWER: Final = "the store does not answer"
NOT_KEPT: Final = "the records of this namespace cannot be written"


class RowSource(Protocol):
    """A source of rows: a namespace, or the part that belongs to none."""

    def add_rows(self, group: Group) -> None:
        """Add all that changed since the last call, in its present state."""

    def close_for(self, error: Exception) -> None:
        """Serve nothing more: the records cannot be made."""

    def is_among(self, namespaces: frozenset[int]) -> bool:
        """True if it is one of the namespaces with these numbers."""

    def committed(self, at: float) -> None:
        """All that the last `add_rows` added is committed, in a commit of this time."""


class _Turns:
    """The turns of one source that one commit keeps: what to publish, and who waits for it."""

    __slots__ = ("patient", "publishes", "waits")

    def __init__(self) -> None:
        self.publishes: list[Callable[[float], None]] = []
        self.waits: list[asyncio.Future[None]] = []
        self.patient: list[asyncio.Future[None]] = []

    def publish(self, secs: float) -> None:
        """Tell all of it, after a commit that took this many seconds."""
        # What waits goes on in a later turn of the loop, but before what is published here: a host gets the answer to
        # its report before the task that it made claimable.
        for wait in (*self.patient, *self.waits):
            if not wait.done():
                wait.set_result(None)
        for publish in self.publishes:
            publish(secs)

    def refuse(self, refusal: Refusal, patient: bool) -> None:
        """Tell those who wait that they wait in vain; the `patient` ones too, or only the others."""
        waits, self.waits = self.waits, []
        if patient:
            waits += self.patient
            self.patient = []
        for wait in waits:
            if not wait.done():
                wait.set_exception(type(refusal)(refusal.message))
                # A caller that is gone does not ask for it.
                wait.exception()


class Committer:
    """Commits to one store, which was opened as `meta`. `clock` is the engine's.

    Before a commit is begun in the midst of a turn, `finish_turn` is called, so that no turn is split. `on_kept` is
    called after each commit, and `on_lost` with each namespace that another replica owns by then. `failed` raises the
    `StoreError` after which nothing is kept any more.

    `may_tell` is asked before anything is published, and waited for: where replicas share the store, one that is no
    longer trusted to own its namespaces tells nothing, although it is committed.
    """

    def __init__(
        self,
        store: Store,
        meta: StoreMeta,
        clock: Callable[[], float],
        patience_secs: float,
        finish_turn: Callable[[], None],
        on_kept: Callable[[], None],
        figures: StoreFigures | None = None,
        on_lost: Callable[[RowSource], None] = lambda _: None,
        may_tell: Callable[[], Awaitable[object] | None] = lambda: None,
    ) -> None:
        self.number = meta.number
        self._epoch = meta.epoch
        self.kept_at = meta.at or clock()
        self.figures = figures or StoreFigures(store.url)
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._store = store
        self._clock = clock
        self._patience_secs = patience_secs
        self._finish_turn = finish_turn
        self._on_kept = on_kept
        self._on_lost = on_lost
        self._may_tell = may_tell
        self._open: dict[RowSource, _Turns] = {}
        self._under_way: dict[RowSource, _Turns] = {}
        self._is_committing = False
        self._begun_at = 0.0
        self._rows = 0
        self._gathering: asyncio.TimerHandle | None = None
        self._stuck = False
        self._time_wanted = False
        self._commit: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    # What a turn calls

    def add(self, source: RowSource, publish: Callable[[float], None]) -> None:
        """Add what a turn of a source has to tell."""
        self._turns_of(source).publishes.append(publish)

    def has_turn(self, source: RowSource) -> bool:
        """True if the next commit has a turn of a source already, so that one with nothing to tell may be left out."""
        turns = self._open.get(source)
        return turns is not None and bool(turns.publishes)

    def turn_ended(self) -> None:
        """Begin a commit, unless one is under way, more is gathered for it, or nothing has changed."""
        if self._is_committing or self._gathering is not None or not (self._open or self._time_wanted):
            return
        if self._gathers:
            self._idle.clear()
            self._gathering = self._loop.call_at(self._begun_at + GATHER_SECS, self._begin_gathered)
        else:
            self._begin()

    @property
    def _gathers(self) -> bool:
        """True if the next commit has to wait until more has come."""
        return self._rows >= GATHER_ROWS and self._loop.time() - self._begun_at < GATHER_SECS

    def _begin_gathered(self) -> None:
        self._finish_turn()
        self._gathering = None
        if self._open or self._time_wanted:
            self._begin()
        if not self._is_committing:
            self._idle.set()

    def keep_time(self) -> None:
        """Commit the present time, also if nothing else has changed."""
        self._time_wanted = True
        self.turn_ended()

    def keep(self, source: RowSource, publish: Callable[[float], None] = lambda _: None) -> asyncio.Future[None]:
        """Commit, at the end of this turn of the event loop, what a source has changed that has no turns of its own.

        `publish` is called once it is committed. Returns what `wait` does, with its refusals.
        """
        wait = self.wait(source)
        self.add(source, publish)
        # Not at once: what others have changed in this turn must not be split.
        self._loop.call_soon(self._end_turn)
        return wait

    def _end_turn(self) -> None:
        self._finish_turn()
        self.turn_ended()

    def forget(self, source: RowSource) -> None:
        """Publish nothing more of a source: what it has committed lately may be unknown to those who wait for it."""
        for turns in (self._open.pop(source, None), self._under_way.pop(source, None)):
            if turns is not None:
                turns.refuse(Unavailable(UNKNOWN), patient=True)

    # What a call waits for

    def wait(self, source: RowSource, patient: bool = False) -> asyncio.Future[None]:
        """Done once the present turn of a source is committed.

        It fails with `Unavailable` where that takes longer than `patience_secs`, unless the caller is `patient`.
        """
        return self._wait_for(self._turns_of(source), patient)

    def wait_for_past(self, source: RowSource, patient: bool = False) -> asyncio.Future[None] | None:
        """Done once the turns of a source that are over are committed; None if they are."""
        turns = self._open.get(source) or self._under_way.get(source)
        return None if turns is None else self._wait_for(turns, patient)

    @property
    def is_stuck(self) -> bool:
        """True if the store has not answered for longer than a call waits."""
        return self._stuck

    def require_answers(self) -> None:
        """Raise `Unavailable` while the store does not answer, since new commands would only fill the memory."""
        if self._stuck:
            raise Unavailable(NO_ANSWER)

    def is_slow(self) -> bool:
        """True if a commit is under way for so long that nothing may come due."""
        return self._is_committing and self._loop.time() - self._begun_at > SLOW_SECS

    @property
    def is_idle(self) -> bool:
        """True if nothing is left to be committed, or the store has failed."""
        return self._idle.is_set() or self.failed.done()

    async def settle(self) -> None:
        """Wait until nothing is left to be committed, or the store has failed."""
        if self._idle.is_set():
            return
        idle = asyncio.ensure_future(self._idle.wait())
        try:
            await asyncio.wait((idle, self.failed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()

    # A commit

    def _turns_of(self, source: RowSource) -> _Turns:
        turns = self._open.get(source)
        if turns is None:
            turns = self._open[source] = _Turns()
        return turns

    def _wait_for(self, turns: _Turns, patient: bool) -> asyncio.Future[None]:
        if self._stuck and not patient:
            raise Unavailable(UNKNOWN)
        # One future for each caller: a shared one would be cancelled with any of them.
        wait: asyncio.Future[None] = self._loop.create_future()
        (turns.patient if patient else turns.waits).append(wait)
        return wait

    def _begin(self) -> None:
        turns, self._open = self._open, {}
        group = Group(self.number + 1, self._clock(), self._epoch)
        for source in list(turns):
            mark = group.mark()
            try:
                source.add_rows(group)
            except Exception as error:
                # A fault in the records of one namespace must not stop the others.
                group.back_to(mark)
                log.exception("records_failed")
                source.close_for(error)
                turns.pop(source).refuse(Internal(NOT_KEPT), patient=True)
        if not group and not self._time_wanted:
            _publish(turns.values(), 0.0)
            return
        self._time_wanted = False
        self._is_committing = True
        self._rows = len(group)
        self._under_way = turns
        self._begun_at = self.figures.under_way_since = self._loop.time()
        self._idle.clear()
        self._commit = self._loop.create_task(self._keep(group, turns))

    async def _keep(self, group: Group, turns: dict[RowSource, _Turns]) -> None:
        began_at = time.perf_counter()
        impatience = self._loop.call_later(self._patience_secs, self._lose_patience)
        try:
            committed = await self._repeat_until_done(group)
            for source in [source for source in turns if committed.lost and source.is_among(committed.lost)]:
                self.forget(source)
                self._on_lost(source)
            # Once it was waited for, time has passed, so that it is asked again; where it is in vain all has left.
            while (may_tell := self._may_tell()) is not None and await may_tell:
                pass
        except StoreError as error:
            self._fail(error)
            return
        finally:
            impatience.cancel()
        secs = self._loop.time() - self._begun_at
        if self._stuck:
            log.warning("store_answers_again", secs=round(secs, 1))
        self.number, self.kept_at = group.number, group.at
        for source in turns:
            source.committed(group.at)
        self._under_way, self._is_committing, self._stuck = {}, False, False
        self.figures.under_way_since = None
        self.figures.note(len(group), time.perf_counter() - began_at, committed)
        _publish(turns.values(), secs)
        self._on_kept()
        if not self._gathers:
            self._finish_turn()
        self.turn_ended()
        if not self._is_committing and self._gathering is None:
            self._idle.set()

    async def _repeat_until_done(self, group: Group) -> Committed:
        is_told = False
        while True:
            try:
                return await self._store.commit(group)
            except CommitDelayed as error:
                self.figures.delayed += 1
                if not is_told:
                    is_told = True
                    log.error("commit_delayed", reason=str(error))
                await asyncio.sleep(REPEAT_AFTER_SECS)

    def _lose_patience(self) -> None:
        """Tell the calls that wait that their outcome is unknown, and let nothing more in until the store answers."""
        self._stuck = True
        log.error("store_does_not_answer", secs=self._patience_secs)
        for turns in (*self._under_way.values(), *self._open.values()):
            turns.refuse(Unavailable(UNKNOWN), patient=False)

    def _fail(self, error: StoreError) -> None:
        """The store has failed for good: nothing more is committed, so nobody is told anything more."""
        self._stuck = True
        self.figures.failed += 1
        for turns in (*self._under_way.values(), *self._open.values()):
            turns.refuse(Unavailable(UNKNOWN), patient=True)
        if not self.failed.done():
            self.failed.set_exception(error)


def _publish(all_turns: Iterable[_Turns], secs: float) -> None:
    for turns in all_turns:
        turns.publish(secs)
