"""The embedded engine: one core scheduler per namespace, driven from one event loop.

Commands run immediately, in the order of their calls. Their consequences are handled once per turn of the event loop,
for all commands of that turn (`driver.py`).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from taskyard_server.core.errors import Unavailable
from taskyard_server.core.figures.demand import Demand, Pool, demand_of
from taskyard_server.core.figures.figures import add_to_totals, queued_since, stats_of
from taskyard_server.core.figures.queue_health import QueueHealth, health_of
from taskyard_server.core.hosts import Host
from taskyard_server.core.limits import Limits, limits_with
from taskyard_server.core.process_end import end_all, pause_inflight
from taskyard_server.core.rules import NO_RULES, ConfiguredRules
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.stats import Stats, Totals
from taskyard_server.store.objects import Objects
from taskyard_server.store.port import Store
from taskyard_server.store.shared_port import is_shared

from .artifacts import ArtifactCommands
from .child_tasks import ChildCommands
from .clock import Clock, SteadyClock
from .event_log import EventLogs
from .fair_yield import FairYield
from .hosts import HostCommands
from .idle_detector import IdleDetector
from .leases import LeaseCommands
from .listeners import DeliveryEncoder, Listener
from .namespace_commands import NamespaceCommands
from .namespaces import Namespaces
from .operations import OperationCommands
from .outbox import Outbox
from .output import OutputCommands
from .owned_namespaces import OwnedNamespaces
from .pace import Busyness
from .persistence import Persistence, StoreOptions
from .questions import QuestionCommands
from .recent_events import NO_COMMIT, Bounds, CommitMark, EncodeEvent
from .rules import RuleCommands
from .schedules import ScheduleCommands
from .sent_events import EventCommands
from .sessions import DrainNotice
from .steps import StepCommands
from .tasks import TaskCommands
from .views import RunFigures

T = TypeVar("T")


class Engine:
    """All namespaces of a server. A `seed` makes ids and jitter repeatable, for tests.

    `wall` is the wall clock, which may jump. It defaults to `clock` if that is set. `monotonic` is the machine's, by
    which stalls are detected; with how long the thread of the event loop has `worked`, it tells a busy server. With a
    `store` everything survives the process; `open` loads it. With `encode_delivery` too there is an outbox of what it
    makes. If `private` nothing that is told of one task tells of others: ids cannot be computed from one another, and
    no task has a position.

    Where replicas share the store nothing is loaded: namespaces come and go by `owned`. The bytes of artifacts stand in
    `objects`; without them there are none.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Clock | None = None,
        seed: int | None = None,
        wall: Clock | None = None,
        store: Store | None = None,
        store_options: StoreOptions | None = None,
        encode_delivery: DeliveryEncoder | None = None,
        private: bool = False,
        monotonic: Clock = time.monotonic,
        worked: Clock = time.thread_time,
        objects: Objects | None = None,
    ) -> None:
        wall = wall or clock or time.time
        self._namespaces = Namespaces(limits, clock or SteadyClock(), wall, seed, private, monotonic)
        self.persistence = (
            None if store is None else Persistence(self._namespaces, store, store_options or StoreOptions())
        )
        self.owned: OwnedNamespaces | None = None
        if self.persistence is not None and is_shared(store):
            self.owned = OwnedNamespaces(self._namespaces, self.persistence, store)
        self._outbox: Outbox | None = None
        if store is not None and encode_delivery is not None:
            self._outbox = self._namespaces.driver.outbox = Outbox(self._namespaces, store, encode_delivery)
        self.tasks = TaskCommands(self._namespaces)
        self.operations = OperationCommands(self._namespaces)
        self.rules = RuleCommands(self._namespaces)
        self.hosts = HostCommands(self._namespaces)
        self.leases = LeaseCommands(self._namespaces)
        self.run_figures = RunFigures()
        self.output = OutputCommands(self._namespaces, store, self.run_figures)
        self.artifacts = ArtifactCommands(self._namespaces, self.persistence, objects, self.run_figures)
        if self.persistence is not None:
            self.persistence.removals.remove_objects = self.artifacts.remove_namespace
        self.steps = StepCommands(self._namespaces, store, self.run_figures)
        self.children = ChildCommands(self._namespaces)
        self.questions = QuestionCommands(self._namespaces, self.steps)
        self.events = EventCommands(self._namespaces)
        self.schedules = ScheduleCommands(self._namespaces)
        self.namespaces = NamespaceCommands(self._namespaces, self.persistence)
        self.admin = AdminCommands(self._namespaces)
        self.fair_yield = FairYield(monotonic, Busyness(monotonic, worked))
        self.idle = IdleDetector(self._namespaces)

    async def open(self) -> None:
        """Load what the store has kept, if there is one, and resume it. Raises `StoreError`."""
        if self.persistence is not None:
            await self.persistence.open()

    async def run(self) -> None:
        """Do what the store, output and artifacts need with time, until cancelled.

        Raises `StoreError` once the store has failed for good.
        """
        upkeep = [asyncio.create_task(each.run()) for each in (self.artifacts, self.output)]
        try:
            if self.persistence is None:
                await asyncio.get_running_loop().create_future()
            else:
                await self.persistence.run()
        finally:
            for each in upkeep:
                each.cancel()

    async def release(self) -> None:
        """Commit what is left and let go of the store, after the last call was served."""
        if self._outbox is not None:
            self._outbox.remove_done()
        if self.persistence is not None:
            await self.persistence.close()

    def event_logs(self, encode: EncodeEvent, bounds: Bounds | None = None, clock: Clock | None = None) -> EventLogs:
        """Logs of what happens, for those who watch it. They are still to be subscribed."""
        return EventLogs(encode, clock or self.now, self.last_commit, self.knows_commit, bounds)

    def last_commit(self, namespace: str) -> CommitMark:
        """The last commit of a namespace that was published; zero without a store."""
        if self.persistence is None:
            return NO_COMMIT
        if self.owned is not None:
            state = self._namespaces.here(namespace)
            # Of a namespace that is not there yet nothing is committed, and all that follows can be found.
            return CommitMark(0, int(self.owned.absent_until() * 1000)) if state is None else state.told
        return CommitMark(self.persistence.committer.number, int(self.persistence.committer.kept_at * 1000))

    def knows_commit(self, namespace: str, commit: CommitMark) -> bool:
        """True if a commit is one of the namespace that has this name now, as far as that can be told."""
        if self.owned is None:
            # All namespaces share the numbers of commits: what came after that one is found, also if all of it did.
            return commit.ms > self._namespaces.deleted_at_ms.get(namespace, -1)
        state = self._namespaces.here(namespace)
        if state is None or commit.number == 0:
            return commit.number == 0
        return state.about.created_at is None or int(state.about.created_at * 1000) <= commit.ms

    @property
    def is_kept(self) -> bool:
        """True if everything survives the process."""
        return self.persistence is not None

    @property
    def outbox(self) -> Outbox | None:
        """The deliveries that are due; None where none are kept."""
        return self._outbox

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._namespaces.limits

    def now(self) -> float:
        """The engine's time, in seconds since the epoch."""
        return self._namespaces.now()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with all events from now on. Returns a function that removes the listener."""
        listeners = self._namespaces.driver.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener)


class AdminCommands:
    """Commands of operators and of the server itself."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    async def stats(self, namespace: str) -> Stats:
        """The current figures of a namespace."""
        state = self._namespaces.find(namespace)
        if state is None:
            return stats_of(Scheduler(self._namespaces.limits, lambda: 0))
        return await self._namespaces.barrier.give(state, lambda: stats_of(state.scheduler))

    def namespaces(self) -> list[str]:
        """The names of all namespaces that hold or have held anything."""
        return self._namespaces.names()

    def totals(self, namespace: str | None = None) -> Totals:
        """The figures of one namespace, or of all together. The cost does not depend on the number of tasks."""
        totals = Totals()
        if namespace is not None:
            state = self._namespaces.here(namespace)
            if state is not None:
                add_to_totals(totals, state.scheduler)
            return totals
        for state in self._namespaces:
            add_to_totals(totals, state.scheduler)
        totals.counters.add(self._namespaces.deleted_counters)
        totals.triggers.add(self._namespaces.deleted_trigger_counters)
        return totals

    def queued_since(self, namespace: str) -> float | None:
        """Since when the task of a namespace is queued that has waited longest for a host alone; None if none does.

        Kept or not: for figures.
        """
        state = self._namespaces.here(namespace)
        return None if state is None else queued_since(state.scheduler)

    async def demand(self, namespace: str, pools: Sequence[Pool]) -> list[Demand]:
        """The demand on each of these pools of hosts in a namespace."""
        state = self._namespaces.find(namespace)
        if state is None:
            return [Demand(pool.name) for pool in pools]
        scheduler, now = state.scheduler, self._namespaces.now()
        return await self._namespaces.barrier.give(state, lambda: [demand_of(scheduler, now, pool) for pool in pools])

    def total_demand(self, pools: Sequence[Pool]) -> list[Demand]:
        """The same, summed over all namespaces, kept or not: for figures."""
        now, total = self._namespaces.now(), [Demand(pool.name) for pool in pools]
        for state in self._namespaces:
            demands = [demand_of(state.scheduler, now, pool) for pool in pools]
            total = [one.plus(other) for one, other in zip(total, demands, strict=True)]
        return total

    def standings(self) -> Mapping[str, QueueHealth]:
        """How each namespace stands, kept or not: for figures. The cost depends on agents that wait, not on tasks."""
        now = self._namespaces.now()
        return {state.namespace: health_of(state.scheduler, now) for state in self._namespaces}

    def artifact_bytes(self) -> int:
        """The bytes of all artifacts of the namespaces here, as far as they were measured."""
        return sum([state.scheduler.artifacts.used for state in self._namespaces])

    def look_at_hosts(self, namespace: str, show: Callable[[list[Host]], T]) -> T:
        """The result of `show` on the hosts of a namespace as they are now, kept or not: for figures."""
        state = self._namespaces.here(namespace)
        return show([] if state is None else list(state.scheduler.hosts))

    def reconfigure(self, limits: Limits, rules: ConfiguredRules = NO_RULES) -> None:
        """Apply new limits to every namespace; and let these rules by pattern be those of the configuration."""
        self._namespaces.limits = limits
        self.set_rules(rules)
        self._namespaces.for_each(
            lambda state: state.scheduler.reconfigure(limits_with(limits, state.about.own_limits))
        )
        for state in self._namespaces:
            for session in state.sessions.values():
                session.set_heartbeat(state.scheduler.heartbeat_secs(session.offer))

    def set_rules(self, rules: ConfiguredRules) -> None:
        """Let these rules by pattern be those of the configuration, in namespaces here and to come."""
        if rules != self._namespaces.rules:
            self._namespaces.rules = rules
            now = self._namespaces.now()
            self._namespaces.for_each(lambda state: state.scheduler.rules.configure(now, rules))

    def reconcile(self) -> None:
        """End the leases of dead hosts, in every namespace."""
        now = self._namespaces.now()
        if not self._namespaces.driver.is_held_back:
            self._namespaces.for_each(lambda state: state.scheduler.reconcile(now))

    def look_for_hosts(self) -> None:
        """See which kinds of tasks no live host may run, in every namespace, and log it."""
        now = self._namespaces.now()
        if not self._namespaces.driver.is_held_back:
            for state in self._namespaces:
                state.look_for_hosts(now)

    def drain(self, until: float | None = None) -> None:
        """Stop dispatching, and refuse new work that would be lost at the end of the process.

        Connected hosts get a drain notice with the deadline `until`, in the engine's time.
        """
        notice = self._namespaces.drain_notice = DrainNotice(until, "the server shuts down", reconnect=True)
        for state in self._namespaces:
            state.scheduler.drain()
            for session in state.sessions.values():
                session.drain(notice)

    async def drained(self, secs: float, built_in_only: bool = False) -> bool:
        """Wait up to `secs` until no task is in flight, or none at a built-in host. Returns whether that is so."""
        namespaces = self._namespaces
        deadline, activity = namespaces.now() + secs, namespaces.driver.activity
        while any(state.scheduler.inflight_of(built_in_only) for state in namespaces):
            remaining_secs = deadline - namespaces.now()
            if remaining_secs <= 0:
                return False
            activity.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(activity.wait(), remaining_secs)
        return True

    async def close(self, built_in_only: bool = False) -> None:
        """Interrupt the tasks in flight, end those that would be lost, and release every waiting call and stream.

        With a store nothing would be lost, and with `built_in_only` just the tasks of built-in hosts are interrupted.
        """
        namespaces = self._namespaces
        namespaces.closed = True
        now = namespaces.now()
        if namespaces.persistence is None:
            namespaces.for_each(lambda state: end_all(state.scheduler, now))
        else:
            namespaces.for_each(lambda state: pause_inflight(state.scheduler, now, built_in_only))
        for state in namespaces:
            state.release_all()
        namespaces.driver.close()
        if namespaces.persistence is not None:
            # Hosts are told of the stops before their streams end.
            await namespaces.persistence.settle()
        for state in namespaces:
            for session in state.sessions.values():
                session.end(Unavailable("the server shuts down"))
