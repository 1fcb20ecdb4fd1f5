"""The embedded engine: one core scheduler a namespace, driven from one event loop.

Commands run at once, in the order of their calls. What follows from them is done once a turn of the loop, for all
commands of that turn: waiting claims are served, listeners are told, and the one timer is set to the next time at which
anything comes due.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

import structlog

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import NotFound, Refusal, Unavailable
from taskyard_server.core.events import Event
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Stats, Totals
from taskyard_server.core.task import TERMINAL, Submission, Task

from .clock import Clock, steady_clock
from .port import Listener, TaskFilter, TaskPage

log = structlog.get_logger(__name__)

ALL_LIMITS: Final = 2
"""`maxInflight` and `maxPerAgentInflight`: each is told once."""

SCAN: Final = 2_000
"""So many tasks a listing walks before others get their turn."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A claim that found nothing and waits."""

    host_id: str
    count: int
    lease_secs: float | None
    project: str | None
    leases: asyncio.Future[list[Lease]]


@dataclass(slots=True, eq=False)
class Yard:
    """One namespace: its scheduler, the claims and the ends of tasks that are waited for, and when it is next due."""

    namespace: str
    scheduler: Scheduler
    waiters: deque[Waiter] = field(default_factory=deque)
    ends: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    due: float | None = None
    limits_told: set[str] = field(default_factory=set)


class MemoryEngine:
    """Implements `port.Engine`. `seed` makes ids repeatable, for tests."""

    def __init__(self, limits: Limits, clock: Clock | None = None, seed: int | None = None) -> None:
        self._limits = limits
        self._clock = clock or steady_clock()
        self._random = random.Random(seed)
        self._yards: dict[str, Yard] = {}
        self._touched: dict[Yard, None] = {}
        self._listeners: list[Listener] = []
        self._due: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._armed: float | None = None
        self._landed = asyncio.Event()
        self._draining = False
        self._closed = False

    # Commands of agents

    async def submit(self, namespace: str, asked: Submission) -> Task:
        yard = self._enter(namespace)
        return yard.scheduler.submit(self._clock(), asked)

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

    async def drain_host(self, namespace: str, host_id: str) -> Host:
        return self._existing(namespace, "runtime host").scheduler.drain_host(host_id)

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        yard = self._yards.get(namespace)
        return [host for host in yard.scheduler.hosts if host.number > after] if yard else []

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        yard = self._yards.get(namespace)
        return yard.scheduler.leases_after(after, host_id) if yard else []

    async def deregister(self, namespace: str, host_id: str) -> None:
        yard = self._existing(namespace, "runtime host")
        yard.scheduler.deregister(self._clock(), host_id)

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
        waiter = Waiter(host_id, count, lease_secs, project, asyncio.get_running_loop().create_future())
        yard.waiters.append(waiter)
        try:
            await asyncio.wait((waiter.leases,), timeout=wait_secs)
        except asyncio.CancelledError:
            self._give_back(yard, waiter)
            raise
        finally:
            if not waiter.leases.done():
                yard.waiters.remove(waiter)
        return waiter.leases.result() if waiter.leases.done() else []

    async def renew(
        self, namespace: str, host_id: str, task_id: str, token: int, lease_secs: float | None = None
    ) -> Lease:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.renew(self._clock(), host_id, task_id, token, lease_secs)

    async def start(self, namespace: str, host_id: str, task_id: str, token: int) -> Task:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.start(self._clock(), host_id, task_id, token)

    async def progress(self, namespace: str, host_id: str, task_id: str, token: int, progress: bytes | None) -> Task:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.progress(self._clock(), host_id, task_id, token, progress)

    async def complete(self, namespace: str, host_id: str, task_id: str, token: int, result: bytes | None) -> Task:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.complete(self._clock(), host_id, task_id, token, result)

    async def fail(self, namespace: str, host_id: str, task_id: str, token: int, error: str) -> Task:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.fail(self._clock(), host_id, task_id, token, error)

    async def release(self, namespace: str, host_id: str, task_id: str, token: int) -> Task:
        yard = self._existing(namespace, "runtime host")
        return yard.scheduler.release(self._clock(), host_id, task_id, token)

    # Figures, listeners, limits, the end

    async def stats(self, namespace: str) -> Stats:
        yard = self._yards.get(namespace)
        scheduler = yard.scheduler if yard else Scheduler(self._limits, lambda: 0)
        return scheduler.stats()

    def totals(self) -> Totals:
        totals = Totals()
        for yard in self._yards.values():
            yard.scheduler.add_to(totals)
        return totals

    @property
    def limits(self) -> Limits:
        return self._limits

    def now(self) -> float:
        return self._clock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def reconfigure(self, limits: Limits) -> None:
        self._limits = limits
        for yard in self._yards.values():
            yard.scheduler.reconfigure(limits)
            self._touch(yard)

    def drain(self) -> None:
        self._draining = True
        for yard in self._yards.values():
            yard.scheduler.drain()

    async def drained(self, secs: float) -> bool:
        deadline = self._clock() + secs
        while any(yard.scheduler.inflight for yard in self._yards.values()):
            left = deadline - self._clock()
            if left <= 0:
                return False
            self._landed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._landed.wait(), left)
        return True

    async def close(self) -> None:
        self._closed = True
        now = self._clock()
        for yard in self._yards.values():
            yard.scheduler.shut_down(now)
            self._touch(yard)
        for yard in self._yards.values():
            for waiter in yard.waiters:
                if not waiter.leases.done():
                    waiter.leases.set_result([])
            for waits in yard.ends.values():
                for ended in waits:
                    if not ended.done():
                        ended.set_result(None)
        self._settle()

    # Once a turn of the loop

    def _enter(self, namespace: str) -> Yard:
        """The namespace's yard, noted as touched in this turn."""
        yard = self._yards.get(namespace)
        if yard is None:
            scheduler = Scheduler(self._limits, lambda: self._random.getrandbits(40))
            if self._draining:
                scheduler.drain()
            yard = self._yards[namespace] = Yard(namespace, scheduler)
        self._touch(yard)
        return yard

    def _existing(self, namespace: str, sought: str) -> Yard:
        """The yard where something is sought; one that nothing was ever put into is not made for that."""
        yard = self._look(namespace, sought)
        self._touch(yard)
        return yard

    def _look(self, namespace: str, sought: str) -> Yard:
        """The same, to read only."""
        yard = self._yards.get(namespace)
        if yard is None:
            raise NotFound(f"{sought} not found")
        return yard

    def _touch(self, yard: Yard) -> None:
        if not self._touched:
            asyncio.get_running_loop().call_soon(self._settle)
        self._touched[yard] = None

    def _settle(self) -> None:
        """Draw the consequences of everything that this turn's commands did."""
        if self._draining:
            self._landed.set()
        touched, self._touched = self._touched, {}
        for yard in touched:
            scheduler = yard.scheduler
            self._serve(yard)
            happened = scheduler.take_events()
            if happened:
                if yard.ends:
                    self._tell_ends(yard, happened)
                for listener in self._listeners:
                    try:
                        listener(yard.namespace, happened)
                    except Exception:
                        # A listener's fault must not stop what is due for all the others.
                        log.exception("listener_failed", namespace=yard.namespace)
            due = scheduler.next_due()
            if due != yard.due:
                yard.due = due
                if due is not None:
                    heappush(self._due, (due, yard.namespace))
        if len(self._due) > 2 * len(self._yards) + 64:
            self._due = [(yard.due, yard.namespace) for yard in self._yards.values() if yard.due is not None]
            heapify(self._due)
        self._arm()

    def _serve(self, yard: Yard) -> None:
        """Give the claims that wait what has become claimable, first come first served."""
        waiters = yard.waiters
        for _ in range(len(waiters)):
            waiter = waiters.popleft()
            if waiter.leases.done():
                continue
            try:
                leases = yard.scheduler.claim(
                    self._clock(), waiter.host_id, waiter.count, waiter.lease_secs, waiter.project
                )
            except Refusal as refusal:
                waiter.leases.set_exception(refusal)
                continue
            if leases:
                waiter.leases.set_result(leases)
            else:
                waiters.append(waiter)
        if waiters and len(yard.limits_told) < ALL_LIMITS:
            key = yard.scheduler.limited_by
            if key is not None and key not in yard.limits_told:
                yard.limits_told.add(key)
                log.warning("limit_reached", namespace=yard.namespace, raise_key=f"scheduler.{key}")

    def _tell_ends(self, yard: Yard, happened: Sequence[Event]) -> None:
        for event in happened:
            if event.state in TERMINAL:
                for ended in yard.ends.pop(event.task.id, ()):
                    if not ended.done():
                        ended.set_result(None)

    def _give_back(self, yard: Yard, waiter: Waiter) -> None:
        """The caller went away, perhaps in the very turn in which it was served."""
        if waiter.leases.done() and waiter.leases.exception() is None:
            for lease in waiter.leases.result():
                with contextlib.suppress(Refusal):
                    yard.scheduler.release(self._clock(), waiter.host_id, lease.task.id, lease.token)
            self._touch(yard)

    def _arm(self) -> None:
        """Set the timer to the earliest due time of all namespaces."""
        due = self._due
        while due and self._yards[due[0][1]].due != due[0][0]:
            heappop(due)
        first = due[0][0] if due and not self._closed else None
        if first != self._armed:
            if self._timer is not None:
                self._timer.cancel()
            self._armed = first
            if first is not None:
                self._timer = asyncio.get_running_loop().call_later(max(0.0, first - self._clock()), self._advance)

    def _advance(self) -> None:
        self._armed = None
        now = self._clock()
        for yard in self._yards.values():
            if yard.due is not None and yard.due <= now:
                yard.due = None
                yard.scheduler.advance(now)
                self._touch(yard)
        if not self._touched:
            self._arm()
