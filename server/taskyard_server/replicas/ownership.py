"""Which namespaces this replica owns: it takes those that fall to it, and gives up those that fall to others.

The store decides who owns one, by its term; what stands here is what was last seen there. A namespace that nobody owns
is taken by the replica that is called for it, or, if anything comes due in it, by the one that it falls to
(docs/operate/scaling.md, Who owns what).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from taskyard_server.core.errors import NotOwner, Refusal, Unavailable
from taskyard_server.store.port import CommitDelayed
from taskyard_server.store.shared_port import OwnerRow

from .rendezvous import chosen

if TYPE_CHECKING:
    from taskyard_server.engine.namespace import NamespaceState
    from taskyard_server.engine.owned_namespaces import OwnedNamespaces
    from taskyard_server.store.shared_port import SharedStore, Taken

    from .figures import ReplicaFigures
    from .membership import Membership
    from .ownership_lease import OwnershipLease

log = structlog.get_logger(__name__)

ORPHAN_SECS: Final = 1.0
"""How long a namespace that needs an owner waits for the one it falls to; then anybody takes it."""
MOVED_AT_ONCE: Final = 5
"""How many namespaces a replica that has more than its share hands over in one round."""
TAKEN_AT_ONCE: Final = 100
IDLE_SECS: Final = 60.0
"""After this long without anything live or connected a namespace is let go."""
IDLE_LOOK_SECS: Final = 10.0
"""How often that is looked for, since all namespaces are visited."""
MISSES_SECS: Final = 0.25
"""How long it is known that there is no namespace of a name."""
MAX_MISSES: Final = 10_000
NO_ANSWER: Final = "the store does not answer"
CLOSING: Final = "this replica drains, and there is no other one to take over"


class _Release(NamedTuple):
    """A release on its way: the namespace and the term, until when it was served, and for whom it is."""

    number: int
    term: int
    served_until: float
    to: str | None


class OwnershipTable:
    """The owners of all namespaces, and what this replica does about them. `on_change` is called when they changed."""

    def __init__(
        self,
        store: SharedStore,
        owned: OwnedNamespaces,
        membership: Membership,
        trust: OwnershipLease,
        figures: ReplicaFigures,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rows: dict[str, OwnerRow] = {}
        self.on_change: Callable[[], None] = lambda: None
        self._store = store
        self._owned = owned
        self._membership = membership
        self._trust = trust
        self._figures = figures
        self._steady = steady
        self._names: dict[int, str] = {}
        self._since: float | None = None
        self._misses: dict[str, float] = {}
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._orphans: dict[int, float] = {}
        self._idle: dict[str, float] = {}
        self._idle_at = 0.0
        self._unreleased: dict[str, _Release] = {}
        self._looking = asyncio.Lock()
        self._looks = 0
        self._looked = 0
        self._is_stopping = False
        owned.use(self.is_elsewhere, lambda: trust.holds)
        membership.on_death = self._died

    # What a call asks

    def is_here(self, name: str) -> bool:
        """True if this replica serves a namespace, and is trusted to."""
        return self._owned.term_of(name) > 0 and self._trust.holds

    def is_elsewhere(self, name: str) -> bool:
        """True if there is a namespace of this name, as far as is known here."""
        return name in self.rows

    def owned(self) -> list[OwnerRow]:
        """The namespaces that this replica owns."""
        me = self._membership.me.instance
        return [row for row in self.rows.values() if row.instance == me and self._owned.term_of(row.name or "")]

    @property
    def without_owner(self) -> int:
        """How many namespaces need an owner and had none when that was looked for last; at most `TAKEN_AT_ONCE`."""
        return len(self._orphans)

    async def bring(self, name: str, *, create: bool) -> None:
        """Serve a namespace from now on, if it is this replica's or nobody's; make it, if it is to be created.

        Nothing is done where there is none and none is to be made. Raises `NotOwner`, and `Unavailable` while the store
        does not answer.
        """
        if not self._trust.holds and not await self._trust.regained():
            raise Unavailable(NO_ANSWER)
        if self._owned.term_of(name):
            return
        try:
            if name not in self.rows:
                await self._find(name)
            if name in self.rows or create:
                await self._once(name, self._take_or_create(name))
        except CommitDelayed:
            raise Unavailable(NO_ANSWER) from None

    async def _find(self, name: str) -> None:
        now = self._steady()
        if self._misses.get(name, 0.0) > now:
            return
        await self.look()
        if name not in self.rows:
            if len(self._misses) >= MAX_MISSES:
                self._misses.clear()
            self._misses[name] = now + MISSES_SECS

    async def _once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Let one task do what all callers of a namespace wait for, and who goes away does not end it."""
        taking = self._taking.get(name)
        if taking is None:
            taking = self._taking[name] = asyncio.get_running_loop().create_task(work)
            taking.add_done_callback(lambda _: self._taken(name, taking))
        else:
            work.close()
        await asyncio.shield(taking)

    def _taken(self, name: str, taking: asyncio.Task[None]) -> None:
        del self._taking[name]
        _look_at(taking)

    async def _take_or_create(self, name: str) -> None:
        instance = self._membership.me.instance
        if not self._trust.holds:
            # It was found dead since this was decided on.
            raise Unavailable(NO_ANSWER)
        if self._owned.is_leaving(name):
            # Taken now it would be here twice.
            raise NotOwner()
        row = self.rows.get(name)
        if row is not None and row.instance != instance and self._membership.is_alive(row.instance):
            raise NotOwner(self._membership.name_of(row.instance))
        if not self._may_take() and (row is None or row.instance != instance):
            other = self._heir(name)
            raise Unavailable(CLOSING) if other is None else NotOwner(self._membership.name_of(other))
        began_at, life = self._steady(), self._trust.life
        taken = await (self._store.create(name, instance) if row is None else self._store.take(row.number, instance))
        if taken is None:
            # Another one was faster, or this replica is dead and does not know it yet.
            await self.look()
            found = self.rows.get(name)
            raise NotOwner(None if found is None else self._membership.name_of(found.instance))
        await self._begin(taken, instance, life)
        log.info("namespace_made" if row is None else "namespace_taken", namespace=name, term=taken.term)
        self._figures.took(self._steady() - began_at, is_new=row is None)

    async def _begin(self, taken: Taken, instance: str, life: int) -> None:
        """Serve what the instance of a life has taken, unless that life is over by now: then it may be another's."""

        def is_ours() -> bool:
            if life != self._trust.life or instance != self._membership.me.instance:
                return False
            row = self.rows.get(taken.name)
            return row is not None and (row.instance, row.term) == (instance, taken.term)

        self._note(OwnerRow(taken.number, taken.name, instance, taken.term))
        self._misses.pop(taken.name, None)
        try:
            await self._owned.begin(taken, is_ours)
        except NotOwner:
            raise
        except Refusal:
            raise Unavailable(NO_ANSWER) from None
        if not is_ours():
            self._owned.end(taken.name)
            raise NotOwner()

    # What is seen of the others

    async def look(self) -> None:
        """Read the owners that changed, in a look that begins after this call. Raises `CommitDelayed`."""
        # Anyone who goes away must not end what others wait for.
        looking = asyncio.ensure_future(self._look(self._looks + 1))
        looking.add_done_callback(_look_at)
        await asyncio.shield(looking)

    async def _look(self, wanted: int) -> None:
        async with self._looking:
            if self._looked >= wanted:
                return
            self._looks = wanted
            began_at = self._owned.now()
            self._since, rows = await self._store.owners(self._since)
            self._looked = wanted
            for row in rows:
                self._note(row)
            self._owned.looked(began_at)
        if rows:
            self.on_change()

    def _note(self, row: OwnerRow) -> None:
        """Take over who owns a namespace, unless that is older than what is known."""
        before = self._names.get(row.number)
        known = None if before is None else self.rows.get(before)
        if known is not None and known.number == row.number and known.term > row.term:
            return
        if before is not None and before != row.name:
            self.rows.pop(before, None)
            self._owned.end(before)
        if row.name is None:
            self._names.pop(row.number, None)
            if chosen(str(row.number), [self._membership.me.instance, *self._others()]) == self._membership.me.instance:
                self._owned.empty(row.number)
            return
        self._names[row.number] = row.name
        self.rows[row.name] = row
        self._misses.pop(row.name, None)
        mine, is_mine = self._owned.term_of(row.name), row.instance == self._membership.me.instance
        if mine and (not is_mine or row.term > mine):
            self._lost(row.name)
        elif not mine and not is_mine:
            # Somebody may watch a namespace that was not there until now.
            self._owned.tell_left(row.name)

    def forget(self, name: str) -> None:
        """A namespace was deleted."""
        row = self.rows.pop(name, None)
        if row is not None:
            self._names.pop(row.number, None)
            self.on_change()

    def _lost(self, name: str) -> None:
        self._figures.lost += 1
        self._owned.end(name)

    def _died(self) -> None:
        """All that it owned may be another's."""
        self._unreleased.clear()
        for name in self._owned.names():
            self._lost(name)

    # What is to be done about it

    async def act(self) -> None:
        """Take what falls to this replica, and give up what does not. Raises `CommitDelayed`."""
        if not self._trust.holds:
            return
        for name in list(self._unreleased):
            await self._release(name)
        if self._may_take():
            await self._take_gifts()
            await self._take_orphans()
            await self._level_out()
            await self._let_go_of_idle()
        else:
            # What was given to it before the others heard of that, nobody else could take.
            await self._take_gifts()
            await self.hand_over_all()
            # For people alone, where all replicas drain.
            await self._find_orphans()

    async def hand_over_all(self) -> None:
        """Give everything up for those that it falls to next. What falls to nobody is served on."""
        heirs = {name: self._heir(name) for name in self._owned.names()}
        await self._each(self._give_up(name, heir) for name, heir in heirs.items() if heir is not None)

    async def stop(self) -> None:
        """Take nothing more, and give everything up; what falls to nobody is still served. Raises `CommitDelayed`."""
        self._is_stopping = True
        # The others must not give it anything any more.
        await self._store.drain(self._membership.me.instance, True)
        await self.look()
        await self.hand_over_all()

    async def release_all(self) -> None:
        """Let go of what is left, when nothing is served any more. Raises `CommitDelayed`."""
        for name in self._owned.names():
            await self._give_up(name, None)

    def _may_take(self) -> bool:
        return not self._is_stopping and not self._membership.is_draining()

    def _heir(self, name: str) -> str | None:
        """The other replica that a namespace falls to."""
        return chosen(name, self._others())

    def _others(self) -> list[str]:
        me, may_own = self._membership.me.instance, self._membership.may_own
        return [
            row.replica.instance for row in self._membership.living() if may_own(row) and row.replica.instance != me
        ]

    async def _take_gifts(self) -> None:
        me = self._membership.me.instance
        gifts = [row.name for row in self.rows.values() if row.instance == me and row.name is not None]
        await self._take([name for name in gifts if not self._owned.term_of(name)])

    async def _find_orphans(self) -> Sequence[OwnerRow]:
        """The namespaces that need an owner and have none."""
        if all(self._membership.is_alive(row.instance) for row in self.rows.values()):
            self._orphans.clear()
            return []
        now, since = self._steady(), self._orphans
        orphans = await self._store.needing_owner(TAKEN_AT_ONCE)
        self._orphans = {row.number: since.get(row.number, now) for row in orphans}
        for row in orphans:
            self._note(row)
        return orphans

    async def _take_orphans(self) -> None:
        orphans = await self._find_orphans()
        now, me = self._steady(), self._membership.me.instance
        instances = [me, *self._others()]
        await self._take(
            [
                row.name
                for row in orphans
                if row.name is not None
                and (chosen(row.name, instances) == me or now - self._orphans[row.number] >= ORPHAN_SECS)
            ]
        )

    async def _take(self, names: list[str]) -> None:
        await self._each(self._once(name, self._take_or_create(name)) for name in names)

    async def _level_out(self) -> None:
        """Hand some over to replicas that have less than their share."""
        counts = dict.fromkeys(self._others(), 0)
        mine = self._owned.names()
        for row in self.rows.values():
            if row.instance in counts:
                counts[row.instance] += 1
        if not counts:
            return
        share = math.ceil((len(mine) + sum(counts.values())) / (1 + len(counts)))
        moves = []
        for name in mine[: max(0, min(len(mine) - share, MOVED_AT_ONCE))]:
            to = min(counts, key=lambda instance: counts[instance])
            if counts[to] >= share:
                break
            counts[to] += 1
            moves.append(self._give_up(name, to))
        await self._each(moves)

    async def _let_go_of_idle(self) -> None:
        now = self._steady()
        if now < self._idle_at:
            return
        self._idle_at = now + IDLE_LOOK_SECS
        idle = [name for name in self._owned.names() if self._owned.is_idle(name)]
        self._idle = {name: self._idle.get(name, now) for name in idle}
        long = [name for name, since in self._idle.items() if now - since >= IDLE_SECS]
        await self._each(self._give_up(name, None) for name in long[:TAKEN_AT_ONCE])

    async def _give_up(self, name: str, to: str | None) -> None:
        async def release(state: NamespaceState) -> None:
            self._unreleased[name] = _Release(state.number, state.term, self._owned.now(), to)
            await self._release(name)

        began_at = self._steady()
        try:
            await self._owned.give_up(name, release)
        except Refusal as refusal:
            log.warning("namespace_not_given_up", namespace=name, reason=refusal.message)
            return
        self._figures.gave_up(self._steady() - began_at)
        log.info("namespace_given_up", namespace=name, to=self._membership.name_of(to))

    async def _release(self, name: str) -> None:
        """Release what is served here no longer. It is repeated until the store answers: else nobody could take it."""
        release = self._unreleased.get(name)
        if release is None:
            # While the store answered about another one, this one was released, or all were lost.
            return
        number, term, served_until, to = release
        await self._store.release({number: term}, self._membership.me.instance, served_until, to)
        if self._unreleased.get(name) == release:
            del self._unreleased[name]
        row = self.rows.get(name)
        if row is not None and (row.number, row.term) == (number, term):
            self.rows[name] = row._replace(instance=to)
        self.on_change()

    async def _each(self, works: Any) -> None:
        """Do all of it, and raise what was raised first, but for refusals: those are for callers."""
        outcomes = await asyncio.gather(*works, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, Refusal):
                raise outcome


def _look_at(task: asyncio.Task[None]) -> None:
    """Look at what a task raised, also where nobody waits for it."""
    if not task.cancelled():
        task.exception()
