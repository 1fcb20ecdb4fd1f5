"""Replicas in one process over a store in memory, which do something only when they are told to."""

from contextlib import AsyncExitStack

from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from taskyard_server.metrics.replicas import ReplicaMetrics
from taskyard_server.replicas.clock import SharedClock
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.store.objects import Objects
from taskyard_server.store.port import FORMAT_LEVEL
from tests.engines import running_engine
from tests.live import live

from .shared_dict_store import SharedDictStore
from .shared_rows import SharedRows

START = 1_700_000_000.0
FAILOVER_SECS = 10.0


class Member:
    """One replica, which does something only when it is told to."""

    def __init__(self, store: SharedDictStore, engine: Engine, serving: ReplicaServing) -> None:
        self.store = store
        self.engine = engine
        self.serving = serving
        self.metrics = ReplicaMetrics(serving.replica)
        self.everything = TaskFilter()

    @property
    def instance(self) -> str:
        return self.serving.replica.membership.me.instance

    def owned(self) -> list[str]:
        return sorted(row.name or "" for row in self.serving.replica.ownership.owned())

    async def go_on(self) -> None:
        """Look at the others, and do what is to be done."""
        await self.serving.replica.membership.renew()
        await self.serving.replica.ownership.look()
        await self.serving.replica.ownership.act()

    async def submit(self, *namespaces: str) -> None:
        for name in namespaces:
            await self.serving.replica.ownership.bring(name, create=True)
            await self.engine.tasks.submit(name, Submission("ann", "click"), show=live)

    def value(self, name: str) -> float:
        (family,) = (family for family in self.metrics.families() if family.name == f"taskyard_{name}")
        samples = {sample.name: sample.value for sample in family.samples}
        return samples.get(f"{family.name}_total", samples.get(f"{family.name}_count", samples.get(family.name, -1.0)))


class Yard:
    """Replicas on one store, whose clocks stand still unless time `passes`."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.secs = 0.0
        self.objects = Objects("memory:///")
        self.rows = SharedRows(lambda: START + self.secs)
        self.members: list[Member] = []
        self._stack = stack

    async def member(self, name: str, level: int = FORMAT_LEVEL) -> Member:
        store = SharedDictStore(self.rows)
        clock = SharedClock(lambda: self.secs)
        engine = await self._stack.enter_async_context(running_engine(clock=clock, store=store, objects=self.objects))
        serving = ReplicaServing(store, engine, clock, name, f"{name}.example:443", FAILOVER_SECS)
        run = serving.replica
        run.membership.me = run.membership.me._replace(level=level)
        run.trust._clock = run.membership._steady = run.ownership._steady = lambda: self.secs
        await run.start()
        member = Member(store, engine, serving)
        self.members.append(member)
        return member

    async def passes(self, secs: float, *awake: Member) -> None:
        """Let time pass in which only these do what they have to."""
        for _ in range(round(secs)):
            self.secs += 1.0
            for member in awake:
                await member.go_on()

    async def settle(self) -> None:
        """Let some time pass in which all do what they have to."""
        await self.passes(8, *self.members)
