"""The embedded engine: one core scheduler a namespace, driven from one event loop.

Commands run at once, in the order of their calls. What follows from them is done once a turn of the loop, for all
commands of that turn (`settling.py`).
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Sequence
from copy import copy
from itertools import islice
from typing import Final

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Conflict, NotFound, Refusal, Unavailable
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Stats, Totals
from taskyard_server.core.streams import HeldLease, Hello
from taskyard_server.core.targets import Target
from taskyard_server.core.task import TERMINAL, Submission, Task, TaskState

from .clock import Clock, steady_clock
from .memory_schedules import MemorySchedules
from .port import Listener, TaskFilter, TaskPage
from .sessions import DrainNotice, Session
from .settling import Settling
from .yard import Yard

SCAN: Final = 2_000
"""So many tasks a listing walks before others get their turn."""


class MemoryEngine:
    """Implements `port.Engine`. `seed` makes ids and jitter repeatable, for tests.

    `wall` is the wall clock, which may jump; where only `clock` is given it stands for both.
    """

    def __init__(
        self, limits: Limits, clock: Clock | None = None, seed: int | None = None, wall: Clock | None = None
    ) -> None:
        self._limits = limits
        self._clock = clock or steady_clock()
        self._random = random.Random(seed)
        self._yards: dict[str, Yard] = {}
        self._draining = False
        self._drain_notice: DrainNotice | None = None
        self._closed = False
        wall = wall or clock or time.time
        self.schedules = MemorySchedules(self._yards, self._enter, self._existing, self._clock, wall)
        self._settling = Settling(self._yards, self._clock, self.schedules)

    # Commands of agents

    async def submit(self, namespace: str, asked: Submission) -> Task:
        yard = self._enter(namespace)
        return yard.scheduler.submit(self._clock(), asked)

    async def submit_each(self, namespace: str, asked: Sequence[Submission | Refusal]) -> list[Task | Refusal]:
        yard = self._enter(namespace)
        return yard.scheduler.submit_each(self._clock(), asked)

    async def submit_batch(self, namespace: str, asked: Sequence[Submission]) -> BatchSubmission:
        yard = self._enter(namespace)
        return yard.scheduler.submit_batch(self._clock(), asked)

    async def get_batch(self, namespace: str, batch_id: str) -> Batch:
        return self._look(namespace, "batch").scheduler.batch(batch_id)

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        yard = self._existing(namespace, "batch")
        return yard.scheduler.cancel_batch(self._clock(), batch_id)

    async def get(self, namespace: str, task_id: str) -> Task:
        return self._look(namespace, "task").scheduler.get(task_id)

    async def wait(self, namespace: str, task_id: str, secs: float) -> Task:
        task = await self.get(namespace, task_id)
        if task.state not in TERMINAL and secs > 0 and not self._closed:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waits = self._yards[namespace].ends.setdefault(task_id, set())
            waits.add(ended)
            try:
                await asyncio.wait((ended,), timeout=secs)
            finally:
                waits.discard(ended)
                if not waits and self._yards[namespace].ends.get(task_id) is waits:
                    del self._yards[namespace].ends[task_id]
        return task

    async def list_tasks(self, namespace: str, wanted: TaskFilter, after: int, limit: int) -> TaskPage:
        yard = self._yards.get(namespace)
        found: list[Task] = []
        while yard is not None:
            walked = list(islice(yard.scheduler.tasks_after(after), SCAN))
            for task in walked:
                if wanted.wants(task):
                    if len(found) == limit:
                        return TaskPage(found, found[-1].seq)
                    found.append(copy(task))
            if len(walked) < SCAN:
                break
            after = walked[-1].seq
            await asyncio.sleep(0)
        return TaskPage(found, None)

    async def cancel(self, namespace: str, task_id: str) -> Task:
        yard = self._existing(namespace, "task")
        return yard.scheduler.cancel(self._clock(), task_id)

    async def pause(self, namespace: str, task_id: str) -> Task:
        yard = self._existing(namespace, "task")
        return yard.scheduler.pause(self._clock(), task_id)

    async def resume(self, namespace: str, task_id: str, target: str | None = None) -> Task:
        yard = self._existing(namespace, "task")
        return yard.scheduler.resume(self._clock(), task_id, target)

    async def resolve(self, namespace: str, task_id: str, result: bytes | None) -> Task:
        yard = self._existing(namespace, "task")
        return yard.scheduler.resolve(self._clock(), task_id, result)

    async def list_targets(self, namespace: str, after: str) -> list[Target]:
        yard = self._yards.get(namespace)
        return yard.scheduler.targets.after(after) if yard else []

    # Commands of hosts

    async def register(
        self,
        namespace: str,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        slots: int | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        built_in: bool = False,
    ) -> Host:
        yard = self._enter(namespace)
        return yard.scheduler.register(
            self._clock(), host_id, display_name, profile, slots=slots, labels=labels, built_in=built_in
        )

    async def heartbeat(
        self, namespace: str, host_id: str, own_word: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.heartbeat(self._clock(), host_id, own_word, machine)

    async def drain_host(self, namespace: str, host_id: str, secs: float | None = None) -> Host:
        yard = self._existing(namespace, "runtime host")
        until = None if secs is None else self._clock() + secs
        host = yard.scheduler.drain_host(host_id, until)
        if host.session is not None:
            yard.sessions[host.session].drain(DrainNotice(until, "the host is drained"))
        return host

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        yard = self._yards.get(namespace)
        return [host for host in yard.scheduler.hosts if host.number > after] if yard else []

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        yard = self._yards.get(namespace)
        return yard.scheduler.leases_after(after, host_id) if yard else []

    async def deregister(self, namespace: str, host_id: str) -> None:
        yard = self._existing(namespace, "runtime host")
        offers = yard.scheduler.offers_of(host_id)
        yard.scheduler.deregister(self._clock(), host_id)
        for offer in offers:
            if offer.streamed:
                yard.sessions[offer].end(Conflict("the host was deregistered", {"cause": "deregistered"}))
            else:
                yard.claims.pop(offer).set_exception(NotFound("runtime host not found"))

    async def claim(
        self,
        namespace: str,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        wait_secs: float = 0,
        project: str | None = None,
    ) -> list[Lease]:
        if self._closed:
            raise Unavailable("the engine is closed")
        yard = self._existing(namespace, "runtime host")
        leases = yard.scheduler.claim(self._clock(), host_id, count, lease_secs, project)
        if leases or wait_secs <= 0:
            return leases
        offer = yard.scheduler.offer(self._clock(), host_id, count, lease_secs, project)
        granted = yard.claims[offer] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((granted,), timeout=wait_secs)
        except asyncio.CancelledError:
            self._give_back(yard, host_id, granted)
            raise
        finally:
            yard.claims.pop(offer, None)
            yard.scheduler.withdraw(offer)
        return granted.result() if granted.done() else []

    async def connect(self, namespace: str, hello: Hello, on_news: Callable[[], None]) -> Session:
        if self._closed:
            raise Unavailable("the engine is closed")
        yard = self._enter(namespace)
        before = [offer for offer in yard.scheduler.offers_of(hello.host_id) if offer.streamed]
        session = Session(namespace, yard.scheduler.connect(self._clock(), hello), on_news, self._drain_notice)
        for offer in before:
            superseded = Conflict("superseded by another stream of this host", {"cause": "superseded"})
            yard.sessions.pop(offer).end(superseded)
        yard.sessions[session.offer] = session
        return session

    async def give_credit(self, session: Session, count: int) -> None:
        yard = self._yard_of(session)
        if yard is not None:
            yard.scheduler.give_credit(self._clock(), session.offer, count)
            self._settling.touch(yard)

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        own_word: HostStatus | None = None,
        machine: bytes | None = None,
    ) -> list[HeldLease]:
        yard = self._yard_of(session)
        if yard is None:
            return list(held)
        if session.offer.room > 0 and session.offer.place is None:
            # It was silent, and may be handed tasks again.
            self._settling.touch(yard)
        else:
            self._settling.touch_soon(yard)
        return yard.scheduler.beat(self._clock(), session.offer, held, own_word, machine)

    async def disconnect(self, session: Session) -> None:
        session.forget()
        yard = self._yards[session.namespace]
        if yard.sessions.pop(session.offer, None) is not None:
            yard.scheduler.disconnect(self._clock(), session.offer)
            self._settling.touch(yard)

    async def renew(
        self, namespace: str, host_id: str, task_id: str, token: int, lease_secs: float | None = None
    ) -> Lease:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.reports.renew(self._clock(), host_id, task_id, token, lease_secs)

    async def report(self, namespace: str, host_id: str, said: Sequence[Report | Refusal]) -> list[TaskState | Refusal]:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.reports.take_each(self._clock(), host_id, said)

    # Figures, listeners, limits, the end

    async def stats(self, namespace: str) -> Stats:
        yard = self._yards.get(namespace)
        scheduler = yard.scheduler if yard else Scheduler(self._limits, lambda: 0)
        return scheduler.stats()

    def namespaces(self) -> list[str]:
        return list(self._yards)

    def totals(self, namespace: str | None = None) -> Totals:
        totals = Totals()
        for yard in self._yards.values():
            if namespace in (None, yard.namespace):
                yard.scheduler.add_to(totals)
        return totals

    @property
    def limits(self) -> Limits:
        return self._limits

    def now(self) -> float:
        return self._clock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._settling.listeners.append(listener)
        return lambda: self._settling.listeners.remove(listener)

    def reconfigure(self, limits: Limits) -> None:
        self._limits = limits
        for yard in self._yards.values():
            yard.scheduler.reconfigure(limits)
            self._settling.touch(yard)

    def reconcile(self) -> None:
        for yard in self._yards.values():
            yard.scheduler.reconcile(self._clock())
            self._settling.touch(yard)

    def recover(self) -> None:
        now = self._clock()
        for yard in self._yards.values():
            yard.scheduler.recover(now)
            self._settling.touch(yard)

    def drain(self, until: float | None = None) -> None:
        self._draining = True
        self._drain_notice = DrainNotice(until, "the server shuts down", reconnect=True)
        for yard in self._yards.values():
            yard.scheduler.drain()
            for session in yard.sessions.values():
                session.drain(self._drain_notice)

    async def drained(self, secs: float) -> bool:
        deadline = self._clock() + secs
        while any(yard.scheduler.inflight for yard in self._yards.values()):
            left = deadline - self._clock()
            if left <= 0:
                return False
            self._settling.landed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settling.landed.wait(), left)
        return True

    async def close(self) -> None:
        self._closed = True
        now = self._clock()
        for yard in self._yards.values():
            yard.scheduler.shut_down(now)
            self._settling.touch(yard)
        for yard in self._yards.values():
            yard.let_all_go()
        self._settling.close()
        for yard in self._yards.values():
            for session in yard.sessions.values():
                session.end(Unavailable("the server shuts down"))

    # Whose yard it is

    def _enter(self, namespace: str) -> Yard:
        """The namespace's yard, noted as touched in this turn."""
        yard = self._yards.get(namespace)
        if yard is None:
            scheduler = Scheduler(self._limits, lambda: self._random.getrandbits(40))
            if self._draining:
                scheduler.drain()
            yard = self._yards[namespace] = Yard(namespace, scheduler)
        self._settling.touch(yard)
        return yard

    def _existing(self, namespace: str, sought: str) -> Yard:
        """The yard where something is sought; one that nothing was ever put into is not made for that."""
        yard = self._look(namespace, sought)
        self._settling.touch(yard)
        return yard

    def _look(self, namespace: str, sought: str) -> Yard:
        """The same, to read only."""
        yard = self._yards.get(namespace)
        if yard is None:
            raise NotFound(f"{sought} not found")
        return yard

    def _give_back(self, yard: Yard, host_id: str, granted: asyncio.Future[list[Lease]]) -> None:
        """The caller went away, perhaps in the very turn in which it was served."""
        if granted.done() and granted.exception() is None:
            for lease in granted.result():
                with contextlib.suppress(Refusal):
                    yard.scheduler.reports.release(self._clock(), host_id, lease.task.id, lease.token)
            self._settling.touch(yard)

    def _yard_of(self, session: Session) -> Yard | None:
        """The yard of a stream that still stands."""
        return None if session.ended is not None else self._yards[session.namespace]
