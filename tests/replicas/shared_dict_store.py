"""The store of one replica over rows in memory that it shares with others, and what may happen to its calls.

A call arrives at the database after some time, is answered after some more, and either may fail: then the caller is
told `CommitDelayed` once its patience is over, and the call may still arrive later, beside its repetition. What arrives
is one transaction. None of this depends on whether the caller lives on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from taskyard_server.store.port import (
    LAST_KEY,
    CommitDelayed,
    Committed,
    Group,
    OutputRow,
    OutputState,
    Page,
    Row,
    Sought,
    StoreMeta,
    StoreStats,
    Table,
    TaskRows,
)
from taskyard_server.store.shared_port import OwnerRow, Renewal, Replica, ReplicaRow, SharedStore, Taken
from tests.store.dict_store import SLICE

from .shared_rows import SharedRows

T = TypeVar("T")


class Fate(NamedTuple):
    """What happens to one call: the seconds until it arrives, and from then until its answer does; None is never.

    The caller gives up after `patience_secs`.
    """

    arrives: float | None = 0.0
    answers: float | None = 0.0
    patience_secs: float = 5.0


PROMPT: Final = Fate()
LOST_ANSWER: Final = Fate(answers=None, patience_secs=0.5)
CUT_OFF: Final = Fate(arrives=None, patience_secs=0.5)


def late(secs: float, patience_secs: float = 0.5) -> Fate:
    """A call that takes effect long after its caller gave up."""
    return Fate(arrives=secs, answers=None, patience_secs=patience_secs)


class SharedDictStore:
    """Implements `SharedStore`. `fates` decides what happens to a call, by the name of its method.

    `network` is the loop on which calls arrive, that of the caller unless given: where the process of a caller may
    stand still it must be another one. `hears` says whether news of changes come through, and after how many seconds.
    """

    def __init__(
        self,
        rows: SharedRows,
        fates: Callable[[str], Fate] = lambda _: PROMPT,
        *,
        hears: Callable[[], float | None] = lambda: 0.0,
        network: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.shared = rows
        self.fates = fates
        self.hears = hears
        self.url = "shared-dict://"
        self._network = network
        self._instance: str | None = None
        self._commit_arrives_at = 0.0

    # What a store does

    async def open(self) -> StoreMeta:
        return await self._call("open", lambda: self.shared.kept.meta)

    async def commit(self, group: Group) -> Committed:
        # The group may be changed by nobody once it is under way; the instance is that of its beginning.
        return await self._call("commit", partial(self.shared.commit, group, self._instance))

    async def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        def read() -> list[Row]:
            found = self.shared.kept.tables[table].items()
            return sorted(row for row in found if after_key < row[0] <= last_key)[:limit]

        rows = await self._call("rows", read)
        for first in range(0, len(rows), SLICE):
            yield rows[first : first + SLICE]
            await asyncio.sleep(0)

    async def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        rows = await self._call("live_tasks", lambda: self.shared.live(namespace))
        for first in range(0, len(rows), SLICE):
            yield rows[first : first + SLICE]
            await asyncio.sleep(0)

    async def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        rows = await self._call("ended_tasks", lambda: self.shared.ended(since_ms, namespace))
        for first in range(0, len(rows), SLICE):
            yield rows[first : first + SLICE]
            await asyncio.sleep(0)

    async def task(self, key: int) -> TaskRows | None:
        return await self._call("task", lambda: _at_once(self.shared.kept.task(key)))

    async def output(self, key: int, after: int, limit_bytes: int) -> list[OutputRow]:
        return await self._call("output", lambda: _at_once(self.shared.kept.output(key, after, limit_bytes)))

    async def steps(self, key: int) -> list[OutputRow]:
        return await self._call("steps", lambda: _at_once(self.shared.kept.steps(key)))

    async def output_state(self, key: int) -> OutputState | None:
        return await self._call("output_state", lambda: _at_once(self.shared.kept.output_state(key)))

    async def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        return await self._call("output_sizes", lambda: _at_once(self.shared.kept.output_sizes(first_key, last_key)))

    def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        return self.shared.kept.outputs()

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        scan = partial(self.shared.kept.scan, first_key, last_key, descending=descending, limit=limit, sought=sought)
        return await self._call("scan", lambda: _at_once(scan()))

    async def forget(self, before_ms: int, limit: int, kept: Collection[int] = ()) -> int:
        return await self._call("forget", lambda: _at_once(self.shared.kept.forget(before_ms, limit, kept)))

    async def remove_namespace(self, number: int, limit: int) -> int:
        remove = partial(self.shared.kept.remove_namespace, number, limit)
        return await self._call("remove_namespace", lambda: _at_once(remove()))

    async def check(self) -> list[str]:
        return self.shared.kept.wrong()

    async def backup(self, path: str, *, replace: bool = False) -> None:
        await self.shared.kept.backup(path, replace=replace)

    async def stats(self) -> StoreStats:
        return await self.shared.kept.stats()

    async def free_bytes(self) -> int:
        return await self.shared.kept.free_bytes()

    async def go_on_from(self, kept: StoreMeta) -> None:
        await self.shared.kept.go_on_from(kept)

    async def close(self) -> None:
        self._instance = None

    # What a shared one does

    async def join(self, replica: Replica) -> float:
        at = await self._call("join", lambda: self.shared.join(replica))
        self._instance = replica.instance
        return at

    async def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:
        return await self._call("renew", lambda: self.shared.renew(instance, dead_after_secs))

    async def replicas(self, died_within_secs: float) -> Sequence[ReplicaRow]:
        return await self._call("replicas", lambda: self.shared.replica_rows(died_within_secs))

    async def drain(self, name: str, is_draining: bool) -> bool:
        return await self._call("drain", lambda: self.shared.drain(name, is_draining))

    async def raise_level(self, level: int) -> bool:
        return await self._call("raise_level", lambda: self.shared.raise_level(level))

    async def leave(self, instance: str) -> None:
        await self._call("leave", lambda: self.shared.leave(instance))

    async def owners(self, since: float | None = None) -> tuple[float, Sequence[OwnerRow]]:
        return await self._call("owners", lambda: self.shared.owner_rows(since))

    async def needing_owner(self, limit: int) -> Sequence[OwnerRow]:
        return await self._call("needing_owner", lambda: self.shared.needing_owner(limit))

    async def create(self, name: str, instance: str) -> Taken | None:
        return await self._call("create", lambda: self.shared.create(name, instance))

    async def take(self, number: int, instance: str) -> Taken | None:
        return await self._call("take", lambda: self.shared.take(number, instance))

    async def release(self, fences: dict[int, int], instance: str, served_until: float, to: str | None = None) -> None:
        await self._call("release", partial(self.shared.release, dict(fences), instance, served_until, to))

    async def rename(self, number: int, name: str | None) -> None:
        await self._call("rename", lambda: self.shared.rename(number, name))

    async def adopt(self, names: Mapping[int, str]) -> None:
        await self._call("adopt", lambda: self.shared.adopt(dict(names)))

    def changes(self) -> AsyncIterator[None]:
        return self._heard(self.shared.listeners)

    def token_changes(self) -> AsyncIterator[None]:
        return self._heard(self.shared.token_listeners)

    async def _heard(self, listeners: list[Callable[[], None]]) -> AsyncIterator[None]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def hear() -> None:
            if (secs := self.hears()) is not None:
                (self._network or loop).call_later(secs, loop.call_soon_threadsafe, news.set)

        listeners.append(hear)
        try:
            while True:
                await news.wait()
                news.clear()
                yield
        finally:
            listeners.remove(hear)

    # Calls

    async def _call(self, name: str, transaction: Callable[[], T]) -> T:
        fate = self.fates(name)
        if fate is PROMPT:
            return transaction()
        loop = asyncio.get_running_loop()
        network = self._network or loop
        answer: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            try:
                tell = partial(_set_result, answer, transaction())
            except Exception as error:
                tell = partial(_set_exception, answer, error)
            if fate.answers is not None:
                network.call_later(fate.answers, loop.call_soon_threadsafe, tell)

        if fate.arrives is not None:
            network.call_at(self._in_order(name, network.time() + fate.arrives, fate), arrive)
        error = CommitDelayed(f"the database did not answer within {fate.patience_secs} s")
        timer = loop.call_later(fate.patience_secs, _set_exception, answer, error)
        try:
            return await answer
        finally:
            timer.cancel()

    def _in_order(self, name: str, at: float, fate: Fate) -> float:
        """When a call arrives: a read no sooner than the commits that were begun before it and are not given up."""
        if name != "commit":
            return max(at, self._commit_arrives_at) if fate.answers is not None else at
        if fate.answers is not None and fate.arrives is not None and fate.arrives < fate.patience_secs:
            self._commit_arrives_at = max(self._commit_arrives_at, at)
        return at


def _set_result(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _set_exception(answer: asyncio.Future[T], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _at_once(reading: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing."""
    try:
        reading.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def is_a_shared_store(store: SharedDictStore) -> SharedStore:
    """For the type checker."""
    return store
