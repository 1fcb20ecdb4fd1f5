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
from taskyard_server.engine.clock import Clock, steady_clock
from taskyard_server.engine.port import Listener, TaskFilter, TaskPage
from taskyard_server.engine.sessions import DrainNotice, Session

from .driver import Driver
from .namespace import NamespaceState
from .schedules import MemorySchedules

MAX_TASKS_PER_TURN: Final = 2_000
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
        self._states: dict[str, NamespaceState] = {}
        self._draining = False
        self._drain_notice: DrainNotice | None = None
        self._closed = False
        wall = wall or clock or time.time
        self.schedules = MemorySchedules(self._states, self._enter, self._existing, self._clock, wall)
        self._driver = Driver(self._states, self._clock, self.schedules)

    # Commands of agents

    async def submit(self, namespace: str, submission: Submission) -> Task:
        state = self._enter(namespace)
        return state.scheduler.submit(self._clock(), submission)

    async def submit_each(self, namespace: str, submissions: Sequence[Submission | Refusal]) -> list[Task | Refusal]:
        state = self._enter(namespace)
        return state.scheduler.submit_each(self._clock(), submissions)

    async def submit_batch(self, namespace: str, submissions: Sequence[Submission]) -> BatchSubmission:
        state = self._enter(namespace)
        return state.scheduler.submit_batch(self._clock(), submissions)

    async def get_batch(self, namespace: str, batch_id: str) -> Batch:
        return self._look(namespace, "batch").scheduler.batch(batch_id)

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        state = self._existing(namespace, "batch")
        return state.scheduler.cancel_batch(self._clock(), batch_id)

    async def get(self, namespace: str, task_id: str) -> Task:
        return self._look(namespace, "task").scheduler.get(task_id)

    async def wait(self, namespace: str, task_id: str, secs: float) -> Task:
        task = await self.get(namespace, task_id)
        if task.state not in TERMINAL and secs > 0 and not self._closed:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waits = self._states[namespace].ends.setdefault(task_id, set())
            waits.add(ended)
            try:
                await asyncio.wait((ended,), timeout=secs)
            finally:
                waits.discard(ended)
                if not waits and self._states[namespace].ends.get(task_id) is waits:
                    del self._states[namespace].ends[task_id]
        return task

    async def list_tasks(self, namespace: str, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        state = self._states.get(namespace)
        found: list[Task] = []
        while state is not None:
            scanned = list(islice(state.scheduler.tasks_after(after), MAX_TASKS_PER_TURN))
            for task in scanned:
                if task_filter.matches(task):
                    if len(found) == limit:
                        return TaskPage(found, found[-1].seq)
                    found.append(copy(task))
            if len(scanned) < MAX_TASKS_PER_TURN:
                break
            after = scanned[-1].seq
            await asyncio.sleep(0)
        return TaskPage(found, None)

    async def cancel(self, namespace: str, task_id: str) -> Task:
        state = self._existing(namespace, "task")
        return state.scheduler.cancel(self._clock(), task_id)

    async def pause(self, namespace: str, task_id: str) -> Task:
        state = self._existing(namespace, "task")
        return state.scheduler.pause(self._clock(), task_id)

    async def resume(self, namespace: str, task_id: str, target: str | None = None) -> Task:
        state = self._existing(namespace, "task")
        return state.scheduler.resume(self._clock(), task_id, target)

    async def resolve(self, namespace: str, task_id: str, result: bytes | None) -> Task:
        state = self._existing(namespace, "task")
        return state.scheduler.resolve(self._clock(), task_id, result)

    async def list_targets(self, namespace: str, after: str) -> list[Target]:
        state = self._states.get(namespace)
        return state.scheduler.targets.after(after) if state else []

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
        state = self._enter(namespace)
        return state.scheduler.register(
            self._clock(), host_id, display_name, profile, slots=slots, labels=labels, built_in=built_in
        )

    async def heartbeat(
        self, namespace: str, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        state = self._existing(namespace, "runtime host")
        return state.scheduler.heartbeat(self._clock(), host_id, reported_status, machine)

    async def drain_host(self, namespace: str, host_id: str, secs: float | None = None) -> Host:
        state = self._existing(namespace, "runtime host")
        until = None if secs is None else self._clock() + secs
        host = state.scheduler.drain_host(host_id, until)
        if host.stream is not None:
            state.sessions[host.stream].drain(DrainNotice(until, "the host is drained"))
        return host

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        state = self._states.get(namespace)
        return [host for host in state.scheduler.hosts if host.number > after] if state else []

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        state = self._states.get(namespace)
        return state.scheduler.leases_after(after, host_id) if state else []

    async def deregister(self, namespace: str, host_id: str) -> None:
        state = self._existing(namespace, "runtime host")
        offers = state.scheduler.offers_of(host_id)
        state.scheduler.deregister(self._clock(), host_id)
        for offer in offers:
            if offer.streamed:
                state.sessions[offer].end(Conflict("the host was deregistered", {"cause": "deregistered"}))
            else:
                state.claims.pop(offer).set_exception(NotFound("runtime host not found"))

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
        state = self._existing(namespace, "runtime host")
        leases = state.scheduler.claim(self._clock(), host_id, count, lease_secs, project)
        if leases or wait_secs <= 0:
            return leases
        offer = state.scheduler.offer(self._clock(), host_id, count, lease_secs, project)
        granted = state.claims[offer] = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((granted,), timeout=wait_secs)
        except asyncio.CancelledError:
            self._give_back(state, host_id, granted)
            raise
        finally:
            state.claims.pop(offer, None)
            state.scheduler.withdraw(offer)
        return granted.result() if granted.done() else []

    async def connect(self, namespace: str, hello: Hello, on_ready: Callable[[], None]) -> Session:
        if self._closed:
            raise Unavailable("the engine is closed")
        state = self._enter(namespace)
        before = [offer for offer in state.scheduler.offers_of(hello.host_id) if offer.streamed]
        session = Session(namespace, state.scheduler.connect(self._clock(), hello), on_ready, self._drain_notice)
        for offer in before:
            superseded = Conflict("superseded by another stream of this host", {"cause": "superseded"})
            state.sessions.pop(offer).end(superseded)
        state.sessions[session.offer] = session
        return session

    async def give_credit(self, session: Session, count: int) -> None:
        state = self._state_of(session)
        if state is not None:
            state.scheduler.give_credit(self._clock(), session.offer, count)
            self._driver.mark_dirty(state)

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
    ) -> list[HeldLease]:
        state = self._state_of(session)
        if state is None:
            return list(held)
        if session.offer.room > 0 and session.offer.rank is None:
            # It was silent, and may be handed tasks again.
            self._driver.mark_dirty(state)
        else:
            self._driver.mark_dirty_soon(state)
        return state.scheduler.beat(self._clock(), session.offer, held, reported_status, machine)

    async def disconnect(self, session: Session) -> None:
        session.forget()
        state = self._states[session.namespace]
        if state.sessions.pop(session.offer, None) is not None:
            state.scheduler.disconnect(self._clock(), session.offer)
            self._driver.mark_dirty(state)

    async def renew(
        self, namespace: str, host_id: str, task_id: str, token: int, lease_secs: float | None = None
    ) -> Lease:
        state = self._existing(namespace, "runtime host")
        return state.scheduler.reports.renew(self._clock(), host_id, task_id, token, lease_secs)

    async def report(
        self, namespace: str, host_id: str, reports: Sequence[Report | Refusal]
    ) -> list[TaskState | Refusal]:
        state = self._existing(namespace, "runtime host")
        return state.scheduler.reports.take_each(self._clock(), host_id, reports)

    # Figures, listeners, limits, the end

    async def stats(self, namespace: str) -> Stats:
        state = self._states.get(namespace)
        scheduler = state.scheduler if state else Scheduler(self._limits, lambda: 0)
        return scheduler.stats()

    def namespaces(self) -> list[str]:
        return list(self._states)

    def totals(self, namespace: str | None = None) -> Totals:
        totals = Totals()
        for state in self._states.values():
            if namespace in (None, state.namespace):
                state.scheduler.add_to(totals)
        return totals

    @property
    def limits(self) -> Limits:
        return self._limits

    def now(self) -> float:
        return self._clock()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._driver.listeners.append(listener)
        return lambda: self._driver.listeners.remove(listener)

    def reconfigure(self, limits: Limits) -> None:
        self._limits = limits
        for state in self._states.values():
            state.scheduler.reconfigure(limits)
            self._driver.mark_dirty(state)

    def reconcile(self) -> None:
        for state in self._states.values():
            state.scheduler.reconcile(self._clock())
            self._driver.mark_dirty(state)

    def recover(self) -> None:
        now = self._clock()
        for state in self._states.values():
            state.scheduler.recover(now)
            self._driver.mark_dirty(state)

    def drain(self, until: float | None = None) -> None:
        self._draining = True
        self._drain_notice = DrainNotice(until, "the server shuts down", reconnect=True)
        for state in self._states.values():
            state.scheduler.drain()
            for session in state.sessions.values():
                session.drain(self._drain_notice)

    async def drained(self, secs: float) -> bool:
        deadline = self._clock() + secs
        while any(state.scheduler.inflight for state in self._states.values()):
            left = deadline - self._clock()
            if left <= 0:
                return False
            self._driver.activity.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._driver.activity.wait(), left)
        return True

    async def close(self) -> None:
        self._closed = True
        now = self._clock()
        for state in self._states.values():
            state.scheduler.shut_down(now)
            self._driver.mark_dirty(state)
        for state in self._states.values():
            state.release_all()
        self._driver.close()
        for state in self._states.values():
            for session in state.sessions.values():
                session.end(Unavailable("the server shuts down"))

    # Whose state it is

    def _enter(self, namespace: str) -> NamespaceState:
        """The namespace's state, noted as touched in this turn."""
        state = self._states.get(namespace)
        if state is None:
            scheduler = Scheduler(self._limits, lambda: self._random.getrandbits(40))
            if self._draining:
                scheduler.drain()
            state = self._states[namespace] = NamespaceState(namespace, scheduler)
        self._driver.mark_dirty(state)
        return state

    def _existing(self, namespace: str, sought: str) -> NamespaceState:
        """The state where something is sought; one that nothing was ever put into is not made for that."""
        state = self._look(namespace, sought)
        self._driver.mark_dirty(state)
        return state

    def _look(self, namespace: str, sought: str) -> NamespaceState:
        """The same, to read only."""
        state = self._states.get(namespace)
        if state is None:
            raise NotFound(f"{sought} not found")
        return state

    def _give_back(self, state: NamespaceState, host_id: str, granted: asyncio.Future[list[Lease]]) -> None:
        """The caller went away, perhaps in the very turn in which it was served."""
        if granted.done() and granted.exception() is None:
            for lease in granted.result():
                with contextlib.suppress(Refusal):
                    state.scheduler.reports.release(self._clock(), host_id, lease.task.id, lease.token)
            self._driver.mark_dirty(state)

    def _state_of(self, session: Session) -> NamespaceState | None:
        """The state of a stream that still stands."""
        return None if session.ended is not None else self._states[session.namespace]
